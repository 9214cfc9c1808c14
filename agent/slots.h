// The slots of this machine: its GPUs, found through NVML (a GPU in MIG mode has a slot for each
// instance), or else shares of the CPU. They are found once, at the start. Afterwards the event
// loop changes only their faults; all other fields are constant, and any thread may read them.
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
    int64_t at; // wall time; 0: before the agent started
};

struct agent_slot {
    char name[128]; // the model: "NVIDIA A100-SXM4-40GB", "AMD EPYC 7543"
    char uuid[96];  // for CUDA_VISIBLE_DEVICES; "cpu-3" for a CPU share
    int64_t memory; // bytes; a CPU share has a part of the machine's memory
    struct slot_gpu {
        char bus_id[32];   // "00000000:07:00.0"
        char driver[80];   // "550.54.15"
        int nvlink;        // NVLink group, whose GPUs are connected; -1: none
        int numa;          // NUMA group, whose GPUs lie at one node; -1: none
        void *device;      // NVML handle of the GPU or MIG instance; NULL: lost
        void *board;       // NVML handle of the GPU
        unsigned instance; // number of the MIG GPU instance
    } gpu;
    struct slot_fault fault;
};

enum { SLOT_NO_INSTANCE = -1 }; // NVML uses it as unsigned

struct slots {
    struct agent_slot *items; // slot id = index
    size_t count;
    bool cuda;
    struct nvml *driver; // for GPUs; open until slots_free()
};

// Finds cpu_slots shares of the CPU; if that is 0, the GPUs (if `gpus` is set and there are any),
// or else one share for each core that this process may use.
int slots_find(struct slots *s, long long cpu_slots, bool gpus, struct error *e);
void slots_free(struct slots *s);

// Finds GPUs through the NVML library of that name (agent/gpu/discovery.c). ERR_NOT_FOUND: there is
// no library or no driver, so the machine has no GPUs. Other errors: the driver does not work.
int slots_find_gpus(struct slots *s, const char *library, struct error *e);

// Numbers the groups of items that are near each other, directly or through other items. An item
// near to no other has group -1. `near` is a matrix of count x count.
void slots_group(const bool *near, size_t count, int *group);

// Records a fault of the slot if it is at least as bad as the present one; ignores a fault that
// repeats within a minute. True: the fault of the slot has changed.
bool slot_report_fault(struct agent_slot *slot, const struct slot_fault *fault);
bool slot_report_xid(struct agent_slot *slot, long long xid, int64_t wall);

// The slots for the master: [{id, type, name, uuid, memory}], for GPUs also {pciBusId, driver,
// nvlinkGroup, numaGroup}, and with a fault {fault: {grade, reason, time}}.
json_t *slots_json(const struct slots *s);

#endif
