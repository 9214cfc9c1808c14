// Backend `shm`: the ranks of one machine reduce data that they share in memory.
//
// The operations of every rank are numbered in the order of its calls, which is the same on all
// ranks. Two counters per rank are the whole protocol: the rank has published its data for the
// first `posted` operations, and has done its share of the first `reduced` operations. A rank may
// do its share of operation n when every rank has posted n:
// - all-reduce: it reduces all shared arenas over the whole buffer. Large all-reduces are rare, and
//   small ones save a hop this way.
// - reduce-scatter: it reduces its part of all shared arenas. Ranks publish only the others' parts.
// - all-gather: it copies the peers' parts.
// An all-reduce is complete when every rank has reduced it. Other operations are complete for a
// rank that has done its share. Therefore data stays in the shared arenas, for peers to read, until
// a later all-reduce is complete.
//
// A rank computes in a private arena and publishes it with non-temporal stores
// (comm_copy_nontemporal() says why). There is no communication thread: with one core per slot it
// would only take time from the backward pass. A rank does its share when it starts a later
// operation or waits. So most of the communication of a step happens between the backward
// operations of the last micro-batch, with the data still in cache.
//
// A waiting rank spins first, then yields, then sleeps on the awaited counter. It wakes at least
// every 50 ms to check whether the peer is still alive.
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "trainer/comm/shm.h"

enum { YIELDS = 64, SLEEP_NS = 50 * 1000 * 1000 };

enum shm_phase { POSTED, REDUCED };

static _Atomic uint32_t *phase_counter(struct shm *s, int rank, enum shm_phase phase)
{
    struct shm_rank *r = &s->segment->ranks[rank];
    return phase == POSTED ? &r->posted : &r->reduced;
}

static bool counter_reached(uint32_t value, uint32_t wanted)
{
    return (int32_t)(value - wanted) >= 0; // counters wrap
}

