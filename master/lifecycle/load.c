// Reads agents, experiments, trials and allocations from the store when the master starts, and
// continues what was under way.
//
// A task that ran when the master ended runs on; its allocation is taken up as it was, and its
// agent's first report says how it is by now.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"
#include "master/lifecycle/retries.h"
#include "master/lifecycle/unmanaged.h"

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static int parse(const char *text, const char *what, json_t **out, struct error *e)
{
    int err = json_parse(text, strlen(text), what, out, e);
    return err ? error_prefix(e, "the store is damaged") : 0;
}

// Calls row() on every row of a query.
static int each(struct core *c, enum stmt query,
                int (*row)(struct core *c, struct db_rows *rows, struct error *e), struct error *e)
{
    struct db_rows *rows = db_query_all(c->reader, query);
    int err = 0, more = 0;
    while (!err && (more = db_next(rows)) > 0)
        err = row(c, rows, e);
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : err;
}

// --- ids and agents ------------------------------------------------------------------------------

static int load_ids(struct core *c, struct db_rows *rows, struct error *e)
{
    (void)e;
    c->next_experiment = DB_GET(rows, LAST_IDS, experiment_id) + 1;
    c->next_trial = DB_GET(rows, LAST_IDS, trial_id) + 1;
    return 0;
}

// One that was not given up may be there; when it was last heard nobody knows.
static void await(struct core *c, struct agent *g, int64_t seen_at)
{
    g->state = g->lost_at ? AGENT_LOST : AGENT_AWAY;
    g->heard_at = g->lost_at ? seen_at : c->wall;
    if (!g->lost_at)
        timer_set(&c->timers, &g->grace, c->now + c->options.agent_reconnect_us);
}

static int load_agent(struct core *c, struct db_rows *rows, struct error *e)
{
    json_t *slots = NULL, *disabled = NULL, *ran = NULL;
    struct agent *g = agent_new(c, text_of(DB_GET(rows, AGENTS, id)));
    int err = parse(text_of(DB_GET(rows, AGENTS, slots)), "agents.slots", &slots, e);
    if (!err)
        err = parse(text_of(DB_GET(rows, AGENTS, disabled_slots)), "agents.disabled_slots",
                    &disabled, e);
    if (!err)
        err = parse(text_of(DB_GET(rows, AGENTS, lost_runs)), "agents.lost_runs", &ran, e);
    if (!err)
        err = agent_set_slots(g, slots, e);
    if (!err) {
        agent_disable_slots(g, disabled);
        agent_load_overruled(g);
        g->pool = core_pool(c, text_of(DB_GET(rows, AGENTS, pool)));
        g->enabled = DB_GET(rows, AGENTS, enabled);
        g->draining = DB_GET(rows, AGENTS, draining);
        free(g->rack);
        g->rack = xstrdup(text_of(DB_GET(rows, AGENTS, rack)));
        free(g->instance);
        g->instance = xstrdup(text_of(DB_GET(rows, AGENTS, instance)));
        g->version = xstrdup(text_of(DB_GET(rows, AGENTS, version)));
        g->registered_at = DB_GET(rows, AGENTS, registered_at);
        g->lost_at = DB_GET(rows, AGENTS, lost_at);
        g->ran = json_incref(ran);
        await(c, g, DB_GET(rows, AGENTS, last_seen_at));
        agent_refresh(c, g);
    }
    json_decref(ran);
    json_decref(slots);
    json_decref(disabled);
    return err;
}

// --- experiments and trials ----------------------------------------------------------------------

static int load_experiment(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = xcalloc(1, sizeof *x);
    x->id = DB_GET(rows, EXPERIMENTS_ALL, id);
    x->user_id = DB_GET(rows, EXPERIMENTS_ALL, user_id);
    x->archived = DB_GET(rows, EXPERIMENTS_ALL, archived);
    x->project_id = DB_GET(rows, EXPERIMENTS_ALL, project_id);
    x->kind = kind_of_word(text_of(DB_GET(rows, EXPERIMENTS_ALL, kind)));
    core_project(c, x->project_id)->experiments++;
    by_id_put(&c->experiments, x->id, x);
    if (experiment_state_of(text_of(DB_GET(rows, EXPERIMENTS_ALL, state)), &x->state))
        return 0;
    return error_set(e, ERR_CORRUPT, "experiment %lld has the unknown state \"%.32s\"",
                     (long long)x->id, text_of(DB_GET(rows, EXPERIMENTS_ALL, state)));
}

