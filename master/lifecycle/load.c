// Reads agents, experiments, trials and allocations from the store when the master starts, and
// continues what was under way.
//
// A task that ran when the master ended has gone on. Its allocation continues as it was, and the
// first report of its agent tells its present state.
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

static const char *row_text(const char *text)
{
    return text ? text : "";
}

static int json_of(const char *text, const char *what, json_t **out, struct error *e)
{
    int err = json_parse(text, strlen(text), what, out, e);
    return err ? error_prefix(e, "the store is damaged") : 0;
}

// Calls row() on every row of a query.
static int for_each_row(struct core *c, enum stmt query,
                        int (*row)(struct core *c, struct db_rows *rows, struct error *e),
                        struct error *e)
{
    struct db_rows *rows = db_query_all(c->reader, query);
    int err = 0, more = 0;
    while (!err && (more = db_next(rows)) > 0)
        err = row(c, rows, e);
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : err;
}

// --- ids and agents ------------------------------------------------------------------------------

static int ids_load(struct core *c, struct db_rows *rows, struct error *e)
{
    (void)e;
    c->next_experiment = DB_GET(rows, LAST_IDS, experiment_id) + 1;
    c->next_trial = DB_GET(rows, LAST_IDS, trial_id) + 1;
    return 0;
}

// An agent that was not given up may still be there; nobody knows when it was last heard from.
static void agent_await(struct core *c, struct agent *g, int64_t seen_at)
{
    g->state = g->lost_at ? AGENT_LOST : AGENT_AWAY;
    g->heard_at = g->lost_at ? seen_at : c->wall;
    if (!g->lost_at)
        timer_set(&c->timers, &g->grace, c->now + c->options.agent_reconnect_us);
}

static int agent_load(struct core *c, struct db_rows *rows, struct error *e)
{
    json_t *slots = NULL, *disabled = NULL, *ran = NULL;
    struct agent *g = agent_new(c, row_text(DB_GET(rows, AGENTS, id)));
    int err = json_of(row_text(DB_GET(rows, AGENTS, slots)), "agents.slots", &slots, e);
    if (!err)
        err = json_of(row_text(DB_GET(rows, AGENTS, disabled_slots)), "agents.disabled_slots",
                      &disabled, e);
    if (!err)
        err = json_of(row_text(DB_GET(rows, AGENTS, lost_runs)), "agents.lost_runs", &ran, e);
    if (!err)
        err = agent_set_slots(g, slots, e);
    if (!err) {
        agent_disable_slots(g, disabled);
        agent_load_overruled(g);
        g->pool = core_pool_get(c, row_text(DB_GET(rows, AGENTS, pool)));
        g->enabled = DB_GET(rows, AGENTS, enabled);
        g->draining = DB_GET(rows, AGENTS, draining);
        free(g->rack);
        g->rack = xstrdup(row_text(DB_GET(rows, AGENTS, rack)));
        free(g->instance);
        g->instance = xstrdup(row_text(DB_GET(rows, AGENTS, instance)));
        g->version = xstrdup(row_text(DB_GET(rows, AGENTS, version)));
        g->registered_at = DB_GET(rows, AGENTS, registered_at);
        g->lost_at = DB_GET(rows, AGENTS, lost_at);
        g->lost_runs = json_incref(ran);
        agent_await(c, g, DB_GET(rows, AGENTS, last_seen_at));
        agent_refresh(c, g);
    }
    json_decref(ran);
    json_decref(slots);
    json_decref(disabled);
    return err;
}

// --- experiments and trials ----------------------------------------------------------------------

