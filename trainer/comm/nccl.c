// Backend `nccl`: GPUs. nccl.h says how it is put together.
//
// NCCL's reductions into parts and gatherings of parts want parts of one size; ours may differ by a
// unit. Where all are equal, NCCL's own operation does it in one go. Otherwise there is one
// reduction or broadcast per part, in one group, which NCCL launches as one: the same numbers
// travel, in rings to and from each rank. No padding could do it in place, as parts lie one after
// the other in the arena. Whoever cuts the buffers sees to it that this is the exception.
//
// A call of NCCL may return before its work is on the stream. Nothing else may be enqueued there
// until it is, so that await_call() waits for it, a moment; only the first operation of a kind
// takes longer, as it connects GPUs.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/comm/nccl.h"
#include "trainer/ops/cuda/device/stream.h"

enum {
    EAGER_US = 200, // how long a wait gives its core away only to come back at once
    NAP_US = 50,
    CONNECT_US = 120 * 1000 * 1000,
    ID_TEXT = 2 * NCCL_UNIQUE_ID_BYTES + 1,
};

static bool reached(uint32_t value, uint32_t wanted)
{
    return (int32_t)(value - wanted) >= 0; // counters wrap
}

static bool has_failed(struct nccl *n)
{
    return atomic_load(&n->failed);
}

static void rest(int64_t since)
{
    if (clock_mono_us() - since < EAGER_US)
        sched_yield();
    else
        clock_sleep_us(NAP_US);
}

// Waits until what NCCL was asked to do is on its way.
static int await_call(struct nccl *n, ncclResult_t result, const char *at, int64_t patience,
                      struct error *e)
{
    struct error why = {0};
    int64_t begin = clock_mono_us();
    while (result == ncclInProgress && !has_failed(n)) {
        if (clock_mono_us() - begin > patience) {
            error_set(&why, ERR_PEER,
                      "NCCL has been at %s among %d ranks for %lld s; NCCL_DEBUG=INFO makes it say "
                      "what it waits for",
                      at, n->base.world, (long long)(patience / 1000000));
            nccl_fail(n, &why, true);
            break;
        }
        rest(begin);
        pthread_mutex_lock(&n->calls);
        if (n->nccl && ncclCommGetAsyncError(n->nccl, &result) != ncclSuccess)
            result = ncclInternalError;
        pthread_mutex_unlock(&n->calls);
    }
    if (has_failed(n))
        return nccl_tell(n, e);
    return result == ncclSuccess ? 0 : nccl_suspect(n, result, at, e);
}

// Operations.

static ncclDataType_t type_of(enum comm_type type)
{
    static const ncclDataType_t types[] = {
        [COMM_INT32] = ncclInt32, [COMM_INT64] = ncclInt64, [COMM_FLOAT] = ncclFloat32};
    return types[type];
}

// The elements of every rank's part, if all have as many; else 0.
static size_t equal_part(const struct nccl *n, const struct comm_work *w)
{
    size_t units = w->count / w->unit, world = (size_t)n->base.world;
    return w->count % w->unit == 0 && units % world == 0 ? units / world * w->unit : 0;
}

