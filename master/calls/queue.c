// The job queue in order of decision, and the live allocations.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/calls/snapshots.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

// --- jobs in order -------------------------------------------------------------------------------

struct queue_entry {
    struct active_experiment *active;
    size_t position; // from 0, in its pool
};

struct queue_listing {
    struct queue_entry *items;
    size_t count, first_of_pool;
};

// Adds an experiment once, though several of its trials may run or wait.
static void queue_add(struct core *c, struct queue_listing *q, struct active_experiment *active)
{
    if (active->queue_listing == c->queue_listing)
        return;
    active->queue_listing = c->queue_listing;
    q->items[q->count] = (struct queue_entry){active, q->count - q->first_of_pool};
    q->count++;
}

static int compare_priority(const void *left, const void *right)
{
    const struct active_experiment *a = ((const struct queue_entry *)left)->active,
                                   *b = ((const struct queue_entry *)right)->active;
    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static void add_running(struct core *c, struct queue_listing *q, const struct pool *pool)
{
    for (size_t i = 0; i < c->trials.count; i++) {
        const struct trial *t = c->trials.items[i].value;
        if (t->allocation && !trial_waits(t) && t->active->pool == pool)
            queue_add(c, q, t->active);
    }
    qsort(q->items + q->first_of_pool, q->count - q->first_of_pool, sizeof *q->items,
          compare_priority);
    for (size_t i = q->first_of_pool; i < q->count; i++)
        q->items[i].position = i - q->first_of_pool;
}

static void add_waiting(struct core *c, struct queue_listing *q, const struct pool *pool)
{
    size_t cap = c->trials.count + 1;
    int64_t *tags = xcalloc(cap, sizeof *tags);
    size_t count = sched_waiting_gangs(c->sched, pool->handle, c->now, tags, cap);
    for (size_t i = 0; i < count && i < cap; i++)
        queue_add(c, q, core_trial_find(c, tags[i])->active);
    free(tags);
}

// Experiments that hold or want slots, by pool: first those that run, then those that wait in the
// order of decision. The caller frees the items.
static struct queue_listing queue_list(struct core *c, const char *pool)
{
    struct queue_listing q = {.items = xcalloc(c->trials.count + 1, sizeof(struct queue_entry))};
    c->queue_listing++;
    for (size_t i = 0; i < c->pool_count; i++) {
        if (pool && strcmp(pool, c->pools[i]->name))
            continue;
        q.first_of_pool = q.count;
        add_running(c, &q, c->pools[i]);
        add_waiting(c, &q, c->pools[i]);
    }
    return q;
}

// --- the answer ----------------------------------------------------------------------------------

static bool is_running(const struct active_experiment *active)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        if (t->allocation && !trial_waits(t))
            return true;
    return false;
}

// A job of a workspace that the caller may not see is copied without names.
static void copy_job(struct core *c, struct request *rq, const struct queue_entry *job,
                     struct job_snapshot *out)
{
    const struct active_experiment *active = job->active;
    const struct experiment *x = active->experiment;
    struct arena *arena = &rq->arena;
    bool seen = core_sees(c, rq, x);
    struct sched_reason r = {.code = SCHED_PLACED};
    wait_reason_find(c, active, &r);
    *out = (struct job_snapshot){
        .username = seen ? arena_strdup(arena, active->owner) : "",
        .name = seen ? arena_strdup(arena, jget_string(active->config, "name", "")) : "",
        .pool = arena_strdup(arena, active->pool->name),
        .entity_id = x->kind == KIND_EXPERIMENT ? arena_printf(arena, "%lld", (long long)x->id)
                                                : arena_strdup(arena, active->trials->task_id),
        .job_id = arena_strdup(arena, active->job_id),
        .reason_code = wait_reason_code(&r),
        .reason = wait_reason_text(c, rq, active),
        .kind = x->kind,
        .position = (int64_t)job->position,
        .user_id = seen ? x->user_id : 0,
        .workspace_id = core_workspace_of(c, x)->id,
        .submitted_at = active->submitted_at,
        .estimated_start = wait_reason_start(c, &r),
        .priority = active->priority,
        .weight = active->weight,
        .progress = active->progress,
        .scheduled = is_running(active),
        .preemptible =
            active->pool->policy != SCHED_POLICY_FIFO && !active_experiment_runs_once(active),
    };
    experiment_count_slots(active, &out->wanted, &out->held);
}

