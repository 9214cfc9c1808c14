// The job queue, the reasons why jobs wait, and live allocations.
#include "api/wire.h"
#include "base/clock.h"
#include "master/lifecycle/machines_run.h"
#include "master/views/live_state/live_state.h"
#include "master/views/views.h"

// --- jobs ----------------------------------------------------------------------------------------

// The wire has these members twice: in the summary, and beside it.
static void write_position(struct json_writer *w, const struct job_snapshot *job)
{
    jw_kv_int(w, "place", job->position);
    jw_kv_string(w, "reasonCode", job->reason_code);
    write_time(w, "estimatedStart", job->estimated_start);
}

static void write_job(struct view *v, const struct job_snapshot *job)
{
    struct json_writer *w = &v->w;
    char time[CLOCK_RFC3339_MAX];
    jw_object(w);
    jw_key(w, "summary");
    jw_object(w);
    jw_kv_string(w, "state", job->scheduled ? "STATE_SCHEDULED" : "STATE_QUEUED");
    jw_kv_int(w, "jobsAhead", job->position);
    write_position(w, job);
    jw_object_end(w);
    write_position(w, job);
    jw_kv_string(w, "type", arena_printf(&v->rq->arena, "TYPE_%s", kind_words[job->kind].word));
    jw_kv_string(w, "submissionTime", clock_format(job->submitted_at, time));
    jw_kv_string(w, "username", job->username);
    jw_kv_int(w, "userId", job->user_id);
    jw_kv_string(w, "resourcePool", job->pool);
    jw_kv_bool(w, "isPreemptible", job->preemptible);
    jw_kv_int(w, "priority", job->priority);
    jw_kv_double(w, "weight", job->weight);
    jw_kv_string(w, "entityId", job->entity_id);
    jw_kv_string(w, "jobId", job->job_id);
    jw_kv_int(w, "requestedSlots", job->wanted);
    jw_kv_int(w, "allocatedSlots", job->held);
    jw_kv_string(w, "name", job->name);
    jw_kv_double(w, "progress", job->progress);
    jw_kv_string(w, "reason", job->reason);
    jw_kv_int(w, "workspaceId", job->workspace_id);
    jw_object_end(w);
}

static void write_wrapped_job(struct view *v, const struct job_snapshot *job)
{
    jw_object(&v->w);
    jw_key(&v->w, "full");
    write_job(v, job);
    jw_object_end(&v->w);
}

static int answer_jobs(struct view *v, void (*write)(struct view *, const struct job_snapshot *))
{
    const struct jobs_snapshot *jobs = v->rq->result;
    jw_object(&v->w);
    jw_key(&v->w, "jobs");
    jw_array(&v->w);
    for (int64_t i = 0; i < jobs->page.shown; i++)
        write(v, &jobs->items[i]);
    jw_array_end(&v->w);
    write_page(&v->w, &jobs->page);
    jw_object_end(&v->w);
    return 0;
}

int render_job_queue(struct view *v, struct error *e)
{
    (void)e;
    return answer_jobs(v, write_wrapped_job);
}

int render_visible_jobs(struct view *v, struct error *e)
{
    (void)e;
    return answer_jobs(v, write_job);
}

// --- why an experiment waits ---------------------------------------------------------------------

// A smaller number of slots with which the trial could start; 0: none is known.
static int64_t slots_that_fit(const struct sched_reason *r)
{
    switch (r->code) {
    case SCHED_OVER_AGENT:
        return r->largest;
    case SCHED_OVER_POOL:
        return r->total;
    case SCHED_OVER_MAXIMUM:
        return r->team_limit;
    default:
        return r->would_fit;
    }
}

static void write_trial_wait(struct json_writer *w, const struct trial_wait *wait)
{
    const struct sched_reason *r = &wait->numbers;
    jw_object(w);
    jw_kv_int(w, "trialId", wait->trial_id);
    jw_kv_string(w, "allocationId", wait->allocation_id);
    jw_kv_string(w, "code", wait->code);
    jw_kv_string(w, "reason", wait->reason);
    jw_kv_string(w, "resource", wait->resource);
    jw_kv_int(w, "needs", r->needs);
    jw_kv_int(w, "free", r->free);
    jw_kv_int(w, "largestFree", r->largest_free);
    jw_kv_int(w, "largestAgent", r->largest);
    jw_kv_int(w, "total", r->total);
    jw_kv_int(w, "fitsWith", slots_that_fit(r));
    jw_kv_int(w, "place", r->ahead);
    jw_kv_int(w, "ahead", r->ahead);
    jw_kv_int(w, "leaving", r->leaving);
    write_time(w, "estimatedStart", wait->estimated_start);
    jw_key(w, "behindExperimentId");
    if (r->code == SCHED_BEHIND)
        jw_int(w, wait->behind);
    else
        jw_null(w);
    jw_kv_string(w, "teamName", wait->team);
    jw_object_end(w);
}

