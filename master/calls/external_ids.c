#include "master/calls/external_ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "master/calls/module.h"

enum { FIRST_SLOTS = 64 };

struct external_ids { // a hash table; size: 0 or a power of two
    struct external_id **slots;
    size_t size, count;
};

struct external_id { // linked in the list of its slot
    struct external_id *next;
    struct experiment *x;
    uint64_t hash;
    char text[];
};

// A cryptographic hash, because submitters choose the ids and could otherwise fill one slot.
static uint64_t hash_external_id(const char *text)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t hash;
    struct sha256 *s = sha256_new();
    sha256_update(s, text, strlen(text));
    sha256_final(s, digest);
    memcpy(&hash, digest, sizeof hash);
    return hash;
}

static void table_link(struct external_ids *n, struct external_id *id)
{
    struct external_id **slot = &n->slots[id->hash & (n->size - 1)];
    id->next = *slot;
    *slot = id;
}

static void table_grow(struct external_ids *n)
{
    struct external_id **old = n->slots, *next;
    size_t size = n->size;
    n->size = size ? 2 * size : FIRST_SLOTS;
    n->slots = xcalloc(n->size, sizeof(struct external_id *));
    for (size_t i = 0; i < size; i++)
        for (struct external_id *id = old[i]; id; id = next) {
            next = id->next;
            table_link(n, id);
        }
    free(old);
}

void external_id_set(struct core *c, struct experiment *x, const char *text)
{
    struct external_ids *n = c->external_ids;
    size_t len = strlen(text) + 1;
    struct external_id *id = xcalloc(1, sizeof *id + len);
    must(!x->external_id);
    if (n->count == n->size)
        table_grow(n);
    id->x = x;
    id->hash = hash_external_id(text);
    memcpy(id->text, text, len);
    table_link(n, id);
    n->count++;
    x->external_id = id;
}

void external_id_forget(struct core *c, struct experiment *x)
{
    struct external_ids *n = c->external_ids;
    if (!x->external_id)
        return;
    struct external_id **at = &n->slots[x->external_id->hash & (n->size - 1)];
    while (*at != x->external_id)
        at = &(*at)->next;
    *at = x->external_id->next;
    n->count--;
    free(x->external_id);
    x->external_id = NULL;
}

struct experiment *external_id_find(const struct core *c, const struct workspace *ws,
                                    enum kind kind, const char *text)
{
    const struct external_ids *n = c->external_ids;
    uint64_t hash = hash_external_id(text);
    struct external_id *id = n->size ? n->slots[hash & (n->size - 1)] : NULL;
    for (; id; id = id->next)
        if (id->hash == hash && id->x->kind == kind && !strcmp(id->text, text) &&
            core_workspace_of((struct core *)c, id->x) == ws)
            return id->x;
    return NULL;
}

int external_id_check_move(struct core *c, const struct experiment *x, const struct workspace *to,
                           struct error *e)
{
    const struct experiment *other = x->external_id && core_workspace_of(c, x) != to
                                         ? external_id_find(c, to, x->kind, x->external_id->text)
                                         : NULL;
    return other ? error_set(e, ERR_CONFLICT,
                             "%s %lld cannot be moved: its external id \"%.64s\" is that of %s "
                             "%lld in workspace \"%.64s\"",
                             kind_words[x->kind].noun, (long long)x->id, x->external_id->text,
                             kind_words[other->kind].noun, (long long)other->id, to->name)
                 : 0;
}

int external_ids_load(struct core *c, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, EXPERIMENT_NAMES);
    int more;
    while ((more = db_next(rows)) > 0)
        external_id_set(c, core_experiment_find(c, DB_GET(rows, EXPERIMENT_NAMES, id)),
                        DB_GET(rows, EXPERIMENT_NAMES, external_id));
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}

void external_ids_init(struct core *c)
{
    c->external_ids = xcalloc(1, sizeof *c->external_ids);
}

// The experiments have already been freed.
void external_ids_free(struct core *c)
{
    for (size_t i = 0; i < c->external_ids->size; i++)
        for (struct external_id *id = c->external_ids->slots[i], *next; id; id = next) {
            next = id->next;
            free(id);
        }
    free(c->external_ids->slots);
    free(c->external_ids);
}
