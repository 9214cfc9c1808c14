// EASY backfill, for comparison in simulations. The first waiting gang will start when enough
// running gangs have reached their expected ends. A later gang may start before it only if it will
// end by then, or if it fits into the slots that the first gang leaves free.
#include "master/sched/pass.h"

void easy_block(struct sched_pass *ps, int gang)
{
    struct sched *s = ps->s;
    const struct handle_list *running = &ps->pool->running;
    int64_t free = ps->available, needs = s->gangs[gang].min_slots;
    for (size_t i = 0; i < running->count; i++) {
        const struct sched_gang *g = &s->gangs[running->items[i]];
        int64_t end = g->expected ? g->expected : INT64_MAX;
        s->victims[i] = (struct queue_item){end, g->sequence, 0, running->items[i]};
    }
    items_sort(s->victims, s->scratch, running->count);
    ps->shadow = s->now;
    for (size_t i = 0; free < needs && i < running->count; i++) {
        free += s->gangs[s->victims[i].gang].slots;
        ps->shadow = s->victims[i].first;
    }
    ps->extra = free - needs;
}

bool easy_allows(struct sched_pass *ps, const struct sched_gang *g)
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
