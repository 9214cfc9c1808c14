// One operation over several machines.
//
// First the ranks of each machine sum their buffers in shared memory, each rank its share. Then the
// leaders exchange data, every leader with every other. Each leader owns one part of the buffer: it
// receives the other machines' sums of that part and adds them to its own in the order of machines;
// in an all-reduce it then sends the result to all. So every element travels as rarely as in a
// ring, but in two hops instead of 2 (n - 1), and the order of a sum is fixed. Small buffers are
// sent to every leader as a whole, in one hop. Finally the ranks of a machine copy their results
// from their leader.
#include <string.h>

#include "base/log.h"
#include "trainer/comm/net.h"

enum {
    LINE = 16,           // elements of a cache line: no two ranks write to the same line
    SMALL_BYTES = 16384, // below it, one hop less is worth more than sending less
    BROADCAST_BYTES = 8 << 20,
};

static char *arena_of(const struct net *n, int local, const struct comm_work *w)
{
    size_t at = w->count > 0 ? (size_t)((char *)w->data - n->base.arena) : 0; // a barrier has none
    return n->inner->shared_arenas[local] + at;
}

static int local_ranks(const struct net *n)
{
    return n->inner->base.world;
}

static bool is_small(const struct comm_work *w)
{
    return w->kind == COMM_ALL_REDUCE && w->count * comm_type_bytes(w->type) <= SMALL_BYTES;
}

// The part of the buffer that a machine sums (or contributes, in an all-gather).
static struct comm_part machine_part(const struct net *n, const struct comm_work *w, int machine)
{
    const struct net_machine *m = &n->machines[machine];
    if (is_small(w))
        return (struct comm_part){0, w->count};
    if (w->kind == COMM_ALL_REDUCE)
        return comm_part(w->count, LINE, n->machine_count, machine);
    size_t first = comm_part(w->count, w->unit, n->base.world, m->first).first;
    size_t last = comm_part(w->count, w->unit, n->base.world, m->first + m->count - 1).last;
    return (struct comm_part){first, last};
}

// The part that is in the buffer of one local rank: a sum is in the buffer of the rank that
// computed it, and the input of an all-gather in the buffer of the rank that contributes it.
static struct comm_part local_part(const struct net *n, const struct comm_work *w, int local)
{
    if (w->kind == COMM_ALL_GATHER)
        return comm_part(w->count, w->unit, n->base.world, n->machines[n->here].first + local);
    return comm_part(w->count, LINE, local_ranks(n), local);
}

static struct comm_part overlap(struct comm_part a, struct comm_part b)
{
    struct comm_part both = {a.first > b.first ? a.first : b.first,
                             a.last < b.last ? a.last : b.last};
    if (both.last < both.first)
        both.last = both.first;
    return both;
}

// --- between leaders -----------------------------------------------------------------------------

#define EACH_OTHER(n, m)                                                                           \
    for (struct net_machine *m = (n)->machines; m < (n)->machines + (n)->machine_count; m++)       \
        if (m != &(n)->machines[(n)->here])

static int machine_index(const struct net *n, const struct net_machine *m)
{
    return (int)(m - n->machines);
}

static void exchange_heads(struct net *n, const struct net_head *head)
{
    EACH_OTHER(n, m)
    {
        net_send(m, head, sizeof *head);
        net_receive(m, &m->head, sizeof m->head);
    }
}

static int compare_heads(struct net *n, const struct net_head *head, struct error *e)
{
    EACH_OTHER(n, m)
    {
        if (memcmp(head, &m->head, sizeof *head) != 0)
            return error_set(e, ERR_PEER,
                             "rank %d is at another operation (%u) than rank %d (%u): the ranks do "
                             "not run the same training",
                             m->first, m->head.number, n->base.rank, head->number);
    }
    return 0;
}

static void send_local(struct net *n, const struct comm_work *w, struct net_machine *to,
                       struct comm_part wanted)
{
    size_t size = comm_type_bytes(w->type);
    for (int i = 0; i < local_ranks(n); i++) {
        struct comm_part part = overlap(wanted, local_part(n, w, i));
        net_send(to, arena_of(n, i, w) + part.first * size, (part.last - part.first) * size);
    }
}

