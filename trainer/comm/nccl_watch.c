// The watcher: how far everybody is, who is late or lost, and the end of NCCL's communicator.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainer/comm/nccl.h"

enum {
    BEAT_US = 200 * 1000,
    GRACE_US = 600 * 1000,   // a death makes NCCL complain before the watcher has seen it
    ABORT_US = 1000 * 1000,  // how long an abort waits for a call of NCCL to return
    LEAVE_US = 10000 * 1000, // ... and a rank that leaves for the others
    END_US = 10000 * 1000,   // ... and comm_close() for the abort
    TURN_US = 1000,
};

// Failures.

static void record(struct nccl *n, const struct error *why, bool own)
{
    if (n->error.code)
        return;
    n->error = *why;
    n->own = own;
    atomic_store(&n->failed, true);
    pthread_cond_broadcast(&n->told);
    pthread_cond_broadcast(&n->wake);
}

void nccl_fail(struct nccl *n, const struct error *why, bool own)
{
    pthread_mutex_lock(&n->lock);
    record(n, why, own);
    pthread_mutex_unlock(&n->lock);
}

int nccl_tell(struct nccl *n, struct error *e)
{
    pthread_mutex_lock(&n->lock);
    int err = error_set(e, n->error.code, "%s", n->error.text);
    pthread_mutex_unlock(&n->lock);
    return err;
}

static void suspect(struct nccl *n, ncclResult_t result, const char *at)
{
    if (n->suspicion.code || n->error.code)
        return;
    error_set(&n->suspicion, ERR_IO, "NCCL: %s at %s: %s; NCCL_DEBUG=INFO makes it say more",
              ncclGetErrorString(result), at, ncclGetLastError(NULL));
    n->suspected_at = clock_mono_us();
}

int nccl_suspect(struct nccl *n, ncclResult_t result, const char *at, struct error *e)
{
    pthread_mutex_lock(&n->lock);
    suspect(n, result, at);
    while (!n->error.code)
        pthread_cond_wait(&n->told, &n->lock);
    pthread_mutex_unlock(&n->lock);
    return nccl_tell(n, e);
}

int nccl_cuda(struct nccl *n, cudaError_t result, const char *at, struct error *e)
{
    struct error why = {0};
    if (result == cudaSuccess)
        return 0;
    error_set(&why, ERR_IO, "CUDA: %s at %s", cudaGetErrorString(result), at);
    nccl_fail(n, &why, true);
    return nccl_tell(n, e);
}

// What the GPU has done.

// That it has not come is an error for CUDA, which a later call would tell.
cudaError_t nccl_query(cudaEvent_t event)
{
    cudaError_t result = cudaEventQuery(event);
    if (result == cudaErrorNotReady)
        cudaGetLastError();
    return result;
}

// Whether the event has come; a GPU that failed is recorded.
static bool has_come(struct nccl *n, cudaEvent_t event)
{
    struct error why = {0};
    cudaError_t result = nccl_query(event);
    if (result == cudaSuccess || result == cudaErrorNotReady)
        return result == cudaSuccess;
    error_set(&why, ERR_IO, "CUDA: %s while ranks communicate", cudaGetErrorString(result));
    record(n, &why, true);
    return false;
}

void nccl_count(struct nccl *n)
{
    float ms = 0;
    while (n->begun != n->posted && has_come(n, n->slots[(n->begun + 1) % COMM_PENDING_MAX].begin))
        n->begun++;
    while (n->ended != n->begun) {
        const struct nccl_slot *slot = &n->slots[(n->ended + 1) % COMM_PENDING_MAX];
        if (!has_come(n, slot->end))
            break;
        if (cudaEventElapsedTime(&ms, slot->begin, slot->end) == cudaSuccess)
            atomic_fetch_add(&n->base.aside_us, (int64_t)(ms * 1000));
        n->ended++;
    }
}

