// The slots of this machine: GPUs by NVML where there are any, else shares of the CPU. Looked up
// once at the start; read-only afterwards, any thread.
#ifndef MUSTER_AGENT_SLOTS_H
#define MUSTER_AGENT_SLOTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct slot {
    char name[128]; // model: "NVIDIA A100-SXM4-40GB", "AMD EPYC 7543"
    char uuid[96];  // of a GPU as CUDA_VISIBLE_DEVICES takes it; of a CPU share "cpu-3"
    int64_t memory; // bytes; of a CPU share its part of the machine's
};

struct slots {
    struct slot *items; // slot id = index
    size_t count;
    bool cuda;
};

// cpu_slots > 0: so many shares of the CPU. Else the GPUs when `gpus` is set and there are some,
// else one share per core that this process may use.
int slots_find(struct slots *s, long long cpu_slots, bool gpus, struct error *e);
void slots_free(struct slots *s);

// GPUs through the NVML library of that name, by dlopen. ERR_NOT_FOUND: no library or no driver, a
// machine without GPUs; other errors are a driver in trouble.
int slots_find_gpus(struct slots *s, const char *library, struct error *e);

json_t *slots_json(const struct slots *s); // [{id, type, name, uuid, memory}]

#endif