static ncclResult_t each_part(struct nccl *n, const struct comm_work *w)
{
    ncclDataType_t type = type_of(w->type);
    ncclRedOp_t op = w->op == COMM_SUM ? ncclSum : ncclMax;
    ncclResult_t result = ncclGroupStart();
    for (int rank = 0; rank < n->base.world && result == ncclSuccess; rank++) {
        struct comm_part part = comm_part(w->count, w->unit, n->base.world, rank);
        size_t count = part.last - part.first;
        char *at = (char *)w->data + part.first * comm_type_bytes(w->type);
        if (count > 0 && w->kind == COMM_REDUCE_SCATTER)
            result = ncclReduce(at, at, count, type, op, rank, n->nccl, n->stream);
        else if (count > 0)
            result = ncclBroadcast(at, at, count, type, rank, n->nccl, n->stream);
    }
    ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static ncclResult_t launch(struct nccl *n, const struct comm_work *w)
{
    ncclDataType_t type = type_of(w->type);
    ncclRedOp_t op = w->op == COMM_SUM ? ncclSum : ncclMax;
    if (w->count == 0) // a barrier adds up what nobody reads
        return ncclAllReduce(n->stage, n->stage, 1, ncclInt32, ncclSum, n->nccl, n->stream);
    if (w->kind == COMM_ALL_REDUCE)
        return ncclAllReduce(w->data, w->data, w->count, type, op, n->nccl, n->stream);
    size_t part = equal_part(n, w);
    if (part == 0)
        return each_part(n, w);
    char *mine = (char *)w->data + (size_t)n->base.rank * part * comm_type_bytes(w->type);
    if (w->kind == COMM_REDUCE_SCATTER)
        return ncclReduceScatter(w->data, mine, part, type, op, n->nccl, n->stream);
    return ncclAllGather(mine, w->data, part, type, n->nccl, n->stream);
}

struct broadcast {
    void *data; // of the GPU
    size_t bytes;
    int root;
};

// Waits, by the clock, for the GPU to end an operation.
static int await(struct nccl *n, uint32_t ticket, struct error *e)
{
    int64_t begin = clock_mono_us();
    for (bool ended = false; !ended && !has_failed(n);) {
        pthread_mutex_lock(&n->lock);
        nccl_count(n);
        ended = reached(n->ended, ticket);
        pthread_mutex_unlock(&n->lock);
        if (!ended)
            rest(begin);
    }
    return has_failed(n) ? nccl_tell(n, e) : 0;
}

// Puts an operation on the stream, after all that the compute stream has to do so far.
static int post(struct nccl *n, const struct comm_work *w, const struct broadcast *b,
                uint32_t *ticket, struct error *e)
{
    int err = await(n, n->posted + 1 - COMM_PENDING_MAX, e); // there is a slot
    if (err)
        return err;
    *ticket = n->posted + 1;
    struct nccl_slot *slot = &n->slots[*ticket % COMM_PENDING_MAX];
    slot->barrier = w && w->count == 0;
    pthread_mutex_lock(&n->lock);
    n->entered = *ticket;
    pthread_mutex_unlock(&n->lock);
    cudaError_t bad = cudaEventRecord(n->ready, n->compute);
    if (!bad)
        bad = cudaStreamWaitEvent(n->stream, n->ready, 0);
    if (!bad)
        bad = cudaEventRecord(slot->begin, n->stream);
    err = nccl_cuda(n, bad, "the beginning of an operation", e);
    if (err)
        return err;
    pthread_mutex_lock(&n->calls);
    ncclResult_t result = ncclInProgress;
    if (n->nccl && w)
        result = launch(n, w);
    else if (n->nccl)
        result = ncclBroadcast(b->data, b->data, b->bytes, ncclInt8, b->root, n->nccl, n->stream);
    pthread_mutex_unlock(&n->calls);
    // The others may be as late as they may be for any operation; the watcher says who is.
    err = await_call(n, result, "an operation", 2 * n->timeout_us, e);
    if (!err)
        err = nccl_cuda(n, cudaEventRecord(slot->end, n->stream), "the end of an operation", e);
    if (err)
        return err;
    pthread_mutex_lock(&n->lock);
    n->posted = *ticket;
    pthread_mutex_unlock(&n->lock);
    return 0;
}

static int nccl_start(struct comm *c, const struct comm_work *work, uint32_t *ticket,
                      struct error *e)
{
    return post((struct nccl *)c, work, NULL, ticket, e);
}

static void note_waited(struct nccl *n, uint32_t ticket)
{
    if (reached(ticket, n->waited))
        n->waited = ticket;
}

// The compute stream waits, not the host: only a barrier is for the host itself.
static int nccl_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    struct nccl_slot *slot = &n->slots[ticket % COMM_PENDING_MAX];
    if (has_failed(n))
        return nccl_tell(n, e);
    note_waited(n, ticket);
    if (n->posted - ticket >= COMM_PENDING_MAX) // it has ended, and others have its place
        return 0;
    if (slot->barrier)
        return await(n, ticket, e);
    return nccl_cuda(n, cudaStreamWaitEvent(n->compute, slot->end, 0), "the wait for an operation",
                     e);
}