static bool is_asked_for(struct request *rq, const struct active_experiment *active)
{
    const char *states = rq->query(rq, "states");
    return !states || !*states ||
           strstr(states, is_running(active) ? "STATE_SCHEDULED" : "STATE_QUEUED");
}

// Copies the jobs of the page. A caller who asks for `visible` jobs alone gets no others.
static int copy_jobs(struct core *c, struct request *rq, const struct queue_listing *q,
                     bool visible, struct jobs_snapshot *out, struct error *e)
{
    struct page_snapshot *page = &out->page;
    size_t cap = page->limit > 0 && (size_t)page->limit < q->count ? (size_t)page->limit : q->count;
    struct job_snapshot *items = arena_alloc(&rq->arena, cap * sizeof *items);
    bool reversed;
    int err = request_query_order(rq, &reversed, e);
    for (size_t i = 0; !err && i < q->count; i++) {
        const struct queue_entry *job = &q->items[reversed ? q->count - 1 - i : i];
        if (!is_asked_for(rq, job->active) ||
            (visible && !core_sees(c, rq, job->active->experiment)) ||
            page->total++ < page->offset || (page->limit > 0 && page->shown >= page->limit))
            continue;
        copy_job(c, rq, job, &items[page->shown++]);
        err = request_check_result(rq, e);
    }
    out->items = items;
    return err;
}

static int answer_jobs(struct core *c, struct request *rq, bool visible, struct error *e)
{
    const char *pool = rq->query(rq, "resourcePool");
    int64_t offset, limit;
    int err = request_query_int(rq, "offset", 0, &offset, e);
    if (!err)
        err = request_query_int(rq, "limit", LIMIT_PAGE, &limit, e);
    if (err)
        return err;
    struct queue_listing q = queue_list(c, pool && *pool ? pool : NULL);
    struct jobs_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    result->page = (struct page_snapshot){.offset = offset < 0 ? 0 : offset, .limit = limit};
    err = copy_jobs(c, rq, &q, visible, result, e);
    free(q.items);
    rq->result = result;
    return err;
}

int core_job_queue(struct core *c, struct request *rq, struct error *e)
{
    return answer_jobs(c, rq, false, e);
}

// The older call has no form for a job that the caller may not see.
int core_visible_jobs(struct core *c, struct request *rq, struct error *e)
{
    return answer_jobs(c, rq, true, e);
}

// --- live allocations ----------------------------------------------------------------------------

// "Trial 3 (Experiment 2)", or the name of a command or generic task.
static const char *allocation_name(const struct allocation *a, struct arena *arena)
{
    const struct active_experiment *active = a->trial->active;
    if (active->experiment->kind != KIND_EXPERIMENT)
        return arena_strdup(arena, jget_string(active->config, "name", ""));
    return arena_printf(arena, "Trial %lld (Experiment %lld)", (long long)a->trial->id,
                        (long long)active->experiment->id);
}

static void copy_allocation(struct core *c, struct request *rq, const struct allocation *a,
                            struct allocation_snapshot *out)
{
    const struct active_experiment *active = a->trial->active;
    struct arena *arena = &rq->arena;
    bool seen = core_sees(c, rq, active->experiment);
    struct container_snapshot *containers =
        arena_alloc(arena, (size_t)a->part_count * sizeof *containers);
    for (int i = 0; i < a->part_count; i++)
        container_copy(rq, &a->parts[i], NULL, &containers[i]);
    *out = (struct allocation_snapshot){
        .id = arena_strdup(arena, a->id),
        .task_id = arena_strdup(arena, a->trial->task_id),
        .name = seen ? allocation_name(a, arena) : "",
        .job_name = seen ? arena_strdup(arena, jget_string(active->config, "name", "")) : "",
        .pool = arena_strdup(arena, a->pool->name),
        .state = a->state,
        .policy = a->pool->policy,
        .slots = a->slots,
        .priority = active->priority,
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
