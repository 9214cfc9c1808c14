// Moves of jobs in the queue. Jobs of equal rank are ordered by `order`: at first ORDER_STEP times
// the experiment's id. A job that is put ahead of or behind another gets a number between the other
// and its neighbour; when no number is left between them, all jobs get new ones. A move is planned
// first: positions change in memory only, and are restored when the caller may not move the job
// there. Several updates of one call are planned one after the other, so that each is judged by the
// result of the updates before it.
#include "master/calls/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/precedence.h"
#include "master/teams/teams.h"

enum { UPDATES_MAX = 1000 };

// --- settings ------------------------------------------------------------------------------------

static struct active_experiment *queued_job_at(const struct core *c, size_t i)
{
    const struct experiment *x = c->experiments.items[i].value;
    return !x->active || x->active->unmanaged || experiment_is_terminal(x->state) ? NULL
                                                                                  : x->active;
}

static int read_priority(const char *path, const struct queue_move *move, struct error *e)
{
    if (move->priority < SCHED_PRIORITY_MIN || move->priority > SCHED_PRIORITY_MAX)
        return error_set(e, ERR_INVALID,
                         "%s.priority: not a number from %d to %d; smaller numbers run sooner",
                         path, SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX);
    return 0;
}

static int read_max_slots(const struct experiment *x, const char *path,
                          const struct queue_move *move, struct error *e)
{
    if (move->max_slots < 0)
        return error_set(e, ERR_INVALID, "%s.maxSlots: not 0 (no limit) or a positive number",
                         path);
    if (move->max_slots && x->active && move->max_slots < x->active->min_slots)
        return error_set(e, ERR_INVALID,
                         "%s.maxSlots: a trial of experiment %lld needs %d slots, so no trial "
                         "could ever start; to stop the experiment for a while, pause it",
                         path, (long long)x->id, x->active->min_slots);
    return 0;
}

int queue_move_read(struct core *c, const struct experiment *x, const json_t *from,
                    const char *path, struct queue_move *out, struct error *e)
{
    const char *pool = jget_string(from, "resourcePool", NULL);
    int err = 0;
    *out = (struct queue_move){.priority = jget_int(from, "priority", -1),
                               .max_slots = jget_int(from, "maxSlots", -1),
                               .weight = jget_double(from, "weight", -1)};
    if (jget(from, "priority"))
        err = read_priority(path, out, e);
    if (!err && jget(from, "maxSlots"))
        err = read_max_slots(x, path, out, e);
    if (!err && jget(from, "weight") && !(out->weight >= 0 && out->weight <= 1e6))
        err = error_set(e, ERR_INVALID, "%s.weight: not a number from 0 to 1000000", path);
    if (!err && pool && core_pool_require(c, pool, &out->pool, e))
        err = error_prefix(e, "%s.resourcePool", path);
    return err;
}

bool queue_move_is_empty(const struct queue_move *move)
{
    return move->priority < 0 && move->max_slots < 0 && move->weight < 0 && !move->pool;
}

// --- permissions ---------------------------------------------------------------------------------

struct queue_position { // in the queue of a pool
    const struct pool *pool;
    int priority;
    int64_t order;
    bool entered; // it comes from another pool
};

static struct queue_position position_of(const struct active_experiment *active)
{
    return (struct queue_position){
        .pool = active->pool, .priority = active->priority, .order = active->order};
}

// Compares two positions as the scheduler of the pool compares jobs of different users.
static bool goes_before(const struct queue_position *a, const struct queue_position *b)
{
    bool by_priority = a->pool->policy == SCHED_POLICY_PRIORITY && a->priority != b->priority;
    return by_priority ? a->priority < b->priority : a->order < b->order;
}

// Returns whose job is delayed when `active` moves from `was` to `now`, and the job itself in
// *passed. The caller's own jobs do not count. `active` is NULL for a new job of the workspace.
static enum displaced find_loser(struct core *c, const struct request *rq,
                                 const struct active_experiment *active, const struct workspace *ws,
                                 const struct queue_position *was, const struct queue_position *now,
                                 const struct active_experiment **passed)
{
    enum displaced worst = DISPLACES_NOBODY;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *other = queued_job_at(c, i);
        if (!other || other == active || other->pool != now->pool ||
            other->experiment->user_id == rq->principal.user_id)
            continue;
        const struct queue_position at = position_of(other);
        if (!goes_before(&at, was) || !goes_before(now, &at))
            continue;
        bool mate = core_workspace_of(c, other->experiment) == ws;
        enum displaced loser = mate ? DISPLACES_TEAMMATE : DISPLACES_OTHER_TEAM;
        if (loser > worst) {
            worst = loser;
            *passed = other;
        }
    }
    return worst;
}

