// Chooses the places of a gang: best fit on one agent. A gang that must be spread takes the largest
// pieces first and the rest by best fit, within one rack if a rack has room, else anywhere. Agents
// that are being cleared for another gang come last.
#include "master/sched/internal.h"

#include <limits.h>

#include "base/log.h"

// Slots of the agent that gang g could use; -1: it must not run there.
static int room_on(const struct sched_agent *a, const struct sched_gang *g, int handle,
                   bool incoming)
{
    if (!a->usable)
        return -1;
    for (int i = 0; i < g->spec.excluded_count; i++)
        if (g->spec.excluded[i] == handle)
            return -1;
    return a->available + (incoming ? a->incoming : 0);
}

struct placement_search {
    const struct sched *s;
    const struct sched_pool *p;
    const struct sched_gang *g;
    int gang;
    bool incoming;
    int rack; // SCHED_NONE: any
};

static int agent_room(const struct placement_search *q, int agent)
{
    const struct sched_agent *a = &q->s->agents[agent];
    if (q->rack != SCHED_NONE && a->rack != q->rack)
        return -1;
    return room_on(a, q->g, agent, q->incoming);
}

static bool kept_for_another(const struct placement_search *q, int agent)
{
    int kept = q->s->agents[agent].reserved_for;
    return kept != SCHED_NONE && kept != q->gang;
}

// The agent with the least room for at least `slots`; if no agent has room for all, the one with
// the most room. Agents that are reserved for another gang come last; ties go to the first agent.
// *has: its room; 0: no agent has any.
static int best_agent(const struct placement_search *q, int slots, int *has)
{
    int best = SCHED_NONE;
    bool best_kept = false;
    *has = 0;
    for (size_t i = 0; i < q->p->agents.count; i++) {
        int agent = q->p->agents.items[i], here = agent_room(q, agent);
        if (here <= 0 || q->s->agents[agent].skip)
            continue;
        bool kept = kept_for_another(q, agent), fits = here >= slots, best_fits = *has >= slots;
        bool better = fits != best_fits   ? fits
                      : kept != best_kept ? best_kept
                                          : (fits ? here < *has : here > *has);
        if (best != SCHED_NONE && !better)
            continue;
        best = agent;
        best_kept = kept;
        *has = here;
        if (!kept && (here == slots || (here < slots && here == q->p->largest)))
            break; // no better agent follows
    }
    return best;
}

// The rack with the least room for at least `slots`; SCHED_NONE: no rack has room.
static int best_rack(struct sched *s, const struct placement_search *q, int slots)
{
    int best = SCHED_NONE;
    for (int i = 0; i < s->rack_count; i++)
        s->rack_slots[i] = 0;
    for (size_t i = 0; i < q->p->agents.count; i++) {
        int agent = q->p->agents.items[i], has = agent_room(q, agent);
        if (s->agents[agent].rack != SCHED_NONE && has > 0)
            s->rack_slots[s->agents[agent].rack] += has;
    }
    for (int i = 0; i < s->rack_count; i++)
        if (s->rack_slots[i] >= slots &&
            (best == SCHED_NONE || s->rack_slots[i] < s->rack_slots[best]))
            best = i;
    return best;
}

// Takes the largest pieces first and the rest by best fit. Returns the number of pieces; *slots
// becomes the number of slots that were not found.
static size_t cut_pieces(struct sched *s, const struct placement_search *q, int *slots)
{
    size_t count = 0;
    while (*slots) {
        int has, agent = best_agent(q, *slots, &has);
        if (!has)
            break;
        int piece = has < *slots ? has : *slots;
        s->agents[agent].skip++;
        s->pieces[count++] = (struct placement_piece){agent, piece};
        *slots -= piece;
    }
    for (size_t i = 0; i < count; i++)
        s->agents[s->pieces[i].agent].skip--;
    return count;
}

