// The usage of jobs and teams, and the expected end of a trial. The scheduler receives both, and
// the store keeps the usage over a restart. Slot-seconds: slots times the seconds they were held.
//
// Rows are written at the end of an allocation (of an experiment: the usage of its ended
// allocations; of teams: all usage so far, including running allocations). So after a load the
// usage of running allocations since the last row is added.
#include "base/arena.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

static double slot_seconds(const struct allocation *a, int64_t from, int64_t to)
{
    int64_t start = a->started_at > from ? a->started_at : from;
    return a->started_at && to > start ? (double)a->slots * (double)(to - start) / 1e6 : 0;
}

static int64_t team_usage(struct core *c, int team)
{
    struct sched_share share;
    sched_team_share(c->sched, team, c->pools[0]->handle, c->now, &share);
    return share.usage; // over all pools
}

void usage_add(struct core *c, const struct allocation *a)
{
    struct active_experiment *l = a->trial->active;
    const struct experiment *x = l->experiment;
    const struct workspace *ws = core_workspace_of(c, x);
    double seconds = slot_seconds(a, 0, c->wall);
    if (seconds <= 0)
        return;
    l->service += seconds;
    STORE(c, EXPERIMENT_ADD_SERVICE, seconds, x->id);
    STORE(c, WORKSPACE_SET_USAGE, (double)team_usage(c, ws->team), c->wall, ws->id);
    STORE(c, MEMBER_SET_USAGE, ws->id, x->user_id,
          (double)team_usage(c, core_team(c, ws->id, x->user_id)), c->wall);
}

double usage_of_active(const struct core *c, const struct active_experiment *l)
{
    double seconds = 0;
    for (const struct trial *t = l->trials; t; t = t->next)
        if (t->allocation && t->allocation->part_count)
            seconds += slot_seconds(t->allocation, 0, c->wall);
    return seconds;
}

static void team_restore(struct core *c, int team, double seconds)
{
    if (seconds >= 1)
        sched_team_restore(c->sched, team, (int64_t)seconds, c->now);
}

void usage_load(struct core *c, const struct allocation *a)
{
    const struct experiment *x = a->trial->active->experiment;
    struct workspace *ws = core_workspace_of(c, x);
    int team = core_team(c, ws->id, x->user_id);
    team_restore(c, ws->team, slot_seconds(a, ws->usage.at, c->wall));
    team_restore(c, team, slot_seconds(a, member_of(ws, x->user_id)->usage.at, c->wall));
}

// Extrapolates the progress since the start, or since this process has known the allocation.
void usage_predict_end(struct core *c, const struct allocation *a)
{
    double done = a->trial->progress - a->measured;
    double elapsed = (double)(c->now - a->measured_at);
    if (done <= 0 || elapsed <= 0)
        return;
    double left = elapsed * (1 - a->trial->progress) / done;
    if (left < 1e15) // microseconds; thirty years
        sched_gang_set_expected_end(c->sched, a->gang, c->now + (int64_t)left);
}
