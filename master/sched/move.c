// Clears an agent for a gang that must be on one agent when enough free slots exist but are
// scattered. The smallest gangs of that agent restart elsewhere, where room must exist.
#include "master/sched/pass.h"

#include "base/log.h"

enum { CLEAR_AFTER = 12 }; // times min_runtime between two attempts: one hour

// Enabled slots of the gang on one agent.
static int slots_on(const struct sched *s, const struct sched_gang *g, int agent)
{
    int sum = 0;
    for (int a = g->first_agent, at = g->first_slot; a != SCHED_NONE;) {
        const struct sched_slot *slot = &s->agents[a].slots[at];
        sum += a == agent && slot->enabled;
        a = slot->next_agent;
        at = slot->next_slot;
    }
    return sum;
}

// The usable agent with the most room among those that are large enough.
static int find_agent(const struct sched_pass *ps, int gang, int needs)
{
    const struct sched *s = ps->s;
    const struct handle_list *agents = &ps->pool->agents;
    int best = SCHED_NONE, best_room = -1;
    for (size_t i = 0; i < agents->count; i++) {
        int agent = agents->items[i], room = place_room(s, agent, gang, true);
        if (s->agents[agent].enabled < needs || room <= best_room)
            continue;
        if (s->agents[agent].reserved_for != SCHED_NONE && s->agents[agent].reserved_for != gang)
            continue;
        best = agent;
        best_room = room;
    }
    return best;
}

// Writes the gangs that could be moved from the agent to s->victims, the smallest first.
static size_t list_movable(struct sched_pass *ps, int gang, int agent, int64_t *until)
{
    struct sched *s = ps->s;
    size_t count = 0;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int other = ps->pool->running.items[i];
        const struct sched_gang *v = &s->gangs[other];
        bool fixed =
            v->leaving || v->spec.non_preemptible || v->spec.job == s->gangs[gang].spec.job;
        int here = fixed ? 0 : slots_on(s, v, agent);
        int64_t free_at = v->since + s->rules.min_runtime;
        if (here && free_at > s->now && free_at < *until &&
            place_find(s, ps->pool, other, v->slots, false))
            *until = free_at;
        if (here && free_at <= s->now)
            s->victims[count++] = (struct queue_item){v->slots, here, v->sequence, other};
    }
    items_sort(s->victims, s->scratch, count);
    return count;
}

// Finds places elsewhere for victims until `missing` is 0. Returns how many victims at the head of
// s->victims move. agent.gain holds the slots that were claimed for them.
static size_t find_new_places(struct sched_pass *ps, size_t count, int *missing)
{
    struct sched *s = ps->s;
    size_t chosen = 0;
    for (size_t i = 0; i<count && * missing> 0; i++) {
        struct queue_item victim = s->victims[i];
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

// Ends the search; a search without success returns its claims.
static void end_search(struct sched_pass *ps, bool in_vain)
{
    const struct handle_list *agents = &ps->pool->agents;
    for (size_t i = 0; i < agents->count; i++) {
        struct sched_agent *a = &ps->s->agents[agents->items[i]];
        a->available += in_vain ? a->gain : 0;
        ps->available += in_vain ? a->gain : 0;
        a->gain = 0;
    }
}

// A moved gang may come back to the same agent if its new places were taken meanwhile. So a gang
// waits before it clears an agent again, and gives up its agent until then.
static bool was_tried_recently(struct sched *s, struct sched_gang *g)
{
    if (!g->cleared_at || s->now - g->cleared_at >= CLEAR_AFTER * s->rules.min_runtime)
        return false;
    gang_stop_clearing(s, g);
    return true;
}

bool clear_agent(struct sched_pass *ps, int gang, int needs, int64_t *until)
{
    struct sched *s = ps->s;
    struct sched_gang *g = &s->gangs[gang];
    if (was_tried_recently(s, g))
        return false;
    int agent = g->cleared_agent != SCHED_NONE ? g->cleared_agent : find_agent(ps, gang, needs);
    if (agent == SCHED_NONE)
        return false;
    int missing = needs - place_room(s, agent, gang, true);
    s->agents[agent].skip++; // no place for other gangs now
    size_t count = list_movable(ps, gang, agent, until);
    size_t chosen = find_new_places(ps, count, &missing);
    s->agents[agent].skip--;
    end_search(ps, missing > 0);
    if (missing > 0)
        return false;
    g->cleared_agent = agent;
    g->cleared_at = s->now;
    s->agents[agent].reserved_for = gang;
    for (size_t i = 0; i < chosen; i++)
        pass_drain(ps, s->victims[i].gang, SCHED_TO_MOVE, gang, 0);
    struct placement_piece piece = {agent, needs};
    pass_claim(ps, &piece, 1);
    return true;
}
