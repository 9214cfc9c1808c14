// Backend `nccl`: GPUs. nccl.h describes its design.
//
// NCCL's reduce-scatter and all-gather require parts of equal size, while ours may differ by one
// unit. Equal parts take one NCCL operation. Otherwise one reduction or broadcast for each part is
// issued in one NCCL group; the traffic is the same, but each part has its own ring. Padding could
// not replace this, because the parts are adjacent in the arena. The reducer therefore cuts its
// buckets into equal parts.
//
// An NCCL call may return before its work is on the stream. Nothing else may be enqueued on the
// stream until then, so await_call() waits for it. This is short, except for the first operation of
// a kind, which connects GPUs.
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
    EAGER_US = 200, // waits yield the core for this long before they start to sleep
    NAP_US = 50,
    CONNECT_US = 120 * 1000 * 1000,
    LAST_WORK_US = 10 * 1000 * 1000, // how long comm_close() waits for the compute stream
    ID_TEXT = 2 * NCCL_UNIQUE_ID_BYTES + 1,
};

static bool counter_reached(uint32_t value, uint32_t wanted)
{
    return (int32_t)(value - wanted) >= 0; // counters wrap
}

static bool nccl_failed(struct nccl *n)
{
    return atomic_load(&n->failed);
}

static void yield_or_sleep(int64_t since)
{
    if (clock_mono_us() - since < EAGER_US)
        sched_yield();
    else
        clock_sleep_us(NAP_US);
}

// Waits until NCCL has enqueued the work of a call.
static int await_call(struct nccl *n, ncclResult_t result, const char *at, int64_t patience,
                      struct error *e)
{
    struct error why = {0};
    int64_t begin = clock_mono_us();
    while (result == ncclInProgress && !nccl_failed(n)) {
        if (clock_mono_us() - begin > patience) {
            error_set(
                &why, ERR_PEER,
                "NCCL has not finished %s among %d ranks within %lld s; NCCL_DEBUG=INFO shows "
                "what it waits for",
                at, n->base.world, (long long)(patience / 1000000));
            nccl_fail(n, &why, true);
            break;
        }
        yield_or_sleep(begin);
        pthread_mutex_lock(&n->calls);
        if (n->nccl && ncclCommGetAsyncError(n->nccl, &result) != ncclSuccess)
            result = ncclInternalError;
        pthread_mutex_unlock(&n->calls);
    }
    if (nccl_failed(n))
        return nccl_report_failure(n, e);
    return result == ncclSuccess ? 0 : nccl_suspect(n, result, at, e);
}

// --- operations ----------------------------------------------------------------------------------

static ncclDataType_t type_of(enum comm_type type)
{
    static const ncclDataType_t types[] = {
        [COMM_INT32] = ncclInt32, [COMM_INT64] = ncclInt64, [COMM_FLOAT] = ncclFloat32};
    return types[type];
}

// The number of elements in every part if all parts are equal; otherwise 0.
static size_t equal_part(const struct nccl *n, const struct comm_work *w)
{
    size_t units = w->count / w->unit, world = (size_t)n->base.world;
    return w->count % w->unit == 0 && units % world == 0 ? units / world * w->unit : 0;
}

static ncclResult_t launch_each_part(struct nccl *n, const struct comm_work *w)
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

static ncclResult_t launch_collective(struct nccl *n, const struct comm_work *w)
{
    ncclDataType_t type = type_of(w->type);
    ncclRedOp_t op = w->op == COMM_SUM ? ncclSum : ncclMax;
    if (w->count == 0) // a barrier: the sum is not used
        return ncclAllReduce(n->stage, n->stage, 1, ncclInt32, ncclSum, n->nccl, n->stream);
    if (w->kind == COMM_ALL_REDUCE)
        return ncclAllReduce(w->data, w->data, w->count, type, op, n->nccl, n->stream);
    size_t part = equal_part(n, w);
    if (part == 0)
        return launch_each_part(n, w);
    char *mine = (char *)w->data + (size_t)n->base.rank * part * comm_type_bytes(w->type);
    if (w->kind == COMM_REDUCE_SCATTER)
        return ncclReduceScatter(w->data, mine, part, type, op, n->nccl, n->stream);
    return ncclAllGather(mine, w->data, part, type, n->nccl, n->stream);
}

