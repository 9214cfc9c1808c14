#include "master/sched/pass.h"

// What a leaving gang hands over: all but the slots that it comes back for.
void reach_hand_over(struct pass *ps, const struct gang *g)
{
    int keeps = g->keeps;
    for (int agent = g->first_agent, at = g->first_slot; agent != SCHED_NONE;) {
        struct agent *a = &ps->s->agents[agent];
        const struct slot *slot = &a->slots[at];
        if (keeps-- <= 0 && a->usable && slot->enabled) {
            a->later++;
            ps->later++;
        }
        agent = slot->next_agent;
        at = slot->next_slot;
    }
}

// The slots that run, summed so that behind[e][l] is what gangs of entitlement e have behind level
// l, and behind[e][0] all that gangs of a lesser entitlement have.
void reach_count(struct pass *ps)
{
    struct sched *s = ps->s;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        const struct gang *g = &s->gangs[ps->pool->running.items[i]];
        if (g->leaving) {
            reach_hand_over(ps, g);
            continue;
        }
        ps->spare += g->slots - g->spec.least;
        ps->behind[g->rank.entitlement][g->rank.level] += g->slots;
    }
}

// Most slots of other teams that a gang of this rank could take.
static int64_t beyond_team(const struct pass *ps, const struct rank *r)
{
    int64_t sum = 0;
    for (int e = r->entitlement + 1; e < ENTITLEMENTS; e++)
        for (int l = 0; l < LEVELS_CAP; l++)
            sum += ps->behind[e][l];
    for (int l = (int)r->level; l < LEVELS_CAP; l++)
        sum += ps->behind[r->entitlement][l];
    return sum;
}

// For each waiting gang of a queue, the slots of its own team that run behind it.
static void count_within(struct sched *s, const struct queue *q)
{
    int64_t sum = 0;
    for (size_t i = q->count; i-- > 0;) {
        struct gang *g = &s->gangs[q->items[i].gang];
        if (g->placed)
            sum += g->leaving ? 0 : g->slots;
        else
            g->within = sum;
    }
}

static void collect(struct pass *ps, int team)
{
    struct sched *s = ps->s;
    const struct share *share = &ps->pool->shares[team];
    int64_t common = ps->open + ps->later + ps->spare;
    bool strict = pool_is_strict(ps->pool);
    if (!share->waiting)
        return;
    count_within(s, &share->queue);
    for (size_t i = 0; i < share->queue.count; i++) {
        int gang = share->queue.items[i].gang;
        struct gang *g = &s->gangs[gang];
        if (g->placed)
            continue;
        g->considered = true;
        if (!strict && g->spec.least > common + g->within + beyond_team(ps, &g->rank))
            continue;
        s->heap[s->heap_count++] = (struct ranked){g->rank, gang};
    }
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        collect(ps, t);
}

void reach_collect(struct pass *ps)
{
    ps->s->heap_count = 0;
    collect(ps, SCHED_ROOT);
    heap_build(ps->s);
}
