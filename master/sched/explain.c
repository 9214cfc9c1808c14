#include "master/sched/internal.h"

#include "base/log.h"

// --- reasons -------------------------------------------------------------------------------------

static bool gang_excludes(const struct sched_gang *g, int agent)
{
    bool found = false;
    for (int i = 0; i < g->spec.excluded_count; i++)
        found |= g->spec.excluded[i] == agent;
    return found;
}

// The slots that a gang may use, in total and on the largest agent.
static void usable_slots(const struct sched *s, const struct sched_gang *g, int64_t *total,
                         int *largest)
{
    const struct sched_pool *p = &s->pools[g->pool];
    *total = p->capacity;
    *largest = p->largest;
    if (!g->spec.excluded_count)
        return;
    *total = *largest = 0;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct sched_agent *a = &s->agents[p->agents.items[i]];
        bool usable = a->usable && !gang_excludes(g, p->agents.items[i]);
        *total += usable ? a->enabled : 0;
        *largest = usable && a->enabled > *largest ? a->enabled : *largest;
    }
}

enum sched_reason_code gang_obstacle(const struct sched *s, int gang, int *team)
{
    const struct sched_gang *g = &s->gangs[gang];
    const struct sched_job *j = &s->jobs[g->spec.job];
    int64_t needs = g->min_slots, total;
    int largest, full = SCHED_NONE;
    usable_slots(s, g, &total, &largest);
    if (!s->pools[g->pool].usable)
        return SCHED_NO_AGENTS;
    if (needs > total)
        return SCHED_OVER_POOL;
    if (g->spec.one_agent && needs > largest)
        return SCHED_OVER_AGENT;
    for (*team = j->spec.team; *team != SCHED_NONE; *team = s->teams[*team].parent) {
        const struct sched_team *t = &s->teams[*team];
        if (t->spec.maximum && needs > t->spec.maximum)
            return SCHED_OVER_MAXIMUM;
        if (full == SCHED_NONE && t->spec.maximum && t->held + needs > t->spec.maximum)
            full = *team;
    }
    if (j->spec.limit && j->held + needs > j->spec.limit)
        return SCHED_OVER_LIMIT;
    *team = full;
    return full == SCHED_NONE ? SCHED_PLACED : SCHED_TEAM_FULL;
}

// The free slots of agents that the gang may use, in total and on one agent. g NULL: any gang.
static void count_free_slots(const struct sched *s, const struct sched_pool *p,
                             const struct sched_gang *g, int *sum, int *largest)
{
    *sum = *largest = 0;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct sched_agent *a = &s->agents[p->agents.items[i]];
        int free = a->usable && !(g && gang_excludes(g, p->agents.items[i])) ? a->free : 0;
        *sum += free;
        *largest = free > *largest ? free : *largest;
    }
}

static enum sched_reason_code reason_of(const struct sched *s, int gang, struct sched_reason *out)
{
    const struct sched_gang *g = &s->gangs[gang];
    const struct sched_pool *p = &s->pools[g->pool];
    if (g->placed)
        return SCHED_PLACED;
    if (!g->spec.max_slots)
        return !p->passes ? SCHED_NOT_CONSIDERED : p->usable ? SCHED_BUSY : SCHED_NO_AGENTS;
    if (!g->considered)
        return SCHED_NOT_CONSIDERED;
    enum sched_reason_code obstacle = gang_obstacle(s, gang, &out->team);
    if (obstacle != SCHED_PLACED)
        return obstacle;
    if (g->promised == p->passes)
        return SCHED_DRAINING;
    int free, largest_free;
    count_free_slots(s, p, g, &free, &largest_free);
    if (free < out->needs)
        return SCHED_BUSY;
    if (g->spec.one_agent && largest_free < out->needs)
        return SCHED_FRAGMENTED;
    if (p->reserving_gang == SCHED_NONE || p->reserving_gang == gang)
        return SCHED_BUSY;
    out->behind = p->reserving_gang;
    return SCHED_BEHIND;
}

// Returns whether no other gang has a claim to the free slots: none are reserved, and no gang is
// leaving.
static bool is_free_for_all(const struct sched *s, const struct sched_pool *p, int gang)
{
    bool leaving = false;
    for (int i = 0; i < s->gang_handles.count; i++) {
        const struct sched_gang *other = &s->gangs[i];
        leaving |= other->used && other->placed && other->leaving && &s->pools[other->pool] == p;
    }
    return (p->policy == SCHED_POLICY_FAIR_SHARE || p->policy == SCHED_POLICY_PRIORITY) &&
           !leaving && (p->reserving_gang == SCHED_NONE || p->reserving_gang == gang);
}

