// The queue as people see it: what runs and what waits, in order; and the live allocations.
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/wait_reason.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

// --- jobs in order -------------------------------------------------------------------------------

struct queued {
    struct active_experiment *l;
    size_t place; // in its pool
};

struct queue {
    struct queued *items;
    size_t count, first_of_pool;
};

// Once each, though an experiment has many trials.
static void queue_add(struct core *c, struct queue *q, struct active_experiment *l)
{
    if (l->listing == c->listing)
        return;
    l->listing = c->listing;
    q->items[q->count] = (struct queued){l, q->count - q->first_of_pool};
    q->count++;
}

static int by_priority(const void *left, const void *right)
{
    const struct active_experiment *a = ((const struct queued *)left)->l,
                                   *b = ((const struct queued *)right)->l;
    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static void add_running(struct core *c, struct queue *q, const struct pool *pool)
{
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (t->allocation && !why_waits(t) && t->active->pool == pool)
            queue_add(c, q, t->active);
    }
    qsort(q->items + q->first_of_pool, q->count - q->first_of_pool, sizeof *q->items, by_priority);
    for (size_t i = q->first_of_pool; i < q->count; i++)
        q->items[i].place = i - q->first_of_pool;
}

static void add_waiting(struct core *c, struct queue *q, const struct pool *pool)
{
    size_t cap = c->trials.count + 1;
    int64_t *tags = xcalloc(cap, sizeof *tags);
    size_t count = sched_waiting_gangs(c->sched, pool->handle, c->now, tags, cap);
    for (size_t i = 0; i < count && i < cap; i++)
        queue_add(c, q, core_trial_find(c, tags[i])->active);
    free(tags);
}

// Experiments that hold or want slots, pool by pool, those that run first and then the others in
// the order of decision. Free the items.
static struct queue list_queue(struct core *c, const char *pool)
{
    struct queue q = {.items = xcalloc(c->trials.count + 1, sizeof(struct queued))};
    c->listing++;
    for (size_t i = 0; i < c->pool_count; i++) {
        if (pool && strcmp(pool, c->pools[i]->name))
            continue;
        q.first_of_pool = q.count;
        add_running(c, &q, c->pools[i]);
        add_waiting(c, &q, c->pools[i]);
    }
    return q;
}

// --- jobs as an answer ---------------------------------------------------------------------------

static bool runs(const struct active_experiment *l)
{
    for (const struct trial *t = l->trials; t; t = t->next)
        if (t->allocation && !why_waits(t))
            return true;
    return false;
}

static void write_summary(struct core *c, struct json_writer *w, const struct queued *job)
{
    struct sched_reason r = {.code = SCHED_PLACED};
    why_of_live(c, job->l, &r);
    jw_key(w, "summary");
    jw_object(w);
    jw_kv_string(w, "state", runs(job->l) ? "STATE_SCHEDULED" : "STATE_QUEUED");
    jw_kv_int(w, "jobsAhead", (int64_t)job->place);
    jw_kv_int(w, "place", (int64_t)job->place);
    jw_kv_string(w, "reasonCode", why_code(&r));
    why_write_start(c, w, &r);
    jw_object_end(w);
    jw_kv_int(w, "place", (int64_t)job->place);
    jw_kv_string(w, "reasonCode", why_code(&r));
    why_write_start(c, w, &r);
}

// Of a workspace that the caller does not see, without names.
static void write_job(struct core *c, const struct request *rq, struct json_writer *w,
                      const struct queued *job)
{
    const struct active_experiment *l = job->l;
    const struct experiment *x = l->experiment;
    bool seen = core_sees(c, rq, x);
    int64_t wanted, held;
    char id[24], time[CLOCK_RFC3339_MAX];
    struct buf reason, type;
    buf_init(&reason, ERROR_TEXT_MAX);
    buf_init(&type, sizeof id);
    why_say_live(c, l, &reason);
    why_count_slots(l, &wanted, &held);
    snprintf(id, sizeof id, "%lld", (long long)x->id);
    jw_object(w);
    jw_key(w, "full");
    jw_object(w);
    write_summary(c, w, job);
    buf_printf(&type, "TYPE_%s", kind_words[x->kind].word);
    jw_kv_string(w, "type", buf_str(&type));
    buf_free(&type);
    jw_kv_string(w, "submissionTime", clock_format(l->submitted_at, time));
    jw_kv_string(w, "username", seen ? l->owner : "");
    jw_kv_int(w, "userId", seen ? x->user_id : 0);
    jw_kv_string(w, "resourcePool", l->pool->name);
    jw_kv_bool(w, "isPreemptible",
               l->pool->policy != SCHED_POLICY_FIFO && !active_experiment_runs_once(l));
    jw_kv_int(w, "priority", l->priority);
    jw_kv_double(w, "weight", l->weight);
    jw_kv_string(w, "entityId", x->kind == KIND_EXPERIMENT ? id : l->trials->task_id);
    jw_kv_string(w, "jobId", l->job_id);
    jw_kv_int(w, "requestedSlots", wanted);
    jw_kv_int(w, "allocatedSlots", held);
    jw_kv_string(w, "name", seen ? jget_string(l->config, "name", "") : "");
    jw_kv_double(w, "progress", l->progress);
    jw_kv_string(w, "reason", buf_str(&reason));
    jw_kv_int(w, "workspaceId", core_workspace_of(c, x)->id);
    jw_object_end(w);
    jw_object_end(w);
    buf_free(&reason);
}