static int experiment_load(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = xcalloc(1, sizeof *x);
    x->id = DB_GET(rows, EXPERIMENTS_ALL, id);
    x->user_id = DB_GET(rows, EXPERIMENTS_ALL, user_id);
    x->archived = DB_GET(rows, EXPERIMENTS_ALL, archived);
    x->project_id = DB_GET(rows, EXPERIMENTS_ALL, project_id);
    x->kind = kind_of_word(row_text(DB_GET(rows, EXPERIMENTS_ALL, kind)));
    core_project(c, x->project_id)->experiments++;
    id_map_put(&c->experiments, x->id, x);
    if (experiment_state_of(row_text(DB_GET(rows, EXPERIMENTS_ALL, state)), &x->state))
        return 0;
    return error_set(e, ERR_CORRUPT, "experiment %lld has the unknown state \"%.32s\"",
                     (long long)x->id, row_text(DB_GET(rows, EXPERIMENTS_ALL, state)));
}

// Takes config.
static int active_experiment_read(struct core *c, struct experiment *x, struct db_rows *rows,
                                  json_t *config, struct error *e)
{
    struct active_experiment *l = active_experiment_new(c, x, config);
    l->job_id = xstrdup(row_text(DB_GET(rows, ACTIVE_EXPERIMENT, job_id)));
    l->owner = xstrdup(row_text(DB_GET(rows, ACTIVE_EXPERIMENT, owner)));
    l->ancestors = *row_text(DB_GET(rows, ACTIVE_EXPERIMENT, ancestors))
                       ? xstrdup(row_text(DB_GET(rows, ACTIVE_EXPERIMENT, ancestors)))
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
        config, l->seed, row_text(DB_GET(rows, ACTIVE_EXPERIMENT, searcher_state)), &l->search, e);
    return err ? error_prefix(e, "experiment %lld", (long long)x->id) : 0;
}

static int active_experiment_load(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = core_experiment_find(c, DB_GET(rows, ACTIVE_EXPERIMENT, id));
    json_t *config = NULL;
    if (experiment_is_terminal(x->state))
        return 0;
    int err = json_of(row_text(DB_GET(rows, ACTIVE_EXPERIMENT, config)), "experiments.config",
                      &config, e);
    return err ? err : active_experiment_read(c, x, rows, config, e);
}

static int trial_load(struct core *c, struct db_rows *rows, struct error *e)
{
    struct experiment *x = core_experiment_find(c, DB_GET(rows, ACTIVE_TRIAL, experiment_id));
    if (!x->active)
        return 0; // being deleted
    struct trial *t = trial_new(x->active, DB_GET(rows, ACTIVE_TRIAL, id),
                                row_text(DB_GET(rows, ACTIVE_TRIAL, request_id)),
                                row_text(DB_GET(rows, ACTIVE_TRIAL, task_id)));
    if (!trial_state_of(row_text(DB_GET(rows, ACTIVE_TRIAL, state)), &t->state))
        return error_set(e, ERR_CORRUPT, "trial %lld has the unknown state \"%.32s\"",
                         (long long)t->id, row_text(DB_GET(rows, ACTIVE_TRIAL, state)));
    t->seed = DB_GET(rows, ACTIVE_TRIAL, seed);
    t->restarts = DB_GET(rows, ACTIVE_TRIAL, restarts);
    trial_set_continued(t, DB_GET(rows, ACTIVE_TRIAL, continued));
    t->run = DB_GET(rows, ACTIVE_TRIAL, run_id);
    t->progress = DB_GET(rows, ACTIVE_TRIAL, progress);
    t->steps = DB_GET(rows, ACTIVE_TRIAL, steps_completed);
    t->exit_reason = xstrdup(row_text(DB_GET(rows, ACTIVE_TRIAL, exit_reason)));
    t->invalid = t->exited_early = t->state == TRIAL_STOPPING_ERROR;
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s",
             row_text(DB_GET(rows, ACTIVE_TRIAL, latest_checkpoint)));
    t->checkpoint_steps = DB_GET(rows, ACTIVE_TRIAL, checkpoint_steps);
    t->source = DB_GET(rows, ACTIVE_TRIAL, source_trial);
    snprintf(t->source_checkpoint, sizeof t->source_checkpoint, "%s",
             row_text(DB_GET(rows, ACTIVE_TRIAL, source_checkpoint)));
    t->source_steps = DB_GET(rows, ACTIVE_TRIAL, source_steps);
    t->waited = DB_GET(rows, ACTIVE_TRIAL, waited_us);
    t->retry.at = DB_GET(rows, ACTIVE_TRIAL, restart_at);
    t->retry.failures = DB_GET(rows, ACTIVE_TRIAL, failures);
    t->retry.same_failures = DB_GET(rows, ACTIVE_TRIAL, failed_alike);
    if (x->active->unmanaged) {
        unmanaged_new(c, t, DB_GET(rows, ACTIVE_TRIAL, external_id));
        t->unmanaged->resume_steps = t->run > 1 && t->checkpoint[0] ? t->checkpoint_steps : -1;
        id_map_put(&c->trials, t->id, t);
    } else if (!trial_is_terminal(t->state)) {
        id_map_put(&c->trials, t->id, t);
        x->active->active_trials++;
    }
    const struct stored_metrics stored = {.training = DB_GET(rows, ACTIVE_TRIAL, latest_training),
                                          .validation =
                                              DB_GET(rows, ACTIVE_TRIAL, latest_validation),
                                          .best = DB_GET(rows, ACTIVE_TRIAL, best_validation),
                                          .summary = DB_GET(rows, ACTIVE_TRIAL, summary_metrics),
                                          .known = DB_GET(rows, ACTIVE_TRIAL, metrics_known)};
    int err =
        json_of(row_text(DB_GET(rows, ACTIVE_TRIAL, hparams)), "trials.hparams", &t->hparams, e);
    CORE_DISPATCH_CHECKED(err, c, trial_loaded, c, t, &stored, e);
    return err;
}

