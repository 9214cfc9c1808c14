// Explains why a trial waits: the reason of the scheduler as a code, numbers, and a sentence that
// says what would help.
#include "master/calls/queue.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "master/calls/module.h"
#include "master/calls/snapshots.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/retries.h"
#include "master/teams/teams.h"

static const char *const reason_codes[SCHED_REASON_COUNT] = {
    [SCHED_PLACED] = "PLACED",
    [SCHED_NOT_CONSIDERED] = "NOT_CONSIDERED",
    [SCHED_NO_AGENTS] = "NO_AGENTS",
    [SCHED_OVER_AGENT] = "OVER_AGENT",
    [SCHED_OVER_POOL] = "OVER_POOL",
    [SCHED_OVER_MAXIMUM] = "OVER_MAXIMUM",
    [SCHED_OVER_LIMIT] = "OVER_LIMIT",
    [SCHED_TEAM_FULL] = "TEAM_FULL",
    [SCHED_BUSY] = "BUSY",
    [SCHED_FRAGMENTED] = "SPREAD",
    [SCHED_BEHIND] = "BEHIND",
    [SCHED_DRAINING] = "DRAINING",
};

const char *wait_reason_code(const struct sched_reason *r)
{
    return reason_codes[r->code];
}

static const char *slots_text(int64_t count)
{
    return count == 1 ? "slot" : "slots";
}

static int64_t experiment_of_trial(struct core *c, int64_t trial)
{
    const struct trial *t = core_trial_find(c, trial);
    return t ? t->active->experiment->id : 0;
}

// The team whose maximum counts: the workspace, the user in it, or the whole cluster.
static void write_team(struct core *c, const struct active_experiment *active, int team,
                       struct buf *out)
{
    const struct experiment *x = active->experiment;
    const struct workspace *ws = core_workspace_of(c, x);
    if (team == ws->team)
        buf_printf(out, "team %s", ws->name);
    else if (team == core_team(c, ws->id, x->user_id))
        buf_printf(out, "%s in team %s", active->owner, ws->name);
    else
        buf_puts(out, "the cluster");
}

// --- the sentence --------------------------------------------------------------------------------

static void write_impossible(struct core *c, const struct active_experiment *active,
                             const struct sched_reason *r, struct buf *out)
{
    const char *pool = active->pool->name;
    if (r->code == SCHED_NO_AGENTS) {
        buf_printf(
            out,
            "waits for an agent: resource pool %s has none that is connected and enabled; ask an "
            "administrator to start one with muster-agent --pool %s, or to enable one",
            pool, pool);
        return;
    }
    buf_printf(out, "asks for %d %s", r->needs, slots_text(r->needs));
    if (r->code == SCHED_OVER_AGENT) {
        buf_printf(out,
                   " on one machine, and the largest machine of resource pool %s has %d: lower "
                   "slots_per_trial, leave out is_single_node, or ask an administrator to add a "
                   "machine with %d slots",
                   pool, r->largest, r->needs);
    } else if (r->code == SCHED_OVER_POOL) {
        buf_printf(out,
                   ", and resource pool %s has %d in all: lower slots_per_trial, allow fewer with "
                   "min_slots, or ask an administrator to add agents",
                   pool, r->total);
    } else {
        buf_puts(out, ", and ");
        write_team(c, active, r->team, out);
        buf_printf(out,
                   " may never hold more than %lld: lower slots_per_trial, or ask an administrator "
                   "to raise that maximum",
                   (long long)r->team_limit);
    }
}

static void write_own_limit(struct core *c, const struct active_experiment *active,
                            const struct sched_reason *r, struct buf *out)
{
    if (r->code == SCHED_OVER_LIMIT) {
        buf_printf(out,
                   "its experiment holds %lld of the %lld slots it may hold at a time "
                   "(resources.max_slots): waits until one of its trials ends",
                   (long long)r->job_used, (long long)r->job_limit);
        return;
    }
    buf_puts(out, "waits until a job ends of ");
    write_team(c, active, r->team, out);
    buf_printf(out, ", which holds %lld of the %lld slots it may hold", (long long)r->team_used,
               (long long)r->team_limit);
}

static void write_smaller_option(const struct sched_reason *r, struct buf *out)
{
    if (r->would_fit)
        buf_printf(out,
                   "; with %d it would start now: lower slots_per_trial, or allow fewer with "
                   "min_slots",
                   r->would_fit);
}