// Waits until the compute stream has come to here, that is until there is what was waited for.
static int nccl_settle(struct comm *c, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    int err = nccl_cuda(n, cudaEventRecord(n->here, n->compute), "a wait for the GPU", e);
    int64_t begin = clock_mono_us();
    cudaError_t result = cudaErrorNotReady;
    while (!err && !has_failed(n) && (result = nccl_query(n->here)) == cudaErrorNotReady)
        rest(begin);
    if (err || has_failed(n))
        return err ? err : nccl_tell(n, e);
    return nccl_cuda(n, result, "a wait for the GPU", e);
}

// Broadcast.

static bool is_on_gpu(const void *data)
{
    struct cudaPointerAttributes about = {0};
    cudaError_t result = cudaPointerGetAttributes(&about, data);
    return result == cudaSuccess &&
           (about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged);
}

static int copy_staged(struct nccl *n, void *to, const void *from, size_t bytes, struct error *e)
{
    cudaError_t bad = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, n->stream);
    if (!bad)
        bad = cudaStreamSynchronize(n->stream);
    return nccl_cuda(n, bad, "a copy for a broadcast", e);
}

// The memory of hosts goes through the stage.
static int broadcast_staged(struct nccl *n, char *data, size_t bytes, int root, struct error *e)
{
    int err = 0;
    for (size_t at = 0; at < bytes && !err; at += NCCL_STAGE) {
        size_t part = bytes - at < NCCL_STAGE ? bytes - at : NCCL_STAGE;
        const struct broadcast b = {n->stage, part, root};
        uint32_t ticket = 0;
        if (n->base.rank == root)
            err = copy_staged(n, n->stage, data + at, part, e);
        if (!err)
            err = post(n, NULL, &b, &ticket, e);
        if (!err)
            err = await(n, ticket, e);
        if (!err && n->base.rank != root)
            err = copy_staged(n, data + at, n->stage, part, e);
        note_waited(n, ticket);
    }
    return err;
}

static int nccl_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    uint32_t ticket = 0;
    if (has_failed(n))
        return nccl_tell(n, e);
    if (bytes == 0)
        return 0;
    if (!is_on_gpu(data))
        return broadcast_staged(n, data, bytes, root, e);
    const struct broadcast b = {data, bytes, root};
    int err = post(n, NULL, &b, &ticket, e);
    return err ? err : nccl_wait(c, ticket, e);
}

// The end.

static void nccl_abort(struct comm *c, const char *why)
{
    struct nccl *n = (struct nccl *)c;
    struct error e = {0};
    error_set(&e, ERR_PEER, "rank %d gave up: %s", c->rank, why);
    nccl_fail(n, &e, false);
    comm_abort(n->inner, why);
}

static void free_gpu(struct nccl *n)
{
    for (int i = 0; i < COMM_PENDING_MAX; i++) {
        if (n->slots[i].begin)
            cudaEventDestroy(n->slots[i].begin);
        if (n->slots[i].end)
            cudaEventDestroy(n->slots[i].end);
    }
    if (n->ready)
        cudaEventDestroy(n->ready);
    if (n->here)
        cudaEventDestroy(n->here);
    if (n->stream)
        cudaStreamDestroy(n->stream);
    if (n->base.arena)
        ncclMemFree(n->base.arena);
}

// What hangs is not freed: a kernel may still write to it.
static void leave(struct nccl *n)
{
    if (!nccl_stop_watcher(n))
        return;
    free_gpu(n);
    comm_close(n->inner);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->calls);
    pthread_cond_destroy(&n->wake);
    pthread_cond_destroy(&n->told);
    free(n);
}

