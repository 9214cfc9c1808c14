// The calls of running tasks: the poll for preemption, the rendezvous and all_gather. Each call may
// be repeated at any time: a repeated post changes nothing and gets the same answer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"

enum {
    WAIT_PREEMPTION_S = 60, // unless the caller says otherwise; at most LIMIT_LONG_POLL_S
    WAIT_PEERS_US = 20 * 1000 * 1000,
    GATHERS_KEPT = 4, // complete rounds, kept for peers whose answer was lost
};

struct gather_peer {
    char *name; // requestUuid
    char *data; // JSON
};

struct gather_round {          // one round of all_gather
    struct gather_round *next; // the round before
    char *round;
    struct gather_peer *peers;
    int count, wanted;
    struct parked_request *waiters;
};

// --- drain ---------------------------------------------------------------------------------------

static void preemption_answer(struct core *c, struct request *rq, const struct allocation *a)
{
    request_answer(rq, ANSWER_BOOL("preempt", a->draining));
    core_complete(c, rq);
}

static void preemption_expire(struct core *c, struct parked_request *p)
{
    preemption_answer(c, core_unpark(c, p), p->owner);
}

int core_allocation_preemption(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int64_t seconds;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (!err)
        err = request_query_int(rq, "timeoutSeconds", WAIT_PREEMPTION_S, &seconds, e);
    if (err)
        return err;
    preemption_note_poll(c, a);
    if (seconds > LIMIT_LONG_POLL_S)
        seconds = LIMIT_LONG_POLL_S;
    if (a->draining || seconds <= 0)
        preemption_answer(c, rq, a);
    else
        core_park(c, rq, &a->drain_waiters, a, c->now + seconds * 1000000, preemption_expire);
    return REQUEST_PARKED;
}

int core_allocation_ack_preemption(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    preemption_note_poll(c, a);
    allocation_event(c, a, ALLOCATION_EV_ACK);
    return 0;
}

int core_allocation_accelerator_data(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    return core_caller_of_allocation(c, rq, &a, e); // the agent has reported the devices already
}

// The index of the part that the second parameter names; -1: *e says that there is none.
static int part_find(const struct allocation *a, const struct request *rq, struct error *e)
{
    char container[UUID_TEXT];
    for (int i = 0; i < a->part_count; i++)
        if (!strcmp(launch_container(&a->parts[i], container), rq->params[1]))
            return i;
    error_set(e, ERR_NOT_FOUND, "resources '%.64s' of allocation %s not found", rq->params[1],
              a->id);
    return -1;
}

// Marks a machine that only serves the others: it is ended after the last of them has exited.
int core_allocation_daemon(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    int part = part_find(a, rq, e);
    if (part < 0)
        return e->code;
    a->parts[part].daemon = true;
    char *placement = launch_placement(a);
    STORE(c, ALLOCATION_PLACE, allocation_state_word(a->state), placement, a->started_at, a->slots,
          a->id);
    free(placement);
    return 0;
}

// A program that learned by itself that it must leave tells its peers through the master.
int core_allocation_pending_preemption(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    preemption_note_poll(c, a); // its peers poll, or will
    allocation_event(c, a, ALLOCATION_EV_DRAIN);
    return 0;
}

int core_allocation_proxy_address(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    return core_caller_of_allocation(c, rq, &a, e); // it is the address of its agent
}

// --- rendezvous ----------------------------------------------------------------------------------

static bool parts_all_run(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_RUNNING)
            return false;
    return true;
}

static void rendezvous_answer(struct core *c, struct request *rq, const struct allocation *a)
{
    rq->result = launch_rendezvous(rq, &a->parts[rq->id]);
    core_complete(c, rq);
}

static void peers_time_out(struct core *c, struct parked_request *p, const char *what)
{
    struct error e = {0};
    error_set(&e, ERR_TIMEOUT, "%s; ask again", what);
    core_refuse(c, core_unpark(c, p), &e);
}

