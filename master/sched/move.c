// Clears an agent for a gang that has to be on one, when enough slots are free but scattered: the
// smallest gangs there are started anew elsewhere, for which there must be room.
#include "master/sched/pass.h"

#include "base/log.h"

enum { CLEAR_AFTER = 12 }; // shortest times from one try to the next: an hour

// Slots of a gang on one agent that another could use.
static int slots_on(const struct sched *s, const struct gang *g, int agent)
{
    int sum = 0;
    for (int a = g->first_agent, at = g->first_slot; a != SCHED_NONE;) {
        const struct slot *slot = &s->agents[a].slots[at];
        sum += a == agent && slot->enabled;
        a = slot->next_agent;
        at = slot->next_slot;
    }
    return sum;
}

// The usable agent with the most room of those that are large enough.
static int find_agent(const struct pass *ps, int gang, int needs)
{
    const struct sched *s = ps->s;
    const struct list *agents = &ps->pool->agents;
    int best = SCHED_NONE, best_room = -1;
    for (size_t i = 0; i < agents->count; i++) {
        int agent = agents->items[i], room = place_room(s, agent, gang, true);
        if (s->agents[agent].enabled < needs || room <= best_room)
            continue;
        if (s->agents[agent].kept != SCHED_NONE && s->agents[agent].kept != gang)
            continue;
        best = agent;
        best_room = room;
    }
    return best;
}

// Into s->victims: who could be moved from the agent, the smallest first.
static size_t list_movable(struct pass *ps, int gang, int agent, int64_t *until)
{
    struct sched *s = ps->s;
    size_t count = 0;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int other = ps->pool->running.items[i];
        const struct gang *v = &s->gangs[other];
        bool fixed =
            v->leaving || v->spec.non_preemptible || v->spec.job == s->gangs[gang].spec.job;
        int here = fixed ? 0 : slots_on(s, v, agent);
        int64_t free_at = v->since + s->rules.shortest;
        if (here && free_at > s->now && free_at < *until &&
            place_find(s, ps->pool, other, v->slots, false))
            *until = free_at;
        if (here && free_at <= s->now)
            s->victims[count++] = (struct item){v->slots, here, v->sequence, other};
    }
    items_sort(s->victims, s->scratch, count);
    return count;
}

// Finds places elsewhere for victims until nothing is missing; their number, at the head of
// s->victims. What it has claimed for them stands in agent.gain.
static size_t find_homes(struct pass *ps, size_t count, int *missing)
{
    struct sched *s = ps->s;
    size_t chosen = 0;
    for (size_t i = 0; i<count && * missing> 0; i++) {
        struct item victim = s->victims[i];
        size_t pieces = place_find(s, ps->pool, victim.gang, (int)victim.first, false);
        if (!pieces)
            continue;
        for (size_t k = 0; k < pieces; k++)
            s->agents[s->pieces[k].agent].gain += s->pieces[k].count;
        pass_claim(ps, s->pieces, pieces);
        *missing -= (int)victim.second;
        s->victims[chosen++] = victim;
    }
    return chosen;
}

// Ends the search; what was claimed in vain is open again.
static void end_search(struct pass *ps, bool in_vain)
{
    const struct list *agents = &ps->pool->agents;
    for (size_t i = 0; i < agents->count; i++) {
        struct agent *a = &ps->s->agents[agents->items[i]];
        a->open += in_vain ? a->gain : 0;
        ps->open += in_vain ? a->gain : 0;
        a->gain = 0;
    }
}

// Whoever was moved may come back to the same agent when its new home was taken meanwhile. So a
// gang does not ask for the same again soon, and lets go of the agent.
static bool tried_lately(struct sched *s, struct gang *g)
{
    if (!g->cleared_at || s->now - g->cleared_at >= CLEAR_AFTER * s->rules.shortest)
        return false;
    if (g->clears != SCHED_NONE)
        s->agents[g->clears].kept = SCHED_NONE;
    g->clears = SCHED_NONE;
    return true;
}

bool clear_agent(struct pass *ps, int gang, int needs, int64_t *until)
{
    struct sched *s = ps->s;
    struct gang *g = &s->gangs[gang];
    if (tried_lately(s, g))
        return false;
    int agent = g->clears != SCHED_NONE ? g->clears : find_agent(ps, gang, needs);
    if (agent == SCHED_NONE)
        return false;
    int missing = needs - place_room(s, agent, gang, true);
    s->agents[agent].mark++; // no place for others now
    size_t count = list_movable(ps, gang, agent, until);
    size_t chosen = find_homes(ps, count, &missing);
    s->agents[agent].mark--;
    end_search(ps, missing > 0);
    if (missing > 0)
        return false;
    g->clears = agent;
    g->cleared_at = s->now;
    s->agents[agent].kept = gang;
    for (size_t i = 0; i < chosen; i++)
        pass_drain(ps, s->victims[i].gang, SCHED_TO_MOVE, gang, 0);
    struct piece piece = {agent, needs};
    pass_claim(ps, &piece, 1);
    return true;
}
