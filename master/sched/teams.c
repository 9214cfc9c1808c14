// The tree of teams and their usage.
#include "master/sched/internal.h"

#include "base/log.h"

static void check_spec(const struct sched_team_spec *team)
{
    must(team->weight >= 1 && team->guaranteed >= 0 && team->maximum >= 0);
}

int sched_team_add(struct sched *s, int parent, const struct sched_team_spec *team)
{
    check_spec(team);
    int handle = handle_take(&s->team_handles, (void **)&s->teams, sizeof *s->teams);
    s->teams[handle] = (struct sched_team){.used = true,
                                           .spec = *team,
                                           .parent = parent,
                                           .first_child = SCHED_NONE,
                                           .next_sibling = SCHED_NONE,
                                           .counted_at = s->now};
    for (int i = 0; i < s->pool_count; i++)
        reserve_shares(s, &s->pools[i]);
    reserve_for_pass(s);
    if (parent == SCHED_NONE)
        return handle;
    s->teams[handle].depth = team_at(s, parent)->depth + 1;
    must(s->teams[handle].depth < TEAM_DEPTH && !s->teams[parent].jobs);
    int *link = &s->teams[parent].first_child;
    while (*link != SCHED_NONE)
        link = &s->teams[*link].next_sibling;
    *link = handle;
    return handle;
}

void sched_team_set(struct sched *s, int team, const struct sched_team_spec *team_)
{
    check_spec(team_);
    team_at(s, team)->spec = *team_;
}

void sched_team_remove(struct sched *s, int team)
{
    struct sched_team *t = team_at(s, team);
    must(team != SCHED_ROOT && !t->jobs && t->first_child == SCHED_NONE);
    int *link = &s->teams[t->parent].first_child;
    while (*link != team)
        link = &s->teams[*link].next_sibling;
    *link = t->next_sibling;
    for (int i = 0; i < s->pool_count; i++)
        s->pools[i].shares[team].nominal = s->pools[i].shares[team].entitled = 0;
    *t = (struct sched_team){0};
    handle_give(&s->team_handles, team);
}

// --- usage ---------------------------------------------------------------------------------------

enum {
    HOUR_DECAY_INVERSE = 243
}; // each full hour removes 1 - 2^(-1/168), so half of the usage decays in a week

static int64_t decayed(int64_t amount, int64_t hours)
{
    for (; hours > 0 && amount; hours--)
        amount -= amount / HOUR_DECAY_INVERSE + (amount < HOUR_DECAY_INVERSE);
    return amount;
}

void team_count(struct sched *s, int team, int64_t now)
{
    struct sched_team *t = &s->teams[team];
    int64_t hours = now / HOUR_US - t->counted_at / HOUR_US;
    if (hours > 0) {
        t->usage = decayed(t->usage, hours);
        t->debt = decayed(t->debt, hours);
    }
    t->usage += t->held * (now - t->counted_at) / 1000;
    t->counted_at = now;
}

void sched_team_restore(struct sched *s, int team, int64_t slot_seconds, int64_t now)
{
    struct sched_team *t = team_at(s, team);
    sched_set_time(s, now);
    team_count(s, team, now);
    t->usage += slot_seconds * 1000;
}