static void reduce_window(struct net *n, const struct comm_work *w, struct comm_part window,
                          size_t slot)
{
    size_t size = comm_type_bytes(w->type);
    for (int i = 0; i < local_ranks(n); i++) {
        struct comm_part part = overlap(window, local_part(n, w, i));
        for (int k = 0; k < n->machine_count; k++)
            n->from[k] = n->scratch + (size_t)k * slot + (part.first - window.first) * size;
        n->from[n->here] = arena_of(n, i, w) + part.first * size;
        char *into = (char *)w->data + part.first * size;
        comm_reduce_local(n->from, n->machine_count, into, 0, part.last - part.first, w->type,
                          w->op);
    }
}

// Leaves the sum over all machines of this machine's part in the leader's buffer.
static int reduce_among_leaders(struct net *n, const struct comm_work *w,
                                const struct net_head *head, struct error *e)
{
    size_t size = comm_type_bytes(w->type);
    size_t slot = NET_SCRATCH / (size_t)n->machine_count / COMM_ALIGN * COMM_ALIGN;
    struct comm_part mine = machine_part(n, w, n->here), window = {mine.first, mine.first};
    exchange_heads(n, head);
    EACH_OTHER(n, m)
    {
        send_local(n, w, m, machine_part(n, w, machine_index(n, m)));
    }
    do {
        window.first = window.last;
        window.last += slot / size;
        window = overlap(window, mine);
        EACH_OTHER(n, m)
        {
            net_receive(m, n->scratch + (size_t)machine_index(n, m) * slot,
                        (window.last - window.first) * size);
        }
        int err = net_exchange(n, window.last == mine.last, e);
        if (!err && window.first == mine.first)
            err = compare_heads(n, head, e);
        if (err)
            return err;
        reduce_window(n, w, window, slot);
    } while (window.last < mine.last);
    return 0;
}

// Brings every machine's part into the leader's buffer.
static int gather_among_leaders(struct net *n, const struct comm_work *w, struct error *e)
{
    size_t size = comm_type_bytes(w->type);
    struct comm_part mine = machine_part(n, w, n->here);
    EACH_OTHER(n, m)
    {
        struct comm_part part = machine_part(n, w, machine_index(n, m));
        if (w->kind == COMM_ALL_GATHER)
            send_local(n, w, m, mine);
        else
            net_send(m, (char *)w->data + mine.first * size, (mine.last - mine.first) * size);
        net_receive(m, (char *)w->data + part.first * size, (part.last - part.first) * size);
    }
    return net_exchange(n, true, e);
}

static int run_among_leaders(struct net *n, const struct comm_work *w, struct error *e)
{
    const struct net_head head = {.number = n->number,
                                  .kind = (uint8_t)w->kind,
                                  .type = (uint8_t)w->type,
                                  .op = (uint8_t)w->op,
                                  .count = w->count};
    int err = 0;
    if (w->kind == COMM_ALL_GATHER) {
        exchange_heads(n, &head);
        err = gather_among_leaders(n, w, e);
        return err ? err : compare_heads(n, &head, e);
    }
    err = reduce_among_leaders(n, w, &head, e);
    if (!err && w->kind == COMM_ALL_REDUCE && !is_small(w))
        err = gather_among_leaders(n, w, e);
    return err;
}

// --- on one machine ------------------------------------------------------------------------------

static int barrier_here(struct net *n, int64_t timeout, struct error *e)
{
    n->inner->timeout_us = timeout;
    return local_ranks(n) > 1 ? comm_barrier(&n->inner->base, e) : 0;
}

// Longer than a leader waits for another leader, which knows better who hangs.
static int64_t leader_timeout(const struct net *n)
{
    return 2 * n->timeout_us + 2000000;
}

static int sum_here(struct net *n, const struct comm_work *w, struct error *e)
{
    struct comm_work part = *w;
    part.kind = COMM_REDUCE_SCATTER;
    part.unit = LINE;
    uint32_t ticket = 0;
    if (local_ranks(n) == 1 || w->count == 0)
        return 0;
    n->inner->timeout_us = n->timeout_us;
    int err = comm_shm_backend.start(&n->inner->base, &part, &ticket, e);
    return err ? err : comm_shm_backend.wait(&n->inner->base, ticket, e);
}

static void copy_from(struct net *n, const struct comm_work *w, int local, struct comm_part part)
{
    size_t size = comm_type_bytes(w->type);
    if (local != n->inner->base.rank && part.first < part.last)
        memcpy((char *)w->data + part.first * size, arena_of(n, local, w) + part.first * size,
               (part.last - part.first) * size);
}

