#include "agent/gpu/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"

_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

#define SYMBOL(member, name)                                                                       \
    {                                                                                              \
        offsetof(struct nvml, member), name                                                        \
    }

struct symbol {
    size_t at; // of a pointer in struct nvml
    const char *name;
};

static const struct symbol needed[] = {
    SYMBOL(init, "nvmlInit_v2"),
    SYMBOL(shutdown, "nvmlShutdown"),
    SYMBOL(error_text, "nvmlErrorString"),
    SYMBOL(count, "nvmlDeviceGetCount_v2"),
    SYMBOL(by_index, "nvmlDeviceGetHandleByIndex_v2"),
    SYMBOL(name, "nvmlDeviceGetName"),
    SYMBOL(uuid, "nvmlDeviceGetUUID"),
    SYMBOL(memory, "nvmlDeviceGetMemoryInfo"),
};

static const struct symbol wanted[] = {
    SYMBOL(driver_version, "nvmlSystemGetDriverVersion"),
    SYMBOL(pci, "nvmlDeviceGetPciInfo_v3"),
    SYMBOL(mig_mode, "nvmlDeviceGetMigMode"),
    SYMBOL(mig_count, "nvmlDeviceGetMaxMigDeviceCount"),
    SYMBOL(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex"),
    SYMBOL(mig_gpu_instance, "nvmlDeviceGetGpuInstanceId"),
    SYMBOL(ancestor, "nvmlDeviceGetTopologyCommonAncestor"),
    SYMBOL(p2p, "nvmlDeviceGetP2PStatus"),
    SYMBOL(remapped, "nvmlDeviceGetRemappedRows"),
    SYMBOL(utilization, "nvmlDeviceGetUtilizationRates"),
    SYMBOL(temperature, "nvmlDeviceGetTemperature"),
    SYMBOL(power, "nvmlDeviceGetPowerUsage"),
    SYMBOL(events_new, "nvmlEventSetCreate"),
    SYMBOL(events_register, "nvmlDeviceRegisterEvents"),
    SYMBOL(events_wait, "nvmlEventSetWait_v2"),
    SYMBOL(events_free, "nvmlEventSetFree"),
};

// POSIX has dlsym's result read as a function pointer this way.
static void *resolve(struct nvml *n, const struct symbol *s)
{
    void *symbol = dlsym(n->library, s->name);
    *(void **)((char *)n + s->at) = symbol;
    return symbol;
}

static int load(struct nvml *n, const char *library, struct error *e)
{
    n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return error_set(e, ERR_NOT_FOUND, "no GPU driver: %s", dlerror());
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!resolve(n, &needed[i]))
            return error_set(e, ERR_VERSION, "%s has no %s; update the NVIDIA driver", library,
                             needed[i].name);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        resolve(n, &wanted[i]);
    return 0;
}

int nvml_explain(const struct nvml *n, const char *what, int code, struct error *e)
{
    return error_set(e, ERR_IO,
                     "the NVIDIA driver cannot %s: %s. Try nvidia-smi; --gpus none starts the "
                     "agent with CPU slots",
                     what, n->error_text(code));
}

static void unload(struct nvml *n)
{
    if (n->library)
        dlclose(n->library);
    free(n);
}

int nvml_open(const char *library, struct nvml **out, struct error *e)
{
    struct nvml *n = xcalloc(1, sizeof *n);
    int rc = load(n, library, e);
    int code = rc == 0 ? n->init() : NVML_SUCCESS;
    if (code == NVML_ERROR_DRIVER_NOT_LOADED)
        rc = error_set(e, ERR_NOT_FOUND, "the NVIDIA driver is not loaded");
    else if (code != NVML_SUCCESS)
        rc = nvml_explain(n, "start", code, e);
    if (rc != 0)
        unload(n);
    else
        *out = n;
    return rc;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    unload(n);
}
