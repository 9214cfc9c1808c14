#include "simulate/check.h"

static int check_team(const struct simulate_trace *t, size_t i, struct error *e)
{
    const struct simulate_team *team = &t->teams[i];
    int parent = team->parent;
    if (parent != SCHED_NONE &&
        (parent < 0 || (size_t)parent >= i || t->teams[parent].parent != SCHED_NONE))
        return error_set(e, ERR_INVALID, "team %zu: is below none of the teams before it", i);
    if (team->weight < 1 || team->guaranteed < 0 || team->maximum < 0)
        return error_set(e, ERR_INVALID,
                         "team %zu (%s): the weight must be above 0, its slots not below 0", i,
                         team->name);
    return 0;
}

static int check_job(const struct simulate_trace *t, size_t i, struct error *e)
{
    const struct simulate_job *j = &t->jobs[i];
    if (j->min_slots < 1 || j->max_slots < j->min_slots || j->max_slots > SIMULATE_GANG_MAX)
        return error_set(e, ERR_INVALID,
                         "job %zu: wants %d to %d slots; possible is 1 to %d, the min_slots first",
                         i, j->min_slots, j->max_slots, SIMULATE_GANG_MAX);
    if (j->length < 1 || j->length > SIMULATE_TIME_MAX)
        return error_set(e, ERR_INVALID, "job %zu: is longer than %d years, or has no length", i,
                         SIMULATE_YEARS_MAX);
    if (i && j->submit < t->jobs[i - 1].submit)
        return error_set(e, ERR_INVALID, "job %zu: was submitted before the job before it", i);
    if (j->submit < -INT64_MAX / 2 || j->submit > INT64_MAX / 2 ||
        j->submit - t->jobs[0].submit > SIMULATE_TIME_MAX)
        return error_set(e, ERR_INVALID,
                         "job %zu: was submitted more than %d years after the first", i,
                         SIMULATE_YEARS_MAX);
    if (j->priority < SCHED_PRIORITY_MIN || j->priority > SCHED_PRIORITY_MAX)
        return error_set(e, ERR_INVALID, "job %zu: has priority %d; possible is %d to %d", i,
                         j->priority, SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX);
    if (j->team < 0 || (size_t)j->team >= t->team_count || t->teams[j->team].parent == SCHED_NONE)
        return error_set(e, ERR_INVALID, "job %zu: belongs to no user", i);
    return 0;
}

static int check_options(const struct simulate_options *o, struct error *e)
{
    if (o->policy < 0 || o->policy >= SCHED_POLICIES)
        return error_set(e, ERR_INVALID, "there is no policy %d", (int)o->policy);
    if (o->preempt_cost < 0 || o->preempt_cost > SIMULATE_TIME_MAX || o->drain < 0 ||
        o->drain > SIMULATE_TIME_MAX)
        return error_set(e, ERR_INVALID, "a preemption takes between no time and %d years",
                         SIMULATE_YEARS_MAX);
    return 0;
}

int simulate_check(const struct simulate_trace *t, const struct simulate_node *nodes,
                   size_t node_count, const struct simulate_options *options, struct error *e)
{
    if (t->job_count > SIMULATE_JOBS_MAX || t->team_count > SIMULATE_TEAMS_MAX)
        return error_set(e, ERR_INVALID,
                         "%zu jobs of %zu teams and users are too many; possible are %d and %d",
                         t->job_count, t->team_count, SIMULATE_JOBS_MAX, SIMULATE_TEAMS_MAX);
    if (node_count < 1 || node_count > SIMULATE_NODES_MAX)
        return error_set(e, ERR_INVALID, "a cluster has 1 to %d nodes, not %zu", SIMULATE_NODES_MAX,
                         node_count);
    for (size_t i = 0; i < node_count; i++)
        if (nodes[i].slots < 1 || nodes[i].slots > SIMULATE_NODE_SLOTS_MAX)
            return error_set(e, ERR_INVALID, "node %zu: has 1 to %d slots, not %d", i,
                             SIMULATE_NODE_SLOTS_MAX, nodes[i].slots);
    int err = check_options(options, e);
    for (size_t i = 0; !err && i < t->team_count; i++)
        err = check_team(t, i, e);
    for (size_t i = 0; !err && i < t->job_count; i++)
        err = check_job(t, i, e);
    return err;
}