int render_experiment_why(struct view *v, struct error *e)
{
    const struct experiment_wait *wait = v->rq->result;
    struct json_writer *w = &v->w;
    (void)e;
    jw_object(w);
    jw_kv_int(w, "experimentId", wait->experiment_id);
    jw_kv_string(w, "reason", wait->reason);
    if (wait->pool) {
        jw_kv_string(w, "resourcePool", wait->pool);
        jw_kv_int(w, "priority", wait->priority);
        jw_kv_int(w, "requestedSlots", wait->wanted);
        jw_kv_int(w, "allocatedSlots", wait->held);
    }
    jw_key(w, "waiting");
    jw_array(w);
    for (size_t i = 0; i < wait->trial_count; i++)
        write_trial_wait(w, &wait->trials[i]);
    jw_array_end(w);
    jw_object_end(w);
    return 0;
}

// --- live allocations ----------------------------------------------------------------------------

static void write_devices(struct json_writer *w, const struct container_snapshot *container)
{
    jw_array(w);
    for (int i = 0; i < container->slot_count; i++)
        write_device(w, container->devices[i], container->slots[i]);
    jw_array_end(w);
}

static void write_resources(struct json_writer *w, const struct container_snapshot *container)
{
    jw_object(w);
    jw_kv_string(w, "resourcesId", container->id);
    jw_kv_string(w, "resourcesType", "docker-container");
    jw_kv_string(w, "allocationId", container->allocation_id);
    jw_kv_string(w, "containerId", container->id);
    jw_key(w, "agentDevices");
    jw_object(w);
    jw_key(w, container->agent_id);
    jw_object(w);
    jw_key(w, "devices");
    write_devices(w, container);
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_allocation(struct json_writer *w, const struct allocation_snapshot *a)
{
    char time[CLOCK_RFC3339_MAX];
    jw_key(w, a->id);
    jw_object(w);
    jw_kv_string(w, "taskId", a->task_id);
    jw_kv_string(w, "allocationId", a->id);
    jw_kv_string(w, "name", a->name);
    jw_kv_string(w, "jobName", a->job_name);
    jw_kv_string(w, "registeredTime", clock_format(a->queued_at, time));
    jw_kv_string(w, "resourcePool", a->pool);
    jw_kv_int(w, "slotsNeeded", a->slots);
    jw_key(w, "resources");
    jw_array(w);
    for (int i = 0; i < a->container_count; i++)
        write_resources(w, &a->containers[i]);
    jw_array_end(w);
    jw_kv_string(w, "schedulerType", sched_policy_names[a->policy]);
    jw_kv_int(w, "priority", a->priority);
    jw_kv_raw(w, "proxyPorts", "[]");
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, allocation_state_word(a->state)));
    jw_object_end(w);
}

int render_tasks(struct view *v, struct error *e)
{
    const struct allocations_snapshot *allocations = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "allocationIdToSummary");
    jw_object(&v->w);
    for (size_t i = 0; i < allocations->count; i++)
        write_allocation(&v->w, &allocations->items[i]);
    jw_object_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

// --- the older form of the call, with keys in snake_case -----------------------------------------

static void write_old_resources(struct json_writer *w, const struct container_snapshot *container)
{
    jw_object(w);
    jw_kv_string(w, "resources_id", container->id);
    jw_kv_string(w, "resources_type", "docker-container");
    jw_kv_string(w, "allocation_id", container->allocation_id);
    jw_kv_string(w, "container_id", container->id);
    jw_key(w, "agent_devices");
    jw_object(w);
    jw_key(w, container->agent_id);
    write_devices(w, container);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_old_allocation(struct json_writer *w, const struct allocation_snapshot *a)
{
    char time[CLOCK_RFC3339_MAX];
    jw_key(w, a->id);
    jw_object(w);
    jw_kv_string(w, "task_id", a->task_id);
    jw_kv_string(w, "allocation_id", a->id);
    jw_kv_string(w, "name", a->name);
    jw_kv_string(w, "registered_time", clock_format(a->queued_at, time));
    jw_kv_string(w, "resource_pool", a->pool);
    jw_kv_int(w, "slots_needed", a->slots);
    jw_key(w, "resources");
    jw_array(w);
    for (int i = 0; i < a->container_count; i++)
        write_old_resources(w, &a->containers[i]);
    jw_array_end(w);
    jw_kv_string(w, "scheduler_type", sched_policy_names[a->policy]);
    jw_kv_int(w, "priority", a->priority);
    jw_object_end(w);
}

int render_old_tasks(struct view *v, struct error *e)
{
    const struct allocations_snapshot *allocations = v->rq->result;
    (void)e;
    jw_object(&v->w);
    for (size_t i = 0; i < allocations->count; i++)
        write_old_allocation(&v->w, &allocations->items[i]);
    jw_object_end(&v->w);
    return 0;
}
