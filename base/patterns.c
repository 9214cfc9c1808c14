#include "base/patterns.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"

struct kept {
    char *text;
    struct pattern *pattern;
    uint64_t used; // number of the call that used it last; 0: the place is empty
};

struct patterns {
    struct kept items[LIMIT_PATTERNS_KEPT];
    uint64_t calls;
};

struct patterns *patterns_new(void)
{
    return xcalloc(1, sizeof(struct patterns));
}

static void clear(struct kept *k)
{
    pattern_free(k->pattern);
    free(k->text);
    *k = (struct kept){0};
}

void patterns_free(struct patterns *k)
{
    for (size_t i = 0; k && i < LIMIT_PATTERNS_KEPT; i++)
        clear(&k->items[i]);
    free(k);
}

const struct pattern *patterns_find(struct patterns *k, const char *text, struct error *e)
{
    struct kept *oldest = &k->items[0];
    k->calls++;
    for (struct kept *i = k->items; i < k->items + LIMIT_PATTERNS_KEPT; i++) {
        if (i->used && !strcmp(i->text, text)) {
            i->used = k->calls;
            return i->pattern;
        }
        if (i->used < oldest->used)
            oldest = i;
    }
    struct pattern *p;
    if (pattern_compile(text, "the pattern", &p, e))
        return NULL;
    clear(oldest);
    *oldest = (struct kept){.text = xstrdup(text), .pattern = p, .used = k->calls};
    return p;
}
