#include "master/kernel/by_id.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

// The place of `id`, or where it would stand.
static size_t by_id_place(const struct by_id *set, int64_t id)
{
    size_t low = 0, high = set->count;
    if (high && set->items[high - 1].id < id)
        return high; // ids grow: mostly the end
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->items[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void by_id_put(struct by_id *set, int64_t id, void *value)
{
    size_t at = by_id_place(set, id);
    must(at == set->count || set->items[at].id != id);
    if (set->count == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 64;
        set->items = xrealloc(set->items, set->cap * sizeof *set->items);
    }
    memmove(set->items + at + 1, set->items + at, (set->count - at) * sizeof *set->items);
    set->items[at] = (struct by_id_item){id, value};
    set->count++;
}

void *by_id_find(const struct by_id *set, int64_t id)
{
    size_t at = by_id_place(set, id);
    return at < set->count && set->items[at].id == id ? set->items[at].value : NULL;
}

void by_id_remove(struct by_id *set, int64_t id)
{
    size_t at = by_id_place(set, id);
    must(at < set->count && set->items[at].id == id);
    set->count--;
    memmove(set->items + at, set->items + at + 1, (set->count - at) * sizeof *set->items);
}
