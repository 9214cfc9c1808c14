// Moving live experiments in the queue.
//
// Among equals they stand by `order`, in steps of ORDER_STEP by id until they are moved. One that
// is put before or behind another gets a number between that one's and its neighbour's; when none
// is left between them, all get new ones.
//
// A change is planned first: places are set in memory alone, and taken back when the caller may not
// let the job stand there. Several updates of one call are planned one after the other, so that
// each is judged by what those before it did.
#include "master/calls/queue_moves.h"

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

static struct active_experiment *live_at(const struct core *c, size_t i)
{
    const struct experiment *x = c->experiments.items[i].value;
    return !x->active || x->active->unmanaged || experiment_is_terminal(x->state) ? NULL
                                                                                  : x->active;
}

static int read_priority(const char *path, const struct steer *s, struct error *e)
{
    if (s->priority < SCHED_PRIORITY_MIN || s->priority > SCHED_PRIORITY_MAX)
        return error_set(e, ERR_INVALID, "%s.priority: %d to %d, the smaller the sooner", path,
                         SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX);
    return 0;
}

static int read_max_slots(const struct experiment *x, const char *path, const struct steer *s,
                          struct error *e)
{
    if (s->max_slots < 0)
        return error_set(e, ERR_INVALID, "%s.maxSlots: 0 (no limit) or more", path);
    if (s->max_slots && x->active && s->max_slots < x->active->least)
        return error_set(e, ERR_INVALID,
                         "%s.maxSlots: a trial of experiment %lld needs %d slots, so that none "
                         "could ever start; pause it if that is meant",
                         path, (long long)x->id, x->active->least);
    return 0;
}

int steer_read(struct core *c, const struct experiment *x, const json_t *from, const char *path,
               struct steer *out, struct error *e)
{
    const char *pool = jget_string(from, "resourcePool", NULL);
    int err = 0;
    *out = (struct steer){.priority = jget_int(from, "priority", -1),
                          .max_slots = jget_int(from, "maxSlots", -1),
                          .weight = jget_double(from, "weight", -1)};
    if (jget(from, "priority"))
        err = read_priority(path, out, e);
    if (!err && jget(from, "maxSlots"))
        err = read_max_slots(x, path, out, e);
    if (!err && jget(from, "weight") && !(out->weight >= 0 && out->weight <= 1e6))
        err = error_set(e, ERR_INVALID, "%s.weight: 0 to 1000000", path);
    if (!err && pool && core_pool_known(c, pool, &out->pool, e))
        err = error_prefix(e, "%s.resourcePool", path);
    return err;
}

bool steer_is_empty(const struct steer *s)
{
    return s->priority < 0 && s->max_slots < 0 && s->weight < 0 && !s->pool;
}

// --- what the caller may -------------------------------------------------------------------------

struct place { // in the queue of a pool
    const struct pool *pool;
    int priority;
    int64_t order;
    bool entered; // it was in another pool before
};

static struct place place_of(const struct active_experiment *l)
{
    return (struct place){.pool = l->pool, .priority = l->priority, .order = l->order};
}

// Compares two places as the scheduler of the pool compares jobs of different users.
static bool goes_before(const struct place *a, const struct place *b)
{
    bool by_priority = a->pool->policy == SCHED_POLICY_PRIORITY && a->priority != b->priority;
    return by_priority ? a->priority < b->priority : a->order < b->order;
}

// Finds the job that loses when `l` moves from `was` to `now`; the caller's own jobs do not count.
// `l` is NULL for a new job of the workspace.
static enum loser find_loser(struct core *c, const struct request *rq,
                             const struct active_experiment *l, const struct workspace *ws,
                             const struct place *was, const struct place *now,
                             const struct active_experiment **passed)
{
    enum loser worst = LOSES_NOBODY;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *other = live_at(c, i);
        if (!other || other == l || other->pool != now->pool ||
            other->experiment->user_id == rq->principal.user_id)
            continue;
        const struct place at = place_of(other);
        if (!goes_before(&at, was) || !goes_before(now, &at))
            continue;
        bool mate = core_workspace_of(c, other->experiment) == ws;
        enum loser loser = mate ? LOSES_TEAMMATE : LOSES_OTHER_TEAM;
        if (loser > worst) {
            worst = loser;
            *passed = other;
        }
    }
    return worst;
}

