// About when those who wait will start, if nothing new comes: what runs ends when it is expected to
// (or else goes on for as long as it has run, at least for what is usual in the pool), and those
// who wait take the slots in order. Slots are only counted, and nobody is preempted: a rough guess.
#include "master/sched/internal.h"

#define FRESH_US INT64_C(1000000)  // an estimate is good for so long
#define LEAST_US INT64_C(60000000) // nothing is taken to be shorter, unless that is known

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// How long a gang runs here, as far as is known: of those that have ended, else of those that run.
static int64_t usual_length(const struct sched *s, const struct pool *p, int64_t now)
{
    int64_t sum = 0, count = (int64_t)p->running.count;
    for (size_t i = 0; i < p->running.count; i++)
        sum += now - s->gangs[p->running.items[i]].since;
    return larger(larger(p->typical, count ? sum / count : 0), LEAST_US);
}

static int64_t end_of(const struct gang *g, int64_t usual, int64_t now)
{
    int64_t elapsed = now - g->since;
    if (g->leaving)
        return now;
    if (g->expected > now)
        return g->expected;
    return now + larger(elapsed, usual - elapsed);
}

// s->victims is a heap of the ends to come.
static void ends_down(struct item *ends, size_t count)
{
    struct item moved = ends[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && item_before(&ends[child + 1], &ends[child]))
            child++;
        if (!item_before(&ends[child], &moved))
            break;
        ends[at] = ends[child];
    }
    ends[at] = moved;
}

static void ends_push(struct item *ends, size_t *count, struct item item)
{
    size_t at = (*count)++;
    for (; at && item_before(&item, &ends[(at - 1) / 2]); at = (at - 1) / 2)
        ends[at] = ends[(at - 1) / 2];
    ends[at] = item;
}

static struct item ends_pop(struct item *ends, size_t *count)
{
    struct item first = ends[0];
    ends[0] = ends[--*count];
    if (*count)
        ends_down(ends, *count);
    return first;
}

void estimate_starts(struct sched *s, struct pool *p, int64_t now)
{
    size_t ends = 0;
    int64_t free = 0, time = now, usual = usual_length(s, p, now);
    if (p->estimated == p->passes && now - p->estimated_at < FRESH_US)
        return;
    p->estimated = p->passes;
    p->estimated_at = now;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct agent *a = &s->agents[p->agents.items[i]];
        free += a->usable ? a->free : 0;
    }
    for (size_t i = 0; i < p->running.count; i++) {
        const struct gang *g = &s->gangs[p->running.items[i]];
        ends_push(s->victims, &ends,
                  (struct item){end_of(g, usual, now), g->slots, g->sequence, 0});
    }
    heap_fill(s, p);
    for (int gang; (gang = heap_take(s)) != SCHED_NONE;) {
        struct gang *g = &s->gangs[gang];
        int team;
        enum sched_reason_code hindrance = gang_hindrance(s, gang, &team);
        g->start = 0;
        if (hindrance != SCHED_PLACED)
            continue;
        while (free < g->min_slots && ends) {
            struct item end = ends_pop(s->victims, &ends);
            time = larger(time, end.first);
            free += end.second;
        }
        if (free < g->min_slots)
            continue;
        g->start = time;
        free -= g->min_slots;
        int64_t length = g->expected ? g->expected : usual;
        ends_push(s->victims, &ends, (struct item){time + length, g->min_slots, g->sequence, 0});
    }
}
