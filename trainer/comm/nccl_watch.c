// The watcher: the ranks' progress, late or lost ranks, and the end of NCCL's communicator.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainer/comm/nccl.h"

enum {
    BEAT_US = 200 * 1000,
    GRACE_US = 600 * 1000,   // NCCL may complain about a death before the watcher has seen it
    ABORT_US = 1000 * 1000,  // how long an abort waits for a call of NCCL to return
    LEAVE_US = 10000 * 1000, // how long a leaving rank waits for the others
    END_US = 10000 * 1000,   // how long comm_close() waits for the abort
    TURN_US = 1000,
};

// --- failures ------------------------------------------------------------------------------------

static void record_failure(struct nccl *n, const struct error *why, bool own)
{
    if (n->error.code)
        return;
    n->error = *why;
    n->own = own;
    atomic_store(&n->failed, true);
    pthread_cond_broadcast(&n->news);
    pthread_cond_broadcast(&n->wake);
}

void nccl_fail(struct nccl *n, const struct error *why, bool own)
{
    pthread_mutex_lock(&n->lock);
    record_failure(n, why, own);
    pthread_mutex_unlock(&n->lock);
}

int nccl_report_failure(struct nccl *n, struct error *e)
{
    pthread_mutex_lock(&n->lock);
    int err = error_set(e, n->error.code, "%s", n->error.text);
    pthread_mutex_unlock(&n->lock);
    return err;
}

static void set_suspicion(struct nccl *n, ncclResult_t result, const char *at)
{
    if (n->suspicion.code || n->error.code)
        return;
    error_set(&n->suspicion, ERR_IO, "NCCL: %s at %s: %s; NCCL_DEBUG=INFO shows more",
              ncclGetErrorString(result), at, ncclGetLastError(NULL));
    n->suspected_at = clock_mono_us();
}

int nccl_suspect(struct nccl *n, ncclResult_t result, const char *at, struct error *e)
{
    pthread_mutex_lock(&n->lock);
    set_suspicion(n, result, at);
    while (!n->error.code)
        pthread_cond_wait(&n->news, &n->lock);
    pthread_mutex_unlock(&n->lock);
    return nccl_report_failure(n, e);
}

int nccl_cuda(struct nccl *n, cudaError_t result, const char *at, struct error *e)
{
    struct error why = {0};
    if (result == cudaSuccess)
        return 0;
    error_set(&why, ERR_IO, "CUDA: %s at %s", cudaGetErrorString(result), at);
    nccl_fail(n, &why, true);
    return nccl_report_failure(n, e);
}

// --- progress of the GPU -------------------------------------------------------------------------

// Clears cudaErrorNotReady, which CUDA would otherwise return from a later cudaGetLastError().
cudaError_t nccl_query(cudaEvent_t event)
{
    cudaError_t result = cudaEventQuery(event);
    if (result == cudaErrorNotReady)
        cudaGetLastError();
    return result;
}

// Returns whether the event has happened. Records a failure of the GPU.
static bool event_done(struct nccl *n, cudaEvent_t event)
{
    struct error why = {0};
    cudaError_t result = nccl_query(event);
    if (result == cudaSuccess || result == cudaErrorNotReady)
        return result == cudaSuccess;
    error_set(&why, ERR_IO, "CUDA: %s while ranks communicate", cudaGetErrorString(result));
    record_failure(n, &why, true);
    return false;
}

void nccl_update_progress(struct nccl *n)
{
    float ms = 0;
    while (n->begun != n->posted &&
           event_done(n, n->slots[(n->begun + 1) % COMM_PENDING_MAX].begin))
        n->begun++;
    while (n->ended != n->begun) {
        const struct nccl_slot *slot = &n->slots[(n->ended + 1) % COMM_PENDING_MAX];
        if (!event_done(n, slot->end))
            break;
        if (cudaEventElapsedTime(&ms, slot->begin, slot->end) == cudaSuccess)
            atomic_fetch_add(&n->base.background_us, (int64_t)(ms * 1000));
        n->ended++;
    }
}