static void nccl_close(struct comm *c)
{
    struct nccl *n = (struct nccl *)c;
    struct error e = {0};
    if (n->waited != n->posted) {
        error_set(&e, ERR_PEER, "rank %d left in the middle of an operation", c->rank);
        nccl_fail(n, &e, true);
    }
    await(n, n->posted, &e);
    leave(n);
}

// The beginning.

static int join_hosts(struct nccl *n, const struct comm_config *config, const json_t *everybody,
                      struct error *e)
{
    const struct comm_backend *backend = comm_host_backend(everybody);
    struct comm_config hosts = *config;
    size_t bytes = (size_t)config->world * NCCL_COLUMNS * sizeof *n->rows;
    hosts.arena_bytes = comm_padded(bytes);
    int err = backend->open(&hosts, everybody, &n->inner, e);
    if (err)
        return err;
    n->inner->backend = backend;
    n->rows = comm_alloc(n->inner, bytes);
    return 0;
}

static int make_gpu(struct nccl *n, struct error *e)
{
    int urgent = 0, ordinary = 0;
    void *arena = NULL;
    cudaError_t bad = cudaGetDevice(&n->device);
    n->compute = cuda_stream();
    if (!bad)
        bad = cudaDeviceGetStreamPriorityRange(&ordinary, &urgent);
    if (!bad)
        bad = cudaStreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, urgent);
    if (!bad)
        bad = cudaEventCreateWithFlags(&n->ready, cudaEventDisableTiming);
    if (!bad)
        bad = cudaEventCreateWithFlags(&n->here, cudaEventDisableTiming);
    for (int i = 0; i < COMM_PENDING_MAX && !bad; i++) {
        bad = cudaEventCreateWithFlags(&n->slots[i].begin, cudaEventDefault);
        if (!bad)
            bad = cudaEventCreateWithFlags(&n->slots[i].end, cudaEventDefault);
    }
    if (bad)
        return error_set(e, ERR_IO, "CUDA: %s when communication begins", cudaGetErrorString(bad));
    size_t bytes = n->base.arena_bytes + NCCL_STAGE;
    if (ncclMemAlloc(&arena, bytes) != ncclSuccess)
        return error_set(e, ERR_NO_MEMORY,
                         "the GPU has no %zu MiB of memory for weights and gradients: %s",
                         bytes >> 20, ncclGetLastError(NULL));
    n->base.arena = arena;
    n->stage = n->base.arena + n->base.arena_bytes;
    bad = cudaMemsetAsync(arena, 0, bytes, n->stream);
    if (!bad)
        bad = cudaStreamSynchronize(n->stream);
    return bad ? error_set(e, ERR_IO, "CUDA: %s at zeroing memory", cudaGetErrorString(bad)) : 0;
}

static int library_version(void)
{
    int version = 0;
    ncclGetVersion(&version);
    return version;
}

