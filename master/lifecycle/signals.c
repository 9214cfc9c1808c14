// What running tasks ask of the master while they run: shall I leave, who are my peers. Each call
// may be made again at any time: a repeated post changes nothing and gets the same answer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"

enum {
    WAIT_PREEMPTION_S = 60, // unless the caller says otherwise; LIMIT_LONG_POLL_S at most
    WAIT_PEERS_US = 20 * 1000 * 1000,
    GATHERS_KEPT = 4, // answered ones, for peers whose answer was lost
};

struct peer {
    char *name; // requestUuid
    char *data; // JSON
};

struct gather {          // one round of all_gather
    struct gather *next; // older
    char *round;
    struct peer *peers;
    int count, wanted;
    struct parked *waiters;
};

// --- drain ---------------------------------------------------------------------------------------

static void answer_preemption(struct core *c, struct request *rq, const struct allocation *a)
{
    buf_printf(&rq->answer, "{\"preempt\":%s}", a->draining ? "true" : "false");
    core_complete(c, rq);
}

static void preemption_due(struct core *c, struct parked *p)
{
    answer_preemption(c, core_unpark(c, p), p->owner);
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
    if (seconds > LIMIT_LONG_POLL_S)
        seconds = LIMIT_LONG_POLL_S;
    if (a->draining || seconds <= 0)
        answer_preemption(c, rq, a);
    else
        core_park(c, rq, &a->drain_waiters, a, c->now + seconds * 1000000, preemption_due);
    return REQUEST_PARKED;
}

int core_allocation_ack_preemption(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (!err)
        allocation_event(c, a, ALLOCATION_EV_ACK);
    return err;
}

int core_allocation_accelerator_data(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    return core_caller_of_allocation(c, rq, &a, e); // the agent has told the devices already
}

// The machine of a call's second parameter; -1: *e says that there is none.
static int find_part(const struct allocation *a, const struct request *rq, struct error *e)
{
    char container[UUID_TEXT];
    for (int i = 0; i < a->part_count; i++)
        if (!strcmp(launch_container(&a->parts[i], container), rq->params[1]))
            return i;
    error_set(e, ERR_NOT_FOUND, "allocation %s has no resources %.64s", a->id, rq->params[1]);
    return -1;
}

// A machine that only serves the others: when the last of those has ended, it is ended too.
int core_allocation_daemon(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    int part = find_part(a, rq, e);
    if (part < 0)
        return e->code;
    a->parts[part].daemon = true;
    char *placement = launch_placement(a);
    STORE(c, ALLOCATION_PLACE, allocation_state_word(a->state), placement, a->started_at, a->slots,
          a->id);
    free(placement);
    return 0;
}

// A program that was told by somebody else that it must leave tells its peers through us.
int core_allocation_pending_preemption(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (!err)
        allocation_event(c, a, ALLOCATION_EV_DRAIN);
    return err;
}

int core_allocation_proxy_address(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    return core_caller_of_allocation(c, rq, &a, e); // it is the address of its agent
}

// --- rendezvous ----------------------------------------------------------------------------------

static bool all_running(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_RUNNING)
            return false;
    return true;
}

static void answer_rendezvous(struct core *c, struct request *rq, const struct allocation *a)
{
    struct json_writer w;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "rendezvousInfo");
    jw_object(&w);
    jw_key(&w, "addresses");
    jw_array(&w);
    for (int i = 0; i < a->part_count; i++)
        jw_string(&w, a->part_count > 1 ? a->parts[i].agent->address : "127.0.0.1");
    jw_array_end(&w);
    jw_kv_int(&w, "rank", rq->id);
    jw_key(&w, "slots");
    jw_array(&w);
    for (int i = 0; i < a->part_count; i++)
        jw_int(&w, a->parts[i].slot_count);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    core_complete(c, rq);
}

static void peers_late(struct core *c, struct parked *p, const char *what)
{
    struct error e = {0};
    error_set(&e, ERR_TIMEOUT, "%s; ask again", what);
    core_refuse(c, core_unpark(c, p), &e);
}

static void rendezvous_late(struct core *c, struct parked *p)
{
    peers_late(c, p, "not all machines of the allocation run yet");
}

// params: allocation, resources id. rq->id keeps the machine's number for the answer.
int core_allocation_rendezvous(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (err)
        return err;
    rq->id = find_part(a, rq, e);
    if (rq->id < 0)
        return e->code;
    if (all_running(a))
        answer_rendezvous(c, rq, a);
    else
        core_park(c, rq, &a->rendezvous_waiters, a, c->now + WAIT_PEERS_US, rendezvous_late);
    return REQUEST_PARKED;
}

void signals_wake(struct core *c, struct allocation *a)
{
    while (a->draining && a->drain_waiters)
        preemption_due(c, a->drain_waiters);
    while (all_running(a) && a->rendezvous_waiters)
        answer_rendezvous(c, core_unpark(c, a->rendezvous_waiters), a);
}

// --- all_gather ----------------------------------------------------------------------------------

static void gather_free(struct gather *g)
{
    for (int i = 0; i < g->count; i++) {
        free(g->peers[i].name);
        free(g->peers[i].data);
    }
    free(g->peers);
    free(g->round);
    free(g);
}

static struct peer *find_peer(const struct gather *g, const char *name)
{
    for (int i = 0; i < g->count; i++)
        if (!strcmp(g->peers[i].name, name))
            return &g->peers[i];
    return NULL;
}

// Names are "ROUND:RANK"; those without a colon (Determined's are random) are of the round "".
static char *round_of(const char *name)
{
    const char *colon = strrchr(name, ':');
    char *round = xstrdup(name);
    round[colon ? colon - name : 0] = '\0';
    return round;
}