static void rendezvous_expire(struct core *c, struct parked_request *p)
{
    peers_time_out(c, p, "not all machines of the allocation run yet");
}

// params: allocation, resources id. rq->id keeps the index of the part for the answer.
int core_allocation_rendezvous(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    rq->id = part_find(a, rq, e);
    if (rq->id < 0)
        return e->code;
    if (parts_all_run(a))
        rendezvous_answer(c, rq, a);
    else
        core_park(c, rq, &a->rendezvous_waiters, a, c->now + WAIT_PEERS_US, rendezvous_expire);
    return REQUEST_PARKED;
}

void allocation_wake_waiters(struct core *c, struct allocation *a)
{
    while (a->draining && a->drain_waiters)
        preemption_expire(c, a->drain_waiters);
    while (parts_all_run(a) && a->rendezvous_waiters)
        rendezvous_answer(c, core_unpark(c, a->rendezvous_waiters), a);
}

// --- all_gather ----------------------------------------------------------------------------------

static void round_free(struct gather_round *g)
{
    for (int i = 0; i < g->count; i++) {
        free(g->peers[i].name);
        free(g->peers[i].data);
    }
    free(g->peers);
    free(g->round);
    free(g);
}

static struct gather_peer *round_find_peer(const struct gather_round *g, const char *name)
{
    for (int i = 0; i < g->count; i++)
        if (!strcmp(g->peers[i].name, name))
            return &g->peers[i];
    return NULL;
}

// Names are "ROUND:RANK"; names without a colon (Determined's are random) belong to the round "".
static char *round_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    char *round = xstrdup(name);
    round[colon ? colon - name : 0] = '\0';
    return round;
}

// Returns the round that this peer belongs to. A complete round takes no new peer: a peer that it
// does not know begins the next round of that name.
static struct gather_round *round_find_or_add(struct allocation *a, const char *name, int wanted)
{
    char *round = round_name(name);
    for (struct gather_round *g = a->gathers; g; g = g->next)
        if (!strcmp(g->round, round) && (g->count < g->wanted || round_find_peer(g, name))) {
            free(round);
            return g;
        }
    struct gather_round *g = xcalloc(1, sizeof *g);
    *g = (struct gather_round){.next = a->gathers, .round = round, .wanted = wanted};
    a->gathers = g;
    return g;
}

// Orders peers by the number after the colon, else by name.
static int peers_by_rank(const void *left, const void *right)
{
    const struct gather_peer *a = left, *b = right;
    const char *x = strrchr(a->name, ':'), *y = strrchr(b->name, ':');
    long long i = x ? strtoll(x + 1, NULL, 10) : 0, j = y ? strtoll(y + 1, NULL, 10) : 0;
    return i != j ? (i > j) - (i < j) : strcmp(a->name, b->name);
}

static void round_answer(struct core *c, const struct gather_round *g, struct request *rq)
{
    struct gather_snapshot *answer = arena_alloc(&rq->arena, sizeof *answer);
    const char **values = arena_alloc(&rq->arena, ((size_t)g->count + 1) * sizeof(const char *));
    for (int i = 0; i < g->count; i++)
        values[i] = arena_strdup(&rq->arena, g->peers[i].data);
    *answer = (struct gather_snapshot){values, g->count};
    rq->result = answer;
    core_complete(c, rq);
}

static void rounds_drop_old(struct allocation *a)
{
    int kept = 0;
    for (struct gather_round **link = &a->gathers; *link;) {
        struct gather_round *g = *link;
        if (g->waiters || g->count < g->wanted || ++kept <= GATHERS_KEPT) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        round_free(g);
    }
}

