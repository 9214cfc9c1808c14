// The agents' long-poll: what runs there comes in, what should run there goes out.
//
// A report only ever moves a part of an allocation on (assigned, starting, running, exited), so one
// that comes twice or late does no harm. Only the first report of a new process of the agent says
// by what is missing from it that something is gone.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"

enum {
    POLL_US = 4 * 1000 * 1000,   // an answer comes after this time at the latest, changed or not
    CLOSED_US = 1 * 1000 * 1000, // from a broken connection to the next call of a live agent
    EXIT_STALE = 80,             // a rank whose allocation had ended: nobody's error
    EXIT_PEER = 6,               // a native rank that lost a peer: err_exit_code(ERR_PEER)
    SIGNAL_TERM = 15,
    SIGNAL_KILL = 9,
    BY_SHELL = 128, // a shell tells a signal of its child so
};

static const char supervisor_lost[] = "supervisor lost"; // agent/supervisor/supervisor.h

// --- what a report says of a task ----------------------------------------------------------------

static bool is_exited(const json_t *task)
{
    return !strcmp(jget_string(task, "state", ""), "EXITED");
}

// The part of a live allocation that this report is about, or NULL.
static struct part *part_of(struct core *c, const struct agent *g, const json_t *task)
{
    struct allocation *a = core_allocation_find(c, jget_string(task, "allocationId", NULL));
    return a ? allocation_part(a, g) : NULL;
}

static void describe_ranks(const json_t *ranks, struct buf *out)
{
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        int64_t code = jget_int(rank, "exitCode", 0), sig = jget_int(rank, "signal", 0);
        if (code || sig)
            buf_printf(out, "%srank %lld: %s %lld", out->len ? "; " : "",
                       (long long)jget_int(rank, "rank", 0), sig ? "signal" : "exit",
                       (long long)(sig ? sig : code));
    }
}

// Ended by what ends all ranks after one: by itself no cause.
static bool was_swept(int64_t code, int64_t sig)
{
    if (code > BY_SHELL)
        sig = code - BY_SHELL;
    return sig == SIGNAL_TERM || sig == SIGNAL_KILL;
}

// How a machine's ranks ended.
static enum outcome judge_ranks(const json_t *ranks, bool native)
{
    bool stale = false, swept = false, unstarted = false, lost_peer = false;
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        int64_t code = jget_int(rank, "exitCode", 0), sig = jget_int(rank, "signal", 0);
        bool never_ran = !jget(rank, "exitCode") && !jget(rank, "signal");
        if (never_ran)
            unstarted = true;
        else if (code == EXIT_STALE)
            stale = true;
        else if (was_swept(code, sig))
            swept = true;
        else if (code == EXIT_PEER && native)
            lost_peer = true;
        else if (code || sig)
            return OUTCOME_FAILED;
    }
    if (stale)
        return OUTCOME_LOST;
    if (lost_peer)
        return OUTCOME_PEER;
    return swept || unstarted || !json_array_size(ranks) ? OUTCOME_FAILED : OUTCOME_NONE;
}

// Of those of a supervisor that was lost nobody knows.
static bool never_started(const json_t *ranks, bool lost)
{
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        if (jget_int(rank, "pid", 0) || jget(rank, "exitCode") || jget(rank, "signal"))
            return false;
    }
    return !lost;
}

// As a shell tells it. What never ran has none.
static void keep_exit_code(struct core *c, const struct part *p, const json_t *ranks)
{
    int64_t found = -1;
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        int64_t sig = jget_int(rank, "signal", 0);
        int64_t code = sig ? BY_SHELL + sig : jget_int(rank, "exitCode", -1);
        found = found > 0 || code < 0 ? found : code;
    }
    if (found >= 0)
        STORE(c, ALLOCATION_SET_EXIT_CODE, found, p->allocation->id);
}

