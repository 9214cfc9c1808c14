// Who has to leave so that a gang can start: what elastic gangs hold beyond what they are content
// with, then gangs that stand behind it by entitlement, level or priority. The least valuable
// first; who turns out not to be needed stays.
#include "master/sched/pass.h"

#include "base/log.h"

struct hunt {
    struct pass *pass;
    int gang, needs;
    int64_t gives;   // slots of all victims in s->victims
    size_t count;    // .. whose number is this
    int64_t shields; // slots of those who have not run for long enough
    int64_t until;   // when the first of those has
};

static int priority_of(const struct sched *s, const struct gang *g)
{
    return s->jobs[g->spec.job].spec.priority;
}

// Whether v was let in before g though it came after: it used what g could not.
static bool overtook(const struct gang *v, const struct gang *g)
{
    return v->since >= g->since && v->key.second > g->key.second;
}

// Whether g may take the slots of v. Among equals nobody may, or they would take turns, but from
// those who overtook it. Who is entitled gives way to nobody for having had more, but to a gang
// that its own team puts first.
static bool outranks(const struct gang *g, const struct gang *v)
{
    bool entitled = v->rank.entitlement == ENTITLED_SELF || v->rank.entitlement == ENTITLED_TEAM;
    if (!rank_before(&g->rank, &v->rank))
        return false;
    if (g->team == v->team)
        return g->key.first < v->key.first || (g->key.first == v->key.first && overtook(v, g));
    if (g->rank.entitlement != v->rank.entitlement)
        return true;
    return !entitled && (g->rank.level < v->rank.level || overtook(v, g));
}

static int spare(const struct gang *v)
{
    return v->slots - v->min_slots;
}

// A higher priority in its own team, and a gang that has waited too long, do not wait for anybody's
// shortest time.
static int64_t protected_until(const struct sched *s, const struct gang *g, const struct gang *v)
{
    bool at_once = g->overdue || (g->team == v->team && priority_of(s, g) < priority_of(s, v));
    return at_once ? 0 : v->since + s->rules.shortest;
}

// The key to sort victims by: who can do with less, else who is entitled to least, has the lowest
// priority, the most service, the least work that is in no checkpoint, came last.
static struct item worth(const struct sched *s, int victim, bool shrinks)
{
    const struct gang *v = &s->gangs[victim];
    int64_t unsaved = (s->now - v->saved) / HOUR_US * v->slots;
    int64_t standing =
        ((int64_t)v->rank.entitlement * (SCHED_PRIORITY_MAX + 1) + priority_of(s, v)) * LEVELS_CAP +
        v->rank.level;
    return (struct item){shrinks ? INT64_MIN : -standing, unsaved, -v->key.second, victim};
}

static void look_at(struct hunt *h, int victim)
{
    struct sched *s = h->pass->s;
    const struct gang *g = &s->gangs[h->gang], *v = &s->gangs[victim];
    bool behind = outranks(g, v);
    int gives = behind ? v->slots : spare(v);
    if (v->leaving || v->spec.non_preemptible || v->spec.job == g->spec.job || gives <= 0)
        return;
    int64_t until = protected_until(s, g, v);
    if (until > s->now) {
        h->shields += gives;
        h->until = until < h->until ? until : h->until;
        return;
    }
    s->victims[h->count++] = worth(s, victim, !behind);
    h->gives += gives;
}

