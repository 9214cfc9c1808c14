// The fake NCCL: processes meet in a segment of rank 0 and exchange data through it in chunks.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"

enum { RANKS = 8, CHUNK = 1000 * 8, OPERATIONS = 64 };

enum kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER };

// The arguments that all ranks must have in common.
struct nccl_call_shape {
    enum kind kind;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};

struct box {
    _Atomic uint64_t at; // phases that the rank has reached
    struct nccl_call_shape shape;
    char data[CHUNK];
};

struct segment {
    atomic_int joined;
    struct box boxes[RANKS];
};

struct nccl_operation {
    struct nccl_call_shape shape;
    const char *from;
    char *to;
};

struct launch {
    ncclComm_t comm;
    cudaStream_t stream;
    struct nccl_operation operations[OPERATIONS];
    int count;
};

struct ncclComm {
    int rank, world;
    char place[NCCL_UNIQUE_ID_BYTES];
    struct segment *segment;
    pthread_t helper;
    bool helped; // a helper thread must be joined
    _Atomic int state;
    atomic_bool aborted;
    atomic_int running; // launches in progress
    uint64_t at;        // phases
    unsigned launches;  // every second one is slow
    void *memory;       // the registered memory
};

static _Thread_local int group_depth;
static _Thread_local struct launch *group;

ncclResult_t ncclGetVersion(int *version)
{
    *version = fake_faults.version ? fake_faults.version : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "what NCCL said last";
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    if (fake_faults.no_memory)
        return ncclUnhandledCudaError;
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    must(*memory);
    memset(*memory, 0xa5, bytes);
    fake_remember(*memory, bytes);
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    fake_forget(memory);
    free(memory);
    return ncclSuccess;
}

// --- connecting ----------------------------------------------------------------------------------

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int fd = memfd_create("fake-nccl", MFD_CLOEXEC); // stays open until this process ends
    must(fd >= 0 && ftruncate(fd, sizeof(struct segment)) == 0);
    *id = (ncclUniqueId){0};
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), fd);
    return ncclSuccess;
}

