#include "base/text/pattern_cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"

struct cached_pattern {
    char *text;
    struct pattern *pattern;
    uint64_t used; // the number of the last call that used it; 0: the entry is empty
};

struct pattern_cache {
    struct cached_pattern items[LIMIT_PATTERNS_CACHED];
    uint64_t calls;
};

struct pattern_cache *pattern_cache_new(void)
{
    return xcalloc(1, sizeof(struct pattern_cache));
}

static void cached_pattern_clear(struct cached_pattern *p)
{
    pattern_free(p->pattern);
    free(p->text);
    *p = (struct cached_pattern){0};
}

void pattern_cache_free(struct pattern_cache *c)
{
    for (size_t i = 0; c && i < LIMIT_PATTERNS_CACHED; i++)
        cached_pattern_clear(&c->items[i]);
    free(c);
}

const struct pattern *pattern_cache_get(struct pattern_cache *c, const char *text, struct error *e)
{
    struct cached_pattern *oldest = &c->items[0];
    c->calls++;
    for (struct cached_pattern *i = c->items; i < c->items + LIMIT_PATTERNS_CACHED; i++) {
        if (i->used && !strcmp(i->text, text)) {
            i->used = c->calls;
            return i->pattern;
        }
        if (i->used < oldest->used)
            oldest = i;
    }
    struct pattern *p;
    if (pattern_compile(text, "the pattern", &p, e))
        return NULL;
    cached_pattern_clear(oldest);
    *oldest = (struct cached_pattern){.text = xstrdup(text), .pattern = p, .used = c->calls};
    return p;
}