static void write_competition(struct core *c, const struct active_experiment *active,
                              const struct sched_reason *r, struct buf *out)
{
    if (r->code == SCHED_FRAGMENTED) {
        buf_printf(out,
                   "needs %d slots on one machine; %d are free, but at most %d of them on one "
                   "machine: waits until one machine has room",
                   r->needs, r->free, r->largest_free);
        write_smaller_option(r, out);
    } else if (r->code == SCHED_BEHIND) {
        const struct trial *first = core_trial_find(c, r->behind);
        buf_puts(out, "waits behind ");
        if (first)
            active_experiment_write_name(first->active, out);
        else
            buf_puts(out, "another experiment");
        buf_puts(out, ", for which the free slots are kept");
    } else if (r->code == SCHED_DRAINING) {
        buf_puts(out, "starts as soon as the jobs that make room for it have saved their work");
        if (r->leaving)
            buf_printf(out, "; %d still to leave", r->leaving);
    } else {
        buf_printf(out, "needs %d %s; %d of %d in resource pool %s are free", r->needs,
                   slots_text(r->needs), r->free, r->total, active->pool->name);
        if (r->ahead)
            buf_printf(out, "; %d before it in the queue", r->ahead);
        write_smaller_option(r, out);
    }
}

// Slots of the pool that are out of use because of a fault.
static void write_faults(struct core *c, const struct active_experiment *active, struct buf *out)
{
    int count = 0;
    for (size_t i = 0; i < c->agent_count; i++) {
        const struct agent *g = c->agents[i];
        for (int k = 0; g->pool == active->pool && g->state == AGENT_CONNECTED && k < g->slot_count;
             k++) {
            const char *fault = agent_slot_fault(g, k);
            if (fault && count++ == 0)
                buf_printf(out, "; out of use: slot %d of agent %s (%s)", k, g->id, fault);
        }
    }
    if (count > 1)
        buf_printf(out, " and %d more", count - 1);
}

static void wait_reason_write(struct core *c, const struct active_experiment *active,
                              const struct sched_reason *r, struct buf *out)
{
    char room[FREE_SPACE_TEXT];
    if (free_space_is_low(c->options.free_space, FREE_SPACE_CHECKPOINTS)) {
        buf_printf(out, "waits: %s",
                   free_space_describe(c->options.free_space, FREE_SPACE_CHECKPOINTS, room));
        return;
    }
    switch (r->code) {
    case SCHED_NO_AGENTS:
    case SCHED_OVER_AGENT:
    case SCHED_OVER_POOL:
    case SCHED_OVER_MAXIMUM:
        write_impossible(c, active, r, out);
        write_faults(c, active, out);
        break;
    case SCHED_OVER_LIMIT:
    case SCHED_TEAM_FULL:
        write_own_limit(c, active, r, out);
        break;
    case SCHED_BUSY:
    case SCHED_FRAGMENTED:
    case SCHED_BEHIND:
    case SCHED_DRAINING:
        write_competition(c, active, r, out);
        write_faults(c, active, out);
        break;
    case SCHED_PLACED:
    case SCHED_NOT_CONSIDERED:
    case SCHED_REASON_COUNT:
        buf_puts(out, "has just been queued");
        break;
    }
}

bool trial_waits(const struct trial *t)
{
    return t->allocation && t->allocation->state == ALLOCATION_QUEUED;
}

void experiment_count_slots(const struct active_experiment *active, int64_t *wanted, int64_t *held)
{
    *wanted = *held = 0;
    for (const struct trial *t = active->trials; t; t = t->next) {
        if (!t->allocation)
            continue;
        *wanted += active->slots_per_trial;
        *held += trial_waits(t) ? 0 : t->allocation->slots;
    }
}

bool wait_reason_find(struct core *c, const struct active_experiment *active,
                      struct sched_reason *out)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        if (trial_waits(t)) {
            sched_explain_gang(c->sched, t->allocation->gang, c->now, out);
            return true;
        }
    return false;
}

// The cause of the first allocation that the scheduler has asked to leave; NULL: none.
static const char *find_preemption_cause(const struct active_experiment *active)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        if (t->allocation && t->allocation->preempt_reason)
            return t->allocation->preempt_reason;
    return NULL;
}

// The draining allocation with the latest deadline; NULL: none runs.
static const struct allocation *find_last_to_leave(const struct active_experiment *active)
{
    const struct allocation *last = NULL;
    for (const struct trial *t = active->trials; t; t = t->next)
        if (t->allocation && !trial_waits(t) &&
            (!last || t->allocation->drain_timer.at > last->drain_timer.at))
            last = t->allocation;
    return last;
}

static void write_paused(const struct core *c, const struct active_experiment *active,
                         struct buf *out)
{
    char span[32];
    const struct allocation *a = find_last_to_leave(active);
    if (!a) {
        buf_puts(out, "is paused");
        return;
    }
    if (a->state == ALLOCATION_TERMINATING) {
        buf_printf(out, "is paused; %s",
                   a->polls ? "its processes are being ended"
                            : "its program has not polled for preemption, so it is ended without "
                              "being asked to save its work");
        return;
    }
    buf_puts(out, "was asked to save its work and leave its slots");
    if (a->drain_timer.place && a->drain_timer.at > c->now)
        buf_printf(out, "; if it has not left in %s, it is ended (preemption_timeout)",
                   duration_format(a->drain_timer.at - c->now, span, sizeof span));
}

// The first trial that waits to be started again; NULL: none.
static const struct trial *find_retrying_trial(const struct active_experiment *active)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        if (t->retry.at)
            return t;
    return NULL;
}

