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

struct nvml_symbol {
    size_t at; // offset of the pointer in struct nvml
    const char *name;
};

static const struct nvml_symbol required[] = {
    SYMBOL(init, "nvmlInit_v2"),
    SYMBOL(shutdown, "nvmlShutdown"),
    SYMBOL(error_text, "nvmlErrorString"),
    SYMBOL(count, "nvmlDeviceGetCount_v2"),
    SYMBOL(by_index, "nvmlDeviceGetHandleByIndex_v2"),
    SYMBOL(name, "nvmlDeviceGetName"),
    SYMBOL(uuid, "nvmlDeviceGetUUID"),
    SYMBOL(memory, "nvmlDeviceGetMemoryInfo"),
};

static const struct nvml_symbol optional[] = {
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

// POSIX requires this conversion of dlsym()'s result to a function pointer.
static void *resolve_symbol(struct nvml *n, const struct nvml_symbol *s)
{
    void *symbol = dlsym(n->library, s->name);
    *(void **)((char *)n + s->at) = symbol;
    return symbol;
}

static int load_library(struct nvml *n, const char *library, struct error *e)
{
    n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return error_set(e, ERR_NOT_FOUND, "there is no GPU driver: %s", dlerror());
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!resolve_symbol(n, &required[i]))
            return error_set(e, ERR_VERSION, "%s has no %s; update the NVIDIA driver", library,
                             required[i].name);
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        resolve_symbol(n, &optional[i]);
    return 0;
}

int nvml_explain(const struct nvml *n, const char *what, int code, struct error *e)
{
    return error_set(e, ERR_IO,
                     "the NVIDIA driver cannot %s: %s. Check it with nvidia-smi; --gpus none "
                     "starts the agent with CPU slots",
                     what, n->error_text(code));
}

static void unload_library(struct nvml *n)
{
    if (n->library)
        dlclose(n->library);
    free(n);
}

int nvml_open(const char *library, struct nvml **out, struct error *e)
{
    struct nvml *n = xcalloc(1, sizeof *n);
    int err = load_library(n, library, e);
    int code = err ? NVML_SUCCESS : n->init();
    if (code == NVML_ERROR_DRIVER_NOT_LOADED)
        err = error_set(e, ERR_NOT_FOUND, "the NVIDIA driver is not loaded");
    else if (code != NVML_SUCCESS)
        err = nvml_explain(n, "initialize", code, e);
    if (err)
        unload_library(n);
    else
        *out = n;
    return err;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    unload_library(n);
}
