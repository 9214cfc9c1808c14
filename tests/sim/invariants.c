// The invariants, each a few lines under its name. Most check the truth of the models, not the
// beliefs of the master.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "db/metrics/reports.h"
#include "master/kernel/state.h"
#include "master/teams/teams.h"
#include "tests/sim/machines.h"

enum { STORE_CHECKED = 1500, REPLAY_CHECKED = 60 }; // of 10,000
enum { DRAINS_MOST = 30 };
enum { LEAVE_SLACK = 40 * SECOND }; // for the kill, and for lost messages

void broken(struct world *w, const char *name, const char *fmt, ...)
{
    va_list args;
    char text[400];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    note_outside(w, "broken: %s: %s", name, text);
    fflush(stdout);
    if (w->verdict) {
        snprintf(w->verdict->name, sizeof w->verdict->name, "%s", name);
        snprintf(w->verdict->text, sizeof w->verdict->text, "%s", text);
        w->verdict->now = w->now;
    }
    _exit(3);
}

struct known_trial *known_trial(struct world *w, int64_t id)
{
    size_t place = (size_t)id;
    must(id > 0 && id < 100000);
    if (place >= w->trial_cap) {
        size_t cap = place + 64;
        w->trials = xrealloc(w->trials, cap * sizeof *w->trials);
        memset(w->trials + w->trial_cap, 0, (cap - w->trial_cap) * sizeof *w->trials);
        w->trial_cap = cap;
    }
    return &w->trials[place];
}

// --- the machines' truth -------------------------------------------------------------------------

void check_slots(struct world *w, const struct machine *m)
{
    const struct model_part *owner[MACHINE_SLOTS_MAX] = {0};
    for (const struct model_part *t = m->tasks; t; t = t->next)
        for (int i = 0; t->state != TASK_EXITED && i < t->slot_count; i++) {
            if (owner[t->slots[i]])
                broken(w, "no_slot_runs_two_tasks", "slot %d of %s runs %s and %s", t->slots[i],
                       m->id, owner[t->slots[i]]->run->id, t->run->id);
            owner[t->slots[i]] = t;
        }
}

static bool share_a_rank(const struct model_part *a, const struct model_part *b)
{
    return a->first_rank < b->first_rank + b->rank_count &&
           b->first_rank < a->first_rank + a->rank_count;
}

static void check_ranks(struct world *w, const struct model_part *t)
{
    const struct model_run *r = t->run;
    if (t->first_rank < 0 || t->first_rank + t->rank_count > r->world)
        broken(w, "ranks_are_of_the_gang", "%s: %d and %d more of %d", r->id, t->first_rank,
               t->rank_count, r->world);
    for (int i = 0; i < r->task_count; i++) {
        const struct model_part *other = r->tasks[i];
        if (other != t && !other->gone && other->state != TASK_EXITED && share_a_rank(other, t))
            broken(w, "no_rank_runs_twice", "rank %d of %s, on %s and %s", t->first_rank, r->id,
                   other->machine->id, t->machine->id);
    }
}

// An older epoch may begin late, after a slow message, but the master must not accept its reports.
void check_begin(struct world *w, const struct model_part *t, int64_t resume)
{
    struct known_trial *k = known_trial(w, t->run->trial);
    check_ranks(w, t);
    if (t->run->epoch > k->epoch) {
        k->epoch = t->run->epoch;
        k->floor = k->durable;
    }
    if (t->run->epoch == k->epoch && resume < k->floor)
        broken(w, "no_saved_step_is_lost", "%s begins at step %lld, and %lld were saved",
               t->run->id, (long long)resume, (long long)k->floor);
}

// --- answers -------------------------------------------------------------------------------------

static int64_t ask_store(struct world *w, const char *sql, const struct db_value *values,
                         size_t count)
{
    struct db_rows *rows = db_query_sql(w->reader, sql, values, count);
    int64_t answer = db_next(rows) > 0 ? db_get_integer(rows, 0) : -1;
    db_rows_close(rows);
    w->checks++;
    return answer;
}