// The first rank that has not reached operation `wanted`; -1: all have.
static int first_late_rank(struct shm *s, enum shm_phase phase, uint32_t wanted)
{
    for (int i = 0; i < s->base.world; i++)
        if (!counter_reached(atomic_load_explicit(phase_counter(s, i, phase), memory_order_acquire),
                             wanted))
            return i;
    return -1;
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_sleep(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec timeout = {.tv_nsec = SLEEP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

// Sequentially consistent with `sleepers`: either the sleeper sees the new value, or this rank sees
// the sleeper.
static void set_counter(struct shm *s, enum shm_phase phase, uint32_t value)
{
    _Atomic uint32_t *word = phase_counter(s, s->base.rank, phase);
    atomic_store(word, value);
    if (atomic_load(&s->segment->sleepers) > 0)
        futex_wake(word);
}

static struct comm_part own_part(const struct shm *s, const struct comm_work *w)
{
    if (w->kind == COMM_ALL_REDUCE)
        return (struct comm_part){0, w->count};
    return comm_part(w->count, w->unit, s->base.world, s->base.rank);
}

static void publish_elements(struct shm *s, const struct comm_work *w, size_t first, size_t last)
{
    size_t size = comm_type_bytes(w->type), at = (size_t)((char *)w->data - s->base.arena);
    comm_copy_nontemporal(s->shared_arenas[s->base.rank] + at + first * size,
                          (char *)w->data + first * size, (last - first) * size);
}

static void publish_data(struct shm *s, const struct comm_work *w)
{
    bool shared = s->base.arena == s->shared_arenas[s->base.rank];
    must(!shared || w->kind != COMM_ALL_REDUCE || w->count == 0);
    if (shared || w->count == 0)
        return;
    struct comm_part mine = own_part(s, w);
    if (w->kind != COMM_REDUCE_SCATTER) {
        publish_elements(s, w, mine.first, mine.last);
        return;
    }
    publish_elements(s, w, 0, mine.first);
    publish_elements(s, w, mine.last, w->count);
}

static void reduce_share(struct shm *s, const struct comm_work *w)
{
    struct comm_part mine = own_part(s, w);
    for (int i = 0; i < s->base.world; i++)
        s->buffers[i] = s->shared_arenas[i] + ((char *)w->data - s->base.arena);
    s->buffers[s->base.rank] = w->data;
    comm_reduce_local(s->buffers, s->base.world, w->data, mine.first, mine.last, w->type, w->op);
}

// Starts at the next rank, so that not all ranks read from the same one.
static void gather_share(struct shm *s, const struct comm_work *w)
{
    int world = s->base.world;
    size_t size = comm_type_bytes(w->type), at = (size_t)((char *)w->data - s->base.arena);
    for (int i = 1; i < world; i++) {
        int rank = (s->base.rank + i) % world;
        struct comm_part part = comm_part(w->count, w->unit, world, rank);
        memcpy((char *)w->data + part.first * size, s->shared_arenas[rank] + at + part.first * size,
               (part.last - part.first) * size);
    }
}

static void do_share(struct shm *s, const struct comm_work *w)
{
    if (w->count == 0)
        return;
    if (w->kind == COMM_ALL_GATHER)
        gather_share(s, w);
    else
        reduce_share(s, w);
}

static void reduce_ready(struct shm *s)
{
    while (s->reduced != s->posted && first_late_rank(s, POSTED, s->reduced + 1) < 0) {
        do_share(s, &s->works[(s->reduced + 1) % COMM_PENDING_MAX]);
        set_counter(s, REDUCED, ++s->reduced);
    }
}

static void set_failed(struct shm *s, int rank, enum shm_failure kind)
{
    uint32_t none = 0;
    uint32_t word = (uint32_t)rank * SHM_FAILURE_KINDS + kind;
    atomic_compare_exchange_strong(&s->segment->failed, &none, word);
}

static int report_failure(struct shm *s, struct error *e)
{
    uint32_t word = atomic_load(&s->segment->failed);
    int local = (int)(word / SHM_FAILURE_KINDS), pid = (int)s->pids[local];
    int rank = s->first_rank + local;
    switch (word % SHM_FAILURE_KINDS) {
    case SHM_GAVE_UP:
        return error_set(e, ERR_PEER, "rank %d gave up: %.*s", rank, SHM_WHY_MAX,
                         s->segment->ranks[local].why);
    case SHM_FAILED:
        return error_set(e, ERR_PEER, "%.*s", SHM_WHY_MAX, s->segment->ranks[local].why);
    case SHM_HANGS:
        return error_set(e, ERR_PEER,
                         "rank %d hangs: its process %d is alive but has not moved for %lld s",
                         rank, pid, (long long)(s->timeout_us / 1000000));
    default:
        return error_set(e, ERR_PEER, "rank %d died: its process %d has ended; its log may say why",
                         rank, pid);
    }
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct shm_wait_state {
    int turns;
    int64_t since; // start of the current series of sleeps; 0: not sleeping yet
    uint32_t seen; // the awaited counter at that time
};

// Waits once, by spinning, yielding or sleeping, for `rank` to reach `wanted`.
static int wait_once(struct shm *s, struct shm_wait_state *p, int rank, enum shm_phase phase,
                     uint32_t wanted, struct error *e)
{
    if (atomic_load_explicit(&s->segment->failed, memory_order_acquire))
        return report_failure(s, e);
    if (++p->turns <= s->spins) {
        cpu_pause();
        return 0;
    }
    if (p->turns <= s->spins + YIELDS) {
        sched_yield();
        return 0;
    }
    _Atomic uint32_t *word = phase_counter(s, rank, phase);
    uint32_t value = atomic_load(word);
    if (!p->since || value != p->seen) {
        p->since = clock_mono_us();
        p->seen = value;
    }
    atomic_fetch_add(&s->segment->sleepers, 1);
    if (!counter_reached(atomic_load(word), wanted))
        futex_sleep(word, value);
    atomic_fetch_sub(&s->segment->sleepers, 1);
    if (counter_reached(atomic_load(word), wanted))
        return 0;
    if (poll(&s->peers[rank], 1, 0) == 1)
        set_failed(s, rank, SHM_DIED);
    else if (clock_mono_us() - p->since > s->timeout_us)
        set_failed(s, rank, SHM_HANGS);
    return 0;
}

// Returns whether the operation is complete once this rank has done its share. An operation that is
// no longer in `works` may have been an all-reduce, which needs all ranks, so the answer is false.
static bool completes_alone(const struct shm *s, uint32_t ticket)
{
    return s->posted - ticket < COMM_PENDING_MAX &&
           s->works[ticket % COMM_PENDING_MAX].kind != COMM_ALL_REDUCE;
}

static int shm_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    struct shm *s = (struct shm *)c;
    struct shm_wait_state waiting = {0};
    for (;;) {
        uint32_t reduced = s->reduced;
        reduce_ready(s);
        if (s->reduced != reduced)
            waiting = (struct shm_wait_state){0};
        enum shm_phase phase = counter_reached(s->reduced, ticket) ? REDUCED : POSTED;
        if (phase == REDUCED && completes_alone(s, ticket))
            return 0;
        uint32_t wanted = phase == REDUCED ? ticket : s->reduced + 1;
        int rank = first_late_rank(s, phase, wanted);
        if (rank < 0 && phase == REDUCED)
            return 0;
        int err = rank < 0 ? 0 : wait_once(s, &waiting, rank, phase, wanted, e);
        if (err)
            return err;
    }
}

static int shm_start(struct comm *c, const struct comm_work *work, uint32_t *ticket,
                     struct error *e)
{
    struct shm *s = (struct shm *)c;
    if (atomic_load_explicit(&s->segment->failed, memory_order_relaxed))
        return report_failure(s, e);
    if (s->posted - s->reduced >= COMM_PENDING_MAX) {
        int err = shm_wait(c, s->reduced + 1, e);
        if (err)
            return err;
    }
    *ticket = s->posted + 1;
    s->works[*ticket % COMM_PENDING_MAX] = *work;
    publish_data(s, work);
    set_counter(s, POSTED, ++s->posted);
    reduce_ready(s);
    return 0;
}

static int shm_barrier(struct comm *c, struct error *e)
{
    const struct comm_work nothing = {.kind = COMM_ALL_REDUCE};
    uint32_t ticket = 0;
    int err = shm_start(c, &nothing, &ticket, e);
    return err ? err : shm_wait(c, ticket, e);
}

static int shm_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    struct shm *s = (struct shm *)c;
    int err = 0;
    for (size_t at = 0; at < bytes && !err; at += SHM_STAGE) {
        size_t part = bytes - at < SHM_STAGE ? bytes - at : SHM_STAGE;
        if (c->rank == root)
            memcpy(s->stage, (char *)data + at, part);
        err = shm_barrier(c, e);
        if (err)
            break;
        if (c->rank != root)
            memcpy((char *)data + at, s->stage, part);
        err = shm_barrier(c, e); // then the staging buffer may be refilled
    }
    return err;
}

static void abort_with(struct shm *s, enum shm_failure kind, const char *why)
{
    struct shm_rank *me = &s->segment->ranks[s->base.rank];
    if (atomic_exchange(&s->aborted, true))
        return;
    snprintf(me->why, sizeof me->why, "%s", why);
    set_failed(s, s->base.rank, kind);
}

static void shm_abort(struct comm *c, const char *why)
{
    abort_with((struct shm *)c, SHM_GAVE_UP, why);
}

void shm_fail(struct shm *s, const char *text)
{
    abort_with(s, SHM_FAILED, text);
}

int shm_check(struct shm *s, struct error *e)
{
    int world = s->base.world;
    if (poll(s->peers, (nfds_t)world, 0) > 0)
        for (int i = 0; i < world; i++)
            if (s->peers[i].revents)
                set_failed(s, i, SHM_DIED);
    return atomic_load_explicit(&s->segment->failed, memory_order_acquire) ? report_failure(s, e)
                                                                           : 0;
}

static void shm_close(struct comm *c)
{
    shm_leave((struct shm *)c);
}

static int shm_open(const struct comm_config *config, const json_t *peers, struct comm **out,
                    struct error *e)
{
    struct shm *s = xcalloc(1, sizeof *s);
    s->base.backend = &comm_shm_backend;
    int err = shm_join(s, config, peers, e);
    if (err) {
        if (s->segment)
            shm_abort(&s->base, "it could not join");
        shm_leave(s);
        return err;
    }
    *out = &s->base;
    return 0;
}

const struct comm_backend comm_shm_backend = {
    .name = "shm",
    .open = shm_open,
    .close = shm_close,
    .start = shm_start,
    .wait = shm_wait,
    .broadcast = shm_broadcast,
    .abort = shm_abort,
};