static void *connect_ranks(void *arg)
{
    struct ncclComm *c = arg;
    int fd = open(c->place, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        atomic_store(&c->state, ncclSystemError);
        return NULL;
    }
    void *p = mmap(NULL, sizeof *c->segment, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(p != MAP_FAILED);
    close(fd);
    c->segment = p;
    if (!fake_faults.never_connects)
        atomic_fetch_add(&c->segment->joined, 1);
    while (atomic_load(&c->segment->joined) < c->world && !atomic_load(&c->aborted))
        clock_sleep_us(100);
    atomic_store(&c->state, ncclSuccess);
    return NULL;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const ncclConfig_t expected = NCCL_CONFIG_INITIALIZER;
    must(config->magic == expected.magic && config->size == expected.size);
    must(config->blocking == 0 && world <= RANKS);
    struct ncclComm *c = xcalloc(1, sizeof *c);
    c->rank = rank;
    c->world = world;
    c->state = ncclInProgress;
    memcpy(c->place, id.internal, sizeof c->place);
    c->helped = true;
    must(pthread_create(&c->helper, NULL, connect_ranks, c) == 0);
    *out = c;
    return ncclInProgress;
}

static void join_helper(struct ncclComm *c)
{
    if (c->helped)
        pthread_join(c->helper, NULL);
    c->helped = false;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = fake_faults.complaint ? fake_faults.complaint : (ncclResult_t)atomic_load(&c->state);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    atomic_store(&c->aborted, true);
    join_helper(c);
    while (atomic_load(&c->running) > 0)
        clock_sleep_us(100);
    if (c->segment)
        munmap(c->segment, sizeof *c->segment);
    free(c);
    return ncclSuccess;
}

static void must_be_ready(const struct ncclComm *c)
{
    must(atomic_load(&c->state) == ncclSuccess);
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *memory, size_t bytes, void **handle)
{
    must_be_ready(c);
    must(bytes > 0 && !c->memory);
    if (fake_faults.no_registration)
        return ncclInvalidUsage;
    *handle = c->memory = memory;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    must(c->memory && handle == c->memory);
    c->memory = NULL;
    return ncclSuccess;
}

// --- running an operation ------------------------------------------------------------------------

// Waits until all ranks have reached this phase; false if the operation was aborted.
static bool ranks_meet(struct ncclComm *c)
{
    atomic_store(&c->segment->boxes[c->rank].at, ++c->at);
    for (int r = 0; r < c->world; r++)
        while (atomic_load(&c->segment->boxes[r].at) < c->at) {
            if (atomic_load(&c->aborted))
                return false;
            clock_sleep_us(10);
        }
    return true;
}

static size_t size_of(ncclDataType_t type)
{
    return type == ncclInt64 ? 8 : type == ncclInt8 ? 1 : 4;
}

#define COMBINE(type)                                                                              \
    do {                                                                                           \
        type a, b;                                                                                 \
        memcpy(&a, into, sizeof a);                                                                \
        memcpy(&b, from, sizeof b);                                                                \
        a = op == ncclSum ? a + b : a > b ? a : b;                                                 \
        memcpy(into, &a, sizeof a);                                                                \
    } while (0)

static void combine_elements(char *into, const char *from, ncclDataType_t type, ncclRedOp_t op)
{
    if (type == ncclInt32)
        COMBINE(int32_t);
    else if (type == ncclInt64)
        COMBINE(int64_t);
    else
        COMBINE(float);
}

static void reduce_one(struct ncclComm *c, const struct nccl_call_shape *s, size_t i, char *to)
{
    size_t size = size_of(s->type);
    memcpy(to, c->segment->boxes[0].data + i * size, size);
    for (int r = 1; r < c->world; r++)
        combine_elements(to, c->segment->boxes[r].data + i * size, s->type, s->op);
}

// Element i of the chunk that starts at `at`.
static void take_one(struct ncclComm *c, const struct nccl_operation *o, size_t at, size_t i)
{
    const struct nccl_call_shape *s = &o->shape;
    size_t size = size_of(s->type), first = (size_t)c->rank * s->count;
    if (s->kind == ALL_REDUCE || (s->kind == REDUCE && s->root == c->rank))
        reduce_one(c, s, i, o->to + (at + i) * size);
    if (s->kind == BROADCAST)
        memcpy(o->to + (at + i) * size, c->segment->boxes[s->root].data + i * size, size);
    if (s->kind == REDUCE_SCATTER && at + i >= first && at + i < first + s->count)
        reduce_one(c, s, i, o->to + (at + i - first) * size);
    for (int r = 0; r < c->world && s->kind == ALL_GATHER; r++)
        memcpy(o->to + ((size_t)r * s->count + at + i) * size, c->segment->boxes[r].data + i * size,
               size);
}

static bool operation_run(struct ncclComm *c, const struct nccl_operation *o)
{
    const struct nccl_call_shape *s = &o->shape;
    struct box *mine = &c->segment->boxes[c->rank];
    size_t size = size_of(s->type), chunk = CHUNK / size;
    size_t count = s->kind == REDUCE_SCATTER ? s->count * (size_t)c->world : s->count;
    mine->shape = *s;
    if (!ranks_meet(c))
        return false;
    for (int r = 0; r < c->world; r++)
        must(memcmp(&c->segment->boxes[r].shape, s, sizeof *s) == 0);
    for (size_t at = 0; at < count; at += chunk) {
        size_t n = count - at < chunk ? count - at : chunk;
        if (s->kind != BROADCAST || s->root == c->rank)
            memcpy(mine->data, o->from + at * size, n * size);
        if (!ranks_meet(c))
            return false;
        for (size_t i = 0; i < n; i++)
            take_one(c, o, at, i);
        if (!ranks_meet(c))
            return false;
    }
    return ranks_meet(c);
}

static void run(void *arg)
{
    struct launch *l = arg;
    for (int i = 0; i < l->count; i++)
        if (!operation_run(l->comm, &l->operations[i]))
            break;
    atomic_fetch_sub(&l->comm->running, 1);
    free(l);
}

// --- launching -----------------------------------------------------------------------------------

static void *launch_late(void *arg)
{
    struct launch *l = arg;
    struct ncclComm *c = l->comm;
    clock_sleep_us(300);
    fake_enqueue(l->stream, run, l);
    atomic_store(&c->state, ncclSuccess);
    return NULL;
}

static ncclResult_t launch_enqueue(struct launch *l)
{
    struct ncclComm *c = l->comm;
    must_be_ready(c);
    atomic_fetch_add(&c->running, 1);
    if (c->launches++ % 2) {
        fake_enqueue(l->stream, run, l);
        return ncclSuccess;
    }
    join_helper(c);
    atomic_store(&c->state, ncclInProgress);
    c->helped = true;
    must(pthread_create(&c->helper, NULL, launch_late, l) == 0);
    return ncclInProgress;
}

ncclResult_t ncclGroupStart(void)
{
    must(group_depth++ == 0);
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    must(group_depth-- == 1);
    struct launch *l = group;
    group = NULL;
    return l ? launch_enqueue(l) : ncclSuccess;
}

static ncclResult_t operation_add(ncclComm_t c, cudaStream_t stream,
                                  const struct nccl_call_shape *shape, const void *from, void *to)
{
    struct launch *l = group;
    must_be_ready(c);
    if (!l) {
        l = xcalloc(1, sizeof *l);
        l->comm = c;
        l->stream = stream;
    }
    must(l->count < OPERATIONS && l->comm == c && l->stream == stream);
    struct nccl_operation *o = &l->operations[l->count++];
    memcpy(&o->shape, shape, sizeof *shape);
    o->from = from;
    o->to = to;
    if (group_depth == 0)
        return launch_enqueue(l);
    group = l;
    return ncclSuccess;
}

static struct nccl_call_shape shape_of(enum kind kind, size_t count, ncclDataType_t type,
                                       ncclRedOp_t op, int root)
{
    struct nccl_call_shape s;
    memset(&s, 0, sizeof s); // it is compared bytewise
    s.kind = kind;
    s.count = count;
    s.type = type;
    s.op = op;
    s.root = root;
    return s;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    const struct nccl_call_shape s = shape_of(ALL_REDUCE, count, type, op, 0);
    return operation_add(c, stream, &s, from, to);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream)
{
    const struct nccl_call_shape s = shape_of(REDUCE, count, type, op, root);
    return operation_add(c, stream, &s, from, to);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream)
{
    const struct nccl_call_shape s = shape_of(BROADCAST, count, type, ncclSum, root);
    return operation_add(c, stream, &s, from, to);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    const struct nccl_call_shape s = shape_of(REDUCE_SCATTER, count, type, op, 0);
    must((char *)to == (const char *)from + (size_t)c->rank * count * size_of(type));
    return operation_add(c, stream, &s, from, to);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t stream)
{
    const struct nccl_call_shape s = shape_of(ALL_GATHER, count, type, ncclSum, 0);
    must((const char *)from == (char *)to + (size_t)c->rank * count * size_of(type));
    return operation_add(c, stream, &s, from, to);
}
