// The slots of this machine: GPUs by NVML where there are any (MIG instances where a GPU is cut
// into such), else shares of the CPU. Looked up once at the start; afterwards only their faults
// change, by the event loop's thread, and the rest is read-only for any thread.
#ifndef MUSTER_AGENT_SLOTS_H
#define MUSTER_AGENT_SLOTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/gpu/xid.h"
#include "base/error.h"

struct slot_fault {
    enum fault_grade grade;
    char reason[192];
    int64_t at; // wall; 0: so when the agent started
};

struct slot {
    char name[128]; // model: "NVIDIA A100-SXM4-40GB", "AMD EPYC 7543"
    char uuid[96];  // of a GPU as CUDA_VISIBLE_DEVICES takes it; of a CPU share "cpu-3"
    int64_t memory; // bytes; of a CPU share its part of the machine's
    struct slot_gpu {
        char bus_id[32];   // "00000000:07:00.0"
        char driver[80];   // "550.54.15"
        int nvlink;        // GPUs of one number reach each other over NVLink; -1: nothing else does
        int numa;          // GPUs of one number lie at one NUMA node; -1: nothing else does
        void *device;      // NVML's handle of the GPU or of its instance; NULL: it is lost
        void *board;       // .. of the GPU
        unsigned instance; // of MIG, the GPU instance's number
    } gpu;
    struct slot_fault fault;
};

enum { SLOT_NO_INSTANCE = -1 }; // as NVML says it, as unsigned

struct slots {
    struct slot *items; // slot id = index
    size_t count;
    bool cuda;
    struct nvml *driver; // of GPUs; open until slots_free()
};

// cpu_slots > 0: so many shares of the CPU. Else the GPUs when `gpus` is set and there are some,
// else one share per core that this process may use.
int slots_find(struct slots *s, long long cpu_slots, bool gpus, struct error *e);
void slots_free(struct slots *s);

// GPUs through the NVML library of that name, by dlopen. ERR_NOT_FOUND: no library or no driver, a
// machine without GPUs; other errors are a driver in trouble. gpus.c
int slots_find_gpus(struct slots *s, const char *library, struct error *e);

// Numbers those that are near each other, directly or by way of others; -1: those near none.
// near: count rows of count.
void slots_group(const bool *near, size_t count, int *group);

// The fault stays the worst the slot has met with, and of two as bad the later; small ones that
// come again within a minute are not worth telling again. True: it is another than before.
bool slot_strike(struct slot *slot, const struct slot_fault *fault);
bool slot_strike_xid(struct slot *slot, long long xid, int64_t wall);

// [{id, type, name, uuid, memory}], of GPUs with {pciBusId, driver, nvlinkGroup, numaGroup}, and
// where there is one {fault: {grade, reason, time}}.
json_t *slots_json(const struct slots *s);

#endif
