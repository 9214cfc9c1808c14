// The agents' long-poll: it brings the tasks that run on an agent, and answers with the tasks that
// should run there.
//
// A report only moves a part of an allocation forward (assigned, starting, running, exited), so a
// repeated or late report does no harm. A task that is missing from a report is gone only if the
// report is the first of a new agent process.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"

enum {
    POLL_US = 4 * 1000 * 1000,   // the latest time of an answer, changed or not
    CLOSED_US = 1 * 1000 * 1000, // from a broken connection to the next call of a live agent
    EXIT_STALE = 80,             // exit code of a rank whose allocation had ended; not an error
    EXIT_PEER = 6, // exit code of a native rank that lost a peer: err_exit_code(ERR_PEER)
    SIGNAL_TERM = 15,
    SIGNAL_KILL = 9,
    BY_SHELL = 128, // a shell adds this to the signal of its child
};

static const char supervisor_lost[] = "supervisor lost"; // agent/supervisor/supervisor.h

// --- reported tasks ------------------------------------------------------------------------------

static bool task_has_exited(const json_t *task)
{
    return !strcmp(jget_string(task, "state", ""), "EXITED");
}

// The part of a live allocation that this report is about; NULL: none.
static struct part *reported_part(struct core *c, const struct agent *g, const json_t *task)
{
    struct allocation *a = core_allocation_find(c, jget_string(task, "allocationId", NULL));
    return a ? allocation_part(a, g) : NULL;
}

static void ranks_describe(const json_t *ranks, struct buf *out)
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

// The rank was ended by the signal that ends the other ranks after a failure, so it is not the
// cause.
static bool rank_was_ended(int64_t code, int64_t sig)
{
    if (code > BY_SHELL)
        sig = code - BY_SHELL;
    return sig == SIGNAL_TERM || sig == SIGNAL_KILL;
}

// The outcome of the ranks of one machine.
static enum outcome ranks_outcome(const json_t *ranks, bool native)
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
        else if (rank_was_ended(code, sig))
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

// After the loss of a supervisor nobody knows whether its ranks had started.
static bool ranks_never_started(const json_t *ranks, bool lost)
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

// Stores the exit code in a shell's convention. Ranks that never ran have none.
static void exit_code_store(struct core *c, const struct part *p, const json_t *ranks)
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

static void part_report_exit(struct core *c, struct part *p, const json_t *task)
{
    const json_t *ranks = jget(task, "ranks");
    const char *given = jget_string(task, "reason", "");
    enum outcome outcome = ranks_outcome(ranks, p->allocation->trial->active->native);
    struct buf reason;
    buf_init(&reason, ERROR_TEXT_MAX);
    bool lost = !strncmp(given, supervisor_lost, strlen(supervisor_lost));
    if (p->state != PART_EXITED) {
        exit_code_store(c, p, ranks);
        p->never_started = ranks_never_started(ranks, lost);
    }
    if (lost)
        outcome = OUTCOME_LOST;
    if (*given)
        buf_puts(&reason, given);
    else
        ranks_describe(ranks, &reason);
    const struct rank_failure failure = {
        .outcome = outcome,
        .reason = reason.len ? buf_str(&reason) : "",
        .last_output = jget_string(task, "lastWords", ""),
        .lost_peer = jget_bool(task, "lostPeer", false),
    };
    if (p->state != PART_EXITED && jget(task, "lastWords") &&
        (outcome == OUTCOME_FAILED || outcome == OUTCOME_PEER))
        allocation_report_failure(c, p->allocation, &failure);
    part_exited(c, p, outcome, reason.len ? buf_str(&reason) : "it could not be started");
    buf_free(&reason);
}

static bool allocation_runs(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_RUNNING)
            return false;
    return true;
}

static void part_report(struct core *c, struct part *p, const json_t *task)
{
    bool running = !strcmp(jget_string(task, "state", ""), "RUNNING");
    enum part_state state = running ? PART_RUNNING : PART_STARTING;
    p->reported = true;
    if (task_has_exited(task)) {
        part_report_exit(c, p, task);
        return;
    }
    if (p->state >= state)
        return;
    p->state = state;
    allocation_event(c, p->allocation,
                     allocation_runs(p->allocation) ? ALLOCATION_EV_RUNNING
                                                    : ALLOCATION_EV_STARTING);
}

