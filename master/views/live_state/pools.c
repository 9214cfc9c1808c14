// Resource pools, and the shares that workspaces and users have of them.
#include <string.h>

#include "api/wire.h"
#include "db/db.h"
#include "master/views/live_state/live_state.h"
#include "master/views/views.h"

// --- pools ---------------------------------------------------------------------------------------

// Determined has no name for first-in-first-out scheduling.
static const char *scheduler_type(enum sched_policy policy)
{
    if (policy == SCHED_POLICY_FAIR_SHARE)
        return "SCHEDULER_TYPE_FAIR_SHARE";
    return policy == SCHED_POLICY_PRIORITY ? "SCHEDULER_TYPE_PRIORITY"
                                           : "SCHEDULER_TYPE_UNSPECIFIED";
}

static void write_details(struct json_writer *w, const struct pool_snapshot *pool)
{
    jw_key(w, "details");
    jw_object(w);
    if (pool->policy == SCHED_POLICY_PRIORITY) {
        jw_key(w, "priorityScheduler");
        jw_object(w);
        jw_kv_bool(w, "preemption", true);
        jw_kv_int(w, "defaultPriority", pool->default_priority);
        jw_object_end(w);
    }
    jw_object_end(w);
}

static void write_load(struct json_writer *w, const struct pool_snapshot *pool)
{
    jw_key(w, "stats");
    jw_object(w);
    jw_kv_int(w, "queuedCount", pool->load.waiting);
    jw_kv_int(w, "scheduledCount", pool->load.running);
    jw_object_end(w);
}

// Clients expect all keys of Determined's pools; those of clouds and containers are empty here.
static void write_pool(struct json_writer *w, const struct pool_snapshot *pool)
{
    static const char *const empty[] = {"location",
                                        "imageId",
                                        "instanceType",
                                        "masterUrl",
                                        "masterCertName",
                                        "startupScript",
                                        "containerStartupScript",
                                        "agentDockerNetwork",
                                        "agentDockerImage",
                                        "agentDockerRuntime",
                                        "agentFluentImage",
                                        "resourceManagerName",
                                        "clusterName",
                                        "accelerator"};
    static const char *const zero[] = {
        "auxContainersRunning", "minAgents",          "maxAgents",
        "slotsPerAgent",        "maxIdleAgentPeriod", "maxAgentStartingPeriod"};
    const struct sched_pool_view *load = &pool->load;
    bool is_default = !strcmp(pool->name, "default");
    jw_object(w);
    jw_kv_string(w, "name", pool->name);
    jw_kv_string(w, "description", "");
    jw_kv_string(w, "type", "RESOURCE_POOL_TYPE_STATIC");
    jw_kv_int(w, "numAgents", load->agents);
    jw_kv_int(w, "agentsAway", pool->agents_away);
    jw_kv_int(w, "slotsAvailable", load->slots);
    jw_kv_int(w, "slotsUsed", load->slots - load->free);
    jw_kv_string(w, "slotType", wire_name(WIRE_DEVICE_TYPE, pool->device_type));
    jw_kv_int(w, "auxContainerCapacity", (int64_t)load->agents * SCHED_ZERO_SLOT_GANGS);
    jw_kv_int(w, "auxContainerCapacityPerAgent", SCHED_ZERO_SLOT_GANGS);
    jw_kv_bool(w, "defaultComputePool", is_default);
    jw_kv_bool(w, "defaultAuxPool", is_default);
    jw_kv_bool(w, "preemptible", pool->policy != SCHED_POLICY_FIFO);
    jw_kv_string(w, "schedulerType", scheduler_type(pool->policy));
    jw_kv_string(w, "scheduler", sched_policy_names[pool->policy]);
    jw_kv_int(w, "maxUserPriority", pool->max_user_priority);
    jw_kv_string(w, "schedulerFittingPolicy", "FITTING_POLICY_BEST");
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        jw_kv_string(w, empty[i], "");
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        jw_kv_int(w, zero[i], 0);
    jw_kv_raw(w, "resourceManagerMetadata", "{}");
    write_details(w, pool);
    write_load(w, pool);
    jw_object_end(w);
}

int render_resource_pools(struct view *v, struct error *e)
{
    const struct pools_snapshot *pools = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "resourcePools");
    jw_array(&v->w);
    for (int64_t i = 0; i < pools->page.shown; i++)
        write_pool(&v->w, &pools->items[i]);
    jw_array_end(&v->w);
    write_page(&v->w, &pools->page);
    jw_object_end(&v->w);
    return 0;
}

int render_available_pools(struct view *v, struct error *e)
{
    const struct pools_snapshot *pools = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "resourcePools");
    jw_array(&v->w);
    for (int64_t i = 0; i < pools->page.shown; i++)
        jw_string(&v->w, pools->items[i].name);
    jw_array_end(&v->w);
    write_page(&v->w, &pools->page);
    jw_object_end(&v->w);
    return 0;
}

int render_pool_bindings(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_kv_raw(&v->w, "workspaceIds", "[]");
    write_page(&v->w, &(struct page_snapshot){0});
    jw_object_end(&v->w);
    return 0;
}

int render_queue_stats(struct view *v, struct error *e)
{
    const struct pools_snapshot *pools = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "results");
    jw_array(&v->w);
    for (int64_t i = 0; i < pools->page.shown; i++) {
        jw_object(&v->w);
        jw_kv_string(&v->w, "resourcePool", pools->items[i].name);
        write_load(&v->w, &pools->items[i]);
        jw_kv_raw(&v->w, "aggregates", "[]");
        jw_object_end(&v->w);
    }
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

// --- shares --------------------------------------------------------------------------------------

static const double SECONDS_PER_HOUR = 3600;

static void write_user(struct view *v, int64_t user_id)
{
    struct json_writer *w = &v->w;
    jw_key(w, "userId");
    if (!user_id) {
        jw_null(w);
        jw_kv_string(w, "username", "");
        return;
    }
    jw_int(w, user_id);
    struct db_rows *rows = DB_QUERY(v->db, USER_BY_ID, user_id);
    jw_kv_string(w, "username", db_next(rows) > 0 ? DB_GET(rows, USER_BY_ID, username) : "");
    db_rows_close(rows);
}

static void write_share(struct view *v, const struct share_snapshot *share)
{
    struct json_writer *w = &v->w;
    jw_object(w);
    jw_kv_string(w, "resourcePool", share->pool);
    jw_kv_int(w, "workspaceId", share->workspace_id);
    jw_kv_string(w, "workspaceName", share->workspace);
    write_user(v, share->user_id);
    jw_kv_double(w, "weight", share->weight);
    jw_kv_int(w, "guaranteedSlots", share->guaranteed);
    jw_kv_int(w, "maxSlots", share->maximum);
    jw_kv_int(w, "usedSlots", share->use.used);
    jw_kv_int(w, "wantedSlots", share->use.wanted);
    jw_kv_int(w, "entitledSlots", share->use.entitled);
    jw_kv_double(w, "usageSlotHours", (double)share->use.usage / SECONDS_PER_HOUR);
    jw_kv_double(w, "debtSlotHours", (double)share->use.debt / SECONDS_PER_HOUR);
    jw_kv_int(w, "waitingJobs", share->waiting);
    jw_kv_int(w, "runningJobs", share->running);
    jw_object_end(w);
}

int render_shares(struct view *v, struct error *e)
{
    const struct share_snapshot *head = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "shares");
    jw_array(&v->w);
    for (const struct share_snapshot *share = head->next; share; share = share->next)
        write_share(v, share);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}
