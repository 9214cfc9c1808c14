// A plan of memory: tensors with a first and a last moment of use get places in one arena, so that
// tensors that are never alive together share theirs. Pure; the caller allocates the arena.
#ifndef MUSTER_TRAINER_MODEL_PLAN_H
#define MUSTER_TRAINER_MODEL_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct planned {
    int64_t floats;
    int first, last; // moments of use, inclusive
    size_t offset;   // in floats, a multiple of 16; set by plan_place()
};

struct plan {
    struct planned *tensors;
    int count, capacity;
    size_t floats; // size of the arena; set by plan_place()
};

int plan_add(struct plan *p, int64_t floats, int moment); // index of the new tensor
void plan_use(struct plan *p, int tensor, int moment);    // it is alive at `moment` too
void plan_place(struct plan *p);
void plan_free(struct plan *p);

#endif
