// The queue as people see it: who waits and why, what runs, what the pools have.
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"

// --- why -----------------------------------------------------------------------------------------

static const char *const reason_codes[SCHED_REASON_COUNT] = {
    [SCHED_PLACED] = "PLACED",       [SCHED_NOT_CONSIDERED] = "NOT_CONSIDERED",
    [SCHED_NO_AGENTS] = "NO_AGENTS", [SCHED_OVER_AGENT] = "OVER_AGENT",
    [SCHED_OVER_POOL] = "OVER_POOL", [SCHED_OVER_LIMIT] = "OVER_LIMIT",
    [SCHED_BUSY] = "BUSY",           [SCHED_SPREAD] = "SPREAD",
    [SCHED_BEHIND] = "BEHIND",
};

static const char *slots_text(int count)
{
    return count == 1 ? "slot" : "slots";
}

static int64_t experiment_of_trial(struct core *c, int64_t trial)
{
    const struct trial *t = core_trial_find(c, trial);
    return t ? t->live->experiment->id : 0;
}

static void say_why(struct core *c, const struct live *l, const struct sched_reason *r,
                    struct buf *out)
{
    const char *pool = l->pool->name;
    switch (r->code) {
    case SCHED_NO_AGENTS:
        buf_printf(out, "waits for an agent: pool %s has none that is connected and enabled", pool);
        break;
    case SCHED_OVER_AGENT:
        buf_printf(out,
                   "asks for %d %s on one machine, and the largest has %d: waits until an agent "
                   "with %d slots joins pool %s",
                   r->needs, slots_text(r->needs), r->largest, r->needs, pool);
        break;
    case SCHED_OVER_POOL:
        buf_printf(out, "asks for %d %s, and pool %s has %d in all: waits until more agents join",
                   r->needs, slots_text(r->needs), pool, r->total);
        break;
    case SCHED_OVER_LIMIT:
        buf_printf(out,
                   "its experiment holds %lld of the %lld slots it may hold at a time "
                   "(resources.max_slots)",
                   (long long)r->job_used, (long long)r->job_limit);
        break;
    case SCHED_SPREAD:
        buf_printf(out, "needs %d slots on one machine; %d are free, but at most %d on one",
                   r->needs, r->free, r->largest_free);
        break;
    case SCHED_BEHIND:
        buf_printf(out, "waits behind experiment %lld, for which the free slots are kept",
                   (long long)experiment_of_trial(c, r->behind));
        break;
    case SCHED_BUSY:
        buf_printf(out, "needs %d %s; %d of %d in pool %s are free", r->needs, slots_text(r->needs),
                   r->free, r->total, pool);
        if (r->ahead)
            buf_printf(out, "; %d before it in the queue", r->ahead);
        break;
    case SCHED_PLACED:
    case SCHED_NOT_CONSIDERED:
    case SCHED_REASON_COUNT:
        buf_puts(out, "has just been queued");
        break;
    }
}

static bool waits(const struct trial *t)
{
    return t->allocation && t->allocation->state == ALLOCATION_QUEUED;
}

// The sentence for the first trial that waits; of one that does not, "".
static void say_experiment(struct core *c, const struct live *l, struct buf *out)
{
    struct sched_reason r;
    for (const struct trial *t = l->trials; t; t = t->next)
        if (waits(t)) {
            sched_why(c->sched, t->allocation->gang, &r);
            say_why(c, l, &r, out);
            return;
        }
    if (l->experiment->state == EXPERIMENT_PAUSED)
        buf_puts(out, "is paused");
}

static void write_reason(struct core *c, struct json_writer *w, const struct trial *t)
{
    struct sched_reason r;
    struct buf text;
    buf_init(&text, ERROR_TEXT_MAX);
    sched_why(c->sched, t->allocation->gang, &r);
    say_why(c, t->live, &r, &text);
    jw_object(w);
    jw_kv_int(w, "trialId", t->id);
    jw_kv_string(w, "allocationId", t->allocation->id);
    jw_kv_string(w, "code", reason_codes[r.code]);
    jw_kv_string(w, "reason", buf_str(&text));
    jw_kv_int(w, "needs", r.needs);
    jw_kv_int(w, "free", r.free);
    jw_kv_int(w, "largestFree", r.largest_free);
    jw_kv_int(w, "largestAgent", r.largest);
    jw_kv_int(w, "total", r.total);
    jw_kv_int(w, "ahead", r.ahead);
    jw_object_end(w);
    buf_free(&text);
}

int core_experiment_why(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct json_writer w;
    struct buf text;
    int err = core_param_experiment(c, rq, &x, e);
    if (err)
        return err;
    buf_init(&text, ERROR_TEXT_MAX);
    if (x->live)
        say_experiment(c, x->live, &text);
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_kv_int(&w, "experimentId", x->id);
    jw_kv_string(&w, "reason", buf_str(&text));
    jw_key(&w, "waiting");
    jw_array(&w);
    for (const struct trial *t = x->live ? x->live->trials : NULL; t; t = t->next)
        if (waits(t))
            write_reason(c, &w, t);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_free(&text);
    return 0;
}

