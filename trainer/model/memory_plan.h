// A memory plan: tensors with a first and a last moment of use get places in one arena, and tensors
// that are never alive together may share memory. Pure; the caller allocates the arena.
#ifndef MUSTER_TRAINER_MODEL_MEMORY_PLAN_H
#define MUSTER_TRAINER_MODEL_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct planned_tensor {
    int64_t floats;
    int first, last; // moments of use, inclusive
    size_t offset;   // in floats, a multiple of 16; set by memory_plan_place()
};

struct memory_plan {
    struct planned_tensor *tensors;
    int count, capacity;
    size_t floats; // size of the arena; set by memory_plan_place()
};

// returns the index of the new tensor
int memory_plan_add(struct memory_plan *p, int64_t floats, int moment);
void memory_plan_use(struct memory_plan *p, int tensor, int moment); // it is alive at `moment`, too
void memory_plan_place(struct memory_plan *p);
void memory_plan_free(struct memory_plan *p);

#endif
