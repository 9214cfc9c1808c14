#include "master/views/metrics/series_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"

struct series_cache_entry {
    uint64_t hash;
    char *key, *answer; // NULL: the entry is free
    size_t bytes;
    struct reports_version version;
    uint64_t used; // number of the lookup that used it last
};

struct series_cache {
    pthread_mutex_t lock;
    struct series_cache_entry entries[SERIES_CACHE_ENTRIES];
    size_t bytes;
    uint64_t lookups;
};

struct series_cache *series_cache_new(void)
{
    struct series_cache *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void entry_clear(struct series_cache *c, struct series_cache_entry *entry)
{
    c->bytes -= entry->bytes;
    free(entry->key);
    free(entry->answer);
    *entry = (struct series_cache_entry){0};
}

void series_cache_free(struct series_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < SERIES_CACHE_ENTRIES; i++)
        entry_clear(c, &c->entries[i]);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct series_cache_entry *entry_find(struct series_cache *c, const char *key)
{
    uint64_t hash = hash64(key, strlen(key));
    for (struct series_cache_entry *i = c->entries; i < c->entries + SERIES_CACHE_ENTRIES; i++)
        if (i->key && i->hash == hash && !strcmp(i->key, key))
            return i;
    return NULL;
}

// Returns the least recently used entry; free entries have used == 0.
static struct series_cache_entry *entry_find_oldest(struct series_cache *c, bool taken)
{
    struct series_cache_entry *least = NULL;
    for (struct series_cache_entry *i = c->entries; i < c->entries + SERIES_CACHE_ENTRIES; i++)
        if ((i->key || !taken) && (!least || i->used < least->used))
            least = i;
    return least;
}

const char *series_cache_get(struct series_cache *c, const char *key,
                             const struct reports_version *version, struct arena *a)
{
    const char *answer = NULL;
    pthread_mutex_lock(&c->lock);
    struct series_cache_entry *found = entry_find(c, key);
    if (found && found->version.newest == version->newest && found->version.cut == version->cut) {
        found->used = ++c->lookups;
        answer = arena_strdup(a, found->answer);
    }
    pthread_mutex_unlock(&c->lock);
    return answer;
}

void series_cache_put(struct series_cache *c, const char *key,
                      const struct reports_version *version, const char *answer)
{
    size_t bytes = strlen(key) + strlen(answer) + sizeof(struct series_cache_entry);
    if (bytes > SERIES_CACHE_BYTES / 4)
        return;
    pthread_mutex_lock(&c->lock);
    struct series_cache_entry *place = entry_find(c, key);
    if (place)
        entry_clear(c, place);
    while (c->bytes + bytes > SERIES_CACHE_BYTES)
        entry_clear(c, entry_find_oldest(c, true));
    place = entry_find_oldest(c, false);
    entry_clear(c, place);
    *place = (struct series_cache_entry){
        hash64(key, strlen(key)), xstrdup(key), xstrdup(answer), bytes, *version, ++c->lookups};
    c->bytes += bytes;
    pthread_mutex_unlock(&c->lock);
}
