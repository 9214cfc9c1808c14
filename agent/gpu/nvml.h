// The functions of NVML, NVIDIA's management library, that the agent calls. The library comes with
// the driver and is loaded at run time, so building the agent needs no CUDA toolkit, and running it
// needs no GPU. The declarations are the binary interface of the named function versions in
// NVIDIA's NVML API reference. Any thread may call the functions.
#ifndef MUSTER_AGENT_GPU_NVML_H
#define MUSTER_AGENT_GPU_NVML_H

#include "base/error.h"

enum { // nvmlReturn_t
    NVML_SUCCESS = 0,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
};

enum {
    NVML_TEMPERATURE_GPU = 0,        // nvmlTemperatureSensors_t
    NVML_TOPOLOGY_NODE = 40,         // nvmlGpuTopologyLevel_t: one NUMA node; smaller is nearer
    NVML_P2P_CAPS_INDEX_NVLINK = 2,  // nvmlGpuP2PCapsIndex_t
    NVML_P2P_STATUS_OK = 0,          // nvmlGpuP2PStatus_t
    NVML_EVENT_DOUBLE_BIT_ECC = 0x2, // nvmlEventTypeDoubleBitEccError
    NVML_EVENT_XID_CRITICAL = 0x8,   // nvmlEventTypeXidCriticalError
};

struct nvml_memory { // nvmlMemory_t, bytes
    unsigned long long total, free, used;
};

struct nvml_utilization { // nvmlUtilization_t, percent of the last sample period
    unsigned gpu, memory;
};

struct nvml_pci { // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_event { // nvmlEventData_t
    void *device;
    unsigned long long type;
    unsigned long long data; // the Xid
    unsigned gpu_instance;   // of MIG; 0xFFFFFFFF: not of a single instance
    unsigned compute_instance;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int code);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*uuid)(void *device, char *uuid, unsigned length);
    int (*memory)(void *device, struct nvml_memory *memory);
    // These are NULL if the driver is too old:
    int (*driver_version)(char *version, unsigned length);
    int (*pci)(void *device, struct nvml_pci *pci);
    int (*mig_mode)(void *device, unsigned *current, unsigned *pending);
    int (*mig_count)(void *device, unsigned *limit);
    int (*mig_by_index)(void *device, unsigned index, void **instance);
    int (*mig_gpu_instance)(void *instance, unsigned *id);
    int (*ancestor)(void *one, void *other, int *level);
    int (*p2p)(void *one, void *other, int index, int *status);
    int (*remapped)(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                    unsigned *failed);
    int (*utilization)(void *device, struct nvml_utilization *utilization);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*events_new)(void **set);
    int (*events_register)(void *device, unsigned long long types, void *set);
    int (*events_wait)(void *set, struct nvml_event *event, unsigned timeout_ms);
    int (*events_free)(void *set);
};

// Loads and initializes the library. ERR_NOT_FOUND: no library, or the driver is not loaded.
int nvml_open(const char *library, struct nvml **out, struct error *e);
void nvml_close(struct nvml *n); // NULL is fine

// Sets ERR_IO: "the NVIDIA driver cannot WHAT: REASON", with advice.
int nvml_explain(const struct nvml *n, const char *what, int code, struct error *e);

static inline int nvml_is_lost(int code)
{
    return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_RESET_REQUIRED;
}

#endif