static void report_exit(struct core *c, struct part *p, const json_t *task)
{
    const json_t *ranks = jget(task, "ranks");
    const char *given = jget_string(task, "reason", "");
    enum outcome outcome = judge_ranks(ranks, p->allocation->trial->active->native);
    struct buf reason;
    buf_init(&reason, ERROR_TEXT_MAX);
    bool lost = !strncmp(given, supervisor_lost, strlen(supervisor_lost));
    if (p->state != PART_EXITED) {
        keep_exit_code(c, p, ranks);
        p->idle = never_started(ranks, lost);
    }
    if (lost)
        outcome = OUTCOME_LOST;
    if (*given)
        buf_puts(&reason, given);
    else
        describe_ranks(ranks, &reason);
    const struct failure failure = {
        .outcome = outcome,
        .reason = reason.len ? buf_str(&reason) : "",
        .words = jget_string(task, "lastWords", ""),
        .lost_peer = jget_bool(task, "lostPeer", false),
    };
    if (p->state != PART_EXITED && jget(task, "lastWords") &&
        (outcome == OUTCOME_FAILED || outcome == OUTCOME_PEER))
        allocation_hear(c, p->allocation, &failure);
    part_exited(c, p, outcome, reason.len ? buf_str(&reason) : "it could not be started");
    buf_free(&reason);
}

static bool runs_everywhere(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_RUNNING)
            return false;
    return true;
}

static void report_part(struct core *c, struct part *p, const json_t *task)
{
    bool running = !strcmp(jget_string(task, "state", ""), "RUNNING");
    enum part_state state = running ? PART_RUNNING : PART_STARTING;
    p->reported = true;
    if (is_exited(task)) {
        report_exit(c, p, task);
        return;
    }
    if (p->state >= state)
        return;
    p->state = state;
    allocation_event(c, p->allocation,
                     runs_everywhere(p->allocation) ? ALLOCATION_EV_RUNNING
                                                    : ALLOCATION_EV_STARTING);
}

// Returns how many tasks the agent still runs that must not be: their slots are not free yet.
static int take_report(struct core *c, struct agent *g, const json_t *tasks)
{
    int strangers = 0;
    size_t i;
    json_t *task;
    for (struct part *p = g->parts; p; p = p->next_on_agent)
        p->reported = false;
    json_array_foreach(tasks, i, task)
    {
        struct part *p = part_of(c, g, task);
        if (!is_exited(task) && (!p || p->state == PART_EXITED))
            strangers++;
        if (p)
            report_part(c, p, task);
    }
    return strangers;
}

// --- the agent itself ----------------------------------------------------------------------------

static void replace(char **text, const char *with)
{
    char *copy = xstrdup(with);
    free(*text);
    *text = copy;
}

static bool is_registered(const struct agent *g, const json_t *body)
{
    return g->version && json_equal(g->slots, jget(body, "slots")) && g->pool &&
           !strcmp(g->version, jget_string(body, "version", "")) &&
           !strcmp(g->address, jget_string(body, "address", "")) &&
           !strcmp(g->hostname, jget_string(body, "hostname", "")) &&
           !strcmp(g->rack, jget_string(body, "rack", "")) &&
           !strcmp(g->instance, jget_string(body, "instance", "")) &&
           !strcmp(g->master_url, jget_string(body, "masterUrl", ""));
}

// Its tasks were placed on slots that are not there any more.
static void lose_parts(struct core *c, struct agent *g)
{
    for (struct part *p = g->parts, *next; p; p = next) {
        next = p->next_on_agent;
        part_exited(c, p, OUTCOME_LOST, "its machine came back with other slots");
    }
}

static int enroll(struct core *c, struct agent *g, const json_t *body, struct error *e)
{
    struct pool *pool = core_pool(c, jget_string(body, "pool", ""));
    const char *rack = jget_string(body, "rack", "");
    int slots_before = g->slot_count;
    if (is_registered(g, body) && pool == g->pool)
        return 0;
    if (strlen(rack) > LIMIT_NAME)
        return error_set(e, ERR_TOO_LARGE, "rack: more than %d bytes", LIMIT_NAME);
    json_t *before = json_incref(g->slots);
    int err = agent_set_slots(g, json_object_get(body, "slots"), e);
    if (err)
        goto out;
    if (slots_before != g->slot_count || pool != g->pool)
        lose_parts(c, g);
    g->pool = pool;
    if (!g->version)
        g->registered_at = c->wall;
    replace(&g->version, jget_string(body, "version", ""));
    replace(&g->address, jget_string(body, "address", ""));
    replace(&g->hostname, jget_string(body, "hostname", ""));
    replace(&g->master_url, jget_string(body, "masterUrl", ""));
    replace(&g->rack, rack);
    replace(&g->instance, jget_string(body, "instance", ""));
    agent_store(c, g);
    core_event(c, EVENT_AGENT, 0, 0, g->id);
    agent_take_faults(c, g, before);
    agent_refresh(c, g);
out:
    json_decref(before);
    return err;
}

