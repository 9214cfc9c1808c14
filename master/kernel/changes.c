#include "master/kernel/changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"

enum { FIRST_TABLE = 32 };

struct changes *changes_new(void)
{
    return xcalloc(1, sizeof(struct changes));
}

void changes_free(struct changes *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i].name);
        free(n->items[i].data);
    }
    free(n->items);
    free(n->table);
    free(n);
}

static uint64_t change_hash(enum event_topic topic, int64_t experiment_id, int64_t trial_id,
                            const char *name)
{
    const uint64_t key[] = {(uint64_t)topic, (uint64_t)experiment_id, (uint64_t)trial_id,
                            hash64(name, strlen(name))};
    return hash64(key, sizeof key);
}

// Returns the table entry of that object, or the free entry where it belongs.
static uint32_t *slot_of(const struct changes *n, enum event_topic topic, int64_t experiment_id,
                         int64_t trial_id, const char *name)
{
    size_t mask = n->table_size - 1;
    for (size_t at = change_hash(topic, experiment_id, trial_id, name) & mask;;
         at = (at + 1) & mask) {
        if (!n->table[at])
            return &n->table[at];
        const struct change *old = &n->items[n->table[at] - 1];
        if (old->topic == topic && old->experiment_id == experiment_id &&
            old->trial_id == trial_id && !strcmp(old->name, name))
            return &n->table[at];
    }
}

static void changes_grow(struct changes *n)
{
    n->table_size = n->table_size ? 2 * n->table_size : FIRST_TABLE;
    n->cap = n->table_size / 2; // half of the slots stay free
    free(n->table);
    n->table = xcalloc(n->table_size, sizeof *n->table);
    n->items = xrealloc(n->items, n->cap * sizeof *n->items);
    for (size_t i = 0; i < n->count; i++) {
        const struct change *old = &n->items[i];
        *slot_of(n, old->topic, old->experiment_id, old->trial_id, old->name) = (uint32_t)i + 1;
    }
}

struct change *changes_add(struct changes *n, enum event_topic topic, int64_t experiment_id,
                           int64_t trial_id, const char *name)
{
    if (n->count == n->cap)
        changes_grow(n);
    uint32_t *slot = slot_of(n, topic, experiment_id, trial_id, name);
    if (*slot)
        return &n->items[*slot - 1];
    must(n->count < UINT32_MAX);
    n->items[n->count] = (struct change){.topic = topic,
                                         .experiment_id = experiment_id,
                                         .trial_id = trial_id,
                                         .name = xstrdup(name)};
    *slot = (uint32_t)++n->count;
    return &n->items[n->count - 1];
}

void change_set_data(struct change *note, char *data)
{
    free(note->data);
    note->data = data;
}

void changes_merge(struct changes *into, const struct changes *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct change *n = &from->items[i];
        struct change *mine = changes_add(into, n->topic, n->experiment_id, n->trial_id, n->name);
        mine->workspace_id = n->workspace_id;
        if (n->data)
            change_set_data(mine, xstrdup(n->data));
    }
}