static int refuse_high_priority(const char *path, const struct pool *pool, int priority,
                                double weight, struct error *e)
{
    if (priority < pool->max_user_priority)
        return error_set(e, ERR_FORBIDDEN,
                         "%s.priority: %d is higher than users may give in resource pool %s: give "
                         "one from %d to %d, or ask an administrator of the cluster",
                         path, priority, pool->name, pool->max_user_priority, SCHED_PRIORITY_MAX);
    return error_set(e, ERR_FORBIDDEN,
                     "%s.weight: %g is more than 1, so the job would go before others in resource "
                     "pool %s: give one from 0 to 1, or ask an administrator of the cluster",
                     path, weight, pool->name);
}

// The message names the other job only if the caller may see it. `job` is NULL for a new one.
static int refuse_passing(struct core *c, const struct request *rq, const char *path,
                          const struct active_experiment *job, const struct workspace *ws,
                          const struct active_experiment *passed, bool mate, struct error *e)
{
    struct buf name, other;
    buf_init(&name, 64);
    buf_init(&other, 64);
    if (job)
        active_experiment_write_name(job, &name);
    else
        buf_puts(&name, "the job");
    if (core_sees(c, rq, passed->experiment))
        active_experiment_write_name(passed, &other);
    else
        buf_puts(&other, "a job");
    if (mate)
        error_set(e, ERR_FORBIDDEN,
                  "%s: %s would go before %s of another user, which takes the role admin in "
                  "workspace \"%.64s\": leave it behind that job, or ask an administrator (muster "
                  "team members \"%.64s\" lists them)",
                  path, buf_str(&name), buf_str(&other), ws->name, ws->name);
    else
        error_set(e, ERR_FORBIDDEN,
                  "%s: %s would go before %s of another team, which takes an administrator of "
                  "the cluster: leave it behind that job, or ask an administrator",
                  path, buf_str(&name), buf_str(&other));
    buf_free(&name);
    buf_free(&other);
    return ERR_FORBIDDEN;
}

// Returns whether the change puts the job above the pool's limits. A job keeps the priority that an
// administrator gave it within its pool, and loses that right in another pool.
static bool exceeds_pool_limits(const struct active_experiment *active,
                                const struct queue_position *was, double weight)
{
    bool raised = was->entered || active->priority < was->priority;
    return weight > 1 || (raised && active->priority < active->pool->max_user_priority);
}

// Checks that the caller may move the job from `was` to its present place. `weight`: -1: unchanged.
static int check_position(struct core *c, const struct request *rq,
                          const struct active_experiment *active, const struct queue_position *was,
                          double weight, const char *path, struct error *e)
{
    const struct experiment *x = active->experiment;
    const struct workspace *ws = core_workspace_of(c, x);
    const struct queue_position now = position_of(active);
    const struct active_experiment *passed = NULL;
    weight = weight < 0 && was->entered ? active->weight : weight;
    const struct precedence_claim claim = {
        .role = core_role(rq, ws),
        .own = rq->principal.kind == PRINCIPAL_USER && rq->principal.user_id == x->user_id,
        .unlimited = now.pool->max_user_priority == SCHED_PRIORITY_MIN,
        .above = exceeds_pool_limits(active, was, weight),
        .displaces = find_loser(c, rq, active, ws, was, &now, &passed)};
    switch (precedence_judge(&claim)) {
    case PRECEDENCE_GRANTED:
        return 0;
    case PRECEDENCE_NO_CHANGE:
        return core_may_change(c, rq, x, e);
    case PRECEDENCE_ABOVE:
        return refuse_high_priority(path, now.pool, now.priority, weight, e);
    case PRECEDENCE_OTHER_TEAM:
        return refuse_passing(c, rq, path, active, ws, passed, false, e);
    case PRECEDENCE_TEAMMATE:
        return refuse_passing(c, rq, path, active, ws, passed, true, e);
    }
    return 0;
}