static int check_id(const char *id, struct error *e)
{
    size_t len = strlen(id);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)id[i] <= ' ' || id[i] == 0x7f || id[i] == '/')
            len = 0;
    if (len && len <= LIMIT_NAME)
        return 0;
    return error_set(e, ERR_INVALID,
                     "an agent's id has 1 to %d letters, none of them a blank or a slash",
                     LIMIT_NAME);
}

static int find_or_make(struct core *c, const char *id, struct agent **out, struct error *e)
{
    int err = check_id(id, e);
    if (err)
        return err;
    *out = core_agent_find(c, id);
    if (*out)
        return 0;
    if (c->agent_count >= LIMIT_AGENTS)
        return error_set(e, ERR_TOO_LARGE, "there are %d agents already, the most there can be",
                         LIMIT_AGENTS);
    *out = agent_new(c, id);
    return 0;
}

// Whether this is the first call of a new process of the agent. ERR_CONFLICT: of an old one.
static int check_session(struct agent *g, const char *session, bool *fresh, struct error *e)
{
    if (!*session)
        return error_set(e, ERR_INVALID, "session: missing");
    *fresh = !g->session || strcmp(g->session, session);
    if (*fresh && g->old_session && !strcmp(g->old_session, session) && g->state == AGENT_CONNECTED)
        return error_set(e, ERR_CONFLICT, "another agent of the name %s has come after this one",
                         g->id);
    return 0;
}

// The part of an instance that stays when the machine is started anew.
static bool is_same_folder(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len == strcspn(b, ".") && !strncmp(a, b, len);
}

// Two that were given one id would take each other's tasks for their own and lose them. The one
// that is here, or may come back to what it runs, keeps the id until it is gone; it is the same one
// as long as it has its work folder and its machine was not started anew, however often it starts.
static int check_instance(const struct core *c, const struct agent *g, const char *instance,
                          struct error *e)
{
    char since[CLOCK_RFC3339_MAX], left[32];
    bool same = !*instance || !*g->instance || !strcmp(g->instance, instance);
    if (same || g->state == AGENT_LOST)
        return 0;
    if (g->state == AGENT_CONNECTED)
        return error_set(e, ERR_CONFLICT,
                         "another agent of the name %s is connected, from %s (%s) since %s: stop "
                         "that one, or give this one a name of its own with --id",
                         g->id, g->address, g->hostname, clock_format(g->connected_at, since));
    if (!g->parts || is_same_folder(g->instance, instance))
        return 0;
    return error_set(
        e, ERR_CONFLICT,
        "another agent of the name %s, at %s (%s), is not heard and has tasks; its "
        "name is free in %s at the latest, if it does not come back",
        g->id, g->address, g->hostname,
        duration_format(g->grace.at > c->now ? g->grace.at - c->now : 0, left, sizeof left));
}

// --- answers -------------------------------------------------------------------------------------

static bool is_to_be_forgotten(struct core *c, const struct agent *g, const json_t *task)
{
    return is_exited(task) && !part_of(c, g, task);
}

static bool must_forget(struct core *c, const struct agent *g, const json_t *tasks)
{
    size_t i;
    json_t *task;
    json_array_foreach(tasks, i, task)
    {
        if (is_to_be_forgotten(c, g, task))
            return true;
    }
    return false;
}

// What has not begun there waits until all that must not be there has ended: it may have been given
// the same slots, when the end of an earlier task was believed and was not so.
static bool is_held_back(const struct agent *g, const struct part *p)
{
    return g->strangers && p->state == PART_ASSIGNED && !p->reported;
}