static int refuse_above(const char *path, const struct pool *pool, int priority, double weight,
                        struct error *e)
{
    if (priority < pool->max_user_priority)
        return error_set(
            e, ERR_FORBIDDEN,
            "%s.priority: %d is above the highest that users may give in resource pool "
            "%s: give one of %d to %d, or ask an administrator of the cluster",
            path, priority, pool->name, pool->max_user_priority, SCHED_PRIORITY_MAX);
    return error_set(e, ERR_FORBIDDEN,
                     "%s.weight: %g is more than 1, so that the job would go before others in "
                     "resource pool %s: give one of 0 to 1, or ask an administrator of the cluster",
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
                  "workspace \"%.64s\": leave it behind that one, or ask an administrator (muster "
                  "team members \"%.64s\" names them)",
                  path, buf_str(&name), buf_str(&other), ws->name, ws->name);
    else
        error_set(e, ERR_FORBIDDEN,
                  "%s: %s would go before %s of another team, which takes an administrator of the "
                  "cluster: leave it behind that one, or ask an administrator",
                  path, buf_str(&name), buf_str(&other));
    buf_free(&name);
    buf_free(&other);
    return ERR_FORBIDDEN;
}

// Whether the change puts the job above the pool's limits. A job keeps the priority that an
// administrator gave it within its pool, and loses that right in another pool.
static bool is_above(const struct active_experiment *l, const struct place *was, double weight)
{
    bool raised = was->entered || l->priority < was->priority;
    return weight > 1 || (raised && l->priority < l->pool->max_user_priority);
}

// Whether the caller may move the job from `was` to its present place. `weight`: -1: unchanged.
static int check_place(struct core *c, const struct request *rq, const struct active_experiment *l,
                       const struct place *was, double weight, const char *path, struct error *e)
{
    const struct experiment *x = l->experiment;
    const struct workspace *ws = core_workspace_of(c, x);
    const struct place now = place_of(l);
    const struct active_experiment *passed = NULL;
    weight = weight < 0 && was->entered ? l->weight : weight;
    const struct claim claim = {.role = core_role(rq, ws),
                                .own = rq->principal.kind == PRINCIPAL_USER &&
                                       rq->principal.user_id == x->user_id,
                                .unlimited = now.pool->max_user_priority == SCHED_PRIORITY_MIN,
                                .above = is_above(l, was, weight),
                                .loser = find_loser(c, rq, l, ws, was, &now, &passed)};
    switch (precedence_judge(&claim)) {
    case PRECEDENCE_GRANTED:
        return 0;
    case PRECEDENCE_NO_CHANGE:
        return core_may_change(c, rq, x, e);
    case PRECEDENCE_ABOVE:
        return refuse_above(path, now.pool, now.priority, weight, e);
    case PRECEDENCE_OTHER_TEAM:
        return refuse_passing(c, rq, path, l, ws, passed, false, e);
    case PRECEDENCE_TEAMMATE:
        return refuse_passing(c, rq, path, l, ws, passed, true, e);
    }
    return 0;
}

// The pool's default priority and those below it are everybody's: a submission with one of them is
// never refused. A job with a higher one is judged as if it were moved up from the last place of
// the default priority.
int steer_check_config(struct core *c, const struct request *rq, const struct workspace *ws,
                       const json_t *config, struct error *e)
{
    const json_t *resources = jget(config, "resources");
    const struct pool *pool = core_pool(c, jget_string(resources, "resource_pool", ""));
    const struct place was = {
        .pool = pool, .priority = pool_default_priority(pool), .order = INT64_MAX};
    struct place now = was;
    now.priority = (int)jget_int(resources, "priority", was.priority);
    double weight = jget_double(resources, "weight", 1);
    const struct active_experiment *passed = NULL;
    const struct claim claim = {.role = core_role(rq, ws),
                                .own = true,
                                .unlimited = pool->max_user_priority == SCHED_PRIORITY_MIN,
                                .above = now.priority < pool->max_user_priority || weight > 1,
                                .loser = find_loser(c, rq, NULL, ws, &was, &now, &passed)};
    switch (precedence_judge(&claim)) {
    case PRECEDENCE_ABOVE:
        return refuse_above("resources", pool, now.priority, weight, e);
    case PRECEDENCE_OTHER_TEAM:
    case PRECEDENCE_TEAMMATE:
        return refuse_passing(c, rq, "resources.priority", NULL, ws, passed,
                              claim.loser == LOSES_TEAMMATE, e);
    default: // who may not submit at all is refused elsewhere
        return 0;
    }
}