// Takes config.
static int read_live(struct core *c, struct experiment *x, struct db_rows *rows, json_t *config,
                     struct error *e)
{
    struct active_experiment *l = active_experiment_new(c, x, config);
    l->job_id = xstrdup(text_of(DB_GET(rows, ACTIVE_EXPERIMENT, job_id)));
    l->owner = xstrdup(text_of(DB_GET(rows, ACTIVE_EXPERIMENT, owner)));
    l->ancestors = *text_of(DB_GET(rows, ACTIVE_EXPERIMENT, ancestors))
                       ? xstrdup(text_of(DB_GET(rows, ACTIVE_EXPERIMENT, ancestors)))
                       : NULL;
    l->no_pause = DB_GET(rows, ACTIVE_EXPERIMENT, no_pause);
    l->unmanaged = DB_GET(rows, ACTIVE_EXPERIMENT, unmanaged);
    l->priority = (int)DB_GET(rows, ACTIVE_EXPERIMENT, priority);
    l->progress = DB_GET(rows, ACTIVE_EXPERIMENT, progress);
    l->has_best = !DB_IS_NULL(rows, ACTIVE_EXPERIMENT, best_metric);
    l->best = DB_GET(rows, ACTIVE_EXPERIMENT, best_metric);
    l->seed = DB_GET(rows, ACTIVE_EXPERIMENT, seed);
    l->submitted_at = DB_GET(rows, ACTIVE_EXPERIMENT, submitted_at);
    l->order = DB_GET(rows, ACTIVE_EXPERIMENT, queue_order)
                   ? DB_GET(rows, ACTIVE_EXPERIMENT, queue_order)
                   : l->order;
    l->service = DB_GET(rows, ACTIVE_EXPERIMENT, service);
    if (l->unmanaged)
        return 0;
    int err = search_restore(
        config, l->seed, text_of(DB_GET(rows, ACTIVE_EXPERIMENT, searcher_state)), &l->search, e);
    return err ? error_prefix(e, "experiment %lld", (long long)x->id) : 0;
}

static int load_live(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = core_experiment_find(c, DB_GET(rows, ACTIVE_EXPERIMENT, id));
    json_t *config = NULL;
    if (experiment_is_terminal(x->state))
        return 0;
    int err =
        parse(text_of(DB_GET(rows, ACTIVE_EXPERIMENT, config)), "experiments.config", &config, e);
    return err ? err : read_live(c, x, rows, config, e);
}