// --- reopening an ended experiment ---------------------------------------------------------------

static int ended_experiment_read(struct core *c, struct experiment *x, struct db_rows *rows,
                                 json_t *config, struct error *e)
{
    json_t *stored = NULL;
    int err = config ? 0
                     : json_of(row_text(DB_GET(rows, ACTIVE_EXPERIMENT, config)),
                               "experiments.config", &stored, e);
    return err ? err : active_experiment_read(c, x, rows, config ? json_incref(config) : stored, e);
}

static void ended_experiment_forget(struct core *c, struct experiment *x)
{
    if (!x->active)
        return;
    for (struct trial *t = x->active->trials; t; t = t->next)
        if (core_trial_find(c, t->id))
            id_map_remove(&c->trials, t->id);
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
        err = error_not_found(e, "experiment", "%lld", (long long)x->id);
    else
        err = ended_experiment_read(c, x, rows, config, e);
    db_rows_close(rows);
    rows = DB_QUERY(c->reader, TRIALS_AGAIN, x->id);
    while (!err && (more = db_next(rows)) > 0)
        err = trial_load(c, rows, e);
    db_rows_close(rows);
    for (struct trial *t = err ? NULL : x->active->trials; t; t = t->next)
        CORE_DISPATCH(c, trial_reopened, c, t);
    json_decref(config);
    if (err)
        ended_experiment_forget(c, x);
    else if (x->active->unmanaged)
        unmanaged_load(c, x->active);
    return err;
}

int active_experiment_restore_briefly(struct core *c, struct experiment *x, struct error *e)
{
    if (x->ended_in > atomic_load(&c->committed))
        return error_set(e, ERR_UNAVAILABLE,
                         "experiment %lld has just ended or been reported for; try again in a "
                         "moment",
                         (long long)x->id);
    int err = active_experiment_restore(c, x, NULL, e);
    if (err)
        return err;
    x->active->ended_next = c->ended;
    c->ended = x->active;
    x->ended_in = c->submitted + 1; // what is reported now
    return 0;
}

// --- allocations ---------------------------------------------------------------------------------

static enum outcome outcome_from_word(const char *word)
{
    for (int i = 0; i < OUTCOMES; i++)
        if (!strcmp(outcome_word((enum outcome)i), word))
            return (enum outcome)i;
    return OUTCOME_NONE;
}