static void copy_from_leader(struct net *n, const struct comm_work *w)
{
    struct comm_part here = machine_part(n, w, n->here);
    switch (w->kind) {
    case COMM_ALL_REDUCE:
        copy_from(n, w, 0, (struct comm_part){0, w->count});
        break;
    case COMM_REDUCE_SCATTER:
        copy_from(n, w, 0, comm_part(w->count, w->unit, n->base.world, n->base.rank));
        break;
    case COMM_ALL_GATHER:
        copy_from(n, w, 0, (struct comm_part){0, here.first});
        copy_from(n, w, 0, (struct comm_part){here.last, w->count});
        break;
    }
}

static void copy_from_local_ranks(struct net *n, const struct comm_work *w)
{
    for (int i = 0; i < local_ranks(n) && w->kind == COMM_ALL_GATHER; i++)
        copy_from(n, w, i, local_part(n, w, i));
}

static int run_work(struct net *n, const struct comm_work *w, struct error *e)
{
    int err = w->kind == COMM_ALL_GATHER ? 0 : sum_here(n, w, e);
    if (!err)
        err = barrier_here(n, n->timeout_us, e);
    if (!err && n->leader)
        err = run_among_leaders(n, w, e);
    if (err)
        return err;
    copy_from_local_ranks(n, w);
    err = barrier_here(n, leader_timeout(n), e);
    if (err)
        return err;
    copy_from_leader(n, w);
    // After an all-reduce every rank may write to its buffer at once, so wait for all readers.
    return w->kind == COMM_ALL_REDUCE ? barrier_here(n, n->timeout_us, e) : 0;
}

// --- broadcast -----------------------------------------------------------------------------------

// The root's leader sends one part to each machine; then all leaders gather the parts. So no leader
// sends the whole buffer to every other.
static int spread_among_leaders(struct net *n, char *data, size_t bytes, int from, struct error *e)
{
    const struct net_head head = {.number = n->number, .kind = UINT8_MAX, .count = bytes};
    struct comm_part mine = comm_part(bytes, COMM_ALIGN, n->machine_count, n->here);
    exchange_heads(n, &head);
    EACH_OTHER(n, m)
    {
        struct comm_part its = comm_part(bytes, COMM_ALIGN, n->machine_count, machine_index(n, m));
        if (n->here == from)
            net_send(m, data + its.first, its.last - its.first);
        else if (machine_index(n, m) == from)
            net_receive(m, data + mine.first, mine.last - mine.first);
    }
    int err = net_exchange(n, n->here == from, e);
    if (!err)
        err = compare_heads(n, &head, e);
    if (err)
        return err;
    EACH_OTHER(n, m)
    {
        struct comm_part its = comm_part(bytes, COMM_ALIGN, n->machine_count, machine_index(n, m));
        if (machine_index(n, m) != from)
            net_send(m, data + mine.first, mine.last - mine.first);
        if (n->here != from)
            net_receive(m, data + its.first, its.last - its.first);
    }
    return net_exchange(n, true, e);
}

static int broadcast_piece(struct net *n, char *data, size_t bytes, int root, struct error *e)
{
    int from = 0, err = 0;
    while (root >= n->machines[from].first + n->machines[from].count)
        from++;
    bool root_is_here = from == n->here;
    n->inner->timeout_us = root_is_here ? n->timeout_us : leader_timeout(n);
    if (root_is_here && local_ranks(n) > 1)
        err = comm_broadcast(&n->inner->base, data, bytes, root - n->machines[from].first, e);
    if (!err && n->leader)
        err = spread_among_leaders(n, data, bytes, from, e);
    if (!err && !root_is_here && local_ranks(n) > 1)
        err = comm_broadcast(&n->inner->base, data, bytes, 0, e);
    return err;
}

int net_run_task(struct net *n, const struct net_task *task, struct error *e)
{
    if (!task->broadcast)
        return run_work(n, &task->work, e);
    int err = 0;
    for (size_t at = 0; at < task->work.count && !err; at += BROADCAST_BYTES) {
        size_t left = task->work.count - at;
        err = broadcast_piece(n, (char *)task->work.data + at,
                              left < BROADCAST_BYTES ? left : BROADCAST_BYTES, task->root, e);
    }
    return err;
}