static int load_trial(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = core_experiment_find(c, DB_GET(rows, ACTIVE_TRIAL, experiment_id));
    if (!x->active)
        return 0; // being deleted
    struct trial *t = trial_new(x->active, DB_GET(rows, ACTIVE_TRIAL, id),
                                text_of(DB_GET(rows, ACTIVE_TRIAL, request_id)));
    if (!trial_state_of(text_of(DB_GET(rows, ACTIVE_TRIAL, state)), &t->state))
        return error_set(e, ERR_CORRUPT, "trial %lld has the unknown state \"%.32s\"",
                         (long long)t->id, text_of(DB_GET(rows, ACTIVE_TRIAL, state)));
    t->seed = DB_GET(rows, ACTIVE_TRIAL, seed);
    t->restarts = DB_GET(rows, ACTIVE_TRIAL, restarts);
    t->run = DB_GET(rows, ACTIVE_TRIAL, run_id);
    t->progress = DB_GET(rows, ACTIVE_TRIAL, progress);
    t->steps = DB_GET(rows, ACTIVE_TRIAL, steps_completed);
    t->exit_reason = xstrdup(text_of(DB_GET(rows, ACTIVE_TRIAL, exit_reason)));
    t->invalid = t->exited_early = t->state == TRIAL_STOPPING_ERROR;
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s",
             text_of(DB_GET(rows, ACTIVE_TRIAL, latest_checkpoint)));
    t->checkpoint_steps = DB_GET(rows, ACTIVE_TRIAL, checkpoint_steps);
    t->waited = DB_GET(rows, ACTIVE_TRIAL, waited_us);
    t->retry.at = DB_GET(rows, ACTIVE_TRIAL, restart_at);
    t->retry.failures = DB_GET(rows, ACTIVE_TRIAL, failures);
    t->retry.alike = DB_GET(rows, ACTIVE_TRIAL, failed_alike);
    if (x->active->unmanaged) {
        detached_new(c, t, DB_GET(rows, ACTIVE_TRIAL, external_id));
        t->detached->resume_steps = t->run > 1 && t->checkpoint[0] ? t->checkpoint_steps : -1;
        by_id_put(&c->trials, t->id, t);
    } else if (!trial_is_terminal(t->state)) {
        by_id_put(&c->trials, t->id, t);
        x->active->active_trials++;
    }
    const struct stored_metrics stored = {.training = DB_GET(rows, ACTIVE_TRIAL, latest_training),
                                          .validation =
                                              DB_GET(rows, ACTIVE_TRIAL, latest_validation),
                                          .best = DB_GET(rows, ACTIVE_TRIAL, best_validation),
                                          .summary = DB_GET(rows, ACTIVE_TRIAL, summary_metrics),
                                          .known = DB_GET(rows, ACTIVE_TRIAL, metrics_known)};
    int err = parse(text_of(DB_GET(rows, ACTIVE_TRIAL, hparams)), "trials.hparams", &t->hparams, e);
    CORE_DISPATCH_CHECKED(err, c, trial_loaded, c, t, &stored, e);
    return err;
}

// --- one that had ended --------------------------------------------------------------------------

static int read_again(struct core *c, struct experiment *x, struct db_rows *rows, json_t *config,
                      struct error *e)
{
    json_t *stored = NULL;
    if (!config && !DB_GET(rows, ACTIVE_EXPERIMENT, unmanaged))
        return detached_refuse(x, e);
    int err = config ? 0
                     : parse(text_of(DB_GET(rows, ACTIVE_EXPERIMENT, config)), "experiments.config",
                             &stored, e);
    return err ? err : read_live(c, x, rows, config ? json_incref(config) : stored, e);
}

static void forget_again(struct core *c, struct experiment *x)
{
    if (!x->active)
        return;
    for (struct trial *t = x->active->trials; t; t = t->next)
        if (core_trial_find(c, t->id))
            by_id_remove(&c->trials, t->id);
    active_experiment_free(c, x->active);
    x->active = NULL;
}

int active_experiment_restore(struct core *c, struct experiment *x, json_t *config, struct error *e)
{
    must(!x->active);
    struct db_rows *rows = DB_QUERY(c->reader, EXPERIMENT_AGAIN, x->id);
    bool deleting = x->state == EXPERIMENT_DELETING || x->state == EXPERIMENT_DELETE_FAILED;
    int err = 0, more = deleting ? 0 : db_next(rows);
    if (more <= 0)
        err = error_set(e, ERR_NOT_FOUND, "there is no experiment %lld", (long long)x->id);
    else
        err = read_again(c, x, rows, config, e);
    db_rows_close(rows);
    rows = DB_QUERY(c->reader, TRIALS_AGAIN, x->id);
    while (!err && (more = db_next(rows)) > 0)
        err = load_trial(c, rows, e);
    db_rows_close(rows);
    for (struct trial *t = err ? NULL : x->active->trials; t; t = t->next)
        CORE_DISPATCH(c, trial_reopened, c, t);
    json_decref(config);
    if (err)
        forget_again(c, x);
    else if (x->active->unmanaged)
        detached_load(c, x->active);
    return err;
}

// --- allocations ---------------------------------------------------------------------------------

static enum outcome outcome_of(const char *word)
{
    for (int i = 0; i < OUTCOMES; i++)
        if (!strcmp(outcome_word((enum outcome)i), word))
            return (enum outcome)i;
    return OUTCOME_NONE;
}