// Returns the number of tasks that the agent still runs and must not run: their slots are not free.
static int report_apply(struct core *c, struct agent *g, const json_t *tasks)
{
    int stray = 0;
    size_t i;
    json_t *task;
    for (struct part *p = g->parts; p; p = p->next_on_agent)
        p->reported = false;
    json_array_foreach(tasks, i, task)
    {
        struct part *p = reported_part(c, g, task);
        if (!task_has_exited(task) && (!p || p->state == PART_EXITED))
            stray++;
        if (p)
            part_report(c, p, task);
    }
    return stray;
}

// --- registration --------------------------------------------------------------------------------

static void string_replace(char **text, const char *with)
{
    char *copy = xstrdup(with);
    free(*text);
    *text = copy;
}

static void json_replace(json_t **value, json_t *with)
{
    json_incref(with);
    json_decref(*value);
    *value = with;
}

static bool agent_is_registered(const struct agent *g, const json_t *body)
{
    return g->version && json_equal(g->slots, jget(body, "slots")) && g->pool &&
           !strcmp(g->version, jget_string(body, "version", "")) &&
           !strcmp(g->address, jget_string(body, "address", "")) &&
           !strcmp(g->hostname, jget_string(body, "hostname", "")) &&
           !strcmp(g->rack, jget_string(body, "rack", "")) &&
           !strcmp(g->instance, jget_string(body, "instance", "")) &&
           !strcmp(g->master_url, jget_string(body, "masterUrl", ""));
}

// Its tasks were placed on slots that no longer exist.
static void agent_lose_parts(struct core *c, struct agent *g)
{
    for (struct part *p = g->parts, *next; p; p = next) {
        next = p->next_on_agent;
        part_exited(c, p, OUTCOME_LOST, "its machine came back with other slots");
    }
}

static int agent_register(struct core *c, struct agent *g, const json_t *body, struct error *e)
{
    struct pool *pool = core_pool_get(c, jget_string(body, "pool", ""));
    const char *rack = jget_string(body, "rack", "");
    int slots_before = g->slot_count;
    if (agent_is_registered(g, body) && pool == g->pool)
        return 0;
    if (strlen(rack) > LIMIT_NAME)
        return error_set(e, ERR_TOO_LARGE, "rack: more than %d bytes", LIMIT_NAME);
    json_t *before = json_incref(g->slots);
    int err = agent_set_slots(g, json_object_get(body, "slots"), e);
    if (err)
        goto out;
    if (slots_before != g->slot_count || pool != g->pool)
        agent_lose_parts(c, g);
    g->pool = pool;
    if (!g->version)
        g->registered_at = c->wall;
    string_replace(&g->version, jget_string(body, "version", ""));
    string_replace(&g->address, jget_string(body, "address", ""));
    string_replace(&g->hostname, jget_string(body, "hostname", ""));
    string_replace(&g->master_url, jget_string(body, "masterUrl", ""));
    string_replace(&g->rack, rack);
    string_replace(&g->instance, jget_string(body, "instance", ""));
    agent_store(c, g);
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    agent_apply_faults(c, g, before);
    agent_refresh(c, g);
out:
    json_decref(before);
    return err;
}

static int agent_check_id(const char *id, struct error *e)
{
    size_t len = strlen(id);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)id[i] <= ' ' || id[i] == 0x7f || id[i] == '/')
            len = 0;
    if (len && len <= LIMIT_NAME)
        return 0;
    return error_set(e, ERR_INVALID,
                     "an agent's id has 1 to %d characters, without blanks and slashes",
                     LIMIT_NAME);
}

static int agent_find_or_add(struct core *c, const char *id, struct agent **out, struct error *e)
{
    int err = agent_check_id(id, e);
    if (err)
        return err;
    *out = core_agent_find(c, id);
    if (*out)
        return 0;
    if (c->agent_count >= LIMIT_AGENTS)
        return error_set(e, ERR_TOO_LARGE, "there are %d agents already, which is the limit",
                         LIMIT_AGENTS);
    *out = agent_new(c, id);
    return 0;
}