static int64_t ask_id(struct world *w, const char *sql, int64_t id)
{
    return ask_store(w, sql, &(struct db_value){.type = DB_INTEGER, .i = id}, 1);
}

// The run whose report of that step should be visible; 0: none.
static int64_t run_seen(struct world *w, const struct acknowledged *a)
{
    static const struct series_names none = {0};
    struct reports_query q = REPORTS_ALL(a->trial, a->group == 'v' ? "validation" : "training");
    struct reports *r = NULL;
    struct reports_span span;
    struct error e = {0};
    q.from = q.to = a->steps;
    q.only = &none;
    must(!db_snapshot_begin(w->reader, &e));
    int more = reports_open(w->reader, &q, &r, &e);
    if (!more)
        more = reports_next(r, &span, &e);
    int64_t run = more == 1 ? span.block->runs[span.first] : 0;
    reports_close(r);
    db_snapshot_end(w->reader);
    w->checks++;
    if (more < 0)
        broken(w, "metrics_can_be_read", "%s", e.text);
    return run;
}

// The report is visible, or a later run has reported the same step or started from before it.
static bool report_stands(struct world *w, const struct acknowledged *a)
{
    const struct db_value values[] = {{.type = DB_INTEGER, .i = a->trial},
                                      {.type = DB_INTEGER, .i = a->epoch},
                                      {.type = DB_INTEGER, .i = a->steps}};
    return run_seen(w, a) >= a->epoch ||
           ask_store(w,
                     "SELECT count(*) FROM metric_cuts WHERE trial_id = ? AND run_id > ? "
                     "AND from_steps < ?",
                     values, 3) > 0;
}

static void heard_metrics(struct world *w, const struct sim_call *c, const struct model_run *r)
{
    const json_t *metrics = jget(c->body, "metrics");
    struct acknowledged *a = arena_alloc(&w->arena, sizeof *a);
    *a = (struct acknowledged){.trial = r->trial,
                               .epoch = r->epoch,
                               .steps = jget_int(metrics, "stepsCompleted", -1),
                               .group = *jget_string(c->body, "group", ""),
                               .next = w->reports};
    w->reports = a;
    if (!report_stands(w, a))
        broken(w, "answers_follow_their_commit", "metrics of %s at step %lld", r->id,
               (long long)a->steps);
}

static void heard_checkpoint(struct world *w, const struct sim_call *c, const struct model_run *r)
{
    struct known_trial *k = known_trial(w, r->trial);
    const char *uuid = jget_string(c->body, "uuid", "");
    int64_t steps = jget_int(jget(c->body, "metadata"), "steps_completed", 0);
    if (steps > k->durable)
        k->durable = steps;
    struct db_value value = {.type = DB_TEXT, .p = uuid, .len = strlen(uuid)};
    if (ask_store(w, "SELECT count(*) FROM checkpoints WHERE uuid = ?", &value, 1) != 1)
        broken(w, "answers_follow_their_commit", "checkpoint of %s at step %lld", r->id,
               (long long)steps);
}

static void heard_task(struct world *w, const struct sim_call *c)
{
    const struct model_run *r = run_find(w, c->allocation);
    struct known_trial *k = known_trial(w, r->trial);
    if (r->epoch < k->heard)
        broken(w, "one_live_epoch", "%s is heard after epoch %lld", r->id, (long long)k->heard);
    k->heard = r->epoch;
    if (c->handler == core_trial_metrics)
        heard_metrics(w, c, r);
    if (c->handler == core_checkpoint_report)
        heard_checkpoint(w, c, r);
}

void check_answer(struct world *w, const struct sim_call *c, const struct request *rq)
{
    int status = rq->status ? rq->status : 200;
    if (status >= 500 && status != 503 && status != 504)
        broken(w, "no_internal_errors", "%s %s: %d %s", c->name, c->p0, status,
               rq->answer.len ? buf_str((struct buf *)&rq->answer) : "");
    if (status != 200)
        return;
    if (c->kind == PRINCIPAL_TASK)
        heard_task(w, c);
    if (c->handler == core_experiment_create &&
        ask_id(w, "SELECT count(*) FROM experiments WHERE id = ?", rq->id) != 1)
        broken(w, "answers_follow_their_commit", "experiment %lld", (long long)rq->id);
}

