// Asynchronous copies between the host and the GPU. They go through page-locked host memory, which
// the GPU reads and writes by itself when its stream reaches the copy. With ordinary memory the
// driver would make the caller wait for all earlier work of the GPU.
//
// There are two staging buffers. One is being filled; when it is full, an event marks it and the
// other one is used, after the GPU has passed the event of that one. Downloaded data is copied to
// its destination then, or by ops_synchronize(). Large copies are split, so that few of them wait
// for space.
#include <stdlib.h>
#include <string.h>

#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

enum {
    BUFFER_BYTES = 64 << 20,
    SPLIT_BYTES = BUFFER_BYTES / 4,
    BUFFERS = 2,
    ALIGNMENT = 256,
    DOWNLOADS_MAX = 512
};

struct pending_download {
    void *host;
    const void *from; // in the staging buffer
    size_t bytes;
};

struct staging_buffer {
    char *memory; // NULL: not allocated yet, or the host has no page-locked memory
    size_t used;
    cudaEvent_t full;
    struct pending_download downloads[DOWNLOADS_MAX];
    int count;
};

static struct staging_buffer buffers[BUFFERS];
static int now; // index of the buffer that is being filled

static struct staging_buffer *other(void)
{
    return &buffers[(now + 1) % BUFFERS];
}

// Delivers the downloads of a buffer; the GPU has passed its event.
static void staging_empty(struct staging_buffer *p)
{
    for (int i = 0; i < p->count; i++)
        memcpy(p->downloads[i].host, p->downloads[i].from, p->downloads[i].bytes);
    p->count = 0;
    p->used = 0;
}

static void switch_buffers(void)
{
    struct staging_buffer *p = other();
    cuda_check(cudaEventRecord(buffers[now].full, cuda_stream()), "a copy");
    if (p->used > 0)
        cuda_check(cudaEventSynchronize(p->full), "a copy");
    staging_empty(p);
    now = (now + 1) % BUFFERS;
}

static bool allocate_buffers(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        struct staging_buffer *p = &buffers[i];
        if (!p->memory &&
            (cudaMallocHost((void **)&p->memory, BUFFER_BYTES) != cudaSuccess ||
             cudaEventCreateWithFlags(&p->full, cudaEventDisableTiming) != cudaSuccess)) {
            cudaGetLastError(); // copies then use ordinary memory
            return false;
        }
    }
    return true;
}

static void *staging_take(size_t bytes)
{
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!allocate_buffers())
        return NULL;
    if (buffers[now].used + padded > BUFFER_BYTES || buffers[now].count == DOWNLOADS_MAX)
        switch_buffers();
    void *at = buffers[now].memory + buffers[now].used;
    buffers[now].used += padded;
    return at;
}

static void start_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                       const char *op)
{
    cuda_check(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream()), op);
}

static void upload(void *to, const void *host, size_t bytes)
{
    void *staged = staging_take(bytes);
    if (staged)
        memcpy(staged, host, bytes);
    // From ordinary memory the driver makes a copy before it returns.
    start_copy(to, staged ? staged : host, bytes, cudaMemcpyHostToDevice, "ops_upload");
}

static void download(void *host, const void *from, size_t bytes)
{
    void *staged = staging_take(bytes);
    struct staging_buffer *p = &buffers[now];
    if (staged)
        p->downloads[p->count++] = (struct pending_download){host, staged, bytes};
    start_copy(staged ? staged : host, from, bytes, cudaMemcpyDeviceToHost, "ops_download");
}

static size_t split_at(size_t done, size_t bytes)
{
    return bytes - done < SPLIT_BYTES ? bytes - done : SPLIT_BYTES;
}

void ops_upload(void *to, const void *host, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += split_at(done, bytes))
        upload((char *)to + done, (const char *)host + done, split_at(done, bytes));
}

void ops_download(void *host, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += split_at(done, bytes))
        download((char *)host + done, (const char *)from + done, split_at(done, bytes));
}

void ops_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        start_copy(to, from, bytes, cudaMemcpyDeviceToDevice, "ops_copy");
}

void ops_zero(void *to, size_t bytes)
{
    if (bytes > 0)
        cuda_check(cudaMemsetAsync(to, 0, bytes, cuda_stream()), "ops_zero");
}

void cuda_finish_copies(void)
{
    staging_empty(other()); // the older one first
    staging_empty(&buffers[now]);
}

void cuda_free_copies(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (buffers[i].memory)
            cudaFreeHost(buffers[i].memory);
        if (buffers[i].full)
            cudaEventDestroy(buffers[i].full);
    }
    memset(buffers, 0, sizeof buffers);
}
