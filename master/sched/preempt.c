// Finds the gangs that have to leave so that another gang can start: first the spare slots of
// elastic gangs, then gangs behind it by entitlement, level or priority, the least valuable first.
// A victim that turns out not to be needed stays.
#include "master/sched/pass.h"

#include "base/log.h"

struct victim_search {
    struct sched_pass *pass;
    int gang, needs;
    int64_t yield;           // slots of all victims in s->victims
    size_t count;            // number of victims
    int64_t protected_slots; // slots of gangs that have not run for min_runtime
    int64_t until;           // when the first of those gangs has run for min_runtime
};

static int priority_of(const struct sched *s, const struct sched_gang *g)
{
    return s->jobs[g->spec.job].spec.priority;
}

// Returns whether v came after g but started first, on slots that g could not use.
static bool overtook(const struct sched_gang *v, const struct sched_gang *g)
{
    return v->since >= g->since && v->key.second > g->key.second;
}

// Returns whether g may take the slots of v. Equals may not, because they would take turns; a gang
// that overtook g is the exception. A covered gang does not give way because of its service, but it
// gives way to a gang that its own team puts first.
static bool outranks(const struct sched_gang *g, const struct sched_gang *v)
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

static int spare_slots(const struct sched_gang *v)
{
    return v->slots - v->min_slots;
}

// min_runtime does not protect a gang from a higher priority of its own team, nor from an overdue
// gang.
static int64_t protected_until(const struct sched *s, const struct sched_gang *g,
                               const struct sched_gang *v)
{
    bool at_once = g->overdue || (g->team == v->team && priority_of(s, g) < priority_of(s, v));
    return at_once ? 0 : v->since + s->rules.min_runtime;
}

// The sort key of a victim: elastic gangs that only shrink come first, then the least entitled, the
// lowest priority, the most service, the least work without a checkpoint, and the latest
// submission.
static struct queue_item victim_key(const struct sched *s, int victim, bool shrinks)
{
    const struct sched_gang *v = &s->gangs[victim];
    int64_t unsaved = (s->now - v->saved) / HOUR_US * v->slots;
    int64_t rank_key =
        ((int64_t)v->rank.entitlement * (SCHED_PRIORITY_MAX + 1) + priority_of(s, v)) * LEVELS_CAP +
        v->rank.level;
    return (struct queue_item){shrinks ? INT64_MIN : -rank_key, unsaved, -v->key.second, victim};
}

static void victims_add(struct victim_search *h, int victim)
{
    struct sched *s = h->pass->s;
    const struct sched_gang *g = &s->gangs[h->gang], *v = &s->gangs[victim];
    bool behind = outranks(g, v);
    int gives = behind ? v->slots : spare_slots(v);
    if (v->leaving || v->spec.non_preemptible || v->spec.job == g->spec.job || gives <= 0)
        return;
    int64_t until = protected_until(s, g, v);
    if (until > s->now) {
        h->protected_slots += gives;
        h->until = until < h->until ? until : h->until;
        return;
    }
    s->victims[h->count++] = victim_key(s, victim, !behind);
    h->yield += gives;
}

