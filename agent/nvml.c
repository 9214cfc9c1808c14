// GPUs by NVML, which comes with the driver and is loaded at run time: the agent needs neither the
// CUDA toolkit to be built nor a GPU to run. Declarations after NVIDIA's NVML API reference.
#include "agent/slots.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/limits.h"

struct nvml_memory { // nvmlMemory_t, bytes
    unsigned long long total, free, used;
};

enum { NVML_SUCCESS = 0, NVML_ERROR_DRIVER_NOT_LOADED = 9 };

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*uuid)(void *device, char *uuid, unsigned length);
    int (*memory)(void *device, struct nvml_memory *memory);
    const char *(*error_text)(int code);
};

static int load(struct nvml *n, const char *library, struct error *e)
{
    const struct {
        void *target; // POSIX has dlsym's result read as a function pointer this way
        const char *name;
    } symbols[] = {
        {&n->init, "nvmlInit_v2"},
        {&n->shutdown, "nvmlShutdown"},
        {&n->count, "nvmlDeviceGetCount_v2"},
        {&n->by_index, "nvmlDeviceGetHandleByIndex_v2"},
        {&n->name, "nvmlDeviceGetName"},
        {&n->uuid, "nvmlDeviceGetUUID"},
        {&n->memory, "nvmlDeviceGetMemoryInfo"},
        {&n->error_text, "nvmlErrorString"},
    };
    *n = (struct nvml){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return error_set(e, ERR_NOT_FOUND, "no GPU driver: %s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(n->library, symbols[i].name);
        if (!symbol)
            return error_set(e, ERR_VERSION, "%s has no %s; update the NVIDIA driver", library,
                             symbols[i].name);
        *(void **)symbols[i].target = symbol;
    }
    return 0;
}

static int explain(const struct nvml *n, const char *what, int code, struct error *e)
{
    return error_set(e, ERR_IO,
                     "the NVIDIA driver cannot %s: %s. Try nvidia-smi; --gpus none starts the "
                     "agent with CPU slots",
                     what, n->error_text(code));
}

static int describe(const struct nvml *n, unsigned index, struct slot *slot, struct error *e)
{
    void *device = NULL;
    struct nvml_memory memory = {0};
    int code = n->by_index(index, &device);
    if (code == NVML_SUCCESS)
        code = n->name(device, slot->name, sizeof slot->name);
    if (code == NVML_SUCCESS)
        code = n->uuid(device, slot->uuid, sizeof slot->uuid);
    if (code == NVML_SUCCESS)
        code = n->memory(device, &memory);
    if (code != NVML_SUCCESS) {
        char what[32];
        snprintf(what, sizeof what, "describe GPU %u", index);
        return explain(n, what, code, e);
    }
    slot->memory = (int64_t)memory.total;
    return 0;
}

static int find(const struct nvml *n, struct slots *s, struct error *e)
{
    unsigned count = 0;
    int code = n->count(&count);
    if (code != NVML_SUCCESS)
        return explain(n, "count the GPUs", code, e);
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the NVIDIA driver finds no GPU");
    if (count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_TOO_LARGE, "%u GPUs; an agent may have %d slots", count,
                         LIMIT_SLOTS_PER_AGENT);
    s->cuda = true;
    s->count = count;
    s->items = xcalloc(count, sizeof *s->items);
    int rc = 0;
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = describe(n, i, &s->items[i], e);
    return rc;
}

int slots_find_gpus(struct slots *s, const char *library, struct error *e)
{
    struct nvml n;
    *s = (struct slots){0};
    int rc = load(&n, library, e);
    if (rc != 0)
        goto out;
    int code = n.init();
    if (code == NVML_ERROR_DRIVER_NOT_LOADED) {
        rc = error_set(e, ERR_NOT_FOUND, "the NVIDIA driver is not loaded");
        goto out;
    }
    if (code != NVML_SUCCESS) {
        rc = explain(&n, "start", code, e);
        goto out;
    }
    rc = find(&n, s, e);
    n.shutdown();
out:
    if (rc != 0)
        slots_free(s);
    if (n.library)
        dlclose(n.library);
    return rc;
}