// The pool's default priority and those below it are everybody's: a submission with one of them is
// never refused. A job with a higher one is judged as if it were moved up from the last place of
// the default priority.
int queue_check_submission(struct core *c, const struct request *rq, const struct workspace *ws,
                           const json_t *config, struct error *e)
{
    const json_t *resources = jget(config, "resources");
    const struct pool *pool = core_pool_get(c, jget_string(resources, "resource_pool", ""));
    const struct queue_position was = {
        .pool = pool, .priority = pool_default_priority(pool), .order = INT64_MAX};
    struct queue_position now = was;
    now.priority = (int)jget_int(resources, "priority", was.priority);
    double weight = jget_double(resources, "weight", 1);
    const struct active_experiment *passed = NULL;
    const struct precedence_claim claim = {
        .role = core_role(rq, ws),
        .own = true,
        .unlimited = pool->max_user_priority == SCHED_PRIORITY_MIN,
        .above = now.priority < pool->max_user_priority || weight > 1,
        .displaces = find_loser(c, rq, NULL, ws, &was, &now, &passed)};
    switch (precedence_judge(&claim)) {
    case PRECEDENCE_ABOVE:
        return refuse_high_priority("resources", pool, now.priority, weight, e);
    case PRECEDENCE_OTHER_TEAM:
    case PRECEDENCE_TEAMMATE:
        return refuse_passing(c, rq, "resources.priority", NULL, ws, passed,
                              claim.displaces == DISPLACES_TEAMMATE, e);
    default: // submission rights are checked elsewhere
        return 0;
    }
}

// --- a plan: positions that can be restored ------------------------------------------------------

struct queue_plan { // the jobs before their positions changed, the oldest change first
    struct planned_job {
        struct active_experiment *active;
        struct pool *pool;
        int priority;
        int64_t order;
    } * items;
    size_t count, cap;
};

static void plan_add(struct queue_plan *p, struct active_experiment *active)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->items = xrealloc(p->items, p->cap * sizeof *p->items);
    }
    p->items[p->count++] =
        (struct planned_job){active, active->pool, active->priority, active->order};
}

static void plan_undo(struct queue_plan *p)
{
    while (p->count) {
        const struct planned_job *was = &p->items[--p->count];
        was->active->pool = was->pool;
        was->active->priority = was->priority;
        was->active->order = was->order;
    }
    free(p->items);
}

// The nearest order below `order` (ahead) or above it, among all jobs but `moved`.
static int64_t neighbour_order(const struct core *c, const struct active_experiment *moved,
                               int64_t order, bool ahead)
{
    int64_t found = ahead ? order - ORDER_STEP : order + ORDER_STEP;
    bool any = false;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *active = queued_job_at(c, i);
        if (!active || active == moved || (ahead ? active->order >= order : active->order <= order))
            continue;
        if (!any || (ahead ? active->order > found : active->order < found))
            found = active->order;
        any = true;
    }
    return found;
}

static int by_order(const void *left, const void *right)
{
    const struct active_experiment *a = *(struct active_experiment *const *)left,
                                   *b = *(struct active_experiment *const *)right;
    return (a->order > b->order) - (a->order < b->order);
}

// Renumbers all jobs in their present order, ORDER_STEP apart. The numbers stay at most ORDER_STEP
// times the id of the last job, so that new jobs stand behind it.
static void renumber_all(struct core *c, struct queue_plan *p)
{
    struct active_experiment **all =
        xcalloc(c->experiments.count + 1, sizeof(struct active_experiment *));
    size_t count = 0;
    for (size_t i = 0; i < c->experiments.count; i++)
        if (queued_job_at(c, i))
            all[count++] = queued_job_at(c, i);
    qsort(all, count, sizeof(struct active_experiment *), by_order);
    for (size_t i = 0; i < count; i++) {
        plan_add(p, all[i]);
        all[i]->order = ((int64_t)i + 1) * ORDER_STEP;
    }
    free(all);
}

static void move_beside(struct core *c, struct queue_plan *p, struct active_experiment *active,
                        const struct active_experiment *anchor, bool ahead)
{
    for (;;) {
        int64_t other = neighbour_order(c, active, anchor->order, ahead);
        int64_t middle = anchor->order + (other - anchor->order) / 2;
        if (!middle) // 0 in the store means "by id"
            middle = anchor->order / 2;
        if (middle && middle != anchor->order && middle != other) {
            active->order = middle;
            return;
        }
        renumber_all(c, p);
    }
}

// Moves the job to a pool, behind all jobs there, like one that is submitted now.
static void move_last(struct core *c, struct queue_plan *p, struct active_experiment *active,
                      struct pool *pool)
{
    const struct active_experiment *last = NULL;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *other = queued_job_at(c, i);
        if (other && other != active && other->pool == pool &&
            (!last || other->order > last->order))
            last = other;
    }
    active->pool = pool;
    active->order = active->experiment->id * ORDER_STEP;
    if (last && last->order > active->order)
        move_beside(c, p, active, last, false);
}

