#include "cli/import/id_table.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"

enum { FIRST_SIZE = 256 };

static struct id_slot *slot_of(const struct id_table *t, int64_t id)
{
    size_t at = hash64(&id, sizeof id) & (t->size - 1);
    while (t->slots[at].value && t->slots[at].id != id)
        at = (at + 1) & (t->size - 1);
    return &t->slots[at];
}

static void grow(struct id_table *t)
{
    struct id_table old = *t;
    t->size = old.size ? 2 * old.size : FIRST_SIZE;
    t->slots = xcalloc(t->size, sizeof *t->slots);
    for (size_t i = 0; i < old.size; i++)
        if (old.slots[i].value)
            *slot_of(t, old.slots[i].id) = old.slots[i];
    free(old.slots);
}

void id_table_put(struct id_table *t, int64_t id, void *value)
{
    if (2 * (t->count + 1) > t->size)
        grow(t);
    *slot_of(t, id) = (struct id_slot){id, value};
    t->count++;
}

void *id_table_find(const struct id_table *t, int64_t id)
{
    return t->size ? slot_of(t, id)->value : NULL;
}

void id_table_free(struct id_table *t, void (*free_value)(void *value))
{
    for (size_t i = 0; i < t->size; i++)
        if (t->slots[i].value)
            free_value(t->slots[i].value);
    free(t->slots);
    *t = (struct id_table){0};
}