// The slots of one part, which its agent must still have. False: it has not.
static bool load_slots(struct part *p, const json_t *slots)
{
    size_t i;
    json_t *slot;
    p->slots = xcalloc(json_array_size(slots) + 1, sizeof *p->slots);
    json_array_foreach(slots, i, slot)
    {
        json_int_t number = json_integer_value(slot);
        if (number < 0 || number >= p->agent->slot_count)
            return false;
        p->slots[p->slot_count++] = (int)number;
    }
    return true;
}

static bool load_parts(struct core *c, struct allocation *a, const json_t *placement)
{
    size_t i;
    json_t *place;
    bool running = a->state == ALLOCATION_RUNNING || a->state == ALLOCATION_TERMINATING;
    a->parts = xcalloc(json_array_size(placement) + 1, sizeof *a->parts);
    json_array_foreach(placement, i, place)
    {
        struct part *p = &a->parts[a->part_count++];
        p->allocation = a;
        p->agent = core_agent_find(c, jget_string(place, "agent", ""));
        p->state = running ? PART_RUNNING : PART_ASSIGNED;
        p->daemon = jget_bool(place, "daemon", false);
        p->first_rank = a->world_size;
        p->rank_count = (int)json_array_size(jget(place, "ranks"));
        a->world_size += p->rank_count;
        if (!p->agent || !load_slots(p, jget(place, "slots")))
            return false;
        a->slots += p->slot_count;
    }
    return a->part_count > 0;
}

static bool is_free(const struct core *c, const struct agent *g, int slot)
{
    return g->handle != SCHED_NONE && sched_slot_gang(c->sched, g->handle, slot) == SCHED_NONE;
}

// Gives the gang the places it has; false when they are not there.
static bool adopt(struct core *c, struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    struct sched_place *places = xcalloc((size_t)a->slots + 1, sizeof *places);
    size_t count = 0;
    bool fits = a->part_count && a->slots >= l->least && a->slots <= l->slots;
    for (int i = 0; i < a->part_count && fits; i++)
        for (int k = 0; k < a->parts[i].slot_count && fits; k++) {
            const struct part *p = &a->parts[i];
            fits = is_free(c, p->agent, p->slots[k]);
            places[count++] = (struct sched_place){p->agent->handle, p->slots[k]};
        }
    if (fits && !a->slots) {
        fits = a->parts[0].agent->handle != SCHED_NONE;
        places[count++] = (struct sched_place){a->parts[0].agent->handle, SCHED_NONE};
    }
    if (fits)
        sched_gang_adopt(c->sched, a->gang, places, count, core_monotonic(c, a->started_at));
    free(places);
    return fits;
}

static void link_parts(struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++) {
        struct part *p = &a->parts[i];
        p->next_on_agent = p->agent->parts;
        p->agent->parts = p;
    }
}

// Its machines are not what they were.
static void drop_parts(struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        free(a->parts[i].slots);
    a->part_count = 0;
}

static int load_allocation(struct core *c, struct db_rows *rows, struct error *e)
{
    struct trial *t = core_trial_find(c, DB_GET(rows, ALLOCATIONS_ACTIVE, trial_id));
    json_t *placement = NULL;
    if (!t || t->allocation)
        return error_set(e, ERR_CORRUPT,
                         "allocation %.64s is live and its trial is not, or has "
                         "another",
                         text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, id)));
    int err = parse(text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, placement)), "allocations.placement",
                    &placement, e);
    if (err)
        return err;
    struct allocation *a = allocation_new(t, DB_GET(rows, ALLOCATIONS_ACTIVE, epoch));
    a->queued_at = DB_GET(rows, ALLOCATIONS_ACTIVE, queued_at);
    a->started_at = DB_GET(rows, ALLOCATIONS_ACTIVE, started_at);
    a->outcome = outcome_of(text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, outcome)));
    a->reason = xstrdup(text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, exit_reason)));
    memcpy(a->resume, t->checkpoint, sizeof a->resume);
    a->resume_steps = t->checkpoint_steps;
    a->measured_at = c->now;
    a->measured = t->progress;
    a->pool = core_pool(c, text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, pool)));
    leave_load(c, a, text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, cause)),
               DB_GET(rows, ALLOCATIONS_ACTIVE, preempted_for));
    if (!allocation_state_of(text_of(DB_GET(rows, ALLOCATIONS_ACTIVE, state)), &a->state))
        err = error_set(e, ERR_CORRUPT, "allocation %s has an unknown state", a->id);
    a->runs_since = a->state == ALLOCATION_RUNNING ? a->started_at : 0;
    if (err)
        ;
    else if (a->state == ALLOCATION_QUEUED)
        a->slots = (int)DB_GET(rows, ALLOCATIONS_ACTIVE, slots);
    else if (!load_parts(c, a, placement))
        drop_parts(a);
    json_decref(placement);
    return err;
}

