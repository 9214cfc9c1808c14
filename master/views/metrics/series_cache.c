#include "master/views/metrics/series_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"

struct entry {
    uint64_t hash;
    char *key, *answer; // NULL: free
    size_t bytes;
    struct reports_version version;
    uint64_t used; // when, in questions
};

struct series_cache {
    pthread_mutex_t lock;
    struct entry entries[SERIES_CACHE_ENTRIES];
    size_t bytes;
    uint64_t questions;
};

struct series_cache *series_cache_new(void)
{
    struct series_cache *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void drop(struct series_cache *c, struct entry *entry)
{
    c->bytes -= entry->bytes;
    free(entry->key);
    free(entry->answer);
    *entry = (struct entry){0};
}

void series_cache_free(struct series_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < SERIES_CACHE_ENTRIES; i++)
        drop(c, &c->entries[i]);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct entry *find(struct series_cache *c, const char *key)
{
    uint64_t hash = hash64(key, strlen(key));
    for (struct entry *i = c->entries; i < c->entries + SERIES_CACHE_ENTRIES; i++)
        if (i->key && i->hash == hash && !strcmp(i->key, key))
            return i;
    return NULL;
}

// The one that was not asked for longest; a free one has 0.
static struct entry *oldest(struct series_cache *c, bool taken)
{
    struct entry *least = NULL;
    for (struct entry *i = c->entries; i < c->entries + SERIES_CACHE_ENTRIES; i++)
        if ((i->key || !taken) && (!least || i->used < least->used))
            least = i;
    return least;
}

const char *series_cache_get(struct series_cache *c, const char *key,
                             const struct reports_version *version, struct arena *a)
{
    const char *answer = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *found = find(c, key);
    if (found && found->version.newest == version->newest && found->version.cut == version->cut) {
        found->used = ++c->questions;
        answer = arena_strdup(a, found->answer);
    }
    pthread_mutex_unlock(&c->lock);
    return answer;
}

void series_cache_put(struct series_cache *c, const char *key,
                      const struct reports_version *version, const char *answer)
{
    size_t bytes = strlen(key) + strlen(answer) + sizeof(struct entry);
    if (bytes > SERIES_CACHE_BYTES / 4)
        return;
    pthread_mutex_lock(&c->lock);
    struct entry *place = find(c, key);
    if (place)
        drop(c, place);
    while (c->bytes + bytes > SERIES_CACHE_BYTES)
        drop(c, oldest(c, true));
    place = oldest(c, false);
    drop(c, place);
    *place = (struct entry){
        hash64(key, strlen(key)), xstrdup(key), xstrdup(answer), bytes, *version, ++c->questions};
    c->bytes += bytes;
    pthread_mutex_unlock(&c->lock);
}
