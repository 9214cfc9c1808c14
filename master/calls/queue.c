// The queue as people see it: what runs and what waits, in order; and the live allocations.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/snapshots.h"
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

// A job of a workspace that the caller may not see is there without names.
static void copy_job(struct core *c, struct request *rq, const struct queued *job,
                     struct job_snapshot *out)
{
    const struct active_experiment *l = job->l;
    const struct experiment *x = l->experiment;
    struct arena *arena = &rq->arena;
    bool seen = core_sees(c, rq, x);
    struct sched_reason r = {.code = SCHED_PLACED};
    why_of_live(c, l, &r);
    *out = (struct job_snapshot){
        .username = seen ? arena_strdup(arena, l->owner) : "",
        .name = seen ? arena_strdup(arena, jget_string(l->config, "name", "")) : "",
        .pool = arena_strdup(arena, l->pool->name),
        .entity_id = x->kind == KIND_EXPERIMENT ? arena_printf(arena, "%lld", (long long)x->id)
                                                : arena_strdup(arena, l->trials->task_id),
        .job_id = arena_strdup(arena, l->job_id),
        .reason_code = why_code(&r),
        .reason = why_text(c, rq, l),
        .kind = x->kind,
        .place = (int64_t)job->place,
        .user_id = seen ? x->user_id : 0,
        .workspace_id = core_workspace_of(c, x)->id,
        .submitted_at = l->submitted_at,
        .estimated_start = why_start(c, &r),
        .priority = l->priority,
        .weight = l->weight,
        .progress = l->progress,
        .scheduled = runs(l),
        .preemptible = l->pool->policy != SCHED_POLICY_FIFO && !active_experiment_runs_once(l),
    };
    why_count_slots(l, &out->wanted, &out->held);
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
    struct jobs_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    size_t cap = limit > 0 && (size_t)limit < q.count ? (size_t)limit : q.count;
    struct job_snapshot *items = arena_alloc(&rq->arena, cap * sizeof *items);
    struct page_snapshot *page = &result->page;
    *page = (struct page_snapshot){.offset = offset < 0 ? 0 : offset, .limit = limit};
    for (size_t i = 0; !err && i < q.count; i++) {
        if (!is_asked_for(rq, q.items[i].l) || page->total++ < page->offset ||
            (limit > 0 && page->shown >= limit))
            continue;
        copy_job(c, rq, &q.items[i], &items[page->shown++]);
        err = request_check_result(rq, e);
    }
    free(q.items);
    result->items = items;
    rq->result = result;
    return err;
}

// --- live allocations ----------------------------------------------------------------------------

static void copy_allocation(struct core *c, struct request *rq, const struct allocation *a,
                            struct allocation_snapshot *out)
{
    const struct active_experiment *l = a->trial->active;
    struct arena *arena = &rq->arena;
    bool seen = core_sees(c, rq, l->experiment);
    struct container_snapshot *containers =
        arena_alloc(arena, (size_t)a->part_count * sizeof *containers);
    for (int i = 0; i < a->part_count; i++)
        container_copy(rq, &a->parts[i], &containers[i]);
    *out = (struct allocation_snapshot){
        .id = arena_strdup(arena, a->id),
        .task_id = arena_strdup(arena, a->trial->task_id),
        .name = seen ? arena_strdup(arena, jget_string(l->config, "name", "")) : "",
        .pool = arena_strdup(arena, a->pool->name),
        .state = a->state,
        .policy = a->pool->policy,
        .slots = a->slots,
        .priority = l->priority,
        .queued_at = a->queued_at,
        .containers = containers,
        .container_count = a->part_count,
    };
}

int core_tasks(struct core *c, struct request *rq, struct error *e)
{
    struct allocations_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    size_t count = 0;
    int err = 0;
    for (size_t i = 0; i < c->trials.count; i++)
        count += ((const struct trial *)c->trials.items[i].value)->allocation != NULL;
    struct allocation_snapshot *items = arena_alloc(&rq->arena, count * sizeof *items);
    for (size_t i = 0; !err && i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (!t->allocation)
            continue;
        copy_allocation(c, rq, t->allocation, &items[result->count++]);
        err = request_check_result(rq, e);
    }
    result->items = items;
    rq->result = result;
    return err;
}
