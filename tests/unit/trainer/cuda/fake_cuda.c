#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

struct stream_job {
    struct stream_job *next;
    void (*run)(void *arg);
    void *arg;
};

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stream_job *first, **last;
    bool busy, closing;
};

// Counts of records: how many were requested, how many the stream has reached.
struct CUevent_st {
    struct CUevent_st *next; // all events, because streams may still reach a destroyed one
    _Atomic uint64_t asked, reached;
    _Atomic int64_t when; // time of the last record
};

struct range {
    struct range *next;
    char *first;
    size_t bytes;
    enum cudaMemoryType type;
};

struct fake_faults fake_faults;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects both lists
static struct CUevent_st *events;
static struct range *ranges;
static _Thread_local cudaError_t last_error;

static cudaError_t answer_call(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    must(device == 0);
    return cudaSuccess;
}

// --- streams -------------------------------------------------------------------------------------

static void *stream_worker(void *arg)
{
    struct CUstream_st *s = arg;
    pthread_mutex_lock(&s->lock);
    while (s->first || !s->closing) {
        struct stream_job *job = s->first;
        if (!job) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = job->next;
        if (!s->first)
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        job->run(job->arg);
        free(job);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void fake_enqueue(cudaStream_t s, void (*run)(void *arg), void *arg)
{
    struct stream_job *job = xcalloc(1, sizeof *job);
    *job = (struct stream_job){.run = run, .arg = arg};
    pthread_mutex_lock(&s->lock);
    *s->last = job;
    s->last = &job->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t run, void *arg)
{
    fake_enqueue(stream, run, arg);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    must(flags == cudaStreamNonBlocking && priority <= 0);
    struct CUstream_st *s = xcalloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    must(pthread_create(&s->thread, NULL, stream_worker, s) == 0);
    *out = s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    pthread_mutex_lock(&s->lock);
    while (s->first || s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
    return cudaSuccess;
}

// --- events --------------------------------------------------------------------------------------

struct record {
    cudaEvent_t event;
    uint64_t number;
};

static struct record *new_record(cudaEvent_t event, uint64_t number)
{
    struct record *r = xcalloc(1, sizeof *r);
    *r = (struct record){event, number};
    return r;
}

static void event_reach(void *arg)
{
    struct record *r = arg;
    atomic_store(&r->event->when, clock_mono_us());
    atomic_store(&r->event->reached, r->number);
    free(r);
}

static void await(void *arg)
{
    struct record *r = arg;
    while (atomic_load(&r->event->reached) < r->number)
        clock_sleep_us(20);
    free(r);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    must(flags == cudaEventDefault || flags == cudaEventDisableTiming);
    *event = xcalloc(1, sizeof **event);
    pthread_mutex_lock(&lock);
    (*event)->next = events;
    events = *event;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    must(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    fake_enqueue(stream, event_reach, new_record(event, atomic_fetch_add(&event->asked, 1) + 1));
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    bool there = atomic_load(&event->reached) == atomic_load(&event->asked);
    return answer_call(there ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    while (atomic_load(&event->reached) != atomic_load(&event->asked))
        clock_sleep_us(20);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = (float)(atomic_load(&end->when) - atomic_load(&begin->when)) / 1000;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    must(flags == 0);
    fake_enqueue(stream, await, new_record(event, atomic_load(&event->asked)));
    return cudaSuccess;
}

// --- memory --------------------------------------------------------------------------------------

static void allocation_add(void *memory, size_t bytes, enum cudaMemoryType type)
{
    struct range *r = xcalloc(1, sizeof *r);
    pthread_mutex_lock(&lock);
    *r = (struct range){ranges, memory, bytes, type};
    ranges = r;
    pthread_mutex_unlock(&lock);
}

void fake_remember(void *memory, size_t bytes)
{
    allocation_add(memory, bytes, cudaMemoryTypeDevice);
}

void fake_forget(void *memory)
{
    pthread_mutex_lock(&lock);
    struct range **at = &ranges;
    while (*at && (*at)->first != memory)
        at = &(*at)->next;
    struct range *gone = *at;
    must(gone);
    *at = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *p)
{
    about->type = cudaMemoryTypeUnregistered;
    pthread_mutex_lock(&lock);
    for (const struct range *r = ranges; r; r = r->next)
        if ((const char *)p >= r->first && (const char *)p < r->first + r->bytes)
            about->type = r->type;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    if (fake_faults.no_locked_memory)
        return answer_call(cudaErrorMemoryAllocation);
    *memory = block_alloc(bytes);
    must(*memory);
    allocation_add(*memory, bytes, cudaMemoryTypeHost);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    fake_forget(memory);
    free(memory);
    return cudaSuccess;
}

struct fake_copy {
    void *to;
    const void *from; // NULL: zeros
    void *buffered;   // to be freed
    size_t bytes;
};

static void copy_bytes(void *arg)
{
    struct fake_copy *c = arg;
    if (c->from)
        memcpy(c->to, c->from, c->bytes);
    else
        memset(c->to, 0, c->bytes);
    free(c->buffered);
    free(c);
}

static void enqueue_copy(cudaStream_t stream, struct fake_copy copy)
{
    struct fake_copy *c = xcalloc(1, sizeof *c);
    *c = copy;
    fake_enqueue(stream, copy_bytes, c);
}

// Data from ordinary host memory is copied at once, and data to it is waited for, as by the driver.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct cudaPointerAttributes source, target;
    cudaPointerGetAttributes(&source, from);
    cudaPointerGetAttributes(&target, to);
    must(kind == cudaMemcpyDefault ||
         (kind != cudaMemcpyHostToDevice) == (source.type == cudaMemoryTypeDevice));
    bool ordinary = source.type == cudaMemoryTypeUnregistered;
    void *buffered = ordinary ? xcalloc(1, bytes + 1) : NULL;
    if (ordinary)
        memcpy(buffered, from, bytes);
    enqueue_copy(stream, (struct fake_copy){to, ordinary ? buffered : from, buffered, bytes});
    if (target.type == cudaMemoryTypeUnregistered)
        cudaStreamSynchronize(stream);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    must(value == 0);
    enqueue_copy(stream, (struct fake_copy){.to = to, .bytes = bytes});
    return cudaSuccess;
}

// --- the device as ops see it --------------------------------------------------------------------

cudaStream_t cuda_stream(void)
{
    static cudaStream_t stream; // of this process; ranks do not use a device before they are forked
    if (!stream)
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    return stream;
}

void cuda_check(cudaError_t status, const char *op)
{
    (void)op;
    must(status == cudaSuccess);
}

int ops_alloc(size_t bytes, void **out, struct error *e)
{
    (void)e;
    *out = block_alloc(bytes);
    must(*out);
    fake_remember(*out, bytes);
    return 0;
}

void ops_free(void *memory)
{
    cudaStreamSynchronize(cuda_stream());
    fake_forget(memory);
    free(memory);
}

int ops_synchronize(struct error *e)
{
    cudaError_t error = cudaGetLastError();
    cudaStreamSynchronize(cuda_stream());
    cuda_finish_copies();
    return error ? error_set(e, ERR_IO, "the device failed") : 0;
}

bool gpu_is_there(void)
{
    return true;
}

bool gpu_is_real(void)
{
    return false;
}

void gpu_begin(int rank)
{
    (void)rank;
}
