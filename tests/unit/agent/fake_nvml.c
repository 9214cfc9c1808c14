// Replaces libnvidia-ml.so.1 in tests. Environment variables describe the machine:
//   FAKE_GPUS number          FAKE_NVML_ERROR code of nvmlInit_v2
//   FAKE_LOST_GPU number      .. is lost from the start
//   FAKE_LATER_LOST number    .. answers its first calls and is lost afterwards
//   FAKE_BROKEN_GPU number    .. fails with another error
//   FAKE_REMAP_FAILED number  .. has rows that could not be replaced
//   FAKE_REMAP_PENDING number .. has rows that the next reset replaces
//   FAKE_INSTANCES number     MIG instances of each GPU; absent: MIG mode is off
//   FAKE_CUT_GPU number       .. only of this GPU
//   FAKE_LINKED number        so many consecutive GPUs have NVLink, except one in MIG mode; GPUs 0
//                             to 3 and 4 to 7 share a NUMA node
//   FAKE_NVML_EVENTS file     of lines "GPU XID INSTANCE", each reported once after it was written;
//                             INSTANCE -1: of no instance; XID 0: a double-bit ECC event
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/gpu/nvml.h"

enum { GPUS = 16, INSTANCES = 7, NOT_SUPPORTED = 3, NOT_FOUND = 6, UNKNOWN = 999 };

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *version, unsigned length);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
int nvmlDeviceGetPciInfo_v3(void *device, struct nvml_pci *pci);
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *most);
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance);
int nvmlDeviceGetGpuInstanceId(void *instance, unsigned *id);
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, int *level);
int nvmlDeviceGetP2PStatus(void *one, void *other, int index, int *status);
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed);
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *utilization);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlEventSetCreate(void **set);
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
int nvmlEventSetWait_v2(void *set, struct nvml_event *event, unsigned timeout_ms);
int nvmlEventSetFree(void *set);

static char handles[GPUS][1 + INSTANCES]; // a GPU, then its instances
static long events_read;                  // bytes of the file
static unsigned long long registered[GPUS];

// Returns -1 if the variable is not set.
static int number(const char *name)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : -1;
}

static int gpu_of(const void *device)
{
    return (int)((const char *)device - handles[0]) / (1 + INSTANCES);
}

static int instance_of(const void *device) // 0: the GPU itself
{
    return (int)((const char *)device - handles[0]) % (1 + INSTANCES);
}

static bool is_cut(const void *device)
{
    int only = number("FAKE_CUT_GPU");
    return number("FAKE_INSTANCES") >= 0 && (only < 0 || only == gpu_of(device));
}

int nvmlInit_v2(void)
{
    int code = number("FAKE_NVML_ERROR");
    return code < 0 ? 0 : code;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    snprintf(version, length, "550.54.15");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    int said = number("FAKE_GPUS");
    *count = said < 0 ? 0 : (unsigned)said;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = handles[index];
    if ((int)index == number("FAKE_BROKEN_GPU"))
        return UNKNOWN;
    return (int)index == number("FAKE_LOST_GPU") ? NVML_ERROR_GPU_IS_LOST : 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    const char *profile = instance_of(device) ? " MIG 1g.10gb" : "";
    snprintf(name, length, "Fake GPU%s", profile);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
    if (instance_of(device))
        snprintf(uuid, length, "MIG-0000-%d-%d", gpu_of(device), instance_of(device));
    else
        snprintf(uuid, length, "GPU-0000-%d", gpu_of(device));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory)
{
    unsigned long long total = instance_of(device) ? 10ULL << 30 : 80ULL << 30;
    *memory = (struct nvml_memory){.total = total, .free = total - (1 << 30), .used = 1 << 30};
    return gpu_of(device) == number("FAKE_LATER_LOST") ? NVML_ERROR_GPU_IS_LOST : 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct nvml_pci *pci)
{
    *pci = (struct nvml_pci){.bus = (unsigned)gpu_of(device) + 1};
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return instance_of(device) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    *current = *pending = is_cut(device);
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *most)
{
    (void)device;
    *most = INSTANCES;
    return 0;
}

// The first index has no instance, as after the removal of an instance.
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance)
{
    if (index == 0 || (int)index > number("FAKE_INSTANCES"))
        return NOT_FOUND;
    *instance = &handles[gpu_of(device)][index];
    return 0;
}

int nvmlDeviceGetGpuInstanceId(void *instance, unsigned *id)
{
    *id = (unsigned)instance_of(instance) + 6;
    return instance_of(instance) ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, int *level)
{
    bool same = gpu_of(one) / 4 == gpu_of(other) / 4;
    *level = same && number("FAKE_LINKED") > 0 ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_NODE + 10;
    return 0;
}

int nvmlDeviceGetP2PStatus(void *one, void *other, int index, int *status)
{
    int size = number("FAKE_LINKED");
    bool linked = size > 0 && gpu_of(one) / size == gpu_of(other) / size && !is_cut(one) &&
                  !is_cut(other) && index == NVML_P2P_CAPS_INDEX_NVLINK;
    *status = linked ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_OK + 5;
    return 0;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = 0;
    *pending = gpu_of(device) == number("FAKE_REMAP_PENDING");
    *failed = gpu_of(device) == number("FAKE_REMAP_FAILED");
    return is_cut(device) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *utilization)
{
    *utilization = (struct nvml_utilization){.gpu = 40 + (unsigned)gpu_of(device)};
    return instance_of(device) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    *celsius = 61;
    return instance_of(device) || sensor != NVML_TEMPERATURE_GPU ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 250500;
    return instance_of(device) ? NOT_SUPPORTED : 0;
}

int nvmlEventSetCreate(void **set)
{
    *set = &events_read;
    return 0;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    (void)set;
    registered[gpu_of(device)] |= types;
    return 0;
}

static bool read_event(FILE *f, struct nvml_event *event)
{
    char line[64], *at = line;
    if (fseek(f, events_read, SEEK_SET) != 0 || !fgets(line, sizeof line, f) || !strchr(line, '\n'))
        return false;
    events_read = ftell(f);
    long gpu = strtol(at, &at, 10), xid = strtol(at, &at, 10), instance = strtol(at, &at, 10);
    *event = (struct nvml_event){
        .device = handles[gpu],
        .type = xid ? NVML_EVENT_XID_CRITICAL : NVML_EVENT_DOUBLE_BIT_ECC,
        .data = (unsigned long long)xid,
        .gpu_instance = (unsigned)instance,
        .compute_instance = (unsigned)instance,
    };
    return (registered[gpu] & event->type) != 0;
}

int nvmlEventSetWait_v2(void *set, struct nvml_event *event, unsigned timeout_ms)
{
    const char *path = getenv("FAKE_NVML_EVENTS");
    (void)set;
    for (unsigned waited = 0; waited < timeout_ms; waited += 10) {
        FILE *f = path ? fopen(path, "re") : NULL;
        bool found = f && read_event(f, event);
        if (f)
            fclose(f);
        if (found)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    return NVML_ERROR_TIMEOUT;
}

int nvmlEventSetFree(void *set)
{
    (void)set;
    return 0;
}