// --- the master's belief -------------------------------------------------------------------------

static int slots_of(const struct allocation *a)
{
    int slots = 0;
    for (int i = 0; i < a->part_count; i++)
        slots += a->parts[i].slot_count;
    return slots;
}

static bool holds(const struct trial *t)
{
    return t->allocation && t->allocation->state != ALLOCATION_QUEUED;
}

static void check_limit(struct world *w, const struct active_experiment *l)
{
    int64_t held = 0;
    for (const struct trial *t = l->trials; t; t = t->next)
        held += holds(t) ? slots_of(t->allocation) : 0;
    if (l->max_slots && held > l->max_slots)
        broken(w, "jobs_keep_their_limit", "experiment %lld starts with %lld of %lld slots",
               (long long)l->experiment->id, (long long)held, (long long)l->max_slots);
}

// At a start no maximum is exceeded: neither the workspace's nor the user's in it.
static void check_teams(struct world *w, const struct active_experiment *l)
{
    const struct workspace *ws = core_workspace_of(w->core, l->experiment);
    const struct member *m = id_map_find(&ws->members, l->experiment->user_id);
    int64_t all = 0, own = 0;
    for (size_t i = 0; i < w->core->trials.count; i++) {
        const struct trial *t = w->core->trials.items[i].value;
        const struct experiment *x = t->active->experiment;
        if (!holds(t) || core_workspace_of(w->core, x) != ws)
            continue;
        all += slots_of(t->allocation);
        own += x->user_id == l->experiment->user_id ? slots_of(t->allocation) : 0;
    }
    if (ws->max_slots && all > ws->max_slots)
        broken(w, "teams_keep_their_maximum", "experiment %lld starts; %s holds %lld of %lld slots",
               (long long)l->experiment->id, ws->name, (long long)all, (long long)ws->max_slots);
    if (m && m->max_slots && own > m->max_slots)
        broken(w, "members_keep_their_maximum", "experiment %lld starts; %lld of %lld slots",
               (long long)l->experiment->id, (long long)own, (long long)m->max_slots);
}

// Nothing comes from outside any more, so the scheduler must stop moving gangs.
static void count_drains(struct world *w, const struct allocation *a)
{
    struct known_trial *k = known_trial(w, a->trial->id);
    if (!a->preempt_reason || a->epoch <= k->drained)
        return;
    k->drained = a->epoch;
    note(w, "%s is asked to leave: %s", a->id, a->preempt_reason);
    k->drains += w->calm;
    if (k->drains > DRAINS_MOST)
        broken(w, "no_preemption_loop", "%s is asked to leave for the %dth time in calm: %s", a->id,
               k->drains, a->preempt_reason);
}

static void check_places(struct world *w, const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++) {
        const struct part *p = &a->parts[i];
        bool usable = p->agent->state == AGENT_CONNECTED && p->agent->enabled;
        for (int k = 0; k < p->slot_count; k++)
            usable = usable && p->agent->slot_setting[p->slots[k]] == SLOT_ENABLED;
        if (!usable)
            broken(w, "starts_are_on_usable_slots", "%s starts on %s", a->id, p->agent->id);
    }
}

static void check_placed(struct world *w, const struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    int slots = slots_of(a);
    if (slots > l->slots_per_trial || slots < l->min_slots || !a->part_count)
        broken(w, "gangs_are_whole", "%s starts on %d slots, and wants %d to %d", a->id, slots,
               l->min_slots, l->slots_per_trial);
    if (l->one_agent && a->part_count > 1)
        broken(w, "single_node_is_one_node", "%s starts on %d", a->id, a->part_count);
    check_places(w, a);
    if (slots) {
        check_limit(w, l);
        check_teams(w, l);
    }
}

static void check_agent(struct world *w, const struct agent *g)
{
    const struct part *owner[64] = {0};
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        for (int i = 0; i < p->slot_count; i++) {
            must(p->slots[i] < 64);
            if (owner[p->slots[i]])
                broken(w, "no_slot_is_given_twice", "slot %d of %s to %s and %s", p->slots[i],
                       g->id, owner[p->slots[i]]->allocation->id, p->allocation->id);
            owner[p->slots[i]] = p;
        }
}

