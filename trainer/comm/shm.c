// Backend `shm`: the ranks of one machine add up what they show each other in shared memory.
//
// Every rank's operations are numbered in the order of their calls, which is the same everywhere,
// so two counters per rank tell all there is to tell: of `posted` operations its data lies in its
// box, of `folded` operations it has done its share. A rank may do its share of operation n when
// every rank has posted n:
// - all-reduce: it folds all boxes. Large ones are rare, small ones have a hop less this way.
// - reduce-scatter: it folds its part of all boxes. Only the parts of others are shown.
// - all-gather: it copies the peers' parts.
// An all-reduce is complete when every rank has folded it, the others are for a rank that has done
// its share; so boxes keep what peers may still read until a later all-reduce is complete.
//
// Arenas are private, and boxes are written past the caches: comm_stream() says why. There is no
// communication thread: on one core per slot it would take from the backward pass what it gives. A
// share is done when this rank starts a later operation or waits, so most of the work of a step
// happens between the backward operations of the last micro-batch, with the data still in cache.
//
// Waiting spins first, then yields, then sleeps on the counter it waits for, at most 50 ms, after
// which it looks whether the peer is still alive.
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

enum { YIELDS = 64, NAP_NS = 50 * 1000 * 1000 };

enum phase { POSTED, FOLDED };

static _Atomic uint32_t *counter(struct shm *s, int rank, enum phase phase)
{
    struct shm_rank *r = &s->segment->ranks[rank];
    return phase == POSTED ? &r->posted : &r->folded;
}

static bool reached(uint32_t value, uint32_t wanted)
{
    return (int32_t)(value - wanted) >= 0; // counters wrap
}

// The first rank that has not come to operation `wanted`; -1: all have.
static int laggard(struct shm *s, enum phase phase, uint32_t wanted)
{
    for (int i = 0; i < s->base.world; i++)
        if (!reached(atomic_load_explicit(counter(s, i, phase), memory_order_acquire), wanted))
            return i;
    return -1;
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_nap(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &nap, NULL, 0);
}