struct nccl_broadcast_work {
    void *data; // on the GPU
    size_t bytes;
    int root;
};

// Blocks the host until the GPU has finished an operation.
static int await_operation(struct nccl *n, uint32_t ticket, struct error *e)
{
    int64_t begin = clock_mono_us();
    for (bool ended = false; !ended && !nccl_failed(n);) {
        pthread_mutex_lock(&n->lock);
        nccl_update_progress(n);
        ended = counter_reached(n->ended, ticket);
        pthread_mutex_unlock(&n->lock);
        if (!ended)
            yield_or_sleep(begin);
    }
    return nccl_failed(n) ? nccl_report_failure(n, e) : 0;
}

// Enqueues an operation behind all current work of the compute stream.
static int post_operation(struct nccl *n, const struct comm_work *w,
                          const struct nccl_broadcast_work *b, uint32_t *ticket, struct error *e)
{
    int err = await_operation(n, n->posted + 1 - COMM_PENDING_MAX, e); // frees a slot
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
    err = nccl_cuda(n, bad, "the start of an operation", e);
    if (err)
        return err;
    pthread_mutex_lock(&n->calls);
    ncclResult_t result = ncclInProgress;
    if (n->nccl && w)
        result = launch_collective(n, w);
    else if (n->nccl)
        result = ncclBroadcast(b->data, b->data, b->bytes, ncclInt8, b->root, n->nccl, n->stream);
    pthread_mutex_unlock(&n->calls);
    // Peers may be late by the timeout of an operation; the watcher then reports which rank is
    // late.
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
    return post_operation((struct nccl *)c, work, NULL, ticket, e);
}

static void set_waited(struct nccl *n, uint32_t ticket)
{
    if (counter_reached(ticket, n->waited))
        n->waited = ticket;
}

// Makes the compute stream wait. Only a barrier blocks the host.
static int nccl_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    struct nccl_slot *slot = &n->slots[ticket % COMM_PENDING_MAX];
    if (nccl_failed(n))
        return nccl_report_failure(n, e);
    set_waited(n, ticket);
    if (n->posted - ticket >= COMM_PENDING_MAX) // it has ended, and its slot is in use again
        return 0;
    if (slot->barrier)
        return await_operation(n, ticket, e);
    return nccl_cuda(n, cudaStreamWaitEvent(n->compute, slot->end, 0), "the wait for an operation",
                     e);
}

// Blocks the host until the compute stream has reached this point.
static int nccl_synchronize(struct comm *c, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    int err = nccl_cuda(n, cudaEventRecord(n->compute_done, n->compute), "a wait for the GPU", e);
    int64_t begin = clock_mono_us();
    cudaError_t result = cudaErrorNotReady;
    while (!err && !nccl_failed(n) && (result = nccl_query(n->compute_done)) == cudaErrorNotReady)
        yield_or_sleep(begin);
    if (err || nccl_failed(n))
        return err ? err : nccl_report_failure(n, e);
    return nccl_cuda(n, result, "a wait for the GPU", e);
}

// --- broadcast -----------------------------------------------------------------------------------

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

// Host memory is copied through the staging buffer on the GPU.
static int broadcast_staged(struct nccl *n, char *data, size_t bytes, int root, struct error *e)
{
    int err = 0;
    for (size_t at = 0; at < bytes && !err; at += NCCL_STAGE) {
        size_t part = bytes - at < NCCL_STAGE ? bytes - at : NCCL_STAGE;
        const struct nccl_broadcast_work b = {n->stage, part, root};
        uint32_t ticket = 0;
        if (n->base.rank == root)
            err = copy_staged(n, n->stage, data + at, part, e);
        if (!err)
            err = post_operation(n, NULL, &b, &ticket, e);
        if (!err)
            err = await_operation(n, ticket, e);
        if (!err && n->base.rank != root)
            err = copy_staged(n, data + at, n->stage, part, e);
        set_waited(n, ticket);
    }
    return err;
}