static bool is_asked_for(struct request *rq, const struct active_experiment *l)
{
    const char *states = rq->query(rq, "states");
    return !states || !*states || strstr(states, runs(l) ? "STATE_SCHEDULED" : "STATE_QUEUED");
}

int core_job_queue(struct core *c, struct request *rq, struct error *e)
{
    const char *pool = rq->query(rq, "resourcePool");
    int64_t offset, limit;
    int err = request_query_int(rq, "offset", 0, &offset, e);
    if (!err)
        err = request_query_int(rq, "limit", LIMIT_PAGE, &limit, e);
    if (err)
        return err;
    struct queue q = list_queue(c, pool && *pool ? pool : NULL);
    struct json_writer w;
    int64_t first = offset < 0 ? 0 : offset, total = 0, shown = 0;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "jobs");
    jw_array(&w);
    for (size_t i = 0; i < q.count; i++) {
        if (!is_asked_for(rq, q.items[i].l) || total++ < first || (limit > 0 && shown >= limit))
            continue;
        write_job(c, rq, &w, &q.items[i]);
        shown++;
    }
    jw_array_end(&w);
    wire_write_pagination(&w, first, limit, shown, total);
    jw_object_end(&w);
    free(q.items);
    return 0;
}

// How many wait and run in each pool, or in those that the caller names.
int core_job_queue_stats(struct core *c, struct request *rq, struct error *e)
{
    const char *only = rq->query(rq, "resourcePools");
    struct json_writer w;
    (void)e;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "results");
    jw_array(&w);
    for (size_t i = 0; i < c->pool_count; i++) {
        struct sched_pool_view view;
        const struct pool *pool = c->pools[i];
        if ((only && *only && strcmp(only, pool->name)) || !core_pool_exists(c, pool))
            continue;
        sched_pool_inspect(c->sched, pool->handle, &view);
        jw_object(&w);
        jw_kv_string(&w, "resourcePool", pool->name);
        jw_key(&w, "stats");
        jw_object(&w);
        jw_kv_int(&w, "queuedCount", view.waiting);
        jw_kv_int(&w, "scheduledCount", view.running);
        jw_object_end(&w);
        jw_kv_raw(&w, "aggregates", "[]");
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return 0;
}

// --- live allocations ----------------------------------------------------------------------------

static void write_resources(struct json_writer *w, const struct part *p)
{
    char container[UUID_TEXT];
    jw_object(w);
    jw_kv_string(w, "resourcesId", launch_container(p, container));
    jw_kv_string(w, "resourcesType", "docker-container");
    jw_kv_string(w, "allocationId", p->allocation->id);
    jw_kv_string(w, "containerId", container);
    jw_key(w, "agentDevices");
    jw_object(w);
    jw_key(w, p->agent->id);
    jw_object(w);
    jw_key(w, "devices");
    jw_array(w);
    for (int i = 0; i < p->slot_count; i++)
        agent_write_device(w, p->agent, p->slots[i]);
    jw_array_end(w);
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_allocation(struct json_writer *w, const struct allocation *a, bool seen)
{
    const struct active_experiment *l = a->trial->active;
    char time[CLOCK_RFC3339_MAX];
    jw_key(w, a->id);
    jw_object(w);
    jw_kv_string(w, "taskId", a->trial->task_id);
    jw_kv_string(w, "allocationId", a->id);
    jw_kv_string(w, "name", seen ? jget_string(l->config, "name", "") : "");
    jw_kv_string(w, "registeredTime", clock_format(a->queued_at, time));
    jw_kv_string(w, "resourcePool", a->pool->name);
    jw_kv_int(w, "slotsNeeded", a->slots);
    jw_key(w, "resources");
    jw_array(w);
    for (int i = 0; i < a->part_count; i++)
        write_resources(w, &a->parts[i]);
    jw_array_end(w);
    jw_kv_string(w, "schedulerType", sched_policy_names[a->pool->policy]);
    jw_kv_int(w, "priority", l->priority);
    jw_kv_raw(w, "proxyPorts", "[]");
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, allocation_state_word(a->state)));
    jw_object_end(w);
}

int core_tasks(struct core *c, struct request *rq, struct error *e)
{
    struct json_writer w;
    (void)e;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "allocationIdToSummary");
    jw_object(&w);
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (t->allocation)
            write_allocation(&w, t->allocation, core_sees(c, rq, t->active->experiment));
    }
    jw_object_end(&w);
    jw_object_end(&w);
    return 0;
}