// Sequentially consistent against `sleepers`: either the sleeper sees the new value, or we see it.
static void publish(struct shm *s, enum phase phase, uint32_t value)
{
    _Atomic uint32_t *word = counter(s, s->base.rank, phase);
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

static void show_elements(struct shm *s, const struct comm_work *w, size_t first, size_t last)
{
    size_t size = comm_type_bytes(w->type), at = (size_t)((char *)w->data - s->base.arena);
    comm_stream(s->boxes[s->base.rank] + at + first * size, (char *)w->data + first * size,
                (last - first) * size);
}

static void show(struct shm *s, const struct comm_work *w)
{
    bool shown = s->base.arena == s->boxes[s->base.rank];
    must(!shown || w->kind != COMM_ALL_REDUCE || w->count == 0);
    if (shown || w->count == 0)
        return;
    struct comm_part mine = own_part(s, w);
    if (w->kind != COMM_REDUCE_SCATTER) {
        show_elements(s, w, mine.first, mine.last);
        return;
    }
    show_elements(s, w, 0, mine.first);
    show_elements(s, w, mine.last, w->count);
}

static void reduce_share(struct shm *s, const struct comm_work *w)
{
    struct comm_part mine = own_part(s, w);
    for (int i = 0; i < s->base.world; i++)
        s->buffers[i] = s->boxes[i] + ((char *)w->data - s->base.arena);
    s->buffers[s->base.rank] = w->data;
    comm_fold(s->buffers, s->base.world, w->data, mine.first, mine.last, w->type, w->op);
}

// From the next rank on, so that not all read the same one.
static void gather_share(struct shm *s, const struct comm_work *w)
{
    int world = s->base.world;
    size_t size = comm_type_bytes(w->type), at = (size_t)((char *)w->data - s->base.arena);
    for (int i = 1; i < world; i++) {
        int rank = (s->base.rank + i) % world;
        struct comm_part part = comm_part(w->count, w->unit, world, rank);
        memcpy((char *)w->data + part.first * size, s->boxes[rank] + at + part.first * size,
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

static void fold_ready(struct shm *s)
{
    while (s->folded != s->posted && laggard(s, POSTED, s->folded + 1) < 0) {
        do_share(s, &s->works[(s->folded + 1) % COMM_PENDING_MAX]);
        publish(s, FOLDED, ++s->folded);
    }
}

static void fail(struct shm *s, int rank, enum shm_failure kind)
{
    uint32_t none = 0;
    uint32_t word = (uint32_t)rank * SHM_FAILURE_KINDS + kind;
    atomic_compare_exchange_strong(&s->segment->failed, &none, word);
}

static int tell_failed(struct shm *s, struct error *e)
{
    uint32_t word = atomic_load(&s->segment->failed);
    int local = (int)(word / SHM_FAILURE_KINDS), pid = (int)s->pids[local];
    int rank = s->first_rank + local;
    switch (word % SHM_FAILURE_KINDS) {
    case SHM_GAVE_UP:
        return error_set(e, ERR_PEER, "rank %d gave up: %.*s", rank, SHM_WHY_MAX,
                         s->segment->ranks[local].why);
    case SHM_TOLD:
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

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct patience {
    int turns;
    int64_t since; // when the present nap series began; 0: not napping yet
    uint32_t seen; // value of the awaited counter then
};

// One turn of waiting until `rank` reaches `wanted`.
static int wait_turn(struct shm *s, struct patience *p, int rank, enum phase phase, uint32_t wanted,
                     struct error *e)
{
    if (atomic_load_explicit(&s->segment->failed, memory_order_acquire))
        return tell_failed(s, e);
    if (++p->turns <= s->spins) {
        relax();
        return 0;
    }
    if (p->turns <= s->spins + YIELDS) {
        sched_yield();
        return 0;
    }
    _Atomic uint32_t *word = counter(s, rank, phase);
    uint32_t value = atomic_load(word);
    if (!p->since || value != p->seen) {
        p->since = clock_mono_us();
        p->seen = value;
    }
    atomic_fetch_add(&s->segment->sleepers, 1);
    if (!reached(atomic_load(word), wanted))
        futex_nap(word, value);
    atomic_fetch_sub(&s->segment->sleepers, 1);
    if (reached(atomic_load(word), wanted))
        return 0;
    if (poll(&s->peers[rank], 1, 0) == 1)
        fail(s, rank, SHM_DIED);
    else if (clock_mono_us() - p->since > s->timeout_us)
        fail(s, rank, SHM_HANGS);
    return 0;
}

// Whether the operation is complete with this rank's share. One so old that it is forgotten may
// have been an all-reduce.
static bool is_own_affair(const struct shm *s, uint32_t ticket)
{
    return s->posted - ticket < COMM_PENDING_MAX &&
           s->works[ticket % COMM_PENDING_MAX].kind != COMM_ALL_REDUCE;
}

static int shm_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    struct shm *s = (struct shm *)c;
    struct patience patience = {0};
    for (;;) {
        uint32_t folded = s->folded;
        fold_ready(s);
        if (s->folded != folded)
            patience = (struct patience){0};
        enum phase phase = reached(s->folded, ticket) ? FOLDED : POSTED;
        if (phase == FOLDED && is_own_affair(s, ticket))
            return 0;
        uint32_t wanted = phase == FOLDED ? ticket : s->folded + 1;
        int rank = laggard(s, phase, wanted);
        if (rank < 0 && phase == FOLDED)
            return 0;
        int err = rank < 0 ? 0 : wait_turn(s, &patience, rank, phase, wanted, e);
        if (err)
            return err;
    }
}

static int shm_start(struct comm *c, const struct comm_work *work, uint32_t *ticket,
                     struct error *e)
{
    struct shm *s = (struct shm *)c;
    if (atomic_load_explicit(&s->segment->failed, memory_order_relaxed))
        return tell_failed(s, e);
    if (s->posted - s->folded >= COMM_PENDING_MAX) {
        int err = shm_wait(c, s->folded + 1, e);
        if (err)
            return err;
    }
    *ticket = s->posted + 1;
    s->works[*ticket % COMM_PENDING_MAX] = *work;
    show(s, work);
    publish(s, POSTED, ++s->posted);
    fold_ready(s);
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
        err = shm_barrier(c, e); // the stage may be filled again
    }
    return err;
}

static void fail_with(struct shm *s, enum shm_failure kind, const char *why)
{
    struct shm_rank *me = &s->segment->ranks[s->base.rank];
    if (atomic_exchange(&s->aborted, true))
        return;
    snprintf(me->why, sizeof me->why, "%s", why);
    fail(s, s->base.rank, kind);
}

static void shm_abort(struct comm *c, const char *why)
{
    fail_with((struct shm *)c, SHM_GAVE_UP, why);
}

void shm_tell(struct shm *s, const char *text)
{
    fail_with(s, SHM_TOLD, text);
}

int shm_check(struct shm *s, struct error *e)
{
    int world = s->base.world;
    if (poll(s->peers, (nfds_t)world, 0) > 0)
        for (int i = 0; i < world; i++)
            if (s->peers[i].revents)
                fail(s, i, SHM_DIED);
    return atomic_load_explicit(&s->segment->failed, memory_order_acquire) ? tell_failed(s, e) : 0;
}

static void shm_close(struct comm *c)
{
    shm_leave((struct shm *)c);
}

static int shm_open_world(const struct comm_config *config, const json_t *everybody,
                          struct comm **out, struct error *e)
{
    struct shm *s = xcalloc(1, sizeof *s);
    s->base.backend = &comm_shm_backend;
    int err = shm_join(s, config, everybody, e);
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
    .open = shm_open_world,
    .close = shm_close,
    .start = shm_start,
    .wait = shm_wait,
    .broadcast = shm_broadcast,
    .abort = shm_abort,
};
