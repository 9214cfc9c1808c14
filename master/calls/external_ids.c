#include "master/calls/external_ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "master/calls/module.h"

enum { FIRST_SLOTS = 64 };

struct names { // a hash table; size: 0 or a power of two
    struct name **slots;
    size_t size, count;
};

struct name { // in the list of its slot
    struct name *next;
    struct experiment *x;
    uint64_t hash;
    char text[];
};

// People choose the names, so that a weaker hash would let them fill one slot.
static uint64_t hash_of(const char *text)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t hash;
    struct sha256 *s = sha256_new();
    sha256_update(s, text, strlen(text));
    sha256_final(s, digest);
    memcpy(&hash, digest, sizeof hash);
    return hash;
}

static void link_name(struct names *n, struct name *name)
{
    struct name **slot = &n->slots[name->hash & (n->size - 1)];
    name->next = *slot;
    *slot = name;
}

static void grow(struct names *n)
{
    struct name **old = n->slots, *next;
    size_t size = n->size;
    n->size = size ? 2 * size : FIRST_SLOTS;
    n->slots = xcalloc(n->size, sizeof(struct name *));
    for (size_t i = 0; i < size; i++)
        for (struct name *name = old[i]; name; name = next) {
            next = name->next;
            link_name(n, name);
        }
    free(old);
}

void names_set(struct core *c, struct experiment *x, const char *text)
{
    struct names *n = c->names;
    size_t len = strlen(text) + 1;
    struct name *name = xcalloc(1, sizeof *name + len);
    must(!x->name);
    if (n->count == n->size)
        grow(n);
    name->x = x;
    name->hash = hash_of(text);
    memcpy(name->text, text, len);
    link_name(n, name);
    n->count++;
    x->name = name;
}

void names_forget(struct core *c, struct experiment *x)
{
    struct names *n = c->names;
    if (!x->name)
        return;
    struct name **at = &n->slots[x->name->hash & (n->size - 1)];
    while (*at != x->name)
        at = &(*at)->next;
    *at = x->name->next;
    n->count--;
    free(x->name);
    x->name = NULL;
}

struct experiment *names_find(const struct core *c, const struct workspace *ws, enum kind kind,
                              const char *text)
{
    const struct names *n = c->names;
    uint64_t hash = hash_of(text);
    struct name *name = n->size ? n->slots[hash & (n->size - 1)] : NULL;
    for (; name; name = name->next)
        if (name->hash == hash && name->x->kind == kind && !strcmp(name->text, text) &&
            core_workspace_of((struct core *)c, name->x) == ws)
            return name->x;
    return NULL;
}

int names_check_move(struct core *c, const struct experiment *x, const struct workspace *to,
                     struct error *e)
{
    const struct experiment *other =
        x->name && core_workspace_of(c, x) != to ? names_find(c, to, x->kind, x->name->text) : NULL;
    return other ? error_set(e, ERR_CONFLICT,
                             "%s %lld has the external id \"%.64s\", and so has %s %lld in "
                             "workspace \"%.64s\": it stays where it is",
                             kind_words[x->kind].noun, (long long)x->id, x->name->text,
                             kind_words[other->kind].noun, (long long)other->id, to->name)
                 : 0;
}

int names_load(struct core *c, struct error *e)
{
    struct db_rows *rows = db_query(c->reader, STMT_EXPERIMENT_NAMES, "");
    int more;
    while ((more = db_next(rows)) > 0)
        names_set(c, core_experiment_find(c, db_int(rows, 0)), db_text(rows, 1));
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}

void names_init(struct core *c)
{
    c->names = xcalloc(1, sizeof *c->names);
}

// The experiments have been freed already.
void names_free(struct core *c)
{
    for (size_t i = 0; i < c->names->size; i++)
        for (struct name *name = c->names->slots[i], *next; name; name = next) {
            next = name->next;
            free(name);
        }
    free(c->names->slots);
    free(c->names);
}