// Sets *fresh if this is the first call of a new agent process. ERR_CONFLICT: it comes from an old
// one.
static int agent_check_session(struct agent *g, const char *session, bool *fresh, struct error *e)
{
    if (!*session)
        return error_set(e, ERR_INVALID, "session: missing");
    *fresh = !g->session || strcmp(g->session, session);
    if (*fresh && g->old_session && !strcmp(g->old_session, session) && g->state == AGENT_CONNECTED)
        return error_set(e, ERR_CONFLICT, "a newer agent with the id %s has connected since",
                         g->id);
    return 0;
}

// Compares the part of an instance that survives a reboot of the machine.
static bool is_same_folder(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len == strcspn(b, ".") && !strncmp(a, b, len);
}

// Two agents with one id would take and lose each other's tasks. So the agent that is connected, or
// that may come back to its tasks, keeps the id until it is given up. However often it restarts, it
// counts as the same agent as long as it has its work folder and its machine was not rebooted.
static int agent_check_instance(const struct core *c, const struct agent *g, const char *instance,
                                struct error *e)
{
    char since[CLOCK_RFC3339_MAX], left[32];
    bool same = !*instance || !*g->instance || !strcmp(g->instance, instance);
    if (same || g->state == AGENT_LOST)
        return 0;
    if (g->state == AGENT_CONNECTED)
        return error_set(e, ERR_CONFLICT,
                         "another agent with the id %s is connected, from %s (%s) since %s: stop "
                         "that one, or give this one an id of its own with --id",
                         g->id, g->address, g->hostname, clock_format(g->connected_at, since));
    if (!g->parts || is_same_folder(g->instance, instance))
        return 0;
    return error_set(
        e, ERR_CONFLICT,
        "another agent with the id %s, at %s (%s), has tasks and does not answer; its "
        "id is free in %s at the latest, unless it comes back",
        g->id, g->address, g->hostname,
        duration_format(g->grace.at > c->now ? g->grace.at - c->now : 0, left, sizeof left));
}

// --- answers -------------------------------------------------------------------------------------

static bool task_is_forgettable(struct core *c, const struct agent *g, const json_t *task)
{
    return task_has_exited(task) && !reported_part(c, g, task);
}

static bool has_forgettable(struct core *c, const struct agent *g, const json_t *tasks)
{
    size_t i;
    json_t *task;
    json_array_foreach(tasks, i, task)
    {
        if (task_is_forgettable(c, g, task))
            return true;
    }
    return false;
}

// After a start of the master, the addresses of agents are known when they have called.
static bool addresses_are_known(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (!a->parts[i].agent->session)
            return false;
    return true;
}

// A part that has not begun waits until all stray tasks have ended: it may have been given the
// slots of one of them, if the master wrongly believed that task's end. It also waits for the
// addresses of the other machines, unless it is to end: a machine that is lost never calls.
static bool part_is_held_back(const struct agent *g, const struct part *p)
{
    if (p->state != PART_ASSIGNED || p->reported)
        return false;
    return g->stray_tasks ||
           (p->allocation->state != ALLOCATION_TERMINATING && !addresses_are_known(p->allocation));
}

static void forget_list_make(struct core *c, const struct agent *g, struct request *rq,
                             struct poll_snapshot *out)
{
    size_t i;
    json_t *task;
    const json_t *reported = jget(rq->body, "tasks");
    const char **forget =
        arena_alloc(&rq->arena, (json_array_size(reported) + 1) * sizeof(const char *));
    json_array_foreach(reported, i, task)
    {
        if (task_is_forgettable(c, g, task))
            forget[out->forget_count++] =
                arena_strdup(&rq->arena, jget_string(task, "allocationId", ""));
    }
    out->forget = forget;
}

static void poll_answer(struct core *c, struct agent *g)
{
    size_t parts = 0;
    struct request *rq = core_unpark(c, g->poll);
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        parts++;
    struct task_snapshot *tasks = arena_alloc(&rq->arena, (parts + 1) * sizeof *tasks);
    struct poll_snapshot *answer = arena_alloc(&rq->arena, sizeof *answer);
    *answer = (struct poll_snapshot){.version = g->desired, .items = tasks};
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        if (!part_is_held_back(g, p))
            tasks[answer->count++] = launch_describe(c, rq, p);
    forget_list_make(c, g, rq, answer);
    rq->result = answer;
    core_complete(c, rq);
}