// A job that is put beside another also takes that job's priority. *was receives the job's position
// before; when the job enters another pool, its position behind all jobs there.
static void plan_position(struct core *c, struct queue_plan *p, struct active_experiment *active,
                          const struct queue_move *move, struct queue_position *was)
{
    bool enters = move->pool && move->pool != active->pool;
    plan_add(p, active);
    if (enters)
        move_last(c, p, active, move->pool);
    if (was) {
        *was = position_of(active);
        was->entered = enters;
    }
    if (move->priority >= 0)
        active->priority = (int)move->priority;
}

// --- applying a move -----------------------------------------------------------------------------

static void set_resource(json_t *resources, const char *key, json_t *value)
{
    must(!json_object_set_new(resources, key, value));
}

static void change_config(struct active_experiment *active, const struct queue_move *move,
                          bool priority)
{
    json_t *resources = json_object_get(active->config, "resources");
    if (priority)
        set_resource(resources, "priority", json_integer(active->priority));
    if (move->max_slots >= 0)
        set_resource(resources, "max_slots",
                     move->max_slots ? json_integer(move->max_slots) : json_null());
    if (move->weight >= 0)
        set_resource(resources, "weight", json_real(move->weight));
    if (move->pool)
        set_resource(resources, "resource_pool", json_string(move->pool->name));
    free(active->config_text);
    active->config_text = json_text(active->config);
}

static void store_position(struct core *c, const struct active_experiment *active)
{
    const struct experiment *x = active->experiment;
    int64_t order = active->order == x->id * ORDER_STEP ? 0 : active->order;
    STORE(c, EXPERIMENT_SET_QUEUE, order, active->weight, active->pool->name, x->id);
    change_mark(c, EVENT_QUEUE, 0, 0, active->pool->name);
}

// Waiting allocations move with the job; the scheduler asks running ones to leave.
static void follow_pool(struct core *c, struct active_experiment *active)
{
    for (struct trial *t = active->trials; t; t = t->next)
        if (t->allocation && t->allocation->state == ALLOCATION_QUEUED &&
            t->allocation->pool != active->pool) {
            t->allocation->pool = active->pool;
            STORE(c, ALLOCATION_SET_POOL, active->pool->name, t->allocation->id);
        }
}

static void plan_commit(struct core *c, struct queue_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        struct active_experiment *active = p->items[i].active;
        follow_pool(c, active);
        active_experiment_changed(c, active);
        store_position(c, active);
    }
    free(p->items);
}

static void apply_settings(struct active_experiment *active, const struct queue_move *move,
                           bool priority)
{
    if (move->max_slots >= 0)
        active->max_slots = move->max_slots;
    if (move->weight >= 0)
        active->weight = move->weight;
    change_config(active, move, priority);
}

int queue_move_check(struct core *c, const struct request *rq, struct active_experiment *active,
                     const struct queue_move *move, const char *path, struct error *e)
{
    struct queue_plan plan = {0};
    struct queue_position was;
    plan_position(c, &plan, active, move, &was);
    int err = check_position(c, rq, active, &was, move->weight, path, e);
    plan_undo(&plan);
    return err;
}

void queue_move_apply(struct core *c, struct active_experiment *active,
                      const struct queue_move *move)
{
    struct queue_plan plan = {0};
    if (!queue_move_is_empty(move))
        plan_position(c, &plan, active, move, NULL);
    apply_settings(active, move, move->priority >= 0);
    plan_commit(c, &plan);
}

void queue_move_to_end(struct core *c, struct active_experiment *active)
{
    struct queue_plan plan = {0};
    plan_add(&plan, active);
    move_last(c, &plan, active, active->pool);
    for (size_t i = 0; i < plan.count; i++) {
        if (plan.items[i].active != active)
            active_experiment_changed(c, plan.items[i].active);
        store_position(c, plan.items[i].active);
    }
    free(plan.items);
}

// --- POST job-queues -----------------------------------------------------------------------------

struct queue_update {
    struct active_experiment *active, *anchor; // anchor NULL: only settings change
    bool ahead;
    struct queue_move move;
};

static int find_job(struct core *c, const struct request *rq, const json_t *entry, const char *key,
                    const char *path, struct active_experiment **out, struct error *e)
{
    const char *job = jget_string(entry, key, "");
    for (size_t i = 0; i < c->experiments.count; i++) {
        *out = queued_job_at(c, i);
        if (*out && !strcmp((*out)->job_id, job) && core_sees(c, rq, (*out)->experiment))
            return 0;
    }
    return error_set(e, ERR_INVALID, "%s.%s: there is no job \"%.64s\" in the queue", path, key,
                     job);
}