size_t place_find(struct sched *s, const struct sched_pool *p, int gang, int slots, bool incoming)
{
    struct placement_search q = {s, p, &s->gangs[gang], gang, incoming, SCHED_NONE};
    int has = 0, agent = slots > p->largest ? SCHED_NONE : best_agent(&q, slots, &has);
    if (agent != SCHED_NONE && has >= slots) {
        s->pieces[0] = (struct placement_piece){agent, slots};
        return 1;
    }
    if (q.g->spec.one_agent)
        return 0;
    q.rack = best_rack(s, &q, slots);
    size_t count = cut_pieces(s, &q, &slots);
    return slots ? 0 : count;
}

size_t place_more(struct sched *s, const struct sched_pool *p, int gang, int *slots)
{
    const struct sched_gang *g = &s->gangs[gang];
    struct placement_search q = {s, p, g, gang, false, SCHED_NONE};
    if (!g->spec.one_agent || g->first_agent == SCHED_NONE)
        return cut_pieces(s, &q, slots);
    int has = agent_room(&q, g->first_agent);
    if (has <= 0)
        return 0;
    s->pieces[0] = (struct placement_piece){g->first_agent, has < *slots ? has : *slots};
    *slots -= s->pieces[0].count;
    return 1;
}

int place_room(const struct sched *s, int agent, int gang, bool incoming)
{
    return room_on(&s->agents[agent], &s->gangs[gang], agent, incoming);
}

static bool is_free(const struct sched_slot *slot)
{
    return slot->enabled && slot->gang == SCHED_NONE;
}

// Sets the state of each slot of the agent and chooses among the free ones.
static void choose_near_slots(struct sched_agent *a, int gang, int wanted)
{
    for (int i = 0; i < a->slot_count; i++)
        a->near_slots[i].state = is_free(&a->slots[i])      ? NEAR_SLOT_FREE
                                 : a->slots[i].gang == gang ? NEAR_SLOT_OWN
                                                            : NEAR_SLOT_TAKEN;
    near_choose(a->near_slots, a->slot_count, wanted);
}

// Takes slots that are near each other if nearness is known, else the lowest ones.
void place_take(struct sched *s, int gang, const struct placement_piece *piece)
{
    struct sched_agent *a = &s->agents[piece->agent];
    int left = piece->count;
    size_t first = s->place_count;
    if (a->near_slots)
        choose_near_slots(a, gang, left);
    for (int i = 0; left; i++) {
        must(i < a->slot_count && s->place_count < s->place_cap);
        if (!is_free(&a->slots[i]) || (a->near_slots && a->near_slots[i].state != NEAR_SLOT_OWN))
            continue;
        s->places[s->place_count++] = (struct sched_place){piece->agent, i};
        left--;
    }
    place_sort(s, s->places + first, s->place_count - first);
}

static int position_of(const struct sched *s, struct sched_place place)
{
    const struct near_slot *spots = s->agents[place.agent].near_slots;
    return spots ? spots[place.slot].position : place.slot;
}

static bool goes_before(const struct sched *s, struct sched_place a, struct sched_place b)
{
    return a.agent != b.agent ? a.agent < b.agent : position_of(s, a) < position_of(s, b);
}

// Insertion sort: the places are nearly sorted.
void place_sort(const struct sched *s, struct sched_place *places, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct sched_place moved = places[i];
        size_t at = i;
        for (; at && goes_before(s, moved, places[at - 1]); at--)
            places[at] = places[at - 1];
        places[at] = moved;
    }
}

int place_find_slotless(const struct sched *s, const struct sched_pool *p)
{
    int best = SCHED_NONE;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct sched_agent *a = &s->agents[p->agents.items[i]];
        if (a->usable && a->zero_slot_gangs < SCHED_ZERO_SLOT_GANGS &&
            (best == SCHED_NONE || a->zero_slot_gangs < s->agents[best].zero_slot_gangs))
            best = p->agents.items[i];
    }
    return best;
}
