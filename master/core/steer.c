// Moving live experiments in the queue.
//
// Among equals they stand by `order`, in steps of ORDER_STEP by id until they are moved. One that
// is put before or behind another gets a number between that one's and its neighbour's; when none
// is left between them, all get new ones.
#include "master/core/steer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/teams.h"

enum { UPDATES_MAX = 1000 };

// --- settings ------------------------------------------------------------------------------------

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
    if (s->max_slots && x->live && s->max_slots < x->live->least)
        return error_set(e, ERR_INVALID,
                         "%s.maxSlots: a trial of experiment %lld needs %d slots, so that none "
                         "could ever start; pause it if that is meant",
                         path, (long long)x->id, x->live->least);
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

static void put(json_t *resources, const char *key, json_t *value)
{
    must(!json_object_set_new(resources, key, value));
}

static void change_config(struct live *l, const struct steer *s)
{
    json_t *resources = json_object_get(l->config, "resources");
    if (s->priority >= 0)
        put(resources, "priority", json_integer(s->priority));
    if (s->max_slots >= 0)
        put(resources, "max_slots", s->max_slots ? json_integer(s->max_slots) : json_null());
    if (s->weight >= 0)
        put(resources, "weight", json_real(s->weight));
    if (s->pool)
        put(resources, "resource_pool", json_string(s->pool->name));
    free(l->config_text);
    l->config_text = json_text(l->config);
}

static void store_place(struct core *c, const struct live *l)
{
    const struct experiment *x = l->experiment;
    int64_t order = l->order == x->id * ORDER_STEP ? 0 : l->order;
    STORE(c, EXPERIMENT_SET_QUEUE, "idsi", order, l->weight, l->pool->name, x->id);
    core_event(c, EVENT_QUEUE, 0, 0, l->pool->name);
}

// What waits goes along; what runs is asked to leave by the scheduler.
static void change_pool(struct core *c, struct live *l, struct pool *pool)
{
    l->pool = pool;
    for (struct trial *t = l->trials; t; t = t->next)
        if (t->allocation && t->allocation->state == ALLOCATION_QUEUED) {
            t->allocation->pool = pool;
            STORE(c, ALLOCATION_SET_POOL, "ss", pool->name, t->allocation->id);
        }
}

void steer_apply(struct core *c, struct live *l, const struct steer *s)
{
    if (s->priority >= 0)
        l->priority = (int)s->priority;
    if (s->max_slots >= 0)
        l->max_slots = s->max_slots;
    if (s->weight >= 0)
        l->weight = s->weight;
    if (s->pool && s->pool != l->pool)
        change_pool(c, l, s->pool);
    change_config(l, s);
    if (steer_is_empty(s))
        return;
    live_changed(c, l);
    store_place(c, l);
}

// --- before and behind ---------------------------------------------------------------------------

static struct live *live_at(const struct core *c, size_t i)
{
    const struct experiment *x = c->experiments.items[i].value;
    return !x->live || x->live->unmanaged || experiment_is_terminal(x->state) ? NULL : x->live;
}

// The nearest order below `order` (ahead) or above it, of any but `moved`.
static int64_t neighbour(const struct core *c, const struct live *moved, int64_t order, bool ahead)
{
    int64_t found = ahead ? order - ORDER_STEP : order + ORDER_STEP;
    bool any = false;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct live *l = live_at(c, i);
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
    const struct live *a = *(struct live *const *)left, *b = *(struct live *const *)right;
    return (a->order > b->order) - (a->order < b->order);
}

// All of them a step apart, as they stand. The last one's is at most that of its own id, so that
// those still to come stand behind it.
static void spread(struct core *c)
{
    struct live **all = xcalloc(c->experiments.count + 1, sizeof(struct live *));
    size_t count = 0;
    for (size_t i = 0; i < c->experiments.count; i++)
        if (live_at(c, i))
            all[count++] = live_at(c, i);
    qsort(all, count, sizeof(struct live *), by_order);
    for (size_t i = 0; i < count; i++) {
        all[i]->order = ((int64_t)i + 1) * ORDER_STEP;
        live_changed(c, all[i]);
        store_place(c, all[i]);
    }
    free(all);
}

static int64_t place_beside(struct core *c, const struct live *l, const struct live *anchor,
                            bool ahead)
{
    for (;;) {
        int64_t other = neighbour(c, l, anchor->order, ahead);
        int64_t middle = anchor->order + (other - anchor->order) / 2;
        if (!middle) // the store's word for "by id"
            middle = anchor->order / 2;
        if (middle && middle != anchor->order && middle != other)
            return middle;
        spread(c);
    }
}

// Equals they are by the same priority, so it takes that too.
static void move_beside(struct core *c, struct live *l, const struct live *anchor, bool ahead)
{
    const struct steer s = {.priority = anchor->priority, .max_slots = -1, .weight = -1};
    l->order = place_beside(c, l, anchor, ahead);
    steer_apply(c, l, &s);
}

// --- POST job-queues -----------------------------------------------------------------------------

struct update {
    struct live *l, *anchor; // anchor NULL: settings alone
    bool ahead;
    struct steer steer;
};

static int find_job(struct core *c, const json_t *entry, const char *key, const char *path,
                    struct live **out, struct error *e)
{
    const char *job = jget_string(entry, key, "");
    for (size_t i = 0; i < c->experiments.count; i++) {
        *out = live_at(c, i);
        if (*out && !strcmp((*out)->job_id, job))
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
    int err = find_job(c, entry, key, path, &u->anchor, e);
    if (err)
        return err;
    if (!core_sees(c, rq, u->anchor->experiment))
        return error_set(e, ERR_INVALID, "%s.%s: there is no job \"%.64s\" in the queue", path, key,
                         jget_string(entry, key, ""));
    if (u->anchor == u->l)
        return error_set(e, ERR_INVALID, "%s.%s: the job itself", path, key);
    if (u->anchor->pool != u->l->pool)
        return error_set(
            e, ERR_INVALID,
            "%s.%s: experiment %lld is in resource pool %s, and experiment %lld in %s; "
            "move it there first",
            path, key, (long long)u->anchor->experiment->id, u->anchor->pool->name,
            (long long)u->l->experiment->id, u->l->pool->name);
    return 0;
}

static int read_update(struct core *c, const struct request *rq, const json_t *entry, size_t index,
                       struct update *u, struct error *e)
{
    char path[32];
    snprintf(path, sizeof path, "updates.%zu", index);
    *u = (struct update){0};
    int err = find_job(c, entry, "jobId", path, &u->l, e);
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

static void apply(struct core *c, const struct update *u)
{
    struct live *l = u->l;
    steer_apply(c, l, &u->steer);
    if (u->anchor)
        move_beside(c, l, u->anchor, u->ahead);
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
    for (i = 0; i < count; i++)
        apply(c, &updates[i]);
    return 0;
}