// Asks NCCL whether its connections have failed.
static void poll_nccl(struct nccl *n)
{
    ncclResult_t result = ncclSuccess;
    if (pthread_mutex_trylock(&n->calls)) // a call is in progress and will report the failure
        return;
    if (n->nccl && ncclCommGetAsyncError(n->nccl, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress)
        set_suspicion(n, result, "an operation");
    pthread_mutex_unlock(&n->calls);
}

// --- the progress table --------------------------------------------------------------------------

static int32_t *row_of(const struct nccl *n, int rank)
{
    return n->rows + (ptrdiff_t)rank * NCCL_COLUMNS;
}

// Exchanges the rows of all ranks. Releases the lock, which the caller holds, during the exchange.
static int exchange_progress(struct nccl *n, struct error *e)
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

// The operations that all ranks have begun, as the number of the last one.
static int32_t begun_by_all(const struct nccl *n)
{
    int32_t least = row_of(n, 0)[NCCL_BEGUN];
    for (int r = 1; r < n->base.world; r++)
        if (is_behind(row_of(n, r)[NCCL_BEGUN], least))
            least = row_of(n, r)[NCCL_BEGUN];
    return least;
}

// The rank that is behind all others at a stage; -1: none is. At the stage NCCL_ENDED a rank is
// behind if it has not ended an operation that all ranks have begun: while one GPU has not begun
// it, the others cannot end it.
static int last_rank_at(const struct nccl *n, enum nccl_column stage)
{
    int last = 0, first = 0;
    for (int r = 1; r < n->base.world; r++) {
        if (is_behind(row_of(n, r)[stage], row_of(n, last)[stage]))
            last = r;
        if (is_behind(row_of(n, first)[stage], row_of(n, r)[stage]))
            first = r;
    }
    int32_t goal = stage == NCCL_ENDED ? begun_by_all(n) : row_of(n, first)[stage];
    return is_behind(row_of(n, last)[stage], goal) ? last : -1;
}

static void report_late(struct nccl *n, enum nccl_column stage, int rank)
{
    static const char *const words[NCCL_STAGES] = {
        [NCCL_ENTERED] = "its process is alive but has not reached operation %u for %lld s",
        [NCCL_BEGUN] = "its GPU has not reached operation %u for %lld s",
        [NCCL_ENDED] = "its GPU has not finished operation %u, which all have begun, for %lld s",
    };
    char what[128];
    struct error why = {0};
    unsigned operation = (unsigned)row_of(n, rank)[stage] + 1;
    snprintf(what, sizeof what, words[stage], operation, (long long)(n->timeout_us / 1000000));
    error_set(&why, ERR_PEER, "rank %d hangs: %s", rank, what);
    record_failure(n, &why, false);
}

// All ranks see the same table, so all name the same rank at the same beat.
static void find_late_rank(struct nccl *n)
{
    int32_t now = row_of(n, 0)[NCCL_CLOCK];
    for (int stage = 0; stage < NCCL_STAGES; stage++) {
        struct nccl_delay *delay = &n->delays[stage];
        int rank = last_rank_at(n, (enum nccl_column)stage);
        uint32_t at = rank < 0 ? 0 : (uint32_t)row_of(n, rank)[stage];
        if (rank < 0 || rank != delay->rank || at != delay->at)
            *delay = (struct nccl_delay){.rank = rank, .at = at, .since = now};
        else if ((int64_t)(now - delay->since) * 100000 > n->timeout_us)
            report_late(n, (enum nccl_column)stage, rank);
    }
}

static bool all_ranks_leave(const struct nccl *n)
{
    for (int r = 0; r < n->base.world; r++)
        if (!row_of(n, r)[NCCL_LEAVING])
            return false;
    return true;
}

// --- the thread ----------------------------------------------------------------------------------

static struct timespec deadline_in(int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += us % 1000000 * 1000;
    t.tv_sec += us / 1000000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void wait_beat(struct nccl *n)
{
    struct timespec until = deadline_in(BEAT_US);
    bool leaving = n->leaving;
    while (!n->error.code && n->leaving == leaving &&
           pthread_cond_timedwait(&n->wake, &n->lock, &until) != ETIMEDOUT)
        ;
}

// Aborts NCCL: its kernels end, and waiters continue. It also serves as the normal end, when all
// ranks are done, because it never waits for a peer.
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

static void *run_watcher(void *arg)
{
    struct nccl *n = arg;
    cudaSetDevice(n->device);
    pthread_mutex_lock(&n->lock);
    while (!n->error.code && !n->left) {
        struct error e = {0};
        nccl_update_progress(n);
        poll_nccl(n);
        if (n->suspicion.code && clock_mono_us() - n->suspected_at > GRACE_US)
            record_failure(n, &n->suspicion, true);
        if (n->error.code)
            break;
        if (exchange_progress(n, &e)) {
            record_failure(n, &e, false);
            break;
        }
        find_late_rank(n);
        n->left = all_ranks_leave(n);
        if (!n->left)
            wait_beat(n);
    }
    struct error why = n->error;
    bool own = n->own;
    pthread_mutex_unlock(&n->lock);
    if (own)
        comm_abort(n->inner, why.text);
    end_nccl(n);
    pthread_mutex_lock(&n->lock);
    n->watcher_ended = true;
    pthread_cond_broadcast(&n->news);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

// The watcher blocks all signals; the compute thread handles them.
int nccl_start_watcher(struct nccl *n, struct error *e)
{
    sigset_t all, before;
    for (int stage = 0; stage < NCCL_STAGES; stage++)
        n->delays[stage].rank = -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int no = pthread_create(&n->watcher, NULL, run_watcher, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    n->watched = no == 0;
    return no ? error_set_errno(e, ERR_INTERNAL, no,
                                "cannot start the thread that watches the ranks")
              : 0;
}

// Waits for the watcher to end; the caller holds the lock.
static bool await_watcher(struct nccl *n, int64_t patience)
{
    struct timespec until = deadline_in(patience);
    while (!n->watcher_ended && pthread_cond_timedwait(&n->news, &n->lock, &until) != ETIMEDOUT)
        ;
    return n->watcher_ended;
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
    if (!await_watcher(n, LEAVE_US))
        record_failure(n, &why, true);
    bool gone = await_watcher(n, END_US);
    pthread_mutex_unlock(&n->lock);
    if (gone)
        pthread_join(n->watcher, NULL);
    else
        log_warn("NCCL did not stop; its memory stays allocated until this process exits",
                 "rank=%d", n->base.rank);
    return gone;
}