// Adds the slots of a victim to the gain of each agent (sign -1 subtracts them). A gang that
// shrinks kept its first `kept` slots. Returns how many of the slots the gang could use.
static int victim_gain(const struct victim_search *h, const struct queue_item *item, int sign)
{
    struct sched *s = h->pass->s;
    const struct sched_gang *v = &s->gangs[item->gang];
    int kept = item->first == INT64_MIN ? v->min_slots : 0, sum = 0;
    for (int agent = v->first_agent, at = v->first_slot; agent != SCHED_NONE;) {
        const struct sched_slot *slot = &s->agents[agent].slots[at];
        if (kept-- <= 0 && slot->enabled && place_room(s, agent, h->gang, true) >= 0) {
            s->agents[agent].gain += sign;
            sum++;
        }
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    return sum;
}

static bool suffices_on(const struct victim_search *h, int agent)
{
    const struct sched *s = h->pass->s;
    return place_room(s, agent, h->gang, true) + s->agents[agent].gain >= h->needs;
}

// Returns an agent of the victim that now has room for the whole gang.
static int agent_with_room(const struct victim_search *h, const struct sched_gang *v)
{
    const struct sched *s = h->pass->s;
    for (int agent = v->first_agent, at = v->first_slot; agent != SCHED_NONE;) {
        const struct sched_slot *slot = &s->agents[agent].slots[at];
        if (suffices_on(h, agent))
            return agent;
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    return SCHED_NONE;
}

static int64_t room_everywhere(const struct victim_search *h)
{
    const struct handle_list *agents = &h->pass->pool->agents;
    int64_t sum = 0;
    for (size_t i = 0; i < agents->count; i++) {
        int room = place_room(h->pass->s, agents->items[i], h->gang, true);
        sum += room > 0 ? room : 0;
    }
    return sum;
}

static void forget_gains(const struct victim_search *h)
{
    const struct handle_list *agents = &h->pass->pool->agents;
    for (size_t i = 0; i < agents->count; i++)
        h->pass->s->agents[agents->items[i]].gain = 0;
}

// Adds victims in order until one agent has room for the whole gang, then drops those that the
// agent does not need. Returns how many of s->victims remain; 0: no agent has room.
static size_t victims_on_one(struct victim_search *h)
{
    struct sched *s = h->pass->s;
    int agent = SCHED_NONE;
    size_t count = 0, kept = 0;
    while (count < h->count && agent == SCHED_NONE) {
        victim_gain(h, &s->victims[count], 1);
        agent = agent_with_room(h, &s->gangs[s->victims[count++].gang]);
    }
    for (size_t i = count; agent != SCHED_NONE && i-- > 0;) {
        int before = s->agents[agent].gain;
        victim_gain(h, &s->victims[i], -1);
        bool needed = s->agents[agent].gain < before && !suffices_on(h, agent);
        if (needed)
            victim_gain(h, &s->victims[i], 1);
        else
            s->victims[i].gang = SCHED_NONE;
    }
    for (size_t i = 0; agent != SCHED_NONE && i < count; i++)
        if (s->victims[i].gang != SCHED_NONE)
            s->victims[kept++] = s->victims[i];
    return kept;
}

// The same for a gang that may be spread over agents.
static size_t victims_anywhere(struct victim_search *h)
{
    struct sched *s = h->pass->s;
    int64_t room = room_everywhere(h);
    size_t count = 0, kept = 0;
    while (count < h->count && room < h->needs)
        room += victim_gain(h, &s->victims[count++], 1);
    if (room < h->needs)
        return 0;
    for (size_t i = count; i-- > 0;) {
        int gives = victim_gain(h, &s->victims[i], -1);
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

static enum sched_cause cause_of(const struct sched *s, int gang, const struct queue_item *victim)
{
    const struct sched_gang *g = &s->gangs[gang], *v = &s->gangs[victim->gang];
    if (victim->first == INT64_MIN)
        return SCHED_TO_SHRINK;
    if (g->team == v->team && priority_of(s, g) < priority_of(s, v))
        return SCHED_FOR_PRIORITY;
    bool by_share = g->team != v->team && g->rank.entitlement < v->rank.entitlement;
    return by_share ? SCHED_FOR_SHARE : SCHED_FOR_SERVICE;
}

bool preempt(struct sched_pass *ps, int gang, int needs, int64_t *until)
{
    struct sched *s = ps->s;
    struct victim_search h = {.pass = ps, .gang = gang, .needs = needs, .until = INT64_MAX};
    for (size_t i = 0; i < ps->pool->running.count; i++)
        victims_add(&h, ps->pool->running.items[i]);
    int64_t sure = ps->available + ps->incoming + h.yield;
    struct team_share *share = &ps->pool->shares[s->gangs[gang].team];
    *until = sure + h.protected_slots >= needs ? h.until : INT64_MAX;
    if (sure < needs) {
        share->unattainable = needs < share->unattainable ? needs : share->unattainable;
        return false;
    }
    items_sort(s->victims, s->scratch, h.count);
    size_t count = needs <= ps->pool->largest ? victims_on_one(&h) : 0;
    forget_gains(&h);
    if (!count && !s->gangs[gang].spec.one_agent)
        count = victims_anywhere(&h);
    forget_gains(&h);
    for (size_t i = 0; i < count; i++) {
        const struct queue_item *victim = &s->victims[i];
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