const char *comm_nccl_version(char *out, size_t cap)
{
    int version = library_version();
    snprintf(out, cap, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return out;
}

// Rank 0 makes the id.
static json_t *introduce(const struct nccl *n, struct error *why)
{
    char text[ID_TEXT] = "";
    ncclUniqueId id;
    if (!why->code && n->base.rank == 0) {
        if (ncclGetUniqueId(&id) == ncclSuccess)
            hex_encode(id.internal, sizeof id.internal, text);
        else
            error_set(why, ERR_IO, "NCCL cannot begin: %s", ncclGetLastError(NULL));
    }
    return json_pack("{s:s, s:i, s:s}", "id", text, "nccl", library_version(), "error", why->text);
}

static int compare(const struct nccl *n, const json_t *all, struct error *e)
{
    const json_t *me = json_array_get(all, (size_t)n->base.rank), *peer;
    int64_t mine = jget_int(me, "nccl", 0);
    size_t rank;
    json_array_foreach(all, rank, peer)
    {
        const char *error = jget_string(peer, "error", "");
        int64_t its = jget_int(peer, "nccl", 0);
        if (*error)
            return error_set(e, ERR_PEER, "rank %zu cannot begin: %s", rank, error);
        if (its != mine)
            return error_set(e, ERR_VERSION,
                             "rank %zu has NCCL %lld, rank %d has %lld: install one version on all "
                             "machines",
                             rank, (long long)its, n->base.rank, (long long)mine);
    }
    return 0;
}

// All hear who cannot begin, and why, before anybody waits in NCCL. `why` comes with what is wrong
// here already.
static int meet(struct nccl *n, const struct comm_config *config, ncclUniqueId *id,
                struct error *why)
{
    struct error lost = {0};
    json_t *all = NULL, *me = introduce(n, why);
    int err = comm_gather(config, me, &all, &lost);
    json_decref(me);
    if (!why->code && err)
        *why = lost;
    if (!why->code)
        compare(n, all, why);
    const char *text = jget_string(json_array_get(all, 0), "id", "");
    if (!why->code && hex_decode(text, id->internal, sizeof id->internal))
        error_set(why, ERR_PEER, "rank 0 did not say how GPUs meet");
    json_decref(all);
    return why->code;
}

static int connect_gpus(struct nccl *n, const ncclUniqueId *id, struct error *e)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    pthread_mutex_lock(&n->calls);
    ncclResult_t result =
        ncclCommInitRankConfig(&n->nccl, n->base.world, *id, n->base.rank, &config);
    pthread_mutex_unlock(&n->calls);
    if (result == ncclSuccess)
        result = ncclInProgress; // of the call; the communicator tells for itself
    return await_call(n, result, "the connection of GPUs",
                      n->timeout_us < CONNECT_US ? n->timeout_us : CONNECT_US, e);
}

// It spares NCCL copies, where it can; and so it is no failure if not.
static void register_arena(struct nccl *n)
{
    pthread_mutex_lock(&n->calls);
    size_t bytes = n->base.arena_bytes + NCCL_STAGE;
    if (n->nccl && ncclCommRegister(n->nccl, n->base.arena, bytes, &n->registration)) {
        log_warn("NCCL copies what it could take where it lies", "error=\"%s\"",
                 ncclGetLastError(NULL));
        n->registration = NULL;
    }
    pthread_mutex_unlock(&n->calls);
}

static struct nccl *new_nccl(const struct comm_config *config)
{
    struct nccl *n = xcalloc(1, sizeof *n);
    pthread_condattr_t monotonic;
    n->base.rank = config->rank;
    n->base.world = config->world;
    n->base.arena_bytes = config->arena_bytes;
    n->timeout_us = config->timeout_us;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&n->lock, NULL);
    pthread_mutex_init(&n->calls, NULL);
    pthread_cond_init(&n->wake, &monotonic);
    pthread_cond_init(&n->told, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return n;
}

static int nccl_open(const struct comm_config *config, const json_t *everybody, struct comm **out,
                     struct error *e)
{
    struct nccl *n = new_nccl(config);
    struct error why = {0};
    ncclUniqueId id;
    int err = join_hosts(n, config, everybody, &why);
    if (!err) {
        make_gpu(n, &why);
        err = meet(n, config, &id, &why);
    }
    if (!err)
        err = nccl_start_watcher(n, &why);
    if (!err)
        err = connect_gpus(n, &id, &why);
    if (err) {
        leave(n);
        return error_set(e, err, "%s", why.text);
    }
    register_arena(n);
    *out = &n->base;
    return 0;
}

const struct comm_backend comm_nccl_backend = {
    .name = "nccl",
    .open = nccl_open,
    .close = nccl_close,
    .start = nccl_start,
    .wait = nccl_wait,
    .settle = nccl_settle,
    .broadcast = nccl_broadcast,
    .abort = nccl_abort,
};