// --- jobs ----------------------------------------------------------------------------------------

static int in_queue_order(const void *left, const void *right)
{
    const struct live *a = *(struct live *const *)left, *b = *(struct live *const *)right;
    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    return a->experiment->id < b->experiment->id ? -1 : 1;
}

// Experiments that hold or want slots, in the order of the queue. Free the list.
static struct live **list_jobs(struct core *c, const char *pool, size_t *count)
{
    struct live **jobs = xcalloc(c->trials.count + 1, sizeof(struct live *));
    *count = 0;
    for (size_t i = 0; i < c->trials.count; i++) {
        struct trial *t = c->trials.items[i].value;
        if (t->allocation && (!pool || !strcmp(pool, t->live->pool->name)))
            jobs[(*count)++] = t->live;
    }
    qsort(jobs, *count, sizeof(struct live *), in_queue_order);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (!i || jobs[i] != jobs[i - 1])
            jobs[kept++] = jobs[i];
    *count = kept;
    return jobs;
}

static void count_slots(const struct live *l, int64_t *wanted, int64_t *held)
{
    *wanted = *held = 0;
    for (const struct trial *t = l->trials; t; t = t->next) {
        if (!t->allocation)
            continue;
        *wanted += l->slots;
        *held += waits(t) ? 0 : l->slots;
    }
}

static void write_job(struct core *c, struct json_writer *w, const struct live *l, size_t ahead)
{
    int64_t wanted, held;
    char id[24], time[CLOCK_RFC3339_MAX];
    struct buf reason;
    buf_init(&reason, ERROR_TEXT_MAX);
    say_experiment(c, l, &reason);
    count_slots(l, &wanted, &held);
    snprintf(id, sizeof id, "%lld", (long long)l->experiment->id);
    jw_object(w);
    jw_key(w, "full");
    jw_object(w);
    jw_key(w, "summary");
    jw_object(w);
    jw_kv_string(w, "state", held || !wanted ? "STATE_SCHEDULED" : "STATE_QUEUED");
    jw_kv_int(w, "jobsAhead", (int64_t)ahead);
    jw_object_end(w);
    jw_kv_string(w, "type", "TYPE_EXPERIMENT");
    jw_kv_string(w, "submissionTime", clock_format(l->submitted_at, time));
    jw_kv_string(w, "username", l->owner);
    jw_kv_int(w, "userId", l->experiment->user_id);
    jw_kv_string(w, "resourcePool", l->pool->name);
    jw_kv_bool(w, "isPreemptible", true);
    jw_kv_int(w, "priority", l->priority);
    jw_kv_double(w, "weight", jget_double(jget(l->config, "resources"), "weight", 1));
    jw_kv_string(w, "entityId", id);
    jw_kv_string(w, "jobId", l->job_id);
    jw_kv_int(w, "requestedSlots", wanted);
    jw_kv_int(w, "allocatedSlots", held);
    jw_kv_string(w, "name", jget_string(l->config, "name", ""));
    jw_kv_double(w, "progress", l->progress);
    jw_kv_string(w, "reason", buf_str(&reason));
    jw_object_end(w);
    jw_object_end(w);
    buf_free(&reason);
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
    size_t count, shown = 0;
    struct live **jobs = list_jobs(c, pool && *pool ? pool : NULL, &count);
    struct json_writer w;
    size_t first = offset < 0 ? 0 : (size_t)offset;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "jobs");
    jw_array(&w);
    for (size_t i = first; i < count && (limit <= 0 || shown < (size_t)limit); i++, shown++)
        write_job(c, &w, jobs[i], i);
    jw_array_end(&w);
    wire_write_pagination(&w, (int64_t)first, limit, (int64_t)shown, (int64_t)count);
    jw_object_end(&w);
    free(jobs);
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

static void write_allocation(struct json_writer *w, const struct allocation *a)
{
    const struct live *l = a->trial->live;
    char time[CLOCK_RFC3339_MAX];
    jw_key(w, a->id);
    jw_object(w);
    jw_kv_string(w, "taskId", a->trial->task_id);
    jw_kv_string(w, "allocationId", a->id);
    jw_kv_string(w, "name", jget_string(l->config, "name", ""));
    jw_kv_string(w, "registeredTime", clock_format(a->queued_at, time));
    jw_kv_string(w, "resourcePool", l->pool->name);
    jw_kv_int(w, "slotsNeeded", l->slots);
    jw_key(w, "resources");
    jw_array(w);
    for (int i = 0; i < a->part_count; i++)
        write_resources(w, &a->parts[i]);
    jw_array_end(w);
    jw_kv_string(w, "schedulerType", "priority");
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
            write_allocation(&w, t->allocation);
    }
    jw_object_end(&w);
    jw_object_end(&w);
    return 0;
}