// --- a plan: places that can be taken back -------------------------------------------------------

struct plan { // of jobs before their places changed, the oldest first
    struct planned {
        struct active_experiment *l;
        struct pool *pool;
        int priority;
        int64_t order;
    } * items;
    size_t count, cap;
};

static void plan_note(struct plan *p, struct active_experiment *l)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->items = xrealloc(p->items, p->cap * sizeof *p->items);
    }
    p->items[p->count++] = (struct planned){l, l->pool, l->priority, l->order};
}

static void plan_undo(struct plan *p)
{
    while (p->count) {
        const struct planned *was = &p->items[--p->count];
        was->l->pool = was->pool;
        was->l->priority = was->priority;
        was->l->order = was->order;
    }
    free(p->items);
}

// The nearest order below `order` (ahead) or above it, of any but `moved`.
static int64_t neighbour(const struct core *c, const struct active_experiment *moved, int64_t order,
                         bool ahead)
{
    int64_t found = ahead ? order - ORDER_STEP : order + ORDER_STEP;
    bool any = false;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *l = live_at(c, i);
        if (!l || l == moved || (ahead ? l->order >= order : l->order <= order))
            continue;
        if (!any || (ahead ? l->order > found : l->order < found))
            found = l->order;
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

// All of them a step apart, as they stand. The last one's is at most that of its own id, so that
// those still to come stand behind it.
static void spread(struct core *c, struct plan *p)
{
    struct active_experiment **all =
        xcalloc(c->experiments.count + 1, sizeof(struct active_experiment *));
    size_t count = 0;
    for (size_t i = 0; i < c->experiments.count; i++)
        if (live_at(c, i))
            all[count++] = live_at(c, i);
    qsort(all, count, sizeof(struct active_experiment *), by_order);
    for (size_t i = 0; i < count; i++) {
        plan_note(p, all[i]);
        all[i]->order = ((int64_t)i + 1) * ORDER_STEP;
    }
    free(all);
}

static void put_beside(struct core *c, struct plan *p, struct active_experiment *l,
                       const struct active_experiment *anchor, bool ahead)
{
    for (;;) {
        int64_t other = neighbour(c, l, anchor->order, ahead);
        int64_t middle = anchor->order + (other - anchor->order) / 2;
        if (!middle) // the store's word for "by id"
            middle = anchor->order / 2;
        if (middle && middle != anchor->order && middle != other) {
            l->order = middle;
            return;
        }
        spread(c, p);
    }
}

// Moves the job to a pool, behind all jobs there, like one that is submitted now.
static void put_last(struct core *c, struct plan *p, struct active_experiment *l, struct pool *pool)
{
    const struct active_experiment *last = NULL;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct active_experiment *other = live_at(c, i);
        if (other && other != l && other->pool == pool && (!last || other->order > last->order))
            last = other;
    }
    l->pool = pool;
    l->order = l->experiment->id * ORDER_STEP;
    if (last && last->order > l->order)
        put_beside(c, p, l, last, false);
}

// A job that is put beside another also takes that job's priority. *was: the job's place before;
// when the job enters another pool, its place behind all jobs there.
static void plan_place(struct core *c, struct plan *p, struct active_experiment *l,
                       const struct steer *s, struct place *was)
{
    bool enters = s->pool && s->pool != l->pool;
    plan_note(p, l);
    if (enters)
        put_last(c, p, l, s->pool);
    if (was) {
        *was = place_of(l);
        was->entered = enters;
    }
    if (s->priority >= 0)
        l->priority = (int)s->priority;
}

// --- applying ------------------------------------------------------------------------------------

