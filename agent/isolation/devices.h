// The devices of a task: a small /dev of its own. It has the devices that every program needs, the
// network adapters of the machine for RDMA, and of the GPUs only those of its slots. The task's
// first process calls these functions, in the mount namespace of the task.
#ifndef MUSTER_AGENT_ISOLATION_DEVICES_H
#define MUSTER_AGENT_ISOLATION_DEVICES_H

#include <jansson.h>

#include "base/error.h"

// Mounts the task's /dev. `gpus`: [{busId, instance}] of its slots; NULL or empty: no GPU.
int devices_mount(const json_t *gpus, struct error *e);

// Mounts an empty /dev/shm alone.
int devices_mount_shm(struct error *e);

// --- texts of NVIDIA's driver: pure --------------------------------------------------------------

// The name of a GPU's folder in /proc/driver/nvidia/gpus, from its PCI bus id as NVML writes it:
// "00000000:0B:00.0" becomes "0000:0b:00.0".
void devices_gpu_folder(const char *bus_id, char out[32]);

// The number after `key` in a text of lines "KEY: NUMBER"; -1: there is none.
int devices_number(const char *text, const char *key);

#endif