static int nccl_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    struct nccl *n = (struct nccl *)c;
    uint32_t ticket = 0;
    if (nccl_failed(n))
        return nccl_report_failure(n, e);
    if (bytes == 0)
        return 0;
    if (!is_on_gpu(data))
        return broadcast_staged(n, data, bytes, root, e);
    const struct nccl_broadcast_work b = {data, bytes, root};
    int err = post_operation(n, NULL, &b, &ticket, e);
    return err ? err : nccl_wait(c, ticket, e);
}

// --- closing -------------------------------------------------------------------------------------

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
    if (n->compute_done)
        cudaEventDestroy(n->compute_done);
    if (n->stream)
        cudaStreamDestroy(n->stream);
    if (n->base.arena)
        ncclMemFree(n->base.arena);
}

// Returns whether the compute stream has ended its work. After a failure, copies and kernels that
// wait for the aborted operations still follow, and they use the arena.
static bool compute_ended(struct nccl *n)
{
    int64_t begin = clock_mono_us();
    if (!n->compute_done || cudaEventRecord(n->compute_done, n->compute) != cudaSuccess)
        return true; // nothing was enqueued, or the GPU has failed
    while (nccl_query(n->compute_done) == cudaErrorNotReady) {
        if (clock_mono_us() - begin > LAST_WORK_US) {
            log_warn("the GPU hangs; its memory stays allocated until this process exits",
                     "rank=%d", n->base.rank);
            return false;
        }
        yield_or_sleep(begin);
    }
    return true;
}

// Frees everything, unless an operation hangs: then a kernel may still write to the memory.
static void nccl_free(struct nccl *n)
{
    if (!nccl_stop_watcher(n) || !compute_ended(n))
        return;
    free_gpu(n);
    comm_close(n->inner);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->calls);
    pthread_cond_destroy(&n->wake);
    pthread_cond_destroy(&n->news);
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
    await_operation(n, n->posted, &e);
    nccl_free(n);
}

// --- opening -------------------------------------------------------------------------------------

static int open_inner(struct nccl *n, const struct comm_config *config, const json_t *peers,
                      struct error *e)
{
    const struct comm_backend *backend = comm_host_backend(peers);
    struct comm_config hosts = *config;
    size_t bytes = (size_t)config->world * NCCL_COLUMNS * sizeof *n->rows;
    hosts.arena_bytes = comm_padded(bytes);
    int err = backend->open(&hosts, peers, &n->inner, e);
    if (err)
        return err;
    n->inner->backend = backend;
    n->rows = comm_alloc(n->inner, bytes);
    return 0;
}

static int open_gpu(struct nccl *n, struct error *e)
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
        bad = cudaEventCreateWithFlags(&n->compute_done, cudaEventDisableTiming);
    for (int i = 0; i < COMM_PENDING_MAX && !bad; i++) {
        bad = cudaEventCreateWithFlags(&n->slots[i].begin, cudaEventDefault);
        if (!bad)
            bad = cudaEventCreateWithFlags(&n->slots[i].end, cudaEventDefault);
    }
    if (bad)
        return error_set(e, ERR_IO, "CUDA: %s while opening NCCL", cudaGetErrorString(bad));
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
    return bad ? error_set(e, ERR_IO, "CUDA: %s while zeroing memory", cudaGetErrorString(bad)) : 0;
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

// Builds this rank's rendezvous message. Rank 0 creates NCCL's unique id.
static json_t *make_introduction(const struct nccl *n, struct error *why)
{
    char text[ID_TEXT] = "";
    ncclUniqueId id;
    if (!why->code && n->base.rank == 0) {
        if (ncclGetUniqueId(&id) == ncclSuccess)
            hex_encode(id.internal, sizeof id.internal, text);
        else
            error_set(why, ERR_IO, "NCCL cannot start: %s", ncclGetLastError(NULL));
    }
    return json_pack("{s:s, s:i, s:s}", "id", text, "nccl", library_version(), "error", why->text);
}