// Rounds are not stored. If a round was complete when the previous master ended, one peer may have
// its answer and never call again while another's answer was lost. Then the ranks are started
// again.
static void round_expire(struct core *c, struct parked_request *p)
{
    const struct gather_round *g = p->owner;
    struct allocation *a = core_allocation_find(c, p->rq->principal.allocation_id);
    bool gone = atomic_load(&p->rq->client_gone);
    char what[80];
    snprintf(what, sizeof what, "%d of %d peers have come", g->count, g->wanted);
    peers_time_out(c, p, what);
    if (a && !a->launched_here && !gone)
        allocation_kill(c, a, OUTCOME_LOST, "the master restarted while its ranks were meeting");
}

static int gather_check(const struct request *rq, const char **name, int64_t *peers,
                        struct error *e)
{
    *name = jget_string(rq->body, "requestUuid", "");
    *peers = jget_int(rq->body, "numPeers", 0);
    if (!**name || strlen(*name) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "requestUuid: 1 to %d characters", LIMIT_NAME);
    if (*peers < 1 || *peers > LIMIT_SLOTS_PER_TRIAL)
        return error_set(e, ERR_INVALID, "numPeers: 1 to %d", LIMIT_SLOTS_PER_TRIAL);
    return 0;
}

static void round_add_peer(struct gather_round *g, const char *name, char *data)
{
    struct gather_peer *known = round_find_peer(g, name);
    if (known) {
        free(data); // a repetition
        return;
    }
    g->peers = xrealloc(g->peers, ((size_t)g->count + 1) * sizeof *g->peers);
    g->peers[g->count++] = (struct gather_peer){xstrdup(name), data};
    if (g->count == g->wanted)
        qsort(g->peers, (size_t)g->count, sizeof *g->peers, peers_by_rank);
}

// `kind` separates the rounds of one call from those of another.
static int gather_call(struct core *c, struct request *rq, const char *kind, struct error *e)
{
    struct allocation *a;
    const char *name;
    int64_t peers;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (!err)
        err = gather_check(rq, &name, &peers, e);
    if (err)
        return err;
    name = arena_printf(&rq->arena, "%s%s", kind, name);
    json_t *value = jget(rq->body, "data");
    char *data = value ? json_text(value) : xstrdup("null");
    if (strlen(data) > LIMIT_RENDEZVOUS_VALUE) {
        free(data);
        return error_set(e, ERR_TOO_LARGE, "data: more than %d bytes", LIMIT_RENDEZVOUS_VALUE);
    }
    struct gather_round *g = round_find_or_add(a, name, (int)peers);
    round_add_peer(g, name, data);
    core_park(c, rq, &g->waiters, g, c->now + WAIT_PEERS_US, round_expire);
    if (g->count < g->wanted)
        return REQUEST_PARKED;
    while (g->waiters)
        round_answer(c, g, core_unpark(c, g->waiters));
    rounds_drop_old(a);
    return REQUEST_PARKED;
}

int core_allocation_all_gather(struct core *c, struct request *rq, struct error *e)
{
    return gather_call(c, rq, "", e);
}

// An all_gather between machines: each machine posts when it runs, and gets the values of all
// machines.
int core_allocation_container_running(struct core *c, struct request *rq, struct error *e)
{
    return gather_call(c, rq, "container:", e);
}

void allocation_refuse_waiters(struct core *c, struct allocation *a)
{
    struct error e = {0};
    error_set(&e, ERR_FORBIDDEN, "allocation has ended");
    while (a->drain_waiters)
        core_refuse(c, core_unpark(c, a->drain_waiters), &e);
    while (a->rendezvous_waiters)
        core_refuse(c, core_unpark(c, a->rendezvous_waiters), &e);
    for (struct gather_round *g = a->gathers; g; g = g->next)
        while (g->waiters)
            core_refuse(c, core_unpark(c, g->waiters), &e);
}

void allocation_free_gathers(struct allocation *a)
{
    while (a->gathers) {
        struct gather_round *g = a->gathers;
        a->gathers = g->next;
        round_free(g);
    }
}