// NCCL finds out by itself what happens to its connections.
static void ask_nccl(struct nccl *n)
{
    ncclResult_t result = ncclSuccess;
    if (pthread_mutex_trylock(&n->calls)) // a call is in progress, and will tell
        return;
    if (n->nccl && ncclCommGetAsyncError(n->nccl, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress)
        suspect(n, result, "an operation");
    pthread_mutex_unlock(&n->calls);
}

// The table.

static int32_t *row_of(const struct nccl *n, int rank)
{
    return n->rows + (ptrdiff_t)rank * NCCL_COLUMNS;
}

// Shows the others how far this rank is, and sees how far they are. The lock is held, but not
// meanwhile.
static int beat(struct nccl *n, struct error *e)
{
    int32_t mine[NCCL_COLUMNS] = {
        [NCCL_ENTERED] = (int32_t)n->entered,
        [NCCL_BEGUN] = (int32_t)n->begun,
        [NCCL_ENDED] = (int32_t)n->ended,
        [NCCL_LEAVING] = n->leaving,
        [NCCL_CLOCK] = n->base.rank == 0 ? (int32_t)(clock_mono_us() / 100000) : 0,
    };
    pthread_mutex_unlock(&n->lock);
    size_t count = (size_t)n->base.world * NCCL_COLUMNS;
    memset(n->rows, 0, count * sizeof *n->rows);
    memcpy(row_of(n, n->base.rank), mine, sizeof mine);
    int err = comm_all_reduce(n->inner, n->rows, count, COMM_INT32, COMM_SUM, e);
    pthread_mutex_lock(&n->lock);
    return err;
}

static bool is_behind(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0; // counters wrap
}

// The rank that is behind all others at a stage; -1: none is. An operation that all have begun and
// none has ended is behind as well.
static int last_at(const struct nccl *n, enum nccl_column stage)
{
    int last = 0, first = 0;
    enum nccl_column goal = stage == NCCL_ENDED ? NCCL_BEGUN : stage;
    for (int r = 1; r < n->base.world; r++) {
        if (is_behind(row_of(n, r)[stage], row_of(n, last)[stage]))
            last = r;
        if (is_behind(row_of(n, first)[goal], row_of(n, r)[goal]))
            first = r;
    }
    return is_behind(row_of(n, last)[stage], row_of(n, first)[goal]) ? last : -1;
}

static void tell_late(struct nccl *n, enum nccl_column stage, int rank)
{
    static const char *const words[NCCL_STAGES] = {
        [NCCL_ENTERED] = "its process is alive but has not come to operation %u for %lld s",
        [NCCL_BEGUN] = "its GPU has not come to operation %u for %lld s",
        [NCCL_ENDED] = "its GPU has not finished operation %u, which all have begun, for %lld s",
    };
    char what[128];
    struct error why = {0};
    unsigned operation = (unsigned)row_of(n, rank)[stage] + 1;
    snprintf(what, sizeof what, words[stage], operation, (long long)(n->timeout_us / 1000000));
    error_set(&why, ERR_PEER, "rank %d hangs: %s", rank, what);
    record(n, &why, false);
}

// Everybody sees the same tables, so that all name the same rank at the same beat.
static void look_for_the_late(struct nccl *n)
{
    int32_t now = row_of(n, 0)[NCCL_CLOCK];
    for (int stage = 0; stage < NCCL_STAGES; stage++) {
        struct nccl_delay *delay = &n->delays[stage];
        int rank = last_at(n, (enum nccl_column)stage);
        uint32_t at = rank < 0 ? 0 : (uint32_t)row_of(n, rank)[stage];
        if (rank < 0 || rank != delay->rank || at != delay->at)
            *delay = (struct nccl_delay){.rank = rank, .at = at, .since = now};
        else if ((int64_t)(now - delay->since) * 100000 > n->timeout_us)
            tell_late(n, (enum nccl_column)stage, rank);
    }
}

static bool all_leave(const struct nccl *n)
{
    for (int r = 0; r < n->base.world; r++)
        if (!row_of(n, r)[NCCL_LEAVING])
            return false;
    return true;
}

// The thread.

static struct timespec after(int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += us % 1000000 * 1000;
    t.tv_sec += us / 1000000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void nap(struct nccl *n)
{
    struct timespec until = after(BEAT_US);
    bool leaving = n->leaving;
    while (!n->error.code && n->leaving == leaving &&
           pthread_cond_timedwait(&n->wake, &n->lock, &until) != ETIMEDOUT)
        ;
}

// NCCL's kernels end, and whoever waits for them goes on. It also serves as the ordinary end, when
// all ranks are done: it never waits for a peer.
static void end_nccl(struct nccl *n)
{
    int64_t begin = clock_mono_us();
    bool locked = false;
    while (!locked && clock_mono_us() - begin < ABORT_US) {
        locked = pthread_mutex_trylock(&n->calls) == 0;
        if (!locked)
            clock_sleep_us(TURN_US);
    }
    ncclComm_t nccl = n->nccl;
    n->nccl = NULL;
    if (locked && nccl && n->registration && !atomic_load(&n->failed))
        ncclCommDeregister(nccl, n->registration);
    if (locked)
        pthread_mutex_unlock(&n->calls);
    if (nccl)
        ncclCommAbort(nccl);
}

static void *watch(void *arg)
{
    struct nccl *n = arg;
    cudaSetDevice(n->device);
    pthread_mutex_lock(&n->lock);
    while (!n->error.code && !n->left) {
        struct error e = {0};
        nccl_count(n);
        ask_nccl(n);
        if (n->suspicion.code && clock_mono_us() - n->suspected_at > GRACE_US)
            record(n, &n->suspicion, true);
        if (n->error.code)
            break;
        if (beat(n, &e)) {
            record(n, &e, false);
            break;
        }
        look_for_the_late(n);
        n->left = all_leave(n);
        if (!n->left)
            nap(n);
    }
    struct error why = n->error;
    bool own = n->own;
    pthread_mutex_unlock(&n->lock);
    if (own)
        comm_abort(n->inner, why.text);
    end_nccl(n);
    pthread_mutex_lock(&n->lock);
    n->gone = true;
    pthread_cond_broadcast(&n->told);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

// Signals are for the compute thread.
int nccl_start_watcher(struct nccl *n, struct error *e)
{
    sigset_t all, before;
    for (int stage = 0; stage < NCCL_STAGES; stage++)
        n->delays[stage].rank = -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int no = pthread_create(&n->watcher, NULL, watch, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    n->watched = no == 0;
    return no ? error_set_errno(e, ERR_INTERNAL, no, "no thread to watch the ranks") : 0;
}

// Whether the watcher has ended; the lock is held.
static bool await_end(struct nccl *n, int64_t patience)
{
    struct timespec until = after(patience);
    while (!n->gone && pthread_cond_timedwait(&n->told, &n->lock, &until) != ETIMEDOUT)
        ;
    return n->gone;
}

bool nccl_stop_watcher(struct nccl *n)
{
    struct error why = {0};
    if (!n->watched)
        return true;
    error_set(&why, ERR_PEER, "rank %d has left before the others were done", n->base.rank);
    pthread_mutex_lock(&n->lock);
    n->leaving = true;
    pthread_cond_broadcast(&n->wake);
    if (!await_end(n, LEAVE_US))
        record(n, &why, true);
    bool gone = await_end(n, END_US);
    pthread_mutex_unlock(&n->lock);
    if (gone)
        pthread_join(n->watcher, NULL);
    else
        log_warn("NCCL does not end; its memory is left to the end of this process", "rank=%d",
                 n->base.rank);
    return gone;
}