static void answer(struct core *c, struct agent *g)
{
    size_t i;
    json_t *task;
    struct json_writer w;
    struct request *rq = core_unpark(c, g->poll);
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_kv_int(&w, "version", g->desired);
    jw_key(&w, "tasks");
    jw_array(&w);
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        if (!is_held_back(g, p))
            launch_write(c, &w, p);
    jw_array_end(&w);
    jw_key(&w, "forget");
    jw_array(&w);
    json_array_foreach(jget(rq->body, "tasks"), i, task)
    {
        if (is_to_be_forgotten(c, g, task))
            jw_string(&w, jget_string(task, "allocationId", ""));
    }
    jw_array_end(&w);
    jw_object_end(&w);
    core_complete(c, rq);
}

void agents_answer_due(struct core *c)
{
    while (c->due_agents) {
        struct agent *g = c->due_agents;
        c->due_agents = g->due_next;
        g->answer_due = false;
        if (g->poll)
            answer(c, g);
    }
}

// A live agent whose connection closed calls again at once; one that was killed does not.
static void poll_over(struct core *c, struct parked *p)
{
    struct agent *g = p->owner;
    if (!atomic_load(&p->rq->client_gone)) {
        answer(c, g);
        return;
    }
    core_complete(c, core_unpark(c, p));
    if (g->silence.at > c->now + CLOSED_US)
        timer_set(&c->timers, &g->silence, c->now + CLOSED_US);
}

static void park_poll(struct core *c, struct agent *g, struct request *rq)
{
    struct error e = {0};
    error_set(&e, ERR_CONFLICT, "agent %s has called again since", g->id);
    if (g->poll)
        core_refuse(c, core_unpark(c, g->poll), &e);
    // An agent whose call is held says nothing.
    int64_t held = c->options.agent_silence_us / 2;
    held = held < POLL_US ? held : POLL_US;
    core_park(c, rq, &g->poll, g, c->now + held, poll_over);
    bool due =
        jget_int(rq->body, "seen", -1) != g->desired || must_forget(c, g, jget(rq->body, "tasks"));
    if (due && !g->answer_due) {
        g->answer_due = true;
        g->due_next = c->due_agents;
        c->due_agents = g;
    }
}

static void begin_session(struct agent *g, const char *session)
{
    free(g->old_session);
    g->old_session = g->session;
    g->session = xstrdup(session);
    g->applied = -1;
}

// Whether it was overtaken by a later report. Versions beyond ours are of an earlier life of the
// master, and say nothing.
static bool is_late(struct agent *g, int64_t seen)
{
    if (seen < g->applied)
        return true;
    if (seen <= g->desired)
        g->applied = seen;
    return false;
}

int core_agent_sync(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    bool fresh;
    const char *session = jget_string(rq->body, "session", "");
    if (rq->principal.kind != PRINCIPAL_AGENT)
        return error_set(e, ERR_FORBIDDEN, "only agents sync");
    int err = find_or_make(c, rq->params[0], &g, e);
    if (!err)
        err = check_session(g, session, &fresh, e);
    if (!err)
        err = check_instance(c, g, jget_string(rq->body, "instance", ""), e);
    if (!err)
        err = enroll(c, g, rq->body, e);
    if (err)
        return err;
    g->heard_at = c->wall;
    if (fresh)
        begin_session(g, session);
    if (!is_late(g, jget_int(rq->body, "seen", -1))) {
        int before = g->strangers;
        g->strangers = take_report(c, g, jget(rq->body, "tasks"));
        if (g->strangers != before)
            agent_refresh(c, g);
        if (before && !g->strangers)
            agent_changed(c, g);
    }
    agent_take_use(c, g, jget(rq->body, "use"), &rq->arena);
    agent_event(c, g, fresh ? AGENT_EV_NEW_SESSION : AGENT_EV_SYNC);
    timer_set(&c->timers, &g->silence, c->now + c->options.agent_silence_us);
    park_poll(c, g, rq);
    return REQUEST_PARKED;
}