static void put(json_t *resources, const char *key, json_t *value)
{
    must(!json_object_set_new(resources, key, value));
}

static void change_config(struct active_experiment *l, const struct steer *s, bool priority)
{
    json_t *resources = json_object_get(l->config, "resources");
    if (priority)
        put(resources, "priority", json_integer(l->priority));
    if (s->max_slots >= 0)
        put(resources, "max_slots", s->max_slots ? json_integer(s->max_slots) : json_null());
    if (s->weight >= 0)
        put(resources, "weight", json_real(s->weight));
    if (s->pool)
        put(resources, "resource_pool", json_string(s->pool->name));
    free(l->config_text);
    l->config_text = json_text(l->config);
}

static void store_place(struct core *c, const struct active_experiment *l)
{
    const struct experiment *x = l->experiment;
    int64_t order = l->order == x->id * ORDER_STEP ? 0 : l->order;
    STORE(c, EXPERIMENT_SET_QUEUE, "idsi", order, l->weight, l->pool->name, x->id);
    core_event(c, EVENT_QUEUE, 0, 0, l->pool->name);
}

// Waiting allocations move with the job; the scheduler asks running ones to leave.
static void follow_pool(struct core *c, struct active_experiment *l)
{
    for (struct trial *t = l->trials; t; t = t->next)
        if (t->allocation && t->allocation->state == ALLOCATION_QUEUED &&
            t->allocation->pool != l->pool) {
            t->allocation->pool = l->pool;
            STORE(c, ALLOCATION_SET_POOL, "ss", l->pool->name, t->allocation->id);
        }
}

static void plan_commit(struct core *c, struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        struct active_experiment *l = p->items[i].l;
        follow_pool(c, l);
        active_experiment_changed(c, l);
        store_place(c, l);
    }
    free(p->items);
}

static void apply_settings(struct active_experiment *l, const struct steer *s, bool priority)
{
    if (s->max_slots >= 0)
        l->max_slots = s->max_slots;
    if (s->weight >= 0)
        l->weight = s->weight;
    change_config(l, s, priority);
}

int steer_check(struct core *c, const struct request *rq, struct active_experiment *l,
                const struct steer *s, const char *path, struct error *e)
{
    struct plan plan = {0};
    struct place was;
    plan_place(c, &plan, l, s, &was);
    int err = check_place(c, rq, l, &was, s->weight, path, e);
    plan_undo(&plan);
    return err;
}

void steer_apply(struct core *c, struct active_experiment *l, const struct steer *s)
{
    struct plan plan = {0};
    if (!steer_is_empty(s))
        plan_place(c, &plan, l, s, NULL);
    apply_settings(l, s, s->priority >= 0);
    plan_commit(c, &plan);
}

void steer_requeue(struct core *c, struct active_experiment *l)
{
    struct plan plan = {0};
    plan_note(&plan, l);
    put_last(c, &plan, l, l->pool);
    for (size_t i = 0; i < plan.count; i++) {
        if (plan.items[i].l != l)
            active_experiment_changed(c, plan.items[i].l);
        store_place(c, plan.items[i].l);
    }
    free(plan.items);
}

// --- POST job-queues -----------------------------------------------------------------------------

struct update {
    struct active_experiment *l, *anchor; // anchor NULL: settings alone
    bool ahead;
    struct steer steer;
};

static int find_job(struct core *c, const struct request *rq, const json_t *entry, const char *key,
                    const char *path, struct active_experiment **out, struct error *e)
{
    const char *job = jget_string(entry, key, "");
    for (size_t i = 0; i < c->experiments.count; i++) {
        *out = live_at(c, i);
        if (*out && !strcmp((*out)->job_id, job) && core_sees(c, rq, (*out)->experiment))
            return 0;
    }
    return error_set(e, ERR_INVALID, "%s.%s: there is no job \"%.64s\" in the queue", path, key,
                     job);
}

static int read_anchor(struct core *c, const struct request *rq, const json_t *entry,
                       const char *path, struct update *u, struct error *e)
{
    const char *key = jget(entry, "aheadOf") ? "aheadOf" : "behindOf";
    u->ahead = jget(entry, "aheadOf");
    int err = find_job(c, rq, entry, key, path, &u->anchor, e);
    if (err)
        return err;
    return u->anchor == u->l ? error_set(e, ERR_INVALID, "%s.%s: the job itself", path, key) : 0;
}

