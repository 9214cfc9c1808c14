// Kernels as reported by CUPTI, including those in CUDA graphs. CUPTI is loaded when a trace
// begins, because nothing else needs it; afterwards each kernel takes about a microsecond longer.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/ops/cuda/device/device.h"

extern "C" {
#include "base/arena.h"
}

enum { BUFFER_BYTES = 4 << 20, ALIGNMENT = 8 };

// CUPTI delivers buffers from a thread of its own; they wait in this list for the device's thread.
struct cupti_buffer {
    uint8_t *bytes;
    size_t count;
    struct cupti_buffer *next;
};

static struct {
    void *library; // never unloaded: CUPTI does not support it
    decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
    decltype(&cuptiActivityEnable) enable;
    decltype(&cuptiActivityDisable) disable;
    decltype(&cuptiActivityFlushAll) flush;
    decltype(&cuptiActivityGetNextRecord) next;
    decltype(&cuptiGetTimestamp) now;
} cupti;

static ops_trace_fn *listener;
static void *listener_ctx;
static struct cupti_buffer *full; // newest first; both threads use compare-and-swap

static int load(struct error *e)
{
    char name[32];
    snprintf(name, sizeof name, "libcupti.so.%d", CUDART_VERSION / 1000);
    if (!cupti.library)
        cupti.library = dlopen(name, RTLD_NOW);
    if (!cupti.library)
        return error_set(e, ERR_NOT_FOUND,
                         "%s is not found; it comes with the CUDA toolkit: add its folder to "
                         "LD_LIBRARY_PATH",
                         name);
    const struct {
        const char *name;
        void **at;
    } wanted[] = {
        {"cuptiActivityRegisterCallbacks", (void **)&cupti.register_callbacks},
        {"cuptiActivityEnable", (void **)&cupti.enable},
        {"cuptiActivityDisable", (void **)&cupti.disable},
        {"cuptiActivityFlushAll", (void **)&cupti.flush},
        {"cuptiActivityGetNextRecord", (void **)&cupti.next},
        {"cuptiGetTimestamp", (void **)&cupti.now},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].at = dlsym(cupti.library, wanted[i].name)))
            return error_set(e, ERR_NOT_FOUND, "%s has no function %s", name, wanted[i].name);
    return 0;
}

static void CUPTIAPI allocate_buffer(uint8_t **bytes, size_t *size, size_t *max_records)
{
    *bytes = (uint8_t *)aligned_alloc(ALIGNMENT, BUFFER_BYTES);
    *size = *bytes ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void CUPTIAPI buffer_completed(CUcontext, uint32_t, uint8_t *bytes, size_t, size_t count)
{
    struct cupti_buffer *b = (struct cupti_buffer *)xcalloc(1, sizeof *b);
    b->bytes = bytes;
    b->count = count;
    b->next = __atomic_load_n(&full, __ATOMIC_RELAXED);
    while (
        !__atomic_compare_exchange_n(&full, &b->next, b, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

static void report_kernel(const CUpti_ActivityKernel10 *k)
{
    int status = 0;
    char *name = abi::__cxa_demangle(k->name, NULL, NULL, &status);
    const struct ops_trace_event event = {
        .row = OPS_TRACE_KERNEL,
        .name = name ? name : k->name,
        .begin_us = (double)k->start / 1000,
        .took_us = (double)(k->end - k->start) / 1000,
        .grid = {k->gridX, k->gridY, k->gridZ},
        .block = {k->blockX, k->blockY, k->blockZ},
        .registers = k->registersPerThread,
        .shared = k->staticSharedMemory + k->dynamicSharedMemory,
    };
    if (listener)
        listener(listener_ctx, &event);
    free(name);
}

static void report_kernels(void)
{
    struct cupti_buffer *b =
        __atomic_exchange_n(&full, (struct cupti_buffer *)NULL, __ATOMIC_ACQUIRE);
    while (b) {
        struct cupti_buffer *next = b->next;
        CUpti_Activity *record = NULL;
        while (cupti.next(b->bytes, b->count, &record) == CUPTI_SUCCESS)
            if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
                report_kernel((const CUpti_ActivityKernel10 *)record);
        free(b->bytes);
        free(b);
        b = next;
    }
}

extern "C" int ops_trace_begin(ops_trace_fn *new_listener, void *ctx, struct error *e)
{
    uint64_t now = 0;
    int rc = load(e);
    CUptiResult status = CUPTI_SUCCESS;
    cudaStreamSynchronize(cuda_stream());
    if (!rc)
        status = cupti.register_callbacks(allocate_buffer, buffer_completed);
    if (!rc && !status)
        status = cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (!rc && !status)
        status = cupti.now(&now);
    listener = new_listener;
    listener_ctx = ctx;
    cuda_trace_phases(new_listener, ctx, (double)now / 1000);
    if (!rc && status)
        rc = error_set(e, ERR_IO, "CUPTI cannot report kernels (error %d)", (int)status);
    return rc;
}

extern "C" int ops_trace_end(struct error *e)
{
    int rc = ops_synchronize(e);
    if (cupti.library) {
        cupti.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        if (cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) && !rc)
            rc = error_set(e, ERR_IO, "CUPTI failed to deliver its records of kernels");
        report_kernels();
    }
    listener = NULL;
    cuda_trace_phases(NULL, NULL, 0);
    return rc;
}

extern "C" void ops_trace_layer(const char *name)
{
    (void)name; // CUPTI cannot assign the kernels of a graph to layers
}