// The largest smaller size with which a waiting gang could start now; 0: none.
static int smaller_size_that_fits(const struct sched *s, int gang, const struct sched_reason *r)
{
    const struct sched_gang *g = &s->gangs[gang];
    const struct sched_pool *p = &s->pools[g->pool];
    int free, largest;
    if ((r->code != SCHED_BUSY && r->code != SCHED_FRAGMENTED) || !is_free_for_all(s, p, gang))
        return 0;
    count_free_slots(s, p, g, &free, &largest);
    int room = g->spec.one_agent ? largest : free;
    return room < r->needs ? room : 0;
}

// Counts the gangs that wait before it and the gangs that leave for it.
static void count_related_gangs(const struct sched *s, int gang, struct sched_reason *out)
{
    const struct sched_gang *g = &s->gangs[gang];
    for (int i = 0; i < s->gang_handles.count; i++) {
        const struct sched_gang *other = &s->gangs[i];
        if (!other->used || other->pool != g->pool || i == gang)
            continue;
        if (other->placed)
            out->leaving += other->leaving && other->beneficiary == gang;
        else if (other->considered)
            out->ahead += rank_before(&other->rank, &g->rank);
    }
}

void sched_explain_gang(struct sched *s, int gang, int64_t now, struct sched_reason *out)
{
    const struct sched_gang *g = gang_at(s, gang);
    const struct sched_pool *p = &s->pools[g->pool];
    const struct sched_job *j = &s->jobs[g->spec.job];
    *out = (struct sched_reason){.needs = g->min_slots,
                                 .total = (int)p->capacity,
                                 .largest = p->largest,
                                 .behind = SCHED_NONE,
                                 .team = SCHED_NONE,
                                 .job_used = j->held,
                                 .job_limit = j->spec.limit};
    count_free_slots(s, p, NULL, &out->free, &out->largest_free);
    out->code = reason_of(s, gang, out);
    if (out->behind != SCHED_NONE)
        out->behind = s->gangs[out->behind].spec.tag;
    if (out->team != SCHED_NONE) {
        out->team_used = s->teams[out->team].held;
        out->team_limit = s->teams[out->team].spec.maximum;
    }
    if (g->placed || !g->considered)
        return;
    count_related_gangs(s, gang, out);
    out->would_fit = smaller_size_that_fits(s, gang, out);
    bool could = out->code >= SCHED_BUSY;
    if (could)
        estimate_starts(s, &s->pools[g->pool], now);
    out->start = could ? g->start : 0;
}

size_t sched_waiting_gangs(struct sched *s, int pool, int64_t now, int64_t *tags, size_t cap)
{
    size_t count = 0;
    must(pool >= 0 && pool < s->pool_count);
    (void)now;
    heap_fill(s, &s->pools[pool]);
    for (int gang; (gang = heap_take(s)) != SCHED_NONE; count++)
        if (count < cap)
            tags[count] = s->gangs[gang].spec.tag;
    return count;
}

// --- teams and pools -----------------------------------------------------------------------------

void sched_team_share(struct sched *s, int team, int pool, int64_t now, struct sched_share *out)
{
    must(pool >= 0 && pool < s->pool_count);
    const struct sched_team *t = team_at(s, team);
    const struct sched_pool *p = &s->pools[pool];
    if (p->policy != SCHED_POLICY_FAIR_SHARE)
        shares_begin(s, &s->pools[pool]); // passes do not divide shares under this policy
    team_count(s, team, now > s->now ? now : s->now);
    *out = (struct sched_share){.used = p->shares[team].held,
                                .wanted = share_wanted(s, p, team),
                                .entitled = share_entitled(p, team),
                                .usage = t->usage / 1000,
                                .debt = t->debt / 1000 / MILLISLOTS};
}

void sched_pool_inspect(const struct sched *s, int pool, struct sched_pool_view *out)
{
    must(pool >= 0 && pool < s->pool_count);
    const struct sched_pool *p = &s->pools[pool];
    *out = (struct sched_pool_view){.waiting = p->waiting_count, .running = p->running_count};
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct sched_agent *a = &s->agents[p->agents.items[i]];
        out->agents += a->usable;
        out->slots += a->usable ? a->enabled : 0;
        out->free += a->usable ? a->free : 0;
    }
}

int64_t sched_slot_gang(const struct sched *s, int agent, int slot)
{
    const struct sched_agent *a = agent_at(s, agent);
    must(slot >= 0 && slot < a->slot_count);
    int gang = a->slots[slot].gang;
    return gang == SCHED_NONE ? SCHED_NONE : s->gangs[gang].spec.tag;
}