void agents_answer_due(struct core *c)
{
    while (c->due_agents) {
        struct agent *g = c->due_agents;
        c->due_agents = g->due_next;
        g->answer_due = false;
        if (g->poll)
            poll_answer(c, g);
    }
}

// An agent whose connection has broken is shown as draining at once. It is given up later, if it
// does not call.
static void agent_set_unreachable(struct core *c, struct agent *g, bool unreachable)
{
    if (g->unreachable == unreachable)
        return;
    g->unreachable = unreachable;
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
}

// A live agent calls again at once after its connection closed; a killed one does not.
static void poll_expire(struct core *c, struct parked_request *p)
{
    struct agent *g = p->owner;
    if (!atomic_load(&p->rq->client_gone)) {
        poll_answer(c, g);
        return;
    }
    core_complete(c, core_unpark(c, p));
    agent_set_unreachable(c, g, true);
    if (g->silence.at > c->now + CLOSED_US)
        timer_set(&c->timers, &g->silence, c->now + CLOSED_US);
}

static void poll_park(struct core *c, struct agent *g, struct request *rq)
{
    struct error e = {0};
    error_set(&e, ERR_CONFLICT, "agent %s has made a newer call", g->id);
    if (g->poll)
        core_refuse(c, core_unpark(c, g->poll), &e);
    // An agent whose call is held cannot report.
    int64_t held = c->options.agent_silence_us / 2;
    held = held < POLL_US ? held : POLL_US;
    core_park(c, rq, &g->poll, g, c->now + held, poll_expire);
    bool due = jget_int(rq->body, "seen", -1) != g->desired ||
               has_forgettable(c, g, jget(rq->body, "tasks"));
    if (due && !g->answer_due) {
        g->answer_due = true;
        g->due_next = c->due_agents;
        c->due_agents = g;
    }
}

// Tasks on other machines may have waited for this agent's address.
static void peers_release(struct core *c, const struct agent *g)
{
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        for (int i = 0; i < p->allocation->part_count; i++)
            agent_changed(c, p->allocation->parts[i].agent);
}

static void agent_begin_session(struct core *c, struct agent *g, const char *session)
{
    if (!g->session)
        peers_release(c, g);
    free(g->old_session);
    g->old_session = g->session;
    g->session = xstrdup(session);
    g->applied = -1;
}

// Whether a later report has overtaken this one. Versions above ours come from an earlier life of
// the master and tell nothing.
static bool report_is_late(struct agent *g, int64_t seen)
{
    if (seen < g->applied)
        return true;
    if (seen <= g->desired)
        g->applied = seen;
    return false;
}

int core_agent_poll(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    bool fresh;
    const char *session = jget_string(rq->body, "session", "");
    if (rq->principal.kind != PRINCIPAL_AGENT)
        return error_set(e, ERR_FORBIDDEN, "only agents may make this call");
    int err = agent_find_or_add(c, rq->params[0], &g, e);
    if (!err)
        err = agent_check_session(g, session, &fresh, e);
    if (!err)
        err = agent_check_instance(c, g, jget_string(rq->body, "instance", ""), e);
    if (!err)
        err = agent_register(c, g, rq->body, e);
    if (err)
        return err;
    g->heard_at = c->wall;
    agent_set_unreachable(c, g, false);
    string_replace(&g->mount_fault, jget_string(rq->body, "mountFault", ""));
    json_replace(&g->protections, json_object_get(rq->body, "protections"));
    json_replace(&g->limits, json_object_get(rq->body, "limits"));
    if (fresh)
        agent_begin_session(c, g, session);
    if (!report_is_late(g, jget_int(rq->body, "seen", -1))) {
        int before = g->stray_tasks;
        g->stray_tasks = report_apply(c, g, jget(rq->body, "tasks"));
        if (g->stray_tasks != before)
            agent_refresh(c, g);
        if (before && !g->stray_tasks)
            agent_changed(c, g);
    }
    agent_record_utilization(c, g, jget(rq->body, "use"), &rq->arena);
    agent_event(c, g, fresh ? AGENT_EV_NEW_SESSION : AGENT_EV_POLL);
    timer_set(&c->timers, &g->silence, c->now + c->options.agent_silence_us);
    poll_park(c, g, rq);
    return REQUEST_PARKED;
}
