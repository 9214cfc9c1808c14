#include "master/sched/nearness.h"

#include "base/log.h"

// --- groups --------------------------------------------------------------------------------------

static bool share_group(const int *groups, int one, int other)
{
    return one == other || (groups[one] >= 0 && groups[one] == groups[other]);
}

// Orders slots by the larger of their NVLink group and their NUMA node, then by the part that both
// have in common.
static bool goes_before(const struct near_slot *spots, int one, int other)
{
    const struct near_slot *a = &spots[one], *b = &spots[other];
    bool a_node =
        spots[a->first[NEAR_NODE]].size[NEAR_NODE] > spots[a->first[NEAR_LINK]].size[NEAR_LINK];
    bool b_node =
        spots[b->first[NEAR_NODE]].size[NEAR_NODE] > spots[b->first[NEAR_LINK]].size[NEAR_LINK];
    int a_outer = a->first[a_node ? NEAR_NODE : NEAR_LINK];
    int b_outer = b->first[b_node ? NEAR_NODE : NEAR_LINK];
    int a_inner = a->first[NEAR_LINK_AND_NODE], b_inner = b->first[NEAR_LINK_AND_NODE];
    if (a_outer != b_outer)
        return a_outer < b_outer;
    return a_inner != b_inner ? a_inner < b_inner : one < other;
}

void near_arrange(struct near_slot *spots, int count, const int *nvlink, const int *numa,
                  const int *model)
{
    for (int i = 0; i < count; i++)
        spots[i] = (struct near_slot){.position = 0};
    for (int i = 0; i < count; i++)
        for (int k = count; k-- > 0;) {
            bool link = share_group(nvlink, i, k), node = share_group(numa, i, k);
            if (!share_group(model, i, k))
                continue;
            const bool near[NEAR_KINDS] = {link && node, link, node, true};
            for (int kind = 0; kind < NEAR_KINDS; kind++)
                if (near[kind])
                    spots[i].first[kind] = k;
        }
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < NEAR_KINDS; kind++)
            spots[spots[i].first[kind]].size[kind]++;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            spots[i].position += goes_before(spots, k, i);
}

// --- the search ----------------------------------------------------------------------------------

struct near_group {
    enum near_kind kind;
    int first; // its lowest slot; -1: no group
};

static void count_spots(struct near_slot *spots, int count)
{
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < NEAR_KINDS; kind++)
            spots[i].free[kind] = spots[i].own[kind] = 0;
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < NEAR_KINDS; kind++) {
            struct near_slot *first = &spots[spots[i].first[kind]];
            first->free[kind] += spots[i].state == NEAR_SLOT_FREE;
            first->own[kind] += spots[i].state == NEAR_SLOT_OWN;
        }
}

static bool breaks_group(const struct near_slot *first, enum near_kind kind, int wanted)
{
    return first->free[kind] == first->size[kind] && first->free[kind] > wanted;
}

enum { COSTS = 6 };

// The cost of taking `wanted` slots out of a group, the most important term first.
static void group_cost(const struct near_slot *spots, struct near_group g, int wanted,
                       int cost[COSTS])
{
    const struct near_slot *link = &spots[spots[g.first].first[NEAR_LINK]];
    const struct near_slot *node = &spots[spots[g.first].first[NEAR_NODE]];
    bool one_link = g.kind == NEAR_LINK_AND_NODE || g.kind == NEAR_LINK;
    bool one_node = g.kind == NEAR_LINK_AND_NODE || g.kind == NEAR_NODE;
    cost[0] = one_link && breaks_group(link, NEAR_LINK, wanted);
    cost[1] = one_node && breaks_group(node, NEAR_NODE, wanted);
    cost[2] = one_link ? -link->own[NEAR_LINK] : 0;
    cost[3] = one_node ? -node->own[NEAR_NODE] : 0;
    cost[4] = one_link ? link->free[NEAR_LINK] : 0;
    cost[5] = one_node ? node->free[NEAR_NODE] : 0;
}

static bool costs_less(const int a[COSTS], const int b[COSTS])
{
    int i = 0;
    while (i < COSTS && a[i] == b[i])
        i++;
    return i < COSTS && a[i] < b[i];
}

// The best group with room for all, of the closest kind that has such a group.
static struct near_group best_fit(const struct near_slot *spots, int count, int wanted)
{
    struct near_group best = {.first = -1};
    int best_cost[COSTS], cost[COSTS];
    for (int kind = 0; kind < NEAR_KINDS && best.first < 0; kind++)
        for (int i = 0; i < count; i++) {
            struct near_group g = {(enum near_kind)kind, i};
            if (spots[i].first[kind] != i || spots[i].free[kind] < wanted)
                continue;
            group_cost(spots, g, wanted, cost);
            if (best.first >= 0 && !costs_less(cost, best_cost))
                continue;
            best = g;
            for (int k = 0; k < COSTS; k++)
                best_cost[k] = cost[k];
        }
    return best;
}

// The group with the most free slots among those without room for all.
static struct near_group largest_piece(const struct near_slot *spots, int count, int wanted)
{
    struct near_group best = {.first = -1};
    int best_free = 0;
    for (int kind = NEAR_LINK; kind < NEAR_KINDS; kind++)
        for (int i = 0; i < count; i++) {
            int has = spots[i].first[kind] == i ? spots[i].free[kind] : 0;
            if (has <= best_free || has >= wanted)
                continue;
            best_free = has;
            best = (struct near_group){(enum near_kind)kind, i};
        }
    must(best_free);
    return best;
}

// Takes at most `wanted` free slots of the group. Returns how many.
static int group_take_slots(struct near_slot *spots, int count, struct near_group g, int wanted)
{
    int done = 0;
    for (int i = 0; i < count && done < wanted; i++)
        if (spots[i].first[g.kind] == g.first && spots[i].state == NEAR_SLOT_FREE) {
            spots[i].state = NEAR_SLOT_OWN;
            done++;
        }
    return done;
}

static void exclude_other_groups(struct near_slot *spots, int count, struct near_group g)
{
    for (int i = 0; i < count; i++)
        if (spots[i].first[g.kind] != g.first && spots[i].state == NEAR_SLOT_FREE)
            spots[i].state = NEAR_SLOT_EXCLUDED;
    count_spots(spots, count);
}

void near_choose(struct near_slot *spots, int count, int wanted)
{
    while (wanted) {
        count_spots(spots, count);
        struct near_group g = best_fit(spots, count, wanted);
        if (g.first >= 0 && g.kind != NEAR_LINK_AND_NODE)
            exclude_other_groups(spots, count, g);
        if (g.first < 0 || g.kind != NEAR_LINK_AND_NODE)
            g = largest_piece(spots, count, wanted);
        wanted -= group_take_slots(spots, count, g, wanted);
    }
}
