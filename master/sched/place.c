// Where a gang goes. Best fit on one agent; a gang that has to be spread takes the largest pieces
// first and the rest best fit, inside one rack when one has room, else anywhere: any split is
// allowed. Agents that are being cleared for another gang come last.
#include "master/sched/internal.h"

#include <limits.h>

#include "base/log.h"

// Slots that gang g may count on here; -1: it must not run here.
static int room_on(const struct agent *a, const struct gang *g, int handle, bool later)
{
    if (!a->usable)
        return -1;
    for (int i = 0; i < g->spec.excluded_count; i++)
        if (g->spec.excluded[i] == handle)
            return -1;
    return a->open + (later ? a->later : 0);
}

struct search {
    const struct sched *s;
    const struct pool *p;
    const struct gang *g;
    int gang;
    bool later;
    int rack; // SCHED_NONE: any
};

static int room(const struct search *q, int agent)
{
    const struct agent *a = &q->s->agents[agent];
    if (q->rack != SCHED_NONE && a->rack != q->rack)
        return -1;
    return room_on(a, q->g, agent, q->later);
}

static bool kept_for_another(const struct search *q, int agent)
{
    int kept = q->s->agents[agent].kept;
    return kept != SCHED_NONE && kept != q->gang;
}

// The agent with the least room that still has `slots`; where none has, the one with the most. The
// first of equals; agents that are kept for another gang last. *room: how much it has; 0: none has
// any.
static int best_agent(const struct search *q, int slots, int *has)
{
    int best = SCHED_NONE;
    bool best_kept = false;
    *has = 0;
    for (size_t i = 0; i < q->p->agents.count; i++) {
        int agent = q->p->agents.items[i], here = room(q, agent);
        if (here <= 0 || q->s->agents[agent].mark)
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
            break; // no better one comes
    }
    return best;
}

// The rack with the least room that still has `slots`; SCHED_NONE: no rack has.
static int best_rack(struct sched *s, const struct search *q, int slots)
{
    int best = SCHED_NONE;
    for (int i = 0; i < s->rack_count; i++)
        s->rack_slots[i] = 0;
    for (size_t i = 0; i < q->p->agents.count; i++) {
        int agent = q->p->agents.items[i], has = room(q, agent);
        if (s->agents[agent].rack != SCHED_NONE && has > 0)
            s->rack_slots[s->agents[agent].rack] += has;
    }
    for (int i = 0; i < s->rack_count; i++)
        if (s->rack_slots[i] >= slots &&
            (best == SCHED_NONE || s->rack_slots[i] < s->rack_slots[best]))
            best = i;
    return best;
}

// The largest pieces first, the rest best fit. Returns the number of pieces, and in *slots how many
// could not be had.
static size_t cut(struct sched *s, const struct search *q, int *slots)
{
    size_t count = 0;
    while (*slots) {
        int has, agent = best_agent(q, *slots, &has);
        if (!has)
            break;
        int piece = has < *slots ? has : *slots;
        s->agents[agent].mark++;
        s->pieces[count++] = (struct piece){agent, piece};
        *slots -= piece;
    }
    for (size_t i = 0; i < count; i++)
        s->agents[s->pieces[i].agent].mark--;
    return count;
}

size_t place_find(struct sched *s, const struct pool *p, int gang, int slots, bool later)
{
    struct search q = {s, p, &s->gangs[gang], gang, later, SCHED_NONE};
    int has = 0, agent = slots > p->largest ? SCHED_NONE : best_agent(&q, slots, &has);
    if (agent != SCHED_NONE && has >= slots) {
        s->pieces[0] = (struct piece){agent, slots};
        return 1;
    }
    if (q.g->spec.one_agent)
        return 0;
    q.rack = best_rack(s, &q, slots);
    size_t count = cut(s, &q, &slots);
    return slots ? 0 : count;
}

size_t place_more(struct sched *s, const struct pool *p, int gang, int *slots)
{
    const struct gang *g = &s->gangs[gang];
    struct search q = {s, p, g, gang, false, SCHED_NONE};
    if (!g->spec.one_agent || g->first_agent == SCHED_NONE)
        return cut(s, &q, slots);
    int has = room(&q, g->first_agent);
    if (has <= 0)
        return 0;
    s->pieces[0] = (struct piece){g->first_agent, has < *slots ? has : *slots};
    *slots -= s->pieces[0].count;
    return 1;
}

int place_room(const struct sched *s, int agent, int gang, bool later)
{
    return room_on(&s->agents[agent], &s->gangs[gang], agent, later);
}

static bool is_free(const struct slot *slot)
{
    return slot->enabled && slot->gang == SCHED_NONE;
}

// Says of each of the agent's slots whether it is free, and chooses among those.
static void choose(struct agent *a, int gang, int wanted)
{
    for (int i = 0; i < a->slot_count; i++)
        a->spots[i].state = is_free(&a->slots[i])      ? SPOT_FREE
                            : a->slots[i].gang == gang ? SPOT_OWN
                                                       : SPOT_TAKEN;
    near_choose(a->spots, a->slot_count, wanted);
}

// Those that lie near each other where that is known, else the lowest.
void place_take(struct sched *s, int gang, const struct piece *piece)
{
    struct agent *a = &s->agents[piece->agent];
    int left = piece->count;
    size_t first = s->place_count;
    if (a->spots)
        choose(a, gang, left);
    for (int i = 0; left; i++) {
        must(i < a->slot_count && s->place_count < s->place_cap);
        if (!is_free(&a->slots[i]) || (a->spots && a->spots[i].state != SPOT_OWN))
            continue;
        s->places[s->place_count++] = (struct sched_place){piece->agent, i};
        left--;
    }
    place_sort(s, s->places + first, s->place_count - first);
}

static int turn_of(const struct sched *s, struct sched_place place)
{
    const struct spot *spots = s->agents[place.agent].spots;
    return spots ? spots[place.slot].turn : place.slot;
}

static bool goes_before(const struct sched *s, struct sched_place a, struct sched_place b)
{
    return a.agent != b.agent ? a.agent < b.agent : turn_of(s, a) < turn_of(s, b);
}

// They are nearly sorted when they come.
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

int place_aside(const struct sched *s, const struct pool *p)
{
    int best = SCHED_NONE;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct agent *a = &s->agents[p->agents.items[i]];
        if (a->usable && a->zero_slot_gangs < SCHED_ZERO_SLOT_GANGS &&
            (best == SCHED_NONE || a->zero_slot_gangs < s->agents[best].zero_slot_gangs))
            best = p->agents.items[i];
    }
    return best;
}