// The slots of one part. False: the agent does not have them any more.
static bool part_load_slots(struct part *p, const json_t *slots)
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

static bool parts_load(struct core *c, struct allocation *a, const json_t *placement)
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
        if (!p->agent || !part_load_slots(p, jget(place, "slots")))
            return false;
        a->slots += p->slot_count;
    }
    return a->part_count > 0;
}

static bool slot_is_free(const struct core *c, const struct agent *g, int slot)
{
    return g->handle != SCHED_NONE && sched_slot_gang(c->sched, g->handle, slot) == SCHED_NONE;
}

// Gives the gang the places of the allocation. False: they are not available. An allocation may run
// with a number of slots that its experiment had before it was resized.
static bool gang_adopt(struct core *c, struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    struct sched_place *places = xcalloc((size_t)a->slots + 1, sizeof *places);
    size_t count = 0;
    bool fits = a->part_count && (a->slots > 0) == (l->min_slots > 0);
    bool resized = fits && (a->slots < l->min_slots || a->slots > l->slots_per_trial);
    if (resized)
        sched_gang_resize(c->sched, a->gang, a->slots, a->slots);
    for (int i = 0; i < a->part_count && fits; i++)
        for (int k = 0; k < a->parts[i].slot_count && fits; k++) {
            const struct part *p = &a->parts[i];
            fits = slot_is_free(c, p->agent, p->slots[k]);
            places[count++] = (struct sched_place){p->agent->handle, p->slots[k]};
        }
    if (fits && !a->slots) {
        fits = a->parts[0].agent->handle != SCHED_NONE;
        places[count++] = (struct sched_place){a->parts[0].agent->handle, SCHED_NONE};
    }
    if (fits)
        sched_gang_adopt(c->sched, a->gang, places, count, core_to_monotonic(c, a->started_at));
    if (resized)
        sched_gang_resize(c->sched, a->gang, l->min_slots, l->slots_per_trial);
    free(places);
    return fits;
}

static void parts_link(struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++) {
        struct part *p = &a->parts[i];
        p->next_on_agent = p->agent->parts;
        p->agent->parts = p;
    }
}

// The agents do not have these slots any more.
static void parts_drop(struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        free(a->parts[i].slots);
    a->part_count = 0;
}

static int allocation_load(struct core *c, struct db_rows *rows, struct error *e)
{
    struct trial *t = core_trial_find(c, DB_GET(rows, ALLOCATIONS_ACTIVE, trial_id));
    json_t *placement = NULL;
    if (!t || t->allocation)
        return error_set(e, ERR_CORRUPT,
                         "allocation %.64s has not ended, but its trial has ended or has "
                         "another allocation that has not",
                         row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, id)));
    int err = json_of(row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, placement)),
                      "allocations.placement", &placement, e);
    if (err)
        return err;
    struct allocation *a = allocation_new(t, DB_GET(rows, ALLOCATIONS_ACTIVE, epoch));
    a->queued_at = DB_GET(rows, ALLOCATIONS_ACTIVE, queued_at);
    a->started_at = DB_GET(rows, ALLOCATIONS_ACTIVE, started_at);
    a->outcome = outcome_from_word(row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, outcome)));
    a->reason = xstrdup(row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, exit_reason)));
    a->polls = DB_GET(rows, ALLOCATIONS_ACTIVE, polls);
    trial_resume_point(t, a->resume, &a->resume_steps);
    a->measured_at = c->now;
    a->measured = t->progress;
    a->pool = core_pool_get(c, row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, pool)));
    preemption_load(c, a, row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, cause)),
                    DB_GET(rows, ALLOCATIONS_ACTIVE, preempted_for));
    if (!allocation_state_of(row_text(DB_GET(rows, ALLOCATIONS_ACTIVE, state)), &a->state))
        err = error_set(e, ERR_CORRUPT, "allocation %s has an unknown state", a->id);
    a->runs_since = a->state == ALLOCATION_RUNNING ? a->started_at : 0;
    if (err)
        ;
    else if (a->state == ALLOCATION_QUEUED)
        a->slots = (int)DB_GET(rows, ALLOCATIONS_ACTIVE, slots);
    else if (!parts_load(c, a, placement))
        parts_drop(a);
    json_decref(placement);
    return err;
}

