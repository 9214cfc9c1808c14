// Backend `net`: the queue of operations and the communication thread. net.h describes the design.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "trainer/comm/net.h"

enum { IDLE_NS = 100 * 1000 * 1000 }; // how often an idle leader checks for lost peers

static bool counter_reached(uint32_t value, uint32_t wanted)
{
    return (int32_t)(value - wanted) >= 0; // counters wrap
}

// Records the first failure; the caller holds the lock. The communication thread notifies the other
// machines.
static void record_failure(struct net *n, const struct error *why)
{
    if (n->error.code)
        return;
    n->error = *why;
    atomic_store(&n->failed, true);
    shm_fail(n->inner, why->text);
    pthread_cond_broadcast(&n->done);
    pthread_cond_signal(&n->posted_more);
    if (write(n->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        log_debug("cannot wake the driver; it notices the failure within 50 ms", "rank=%d",
                  n->base.rank);
}

// Runs the next operation. Releases the lock, which the caller holds, while it runs.
static void drive_next(struct net *n, int spins)
{
    struct error e = {0};
    struct net_task task = n->tasks[(n->finished + 1) % COMM_PENDING_MAX];
    n->number = n->finished + 1;
    n->driven = true;
    pthread_mutex_unlock(&n->lock);
    n->inner->spins = spins;
    int err = net_run_task(n, &task, &e);
    pthread_mutex_lock(&n->lock);
    n->driven = false;
    if (err)
        record_failure(n, &e);
    else
        n->finished++;
    if (n->posted != n->finished)
        pthread_cond_signal(&n->posted_more);
    pthread_cond_broadcast(&n->done);
}

// --- the communication thread --------------------------------------------------------------------

static void check_peers(struct net *n)
{
    struct error e = {0};
    n->driven = true;
    pthread_mutex_unlock(&n->lock);
    int err = net_check(n, &e);
    pthread_mutex_lock(&n->lock);
    n->driven = false;
    if (err)
        record_failure(n, &e);
    pthread_cond_broadcast(&n->done);
}

// Waits for the next operation. Returns whether the wait timed out.
static bool wait_for_post(struct net *n)
{
    struct timespec until;
    if (!n->leader || n->error.code) {
        pthread_cond_wait(&n->posted_more, &n->lock);
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&n->posted_more, &n->lock, &until) == ETIMEDOUT;
}

static void *run_communication(void *arg)
{
    struct net *n = arg;
    bool notified = false;
    pthread_mutex_lock(&n->lock);
    while (!n->closing) {
        if (n->error.code && !notified && !n->driven) {
            net_notify(n, NET_FAILED, n->error.text);
            notified = true;
        } else if (n->posted != n->finished && !n->driven && !n->error.code) {
            int64_t begin = clock_mono_us();
            drive_next(n, 0); // no spinning, which would slow down the compute thread
            atomic_fetch_add(&n->base.background_us, clock_mono_us() - begin);
        } else if (wait_for_post(n) && !n->driven && !n->error.code) {
            check_peers(n);
        }
    }
    if (!notified)
        net_notify(n, n->error.code ? NET_FAILED : NET_BYE, n->error.text);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

// --- the backend ---------------------------------------------------------------------------------

// Waits until operation `ticket` is finished; the caller holds the lock.
static int finish_operation(struct net *n, uint32_t ticket, struct error *e)
{
    while (!counter_reached(n->finished, ticket)) {
        if (n->error.code)
            return error_set(e, n->error.code, "%s", n->error.text);
        if (n->driven)
            pthread_cond_wait(&n->done, &n->lock);
        else
            drive_next(n, n->spins);
    }
    return 0;
}

static int post_task(struct net *n, const struct net_task *task, uint32_t *ticket, struct error *e)
{
    pthread_mutex_lock(&n->lock);
    int err = 0;
    if (n->posted - n->finished >= COMM_PENDING_MAX)
        err = finish_operation(n, n->finished + 1, e);
    if (!err && n->error.code)
        err = error_set(e, n->error.code, "%s", n->error.text);
    if (!err) {
        *ticket = ++n->posted;
        n->tasks[*ticket % COMM_PENDING_MAX] = *task;
        pthread_cond_signal(&n->posted_more);
    }
    pthread_mutex_unlock(&n->lock);
    return err;
}

static int net_start(struct comm *c, const struct comm_work *work, uint32_t *ticket,
                     struct error *e)
{
    return post_task((struct net *)c, &(struct net_task){.work = *work}, ticket, e);
}

static int net_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    struct net *n = (struct net *)c;
    pthread_mutex_lock(&n->lock);
    int err = finish_operation(n, ticket, e);
    pthread_mutex_unlock(&n->lock);
    return err;
}

static int net_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    const struct net_task task = {
        .broadcast = true, .work = {.data = data, .count = bytes}, .root = root};
    uint32_t ticket = 0;
    int err = post_task((struct net *)c, &task, &ticket, e);
    return err ? err : net_wait(c, ticket, e);
}

static void net_abort(struct comm *c, const char *why)
{
    struct net *n = (struct net *)c;
    struct error e = {0};
    error_set(&e, ERR_PEER, "rank %d gave up: %s", c->rank, why);
    pthread_mutex_lock(&n->lock);
    record_failure(n, &e);
    pthread_mutex_unlock(&n->lock);
}

static void net_close(struct comm *c)
{
    struct net *n = (struct net *)c;
    struct error e = {0};
    pthread_mutex_lock(&n->lock);
    if (n->posted != n->finished) {
        error_set(&e, ERR_PEER, "rank %d left in the middle of an operation", c->rank);
        record_failure(n, &e);
    }
    n->closing = true;
    pthread_cond_signal(&n->posted_more);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->thread, NULL);
    pthread_cond_destroy(&n->posted_more);
    pthread_cond_destroy(&n->done);
    pthread_mutex_destroy(&n->lock);
    net_leave(n);
}

// The thread blocks all signals; the compute thread handles them.
static int start_communication(struct net *n, struct error *e)
{
    sigset_t all, before;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->posted_more, &monotonic);
    pthread_cond_init(&n->done, NULL);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int no = pthread_create(&n->thread, NULL, run_communication, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return no ? error_set_errno(e, ERR_INTERNAL, no, "no thread for communication") : 0;
}

static int net_open(const struct comm_config *config, const json_t *peers, struct comm **out,
                    struct error *e)
{
    struct net *n = xcalloc(1, sizeof *n);
    int err = net_join(n, config, peers, e);
    if (!err)
        err = start_communication(n, e);
    if (err) {
        if (n->inner)
            shm_fail(n->inner, e ? e->text : "");
        net_leave(n);
        return err;
    }
    *out = &n->base;
    return 0;
}

const struct comm_backend comm_net_backend = {
    .name = "net",
    .open = net_open,
    .close = net_close,
    .start = net_start,
    .wait = net_wait,
    .broadcast = net_broadcast,
    .abort = net_abort,
};
