#include "master/kernel/timers.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"

void timers_free(struct timers *t)
{
    free(t->heap);
    *t = (struct timers){0};
}

static bool timer_is_sooner(const struct timer *a, const struct timer *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_put(struct timers *t, size_t place, struct timer *timer)
{
    t->heap[place] = timer;
    timer->place = place;
}

// Moves the timer at `place` up or down to its place in the heap.
static void heap_settle(struct timers *t, size_t place)
{
    struct timer *timer = t->heap[place];
    for (; place > 1 && timer_is_sooner(timer, t->heap[place / 2]); place /= 2)
        heap_put(t, place, t->heap[place / 2]);
    for (;;) {
        size_t child = 2 * place;
        if (child < t->count && timer_is_sooner(t->heap[child + 1], t->heap[child]))
            child++;
        if (child > t->count || !timer_is_sooner(t->heap[child], timer))
            break;
        heap_put(t, place, t->heap[child]);
        place = child;
    }
    heap_put(t, place, timer);
}

void timer_set(struct timers *t, struct timer *timer, int64_t at)
{
    timer->at = at;
    timer->order = ++t->order;
    if (!timer->place) {
        if (t->count + 1 >= t->cap) {
            t->cap = t->cap ? 2 * t->cap : 64;
            t->heap = xrealloc(t->heap, t->cap * sizeof *t->heap);
        }
        heap_put(t, ++t->count, timer);
    }
    heap_settle(t, timer->place);
}

void timer_clear(struct timers *t, struct timer *timer)
{
    size_t place = timer->place;
    if (!place)
        return;
    timer->place = 0;
    struct timer *last = t->heap[t->count--];
    if (last == timer)
        return;
    heap_put(t, place, last);
    heap_settle(t, place);
}

int64_t timers_next(const struct timers *t)
{
    return t->count ? t->heap[1]->at : INT64_MAX;
}

struct timer *timers_due(struct timers *t, int64_t now)
{
    struct timer *first = t->count ? t->heap[1] : NULL;
    if (!first || first->at > now)
        return NULL;
    timer_clear(t, first);
    return first;
}