static void check_search(struct world *w, const struct active_experiment *l)
{
    int64_t most = jget_int(jget(l->config, "searcher"), "max_concurrent_trials", 1);
    if (l->active_trials > most)
        broken(w, "searches_keep_their_width", "experiment %lld has %d trials of %lld",
               (long long)l->experiment->id, l->active_trials, (long long)most);
}

static bool is_heard(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].agent->state != AGENT_CONNECTED)
            return false;
    return true;
}

// No time passes between the order to leave and the answer: the turn that orders it answers the
// waiting poll.
static void check_drain_answered(struct world *w, const struct allocation *a)
{
    if (a && a->draining && a->drain_waiters)
        broken(w, "drained_poll_is_answered", "%s is asked to leave, and its poll is still held",
               a->id);
}

// A program that was ordered to leave has left, or was killed, in time.
static void check_leaving(struct world *w, const struct trial *t)
{
    struct known_trial *k = known_trial(w, t->id);
    const struct allocation *a = t->allocation;
    bool leaves = a && a->part_count && (a->draining || a->state == ALLOCATION_TERMINATING);
    if (!leaves || !is_heard(a))
        k->leaving = 0;
    else if (!k->leaving)
        k->leaving = w->now;
    else if (w->now - k->leaving > t->active->preemption_timeout_us + LEAVE_SLACK)
        broken(w, "drained_task_leaves_in_time", "%s still holds its slots after %.1f s", a->id,
               (double)(w->now - k->leaving) / SECOND);
}

void check_core(struct world *w)
{
    const struct core *c = w->core;
    sched_check(c->sched);
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        struct known_trial *k = known_trial(w, t->id);
        check_leaving(w, t);
        check_drain_answered(w, t->allocation);
        check_search(w, t->active);
        if (t->allocation)
            count_drains(w, t->allocation);
        if (!holds(t) || t->allocation->epoch <= k->placed)
            continue;
        k->placed = t->allocation->epoch;
        note(w, "%s is placed", t->allocation->id);
        if (t->allocation->launched_here)
            check_placed(w, t->allocation);
    }
    for (size_t i = 0; i < c->agent_count; i++)
        check_agent(w, c->agents[i]);
    if (chance(&w->choice, REPLAY_CHECKED))
        check_replay(w);
}

// --- the store -----------------------------------------------------------------------------------

static void none_of(struct world *w, const char *name, const char *sql)
{
    int64_t count = ask_store(w, sql, NULL, 0);
    if (count)
        broken(w, name, "%lld: %s", (long long)count, sql);
}

static void check_tables(struct world *w)
{
    none_of(w, "one_live_allocation",
            "SELECT count(*) FROM (SELECT trial_id FROM allocations WHERE state <> 'TERMINATED' "
            "GROUP BY trial_id HAVING count(*) > 1)");
    none_of(w, "ended_trials_have_no_allocation",
            "SELECT count(*) FROM allocations a JOIN trials t ON t.id = a.trial_id "
            "WHERE a.state <> 'TERMINATED' AND t.state IN ('COMPLETED', 'CANCELED', 'ERROR')");
    none_of(w, "tokens_end_with_their_allocation",
            "SELECT count(*) FROM tokens k JOIN allocations a ON a.id = k.allocation_id "
            "WHERE a.state = 'TERMINATED'");
    none_of(w, "requests_are_made_once",
            "SELECT count(*) FROM (SELECT 1 FROM trials GROUP BY experiment_id, request_id "
            "HAVING count(*) > 1)");
    none_of(w, "restarts_are_counted",
            "SELECT count(*) FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE "
            "t.restarts > json_extract(e.config, '$.max_restarts') + 1");
}

void check_store(struct world *w)
{
    if (chance(&w->choice, STORE_CHECKED))
        check_tables(w);
}