static int read_anchor(struct core *c, const struct request *rq, const json_t *entry,
                       const char *path, struct queue_update *u, struct error *e)
{
    const char *key = jget(entry, "aheadOf") ? "aheadOf" : "behindOf";
    u->ahead = jget(entry, "aheadOf");
    int err = find_job(c, rq, entry, key, path, &u->anchor, e);
    if (err)
        return err;
    return u->anchor == u->active
               ? error_set(e, ERR_INVALID, "%s.%s: names the job itself", path, key)
               : 0;
}

static int read_update(struct core *c, const struct request *rq, const json_t *entry, size_t index,
                       struct queue_update *u, struct error *e)
{
    char path[32];
    snprintf(path, sizeof path, "updates.%zu", index);
    *u = (struct queue_update){0};
    int err = find_job(c, rq, entry, "jobId", path, &u->active, e);
    if (!err && (err = core_may_change(c, rq, u->active->experiment, e)))
        error_prefix(e, "%s", path);
    if (!err)
        err = queue_move_read(c, u->active->experiment, entry, path, &u->move, e);
    bool beside = jget(entry, "aheadOf") || jget(entry, "behindOf");
    if (!err && jget(entry, "aheadOf") && jget(entry, "behindOf"))
        err = error_set(e, ERR_INVALID, "%s: give either aheadOf or behindOf, not both", path);
    if (!err && beside)
        err = read_anchor(c, rq, entry, path, u, e);
    if (!err && beside && u->move.priority >= 0)
        err = error_set(e, ERR_INVALID,
                        "%s.priority: leave it out; the job takes the priority of the job that it "
                        "is put beside",
                        path);
    if (!err && !beside && queue_move_is_empty(&u->move))
        err = error_set(e, ERR_INVALID,
                        "%s: nothing to change: give priority, weight, maxSlots, resourcePool, "
                        "aheadOf or behindOf",
                        path);
    return err;
}

// Plans the job's new place after the updates before this one. Checks it and stores nothing.
static int plan_update(struct core *c, const struct request *rq, struct queue_plan *plan,
                       const struct queue_update *u, size_t index, struct error *e)
{
    char path[32];
    struct queue_position was;
    struct active_experiment *active = u->active;
    snprintf(path, sizeof path, "updates.%zu", index);
    plan_position(c, plan, active, &u->move, &was);
    if (u->anchor && u->anchor->pool != active->pool)
        return error_set(
            e, ERR_INVALID,
            "%s.%s: experiment %lld is in resource pool %s, and experiment %lld in %s; "
            "move it there first",
            path, u->ahead ? "aheadOf" : "behindOf", (long long)u->anchor->experiment->id,
            u->anchor->pool->name, (long long)active->experiment->id, active->pool->name);
    if (u->anchor) {
        move_beside(c, plan, active, u->anchor, u->ahead);
        active->priority = u->anchor->priority;
    }
    return check_position(c, rq, active, &was, u->move.weight, path, e);
}

static void apply_update(struct core *c, const struct queue_update *u)
{
    struct active_experiment *active = u->active;
    apply_settings(active, &u->move, u->anchor || u->move.priority >= 0);
    STORE(c, EXPERIMENT_PATCH, NULL, NULL, NULL, NULL, active->priority, active->config_text,
          active->experiment->id);
    log_info("job moved", "exp=%lld priority=%d pool=%s", (long long)active->experiment->id,
             active->priority, active->pool->name);
}

// Applies all updates or none.
int core_job_queue_update(struct core *c, struct request *rq, struct error *e)
{
    const json_t *list = jget(rq->body, "updates");
    size_t i, count = json_array_size(list);
    json_t *entry;
    if (!json_is_array(list) || !count)
        return error_set(e, ERR_INVALID, "updates: missing, empty or not a list");
    if (count > UPDATES_MAX)
        return error_set(e, ERR_TOO_LARGE, "updates: more than %d", UPDATES_MAX);
    struct queue_update *updates = arena_alloc(&rq->arena, count * sizeof *updates);
    json_array_foreach(list, i, entry)
    {
        int err = read_update(c, rq, entry, i, &updates[i], e);
        if (err)
            return err;
    }
    struct queue_plan plan = {0};
    for (i = 0; i < count; i++)
        if (plan_update(c, rq, &plan, &updates[i], i, e)) {
            plan_undo(&plan);
            return e->code;
        }
    for (i = 0; i < count; i++)
        apply_update(c, &updates[i]);
    plan_commit(c, &plan);
    return 0;
}
