#include "master/watch/cluster_counts.h"

#include <string.h>

#include "master/lifecycle/lifecycle.h"

const char *const slot_count_words[SLOT_COUNTS] = {
    [SLOTS_ALLOCATED] = "allocated", [SLOTS_UNREACHABLE] = "unreachable",
    [SLOTS_FAULTY] = "faulty",       [SLOTS_DISABLED] = "disabled",
    [SLOTS_FREE] = "free",
};
const char *const job_count_words[JOB_COUNTS] = {
    [JOBS_QUEUED] = "queued",
    [JOBS_RUNNING] = "running",
    [JOBS_PAUSED] = "paused",
    [JOBS_STOPPING] = "stopping",
};
const char *const agent_count_words[AGENT_STATES] = {
    [AGENT_AWAY] = "away", [AGENT_CONNECTED] = "connected", [AGENT_LOST] = "lost"};

static enum slot_count slot_state(const struct agent *g, int slot)
{
    if (g->state != AGENT_CONNECTED)
        return SLOTS_UNREACHABLE;
    if (agent_slot_fault(g, slot))
        return SLOTS_FAULTY;
    return g->enabled && g->slot_setting[slot] == SLOT_ENABLED ? SLOTS_FREE : SLOTS_DISABLED;
}

static bool slot_is_held(const struct agent *g, int slot)
{
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        for (int i = 0; i < p->slot_count; i++)
            if (p->slots[i] == slot)
                return true;
    return false;
}

static void count_agent(const struct agent *g, struct pool_counts *out)
{
    if (!g->version) // nobody knows it: it was forgotten, or has never called
        return;
    out->agents[g->state]++;
    for (int i = 0; i < g->slot_count; i++)
        out->slots[slot_is_held(g, i) ? SLOTS_ALLOCATED : slot_state(g, i)]++;
}

static bool is_running(const struct active_experiment *active)
{
    for (const struct trial *t = active->trials; t; t = t->next)
        if (t->allocation && t->allocation->state != ALLOCATION_QUEUED)
            return true;
    return false;
}

static enum job_count job_state(const struct active_experiment *active)
{
    enum experiment_state s = active->experiment->state;
    if (s == EXPERIMENT_ACTIVE)
        return is_running(active) ? JOBS_RUNNING : JOBS_QUEUED;
    return s == EXPERIMENT_PAUSED ? JOBS_PAUSED : JOBS_STOPPING;
}

// Each active experiment has a trial; with several trials it is still one job.
static void count_jobs(struct core *c, struct pool_counts *pools)
{
    c->queue_listing++;
    for (size_t i = 0; i < c->trials.count; i++) {
        struct active_experiment *active = ((const struct trial *)c->trials.items[i].value)->active;
        if (active->queue_listing == c->queue_listing || active->unmanaged || !active->pool ||
            experiment_is_terminal(active->experiment->state))
            continue;
        active->queue_listing = c->queue_listing;
        for (size_t p = 0; p < c->pool_count; p++)
            if (c->pools[p] == active->pool)
                pools[p].jobs[job_state(active)]++;
    }
}

const struct cluster_counts *cluster_count(struct core *c, struct arena *arena)
{
    struct cluster_counts *out = arena_alloc(arena, sizeof *out);
    struct pool_counts *pools = arena_alloc(arena, c->pool_count * sizeof *pools);
    for (size_t i = 0; i < c->pool_count; i++) {
        struct sched_pool_view queue;
        sched_pool_inspect(c->sched, c->pools[i]->handle, &queue);
        pools[i].name = arena_strdup(arena, c->pools[i]->name);
        pools[i].waiting_gangs = queue.waiting;
        for (size_t g = 0; g < c->agent_count; g++)
            if (c->agents[g]->pool == c->pools[i])
                count_agent(c->agents[g], &pools[i]);
    }
    count_jobs(c, pools);
    out->pools = pools;
    out->pool_count = c->pool_count;
    for (int i = 0; i < ALERT_KINDS; i++)
        out->alerts[i] = alerts_open(c->alerts, (enum alert_kind)i);
    return out;
}

void cluster_counts_copy(const struct cluster_counts *from, struct arena *arena,
                         struct cluster_counts *out)
{
    struct pool_counts *pools = arena_alloc(arena, from->pool_count * sizeof *pools);
    *out = *from;
    for (size_t i = 0; i < from->pool_count; i++) {
        pools[i] = from->pools[i];
        pools[i].name = arena_strdup(arena, from->pools[i].name);
    }
    out->pools = pools;
}
