#include "simulate/events.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"

// A total order keeps runs identical: events at the same time are ordered by job, then by kind.
static bool event_before(const struct simulate_event *a, const struct simulate_event *b)
{
    if (a->at != b->at)
        return a->at < b->at;
    return a->job != b->job ? a->job < b->job : a->kind < b->kind;
}

void event_heap_push(struct event_heap *all, struct simulate_event event)
{
    if (all->count == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 256;
        all->heap = xrealloc(all->heap, all->cap * sizeof *all->heap);
    }
    size_t at = all->count++;
    for (; at && event_before(&event, &all->heap[(at - 1) / 2]); at = (at - 1) / 2)
        all->heap[at] = all->heap[(at - 1) / 2];
    all->heap[at] = event;
}

struct simulate_event event_heap_pop(struct event_heap *all)
{
    must(all->count > 0);
    struct simulate_event first = all->heap[0], last = all->heap[--all->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < all->count; at = child) {
        if (child + 1 < all->count && event_before(&all->heap[child + 1], &all->heap[child]))
            child++;
        if (!event_before(&all->heap[child], &last))
            break;
        all->heap[at] = all->heap[child];
    }
    all->heap[at] = last;
    return first;
}

void event_heap_free(struct event_heap *all)
{
    free(all->heap);
    *all = (struct event_heap){0};
}
