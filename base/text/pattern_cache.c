#include "base/text/pattern_cache.h"

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

struct pattern_cache {
    struct kept items[LIMIT_PATTERNS_KEPT];
    uint64_t calls;
};

struct pattern_cache *pattern_cache_new(void)
{
    return xcalloc(1, sizeof(struct pattern_cache));
}

static void clear(struct kept *k)
{
    pattern_free(k->pattern);
    free(k->text);
    *k = (struct kept){0};
}

void pattern_cache_free(struct pattern_cache *k)
{
    for (size_t i = 0; k && i < LIMIT_PATTERNS_KEPT; i++)
        clear(&k->items[i]);
    free(k);
}

const struct pattern *pattern_cache_get(struct pattern_cache *k, const char *text, struct error *e)
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
