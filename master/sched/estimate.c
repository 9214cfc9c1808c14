// Estimates when waiting gangs will start if no other work arrives. A running gang ends at its
// expected end, or else runs on for as long as it has run, at least for the typical runtime of the
// pool. Waiting gangs take the slots in order. The estimate counts slots only and ignores placement
// and preemption.
#include "master/sched/internal.h"

#define FRESH_US INT64_C(1000000)  // validity of an estimate
#define LEAST_US INT64_C(60000000) // minimum of an unknown runtime

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// The typical runtime in the pool: of gangs that have ended, else of those that run.
static int64_t usual_length(const struct sched *s, const struct sched_pool *p, int64_t now)
{
    int64_t sum = 0, count = (int64_t)p->running.count;
    for (size_t i = 0; i < p->running.count; i++)
        sum += now - s->gangs[p->running.items[i]].since;
    return larger(larger(p->typical, count ? sum / count : 0), LEAST_US);
}

static int64_t expected_end(const struct sched_gang *g, int64_t usual, int64_t now)
{
    int64_t elapsed = now - g->since;
    if (g->leaving)
        return now;
    if (g->expected > now)
        return g->expected;
    return now + larger(elapsed, usual - elapsed);
}

// s->victims holds a heap of expected ends.
static void end_heap_down(struct queue_item *ends, size_t count)
{
    struct queue_item moved = ends[0];
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

static void end_heap_push(struct queue_item *ends, size_t *count, struct queue_item item)
{
    size_t at = (*count)++;
    for (; at && item_before(&item, &ends[(at - 1) / 2]); at = (at - 1) / 2)
        ends[at] = ends[(at - 1) / 2];
    ends[at] = item;
}

static struct queue_item end_heap_pop(struct queue_item *ends, size_t *count)
{
    struct queue_item first = ends[0];
    ends[0] = ends[--*count];
    if (*count)
        end_heap_down(ends, *count);
    return first;
}

void estimate_starts(struct sched *s, struct sched_pool *p, int64_t now)
{
    size_t ends = 0;
    int64_t free = 0, time = now, usual = usual_length(s, p, now);
    if (p->estimated == p->passes && now - p->estimated_at < FRESH_US)
        return;
    p->estimated = p->passes;
    p->estimated_at = now;
    for (size_t i = 0; i < p->agents.count; i++) {
        const struct sched_agent *a = &s->agents[p->agents.items[i]];
        free += a->usable ? a->free : 0;
    }
    for (size_t i = 0; i < p->running.count; i++) {
        const struct sched_gang *g = &s->gangs[p->running.items[i]];
        end_heap_push(s->victims, &ends,
                      (struct queue_item){expected_end(g, usual, now), g->slots, g->sequence, 0});
    }
    heap_fill(s, p);
    for (int gang; (gang = heap_take(s)) != SCHED_NONE;) {
        struct sched_gang *g = &s->gangs[gang];
        int team;
        enum sched_reason_code obstacle = gang_obstacle(s, gang, &team);
        g->start = 0;
        if (obstacle != SCHED_PLACED)
            continue;
        while (free < g->min_slots && ends) {
            struct queue_item end = end_heap_pop(s->victims, &ends);
            time = larger(time, end.first);
            free += end.second;
        }
        if (free < g->min_slots)
            continue;
        g->start = time;
        free -= g->min_slots;
        int64_t length = g->expected ? g->expected : usual;
        end_heap_push(s->victims, &ends,
                      (struct queue_item){time + length, g->min_slots, g->sequence, 0});
    }
}