// Re-enters the scheduler in the allocation's own pool, which differs from its job's pool if the
// job was moved meanwhile.
static void allocation_reschedule(struct core *c, struct allocation *a)
{
    struct active_experiment *l = a->trial->active;
    struct pool *pool = l->pool;
    bool elsewhere = a->part_count && a->pool != pool;
    if (elsewhere) {
        l->pool = a->pool;
        active_experiment_changed(c, l);
    }
    allocation_enqueue(c, a);
    if (a->part_count && gang_adopt(c, a)) {
        parts_link(a);
        usage_load(c, a);
    } else {
        parts_drop(a);
    }
    if (elsewhere) {
        l->pool = pool;
        active_experiment_changed(c, l);
    }
}

// Tells the scheduler about jobs and gangs. This needs all rows, since the service of a job depends
// on its allocations.
static void schedule_all(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->active)
            active_experiment_schedule(c, x->active);
    }
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (t->allocation)
            allocation_reschedule(c, t->allocation);
    }
}

// --- resuming ------------------------------------------------------------------------------------

// Whether it was ordered to leave, or an operator has disabled its slots.
static bool allocation_is_leaving(const struct allocation *a)
{
    bool leaving = a->preempt_reason || a->state == ALLOCATION_TERMINATING;
    for (int i = 0; i < a->part_count && !leaving; i++)
        leaving = !agent_allows(a->parts[i].agent, &a->parts[i]);
    return leaving;
}

// A drain or a kill that was under way goes on.
static void allocation_resume(struct core *c, struct trial *t)
{
    struct allocation *a = t->allocation;
    bool leaving = allocation_is_leaving(a);
    if (leaving)
        sched_gang_set_leaving(c->sched, a->gang);
    if (a->state != ALLOCATION_QUEUED && !a->part_count) {
        allocation_kill(c, a, OUTCOME_LOST, "its machine has left the cluster");
        allocation_event(c, a, ALLOCATION_EV_GONE);
    } else if (t->state == TRIAL_STOPPING_KILLED) {
        allocation_kill(c, a, OUTCOME_KILLED, "killed");
    } else if (t->state != TRIAL_ACTIVE || leaving) {
        allocation_event(c, a, ALLOCATION_EV_DRAIN);
        if (t->invalid && t->allocation)
            allocation_expect_exit(c, t->allocation);
    }
}

static void resume_all(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (x->active && x->active->unmanaged) {
            unmanaged_load(c, x->active);
            continue;
        }
        for (struct trial *t = x->active ? x->active->trials : NULL; t; t = t->next)
            if (t->allocation)
                allocation_resume(c, t);
            else if (!retry_resume(c, t))
                trial_event(c, t, TRIAL_EV_IDLE);
        if (x->active)
            experiment_settle(c, x->active);
    }
    c->sched_due = true;
}

int lifecycle_load(struct core *c, struct error *e)
{
    int err = for_each_row(c, STMT_LAST_IDS, ids_load, e);
    if (!err)
        err = for_each_row(c, STMT_AGENTS, agent_load, e);
    if (!err)
        err = for_each_row(c, STMT_EXPERIMENTS_ALL, experiment_load, e);
    if (!err)
        err = for_each_row(c, STMT_EXPERIMENTS_ACTIVE, active_experiment_load, e);
    if (!err)
        err = for_each_row(c, STMT_TRIALS_ACTIVE, trial_load, e);
    if (!err)
        err = for_each_row(c, STMT_ALLOCATIONS_ACTIVE, allocation_load, e);
    return err;
}

void lifecycle_resume(struct core *c)
{
    schedule_all(c);
    resume_all(c);
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
