#include "master/kernel/id_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

// The index of `id`, or the index where it would be inserted.
static size_t id_map_place(const struct id_map *set, int64_t id)
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

void id_map_put(struct id_map *set, int64_t id, void *value)
{
    size_t at = id_map_place(set, id);
    must(at == set->count || set->items[at].id != id);
    if (set->count == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 64;
        set->items = xrealloc(set->items, set->cap * sizeof *set->items);
    }
    memmove(set->items + at + 1, set->items + at, (set->count - at) * sizeof *set->items);
    set->items[at] = (struct id_map_item){id, value};
    set->count++;
}

void *id_map_find(const struct id_map *set, int64_t id)
{
    size_t at = id_map_place(set, id);
    return at < set->count && set->items[at].id == id ? set->items[at].value : NULL;
}

void id_map_remove(struct id_map *set, int64_t id)
{
    size_t at = id_map_place(set, id);
    must(at < set->count && set->items[at].id == id);
    set->count--;
    memmove(set->items + at, set->items + at + 1, (set->count - at) * sizeof *set->items);
}