// The gather that this peer belongs to. A round that is complete takes nobody new: a stranger to it
// begins the next one of that name.
static struct gather *gather_for(struct allocation *a, const char *name, int wanted)
{
    char *round = round_of(name);
    for (struct gather *g = a->gathers; g; g = g->next)
        if (!strcmp(g->round, round) && (g->count < g->wanted || find_peer(g, name))) {
            free(round);
            return g;
        }
    struct gather *g = xcalloc(1, sizeof *g);
    *g = (struct gather){.next = a->gathers, .round = round, .wanted = wanted};
    a->gathers = g;
    return g;
}

// By number after the colon, else by name.
static int by_rank(const void *left, const void *right)
{
    const struct peer *a = left, *b = right;
    const char *x = strrchr(a->name, ':'), *y = strrchr(b->name, ':');
    long long i = x ? strtoll(x + 1, NULL, 10) : 0, j = y ? strtoll(y + 1, NULL, 10) : 0;
    return i != j ? (i > j) - (i < j) : strcmp(a->name, b->name);
}

static void answer_gather(struct core *c, const struct gather *g, struct request *rq)
{
    struct json_writer w;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "data");
    jw_array(&w);
    for (int i = 0; i < g->count; i++)
        jw_raw(&w, g->peers[i].data);
    jw_array_end(&w);
    jw_object_end(&w);
    core_complete(c, rq);
}

static void drop_old_gathers(struct allocation *a)
{
    int kept = 0;
    for (struct gather **link = &a->gathers; *link;) {
        struct gather *g = *link;
        if (g->waiters || g->count < g->wanted || ++kept <= GATHERS_KEPT) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        gather_free(g);
    }
}

// Gathers are not stored: of one that was complete when the master before this one ended, a peer
// may have its answer, and will not come again, while another's was lost. They start anew then.
static void peers_missing(struct core *c, struct parked *p)
{
    const struct gather *g = p->owner;
    struct allocation *a = core_allocation_find(c, p->rq->principal.allocation_id);
    bool gone = atomic_load(&p->rq->client_gone);
    char what[80];
    snprintf(what, sizeof what, "%d of %d peers have come", g->count, g->wanted);
    peers_late(c, p, what);
    if (a && !a->launched_here && !gone)
        allocation_kill(c, a, OUTCOME_LOST, "its ranks did not meet over a restart of the master");
}

static int check_gather(const struct request *rq, const char **name, int64_t *peers,
                        struct error *e)
{
    *name = jget_string(rq->body, "requestUuid", "");
    *peers = jget_int(rq->body, "numPeers", 0);
    if (!**name || strlen(*name) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "requestUuid: 1 to %d letters", LIMIT_NAME);
    if (*peers < 1 || *peers > LIMIT_SLOTS_PER_TRIAL)
        return error_set(e, ERR_INVALID, "numPeers: 1 to %d", LIMIT_SLOTS_PER_TRIAL);
    return 0;
}

static void join(struct gather *g, const char *name, char *data)
{
    struct peer *known = find_peer(g, name);
    if (known) {
        free(data); // it said so before
        return;
    }
    g->peers = xrealloc(g->peers, ((size_t)g->count + 1) * sizeof *g->peers);
    g->peers[g->count++] = (struct peer){xstrdup(name), data};
    if (g->count == g->wanted)
        qsort(g->peers, (size_t)g->count, sizeof *g->peers, by_rank);
}

// `kind` keeps the rounds of one call apart from those of another.
static int gather_data(struct core *c, struct request *rq, const char *kind, struct error *e)
{
    struct allocation *a;
    const char *name;
    int64_t peers;
    int err = core_caller_of_allocation(c, rq, &a, e);
    if (!err)
        err = check_gather(rq, &name, &peers, e);
    if (err)
        return err;
    name = arena_printf(&rq->arena, "%s%s", kind, name);
    json_t *value = jget(rq->body, "data");
    char *data = value ? json_text(value) : xstrdup("null");
    if (strlen(data) > LIMIT_RENDEZVOUS_VALUE) {
        free(data);
        return error_set(e, ERR_TOO_LARGE, "data: more than %d bytes", LIMIT_RENDEZVOUS_VALUE);
    }
    struct gather *g = gather_for(a, name, (int)peers);
    join(g, name, data);
    core_park(c, rq, &g->waiters, g, c->now + WAIT_PEERS_US, peers_missing);
    if (g->count < g->wanted)
        return REQUEST_PARKED;
    while (g->waiters)
        answer_gather(c, g, core_unpark(c, g->waiters));
    drop_old_gathers(a);
    return REQUEST_PARKED;
}

int core_allocation_all_gather(struct core *c, struct request *rq, struct error *e)
{
    return gather_data(c, rq, "", e);
}

// The same by machines: each says that it runs, and hears of all.
int core_allocation_container_running(struct core *c, struct request *rq, struct error *e)
{
    return gather_data(c, rq, "container:", e);
}

void signals_end(struct core *c, struct allocation *a)
{
    struct error e = {0};
    error_set(&e, ERR_FORBIDDEN, "allocation has ended");
    while (a->drain_waiters)
        core_refuse(c, core_unpark(c, a->drain_waiters), &e);
    while (a->rendezvous_waiters)
        core_refuse(c, core_unpark(c, a->rendezvous_waiters), &e);
    for (struct gather *g = a->gathers; g; g = g->next)
        while (g->waiters)
            core_refuse(c, core_unpark(c, g->waiters), &e);
}

void signals_free(struct allocation *a)
{
    while (a->gathers) {
        struct gather *g = a->gathers;
        a->gathers = g->next;
        gather_free(g);
    }
}