// An agent that runs part of the experiment and is not connected; NULL: all are connected.
static const struct agent *find_silent_agent(const struct active_experiment *active)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        for (int i = 0; t->allocation && i < t->allocation->part_count; i++)
            if (t->allocation->parts[i].agent->state != AGENT_CONNECTED)
                return t->allocation->parts[i].agent;
    return NULL;
}

static void wait_reason_describe(struct core *c, const struct active_experiment *active,
                                 struct buf *out)
{
    const struct agent *silent = find_silent_agent(active);
    struct sched_reason r;
    const char *leaves = find_preemption_cause(active);
    const struct trial *retries = find_retrying_trial(active);
    if (wait_reason_find(c, active, &r))
        wait_reason_write(c, active, &r, out);
    else if (leaves)
        buf_puts(out, leaves);
    else if (silent)
        buf_printf(out,
                   "runs on agent %s, which is not connected now: unless the agent returns soon, "
                   "the job starts again from its newest checkpoint",
                   silent->id);
    else if (active->experiment->state == EXPERIMENT_PAUSED)
        write_paused(c, active, out);
    else if (retries)
        retry_describe(c, retries, out);
}

// --- the answer ----------------------------------------------------------------------------------

int64_t wait_reason_start(const struct core *c, const struct sched_reason *r)
{
    return r->start ? core_to_wall(c, r->start) : 0;
}

static const char *move_text(struct request *rq, struct buf *text)
{
    const char *copy = arena_strdup(&rq->arena, buf_str(text));
    buf_free(text);
    return copy;
}

const char *wait_reason_text(struct core *c, struct request *rq,
                             const struct active_experiment *active)
{
    struct buf text;
    buf_init(&text, ERROR_TEXT_MAX);
    wait_reason_describe(c, active, &text);
    return move_text(rq, &text);
}

static const char *resource_text(struct core *c, struct request *rq,
                                 const struct active_experiment *active,
                                 const struct sched_reason *r)
{
    struct buf text;
    buf_init(&text, ERROR_TEXT_MAX);
    if (r->code == SCHED_NO_AGENTS)
        buf_puts(&text, "agents");
    else if (r->code == SCHED_OVER_AGENT || r->code == SCHED_FRAGMENTED)
        buf_printf(&text, "agent of %d %s", r->needs, slots_text(r->needs));
    else if (r->code == SCHED_OVER_LIMIT)
        buf_puts(&text, "job limit");
    else if (r->code == SCHED_OVER_MAXIMUM || r->code == SCHED_TEAM_FULL) {
        buf_puts(&text, "team maximum: ");
        write_team(c, active, r->team, &text);
    } else
        buf_puts(&text, "slots");
    return move_text(rq, &text);
}

static void copy_wait(struct core *c, struct request *rq, const struct trial *t,
                      struct trial_wait *out)
{
    const struct active_experiment *active = t->active;
    struct sched_reason r;
    struct buf text;
    buf_init(&text, ERROR_TEXT_MAX);
    sched_explain_gang(c->sched, t->allocation->gang, c->now, &r);
    wait_reason_write(c, active, &r, &text);
    *out = (struct trial_wait){
        .trial_id = t->id,
        .allocation_id = arena_strdup(&rq->arena, t->allocation->id),
        .code = wait_reason_code(&r),
        .reason = move_text(rq, &text),
        .resource = resource_text(c, rq, active, &r),
        .team = arena_strdup(&rq->arena, core_workspace_of(c, active->experiment)->name),
        .numbers = r,
        .estimated_start = wait_reason_start(c, &r),
        .behind = r.code == SCHED_BEHIND ? experiment_of_trial(c, r.behind) : 0,
    };
}

static void copy_waits(struct core *c, struct request *rq, const struct active_experiment *active,
                       struct experiment_wait *out)
{
    size_t count = 0;
    for (const struct trial *t = active->trials; t; t = t->next)
        count += trial_waits(t);
    struct trial_wait *items = arena_alloc(&rq->arena, count * sizeof *items);
    for (const struct trial *t = active->trials; t; t = t->next)
        if (trial_waits(t))
            copy_wait(c, rq, t, &items[out->trial_count++]);
    out->trials = items;
    out->pool = arena_strdup(&rq->arena, active->pool->name);
    out->priority = active->priority;
    experiment_count_slots(active, &out->wanted, &out->held);
}

int core_experiment_why(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = core_param_experiment(c, rq, &x, e);
    if (!err && !core_sees(c, rq, x))
        err = error_not_found(e, "experiment", "%lld", (long long)x->id);
    if (err)
        return err;
    struct experiment_wait *result = arena_alloc(&rq->arena, sizeof *result);
    *result = (struct experiment_wait){.experiment_id = x->id, .reason = ""};
    if (x->active && x->active->unmanaged) {
        result->reason = "its programs run elsewhere; it waits for nothing in this cluster";
    } else if (x->active) {
        result->reason = wait_reason_text(c, rq, x->active);
        copy_waits(c, rq, x->active, result);
    }
    rq->result = result;
    return 0;
}
