// EASY backfill, for comparison: the first that has to wait will start when enough of what runs has
// ended, as expected; others go before it only if they have ended by then, or take what it leaves.
#include "master/sched/pass.h"

void easy_block(struct pass *ps, int gang)
{
    struct sched *s = ps->s;
    const struct list *running = &ps->pool->running;
    int64_t free = ps->open, needs = s->gangs[gang].min_slots;
    for (size_t i = 0; i < running->count; i++) {
        const struct gang *g = &s->gangs[running->items[i]];
        int64_t end = g->expected ? g->expected : INT64_MAX;
        s->victims[i] = (struct item){end, g->sequence, 0, running->items[i]};
    }
    items_sort(s->victims, s->scratch, running->count);
    ps->shadow = s->now;
    for (size_t i = 0; free < needs && i < running->count; i++) {
        free += s->gangs[s->victims[i].gang].slots;
        ps->shadow = s->victims[i].first;
    }
    ps->extra = free - needs;
}

bool easy_allows(struct pass *ps, const struct gang *g)
{
    if (!ps->blocked)
        return true;
    if (g->expected && ps->s->now + g->expected <= ps->shadow)
        return true;
    if (g->min_slots > ps->extra)
        return false;
    ps->extra -= g->min_slots;
    return true;
}