// Adds to each agent what a victim gives there; sign -1 takes it back. The first `keeps` slots of
// one that shrinks stay its own. Returns how many slots there are for the gang.
static int gain(const struct hunt *h, const struct item *item, int sign)
{
    struct sched *s = h->pass->s;
    const struct gang *v = &s->gangs[item->gang];
    int keeps = item->first == INT64_MIN ? v->min_slots : 0, sum = 0;
    for (int agent = v->first_agent, at = v->first_slot; agent != SCHED_NONE;) {
        const struct slot *slot = &s->agents[agent].slots[at];
        if (keeps-- <= 0 && slot->enabled && place_room(s, agent, h->gang, true) >= 0) {
            s->agents[agent].gain += sign;
            sum++;
        }
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    return sum;
}

static bool suffices_on(const struct hunt *h, int agent)
{
    const struct sched *s = h->pass->s;
    return place_room(s, agent, h->gang, true) + s->agents[agent].gain >= h->needs;
}

// An agent of the victim that has room for all now.
static int agent_with_room(const struct hunt *h, const struct gang *v)
{
    const struct sched *s = h->pass->s;
    for (int agent = v->first_agent, at = v->first_slot; agent != SCHED_NONE;) {
        const struct slot *slot = &s->agents[agent].slots[at];
        if (suffices_on(h, agent))
            return agent;
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    return SCHED_NONE;
}

static int64_t room_everywhere(const struct hunt *h)
{
    const struct list *agents = &h->pass->pool->agents;
    int64_t sum = 0;
    for (size_t i = 0; i < agents->count; i++) {
        int room = place_room(h->pass->s, agents->items[i], h->gang, true);
        sum += room > 0 ? room : 0;
    }
    return sum;
}

static void forget_gains(const struct hunt *h)
{
    const struct list *agents = &h->pass->pool->agents;
    for (size_t i = 0; i < agents->count; i++)
        h->pass->s->agents[agents->items[i]].gain = 0;
}

// Victims in order until one agent has room for all, then without those that it does not need.
// Returns how many of s->victims are left, 0: no agent.
static size_t victims_on_one(struct hunt *h)
{
    struct sched *s = h->pass->s;
    int agent = SCHED_NONE;
    size_t count = 0, kept = 0;
    while (count < h->count && agent == SCHED_NONE) {
        gain(h, &s->victims[count], 1);
        agent = agent_with_room(h, &s->gangs[s->victims[count++].gang]);
    }
    for (size_t i = count; agent != SCHED_NONE && i-- > 0;) {
        int before = s->agents[agent].gain;
        gain(h, &s->victims[i], -1);
        bool needed = s->agents[agent].gain < before && !suffices_on(h, agent);
        if (needed)
            gain(h, &s->victims[i], 1);
        else
            s->victims[i].gang = SCHED_NONE;
    }
    for (size_t i = 0; agent != SCHED_NONE && i < count; i++)
        if (s->victims[i].gang != SCHED_NONE)
            s->victims[kept++] = s->victims[i];
    return kept;
}

// The same where the gang may be spread.
static size_t victims_anywhere(struct hunt *h)
{
    struct sched *s = h->pass->s;
    int64_t room = room_everywhere(h);
    size_t count = 0, kept = 0;
    while (count < h->count && room < h->needs)
        room += gain(h, &s->victims[count++], 1);
    if (room < h->needs)
        return 0;
    for (size_t i = count; i-- > 0;) {
        int gives = gain(h, &s->victims[i], -1);
        if (room - gives >= h->needs) {
            room -= gives;
            s->victims[i].gang = SCHED_NONE;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (s->victims[i].gang != SCHED_NONE)
            s->victims[kept++] = s->victims[i];
    return kept;
}

static enum sched_cause cause_of(const struct sched *s, int gang, const struct item *victim)
{
    const struct gang *g = &s->gangs[gang], *v = &s->gangs[victim->gang];
    if (victim->first == INT64_MIN)
        return SCHED_TO_SHRINK;
    if (g->team == v->team && priority_of(s, g) < priority_of(s, v))
        return SCHED_FOR_PRIORITY;
    bool by_share = g->team != v->team && g->rank.entitlement < v->rank.entitlement;
    return by_share ? SCHED_FOR_SHARE : SCHED_FOR_SERVICE;
}

bool preempt(struct pass *ps, int gang, int needs, int64_t *until)
{
    struct sched *s = ps->s;
    struct hunt h = {.pass = ps, .gang = gang, .needs = needs, .until = INT64_MAX};
    for (size_t i = 0; i < ps->pool->running.count; i++)
        look_at(&h, ps->pool->running.items[i]);
    int64_t sure = ps->open + ps->later + h.gives;
    struct share *share = &ps->pool->shares[s->gangs[gang].team];
    *until = sure + h.shields >= needs ? h.until : INT64_MAX;
    if (sure < needs) {
        share->hopeless = needs < share->hopeless ? needs : share->hopeless;
        return false;
    }
    items_sort(s->victims, s->scratch, h.count);
    size_t count = needs <= ps->pool->largest ? victims_on_one(&h) : 0;
    forget_gains(&h);
    if (!count && !s->gangs[gang].spec.one_agent)
        count = victims_anywhere(&h);
    forget_gains(&h);
    for (size_t i = 0; i < count; i++) {
        const struct item *victim = &s->victims[i];
        bool shrinks = victim->first == INT64_MIN;
        pass_drain(ps, victim->gang, cause_of(s, gang, victim), gang,
                   shrinks ? s->gangs[victim->gang].min_slots : 0);
    }
    if (!count)
        return false;
    size_t pieces = place_find(s, ps->pool, gang, needs, true);
    must(pieces);
    pass_claim(ps, s->pieces, pieces);
    return true;
}