// In the pool it is in, which is not its job's when that was moved meanwhile.
static void take_up(struct core *c, struct allocation *a)
{
    struct active_experiment *l = a->trial->active;
    struct pool *pool = l->pool;
    bool elsewhere = a->part_count && a->pool != pool;
    if (elsewhere) {
        l->pool = a->pool;
        active_experiment_changed(c, l);
    }
    allocation_enqueue(c, a);
    if (a->part_count && adopt(c, a)) {
        link_parts(a);
        usage_load(c, a);
    } else {
        drop_parts(a);
    }
    if (elsewhere) {
        l->pool = pool;
        active_experiment_changed(c, l);
    }
}

// What the store has, told to the scheduler: what jobs have had is known when all is read.
static void schedule(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->active)
            active_experiment_schedule(c, x->active);
    }
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (t->allocation)
            take_up(c, t->allocation);
    }
}

// --- what follows --------------------------------------------------------------------------------

// It was on its way out, or an operator has taken away what it runs on.
static bool is_leaving(const struct allocation *a)
{
    bool leaving = a->leave || a->state == ALLOCATION_TERMINATING;
    for (int i = 0; i < a->part_count && !leaving; i++)
        leaving = !agent_keeps(a->parts[i].agent, &a->parts[i]);
    return leaving;
}

// A drain or a kill that was on its way goes on.
static void resume_allocation(struct core *c, struct trial *t)
{
    struct allocation *a = t->allocation;
    bool leaving = is_leaving(a);
    if (leaving)
        sched_gang_set_leaving(c->sched, a->gang);
    if (a->state != ALLOCATION_QUEUED && !a->part_count) {
        allocation_kill(c, a, OUTCOME_LOST, "its machine is not in the cluster any more");
        allocation_event(c, a, ALLOCATION_EV_GONE);
    } else if (t->state == TRIAL_STOPPING_KILLED) {
        allocation_kill(c, a, OUTCOME_KILLED, "killed");
    } else if (t->state != TRIAL_ACTIVE || leaving) {
        allocation_event(c, a, ALLOCATION_EV_DRAIN);
        if (t->invalid && t->allocation)
            allocation_leaves(c, t->allocation);
    }
}

static void resume(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (x->active && x->active->unmanaged) {
            detached_load(c, x->active);
            continue;
        }
        for (struct trial *t = x->active ? x->active->trials : NULL; t; t = t->next)
            if (t->allocation)
                resume_allocation(c, t);
            else if (!retry_resume(c, t))
                trial_event(c, t, TRIAL_EV_IDLE);
        if (x->active)
            experiment_settle(c, x->active);
    }
    c->sched_due = true;
}

int lifecycle_load(struct core *c, struct error *e)
{
    int err = each(c, STMT_LAST_IDS, load_ids, e);
    if (!err)
        err = each(c, STMT_AGENTS, load_agent, e);
    if (!err)
        err = each(c, STMT_EXPERIMENTS_ALL, load_experiment, e);
    if (!err)
        err = each(c, STMT_EXPERIMENTS_ACTIVE, load_live, e);
    if (!err)
        err = each(c, STMT_TRIALS_ACTIVE, load_trial, e);
    if (!err)
        err = each(c, STMT_ALLOCATIONS_ACTIVE, load_allocation, e);
    return err;
}

void lifecycle_resume(struct core *c)
{
    schedule(c);
    resume(c);
}

void lifecycle_free(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (x->active)
            active_experiment_free(c, x->active);
        free(x);
    }
    free(c->experiments.items);
    free(c->trials.items);
    for (size_t i = 0; i < c->agent_count; i++)
        agent_free(c->agents[i]);
    free(c->agents);
    free(c->agent_of_handle);
}