static int check_introductions(const struct nccl *n, const json_t *all, struct error *e)
{
    const json_t *me = json_array_get(all, (size_t)n->base.rank), *peer;
    int64_t mine = jget_int(me, "nccl", 0);
    size_t rank;
    json_array_foreach(all, rank, peer)
    {
        const char *error = jget_string(peer, "error", "");
        int64_t its = jget_int(peer, "nccl", 0);
        if (*error)
            return error_set(e, ERR_PEER, "rank %zu cannot start: %s", rank, error);
        if (its != mine)
            return error_set(e, ERR_VERSION,
                             "rank %zu has NCCL %lld, rank %d has %lld: install one version on all "
                             "machines",
                             rank, (long long)its, n->base.rank, (long long)mine);
    }
    return 0;
}

// Tells all ranks whether one of them cannot start, and why, before any rank waits in NCCL. `why`
// contains the failure of this rank, if there is one already.
static int exchange_id(struct nccl *n, const struct comm_config *config, ncclUniqueId *id,
                       struct error *why)
{
    struct error lost = {0};
    json_t *all = NULL, *me = make_introduction(n, why);
    int err = comm_rendezvous_gather(config, me, &all, &lost);
    json_decref(me);
    if (!why->code && err)
        *why = lost;
    if (!why->code)
        check_introductions(n, all, why);
    const char *text = jget_string(json_array_get(all, 0), "id", "");
    if (!why->code && hex_decode(text, id->internal, sizeof id->internal))
        error_set(why, ERR_PEER, "rank 0 published no NCCL id");
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
        result = ncclInProgress; // this was the call's result; now wait for the communicator
    return await_call(n, result, "the connection of GPUs",
                      n->timeout_us < CONNECT_US ? n->timeout_us : CONNECT_US, e);
}

// Registration saves NCCL copies. Without it NCCL still works, so a failure is only logged.
static void register_arena(struct nccl *n)
{
    pthread_mutex_lock(&n->calls);
    size_t bytes = n->base.arena_bytes + NCCL_STAGE;
    if (n->nccl && ncclCommRegister(n->nccl, n->base.arena, bytes, &n->registration)) {
        log_warn("NCCL could not register the buffers and will copy them", "error=\"%s\"",
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
    pthread_cond_init(&n->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return n;
}

// NCCL sends gradients between machines in clear, whatever its settings.
static int check_encryption(const struct comm_config *config, const json_t *peers, struct error *e)
{
    for (int i = 1; config->encrypt && i < config->world; i++)
        if (!comm_same_machine(peers, 0, i))
            return error_set(e, ERR_INVALID,
                             "trainer.encrypt_network is set, but NCCL cannot encrypt, and the "
                             "GPUs of rank 0 and rank %d are on different machines. Set "
                             "resources.is_single_node, train on CPU slots, or encrypt the network "
                             "of these machines (WireGuard, IPsec) and remove encrypt_network",
                             i);
    return 0;
}

static int nccl_open(const struct comm_config *config, const json_t *peers, struct comm **out,
                     struct error *e)
{
    struct nccl *n = new_nccl(config);
    struct error why = {0};
    ncclUniqueId id;
    int err = check_encryption(config, peers, &why);
    if (!err)
        err = open_inner(n, config, peers, &why);
    if (!err) {
        open_gpu(n, &why);
        err = exchange_id(n, config, &id, &why);
    }
    if (!err)
        err = nccl_start_watcher(n, &why);
    if (!err)
        err = connect_gpus(n, &id, &why);
    if (err) {
        nccl_free(n);
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
    .synchronize = nccl_synchronize,
    .broadcast = nccl_broadcast,
    .abort = nccl_abort,
};