static void check_reports(struct world *w)
{
    for (const struct acknowledged *a = w->reports; a; a = a->next)
        if (!report_stands(w, a) &&
            ask_id(w, "SELECT count(*) FROM trials WHERE id = ?", a->trial) == 1)
            broken(w, "no_answered_report_is_lost", "%c of trial %lld run %lld step %lld", a->group,
                   (long long)a->trial, (long long)a->epoch, (long long)a->steps);
}

// A trial completes at its end, or when its search has stopped it at a rung.
static void check_completed(struct world *w)
{
    struct db_rows *rows = db_query_sql(
        w->reader,
        "SELECT t.id, coalesce(json_extract(e.config, '$.searcher.max_time') / "
        "pow(json_extract(e.config, '$.searcher.divisor'), coalesce(json_extract(e.config, "
        "'$.searcher.num_rungs'), json_extract(e.config, '$.searcher.max_rungs')) - 1), 1e9) "
        "FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.state = 'COMPLETED'",
        NULL, 0);
    while (db_next(rows) > 0) {
        const struct known_trial *k = known_trial(w, db_get_integer(rows, 0));
        if (!k->done && (double)k->validated < fmax(1, floor(db_get_real(rows, 1))))
            broken(w, "completed_is_trained_to_the_end", "trial %lld",
                   (long long)db_get_integer(rows, 0));
    }
    db_rows_close(rows);
}

static void check_searches(struct world *w)
{
    none_of(w, "searches_run_all_their_trials",
            "SELECT count(*) FROM experiments e WHERE state IN ('COMPLETED', 'ERROR') AND "
            "json_extract(config, '$.searcher.max_trials') <> (SELECT count(*) FROM trials WHERE "
            "experiment_id = e.id AND NOT (state = 'ERROR' AND exit_reason LIKE 'the program "
            "reports%'))");
    none_of(w, "grids_are_whole",
            "SELECT count(*) FROM experiments e WHERE state IN ('COMPLETED', 'ERROR') AND "
            "searcher_type = 'grid' AND json_extract(config, '$.hyperparameters.x.count') <> "
            "(SELECT count(*) FROM trials WHERE experiment_id = e.id)");
    none_of(w, "a_search_fails_when_all_have_failed",
            "SELECT count(*) FROM experiments e WHERE (state = 'ERROR' AND EXISTS (SELECT 1 FROM "
            "trials WHERE experiment_id = e.id AND state = 'COMPLETED')) OR (state = 'COMPLETED' "
            "AND NOT EXISTS (SELECT 1 FROM trials WHERE experiment_id = e.id AND state = "
            "'COMPLETED'))");
}

void check_start(struct world *w)
{
    check_tables(w);
    check_reports(w);
}

// --- the end -------------------------------------------------------------------------------------

void check_end(struct world *w)
{
    const struct core *c = w->core;
    check_tables(w);
    check_reports(w);
    check_completed(w);
    check_searches(w);
    none_of(w, "nothing_is_left", "SELECT count(*) FROM allocations WHERE state <> 'TERMINATED'");
    none_of(w, "nothing_is_left", "SELECT count(*) FROM tokens WHERE kind = 'allocation'");
    if (!c)
        return;
    for (const struct parked_request *p = c->parked; p; p = p->all_next)
        if (p->rq->principal.kind != PRINCIPAL_AGENT)
            broken(w, "nothing_is_left", "a request is parked");
    for (size_t i = 0; i < c->agent_count; i++)
        for (int k = 0; k < c->agents[i]->slot_count; k++)
            if (c->agents[i]->handle != SCHED_NONE &&
                sched_slot_gang(c->sched, c->agents[i]->handle, k) != SCHED_NONE)
                broken(w, "nothing_is_left", "slot %d of %s is taken", k, c->agents[i]->id);
    for (int i = 0; i < w->machine_count; i++)
        if (w->machines[i]->tasks)
            broken(w, "nothing_is_left", "%s keeps %s", w->machines[i]->id,
                   w->machines[i]->tasks->run->id);
    if (c->trials.count)
        broken(w, "nothing_is_left", "%zu trials live", c->trials.count);
    check_replay(w);
}