static int read_update(struct core *c, const struct request *rq, const json_t *entry, size_t index,
                       struct update *u, struct error *e)
{
    char path[32];
    snprintf(path, sizeof path, "updates.%zu", index);
    *u = (struct update){0};
    int err = find_job(c, rq, entry, "jobId", path, &u->l, e);
    if (!err && (err = core_may_change(c, rq, u->l->experiment, e)))
        error_prefix(e, "%s", path);
    if (!err)
        err = steer_read(c, u->l->experiment, entry, path, &u->steer, e);
    bool beside = jget(entry, "aheadOf") || jget(entry, "behindOf");
    if (!err && jget(entry, "aheadOf") && jget(entry, "behindOf"))
        err = error_set(e, ERR_INVALID, "%s: aheadOf and behindOf: one of the two", path);
    if (!err && beside)
        err = read_anchor(c, rq, entry, path, u, e);
    if (!err && beside && u->steer.priority >= 0)
        err =
            error_set(e, ERR_INVALID,
                      "%s.priority: it takes that of the job it is put beside; leave it out", path);
    if (!err && !beside && steer_is_empty(&u->steer))
        err = error_set(e, ERR_INVALID,
                        "%s: nothing to change: give priority, weight, maxSlots, resourcePool, "
                        "aheadOf or behindOf",
                        path);
    return err;
}

// Plans the job's new place after the updates before this one. Checks it and stores nothing.
static int plan_update(struct core *c, const struct request *rq, struct plan *plan,
                       const struct update *u, size_t index, struct error *e)
{
    char path[32];
    struct place was;
    struct active_experiment *l = u->l;
    snprintf(path, sizeof path, "updates.%zu", index);
    plan_place(c, plan, l, &u->steer, &was);
    if (u->anchor && u->anchor->pool != l->pool)
        return error_set(
            e, ERR_INVALID,
            "%s.%s: experiment %lld is in resource pool %s, and experiment %lld in %s; "
            "move it there first",
            path, u->ahead ? "aheadOf" : "behindOf", (long long)u->anchor->experiment->id,
            u->anchor->pool->name, (long long)l->experiment->id, l->pool->name);
    if (u->anchor) {
        put_beside(c, plan, l, u->anchor, u->ahead);
        l->priority = u->anchor->priority;
    }
    return check_place(c, rq, l, &was, u->steer.weight, path, e);
}

static void apply(struct core *c, const struct update *u)
{
    struct active_experiment *l = u->l;
    apply_settings(l, &u->steer, u->anchor || u->steer.priority >= 0);
    STORE(c, EXPERIMENT_PATCH, "ssssisi", NULL, NULL, NULL, NULL, (int64_t)l->priority,
          l->config_text, l->experiment->id);
    log_info("job moved", "exp=%lld priority=%d pool=%s", (long long)l->experiment->id, l->priority,
             l->pool->name);
}

// All of them or none.
int core_job_queue_update(struct core *c, struct request *rq, struct error *e)
{
    const json_t *list = jget(rq->body, "updates");
    size_t i, count = json_array_size(list);
    json_t *entry;
    if (!json_is_array(list) || !count)
        return error_set(e, ERR_INVALID, "updates: not a list of what to change");
    if (count > UPDATES_MAX)
        return error_set(e, ERR_TOO_LARGE, "updates: more than %d", UPDATES_MAX);
    struct update *updates = arena_alloc(&rq->arena, count * sizeof *updates);
    json_array_foreach(list, i, entry)
    {
        int err = read_update(c, rq, entry, i, &updates[i], e);
        if (err)
            return err;
    }
    struct plan plan = {0};
    for (i = 0; i < count; i++)
        if (plan_update(c, rq, &plan, &updates[i], i, e)) {
            plan_undo(&plan);
            return e->code;
        }
    for (i = 0; i < count; i++)
        apply(c, &updates[i]);
    plan_commit(c, &plan);
    return 0;
}
