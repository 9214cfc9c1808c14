#include "master/common/master_log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    char *text;
    int64_t time;
    enum log_level level;
};

struct journal {
    pthread_mutex_t lock;
    struct kept lines[JOURNAL_LINES]; // entry `id` at id % JOURNAL_LINES
    int64_t first, next;              // ids
    size_t bytes;
};

static void drop_oldest(struct journal *j)
{
    struct kept *k = &j->lines[j->first++ % JOURNAL_LINES];
    j->bytes -= strlen(k->text) + 1;
    free(k->text);
    k->text = NULL;
}

static void take(void *ctx, enum log_level level, int64_t time, const char *text)
{
    struct journal *j = ctx;
    size_t size = strlen(text) + 1;
    pthread_mutex_lock(&j->lock);
    while (j->first < j->next &&
           (j->next - j->first == JOURNAL_LINES || j->bytes + size > JOURNAL_BYTES))
        drop_oldest(j);
    j->lines[j->next++ % JOURNAL_LINES] = (struct kept){xstrdup(text), time, level};
    j->bytes += size;
    pthread_mutex_unlock(&j->lock);
}

struct journal *journal_new(void)
{
    struct journal *j = xcalloc(1, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    j->first = j->next = 1;
    log_set_sink(take, j);
    return j;
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    log_set_sink(NULL, NULL);
    while (j->first < j->next)
        drop_oldest(j);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

size_t journal_read(struct journal *j, int64_t id, struct arena *arena, struct journal_entry *out,
                    size_t max)
{
    size_t n = 0;
    if (!j)
        return 0;
    pthread_mutex_lock(&j->lock);
    for (int64_t i = id < j->first ? j->first : id + 1; i < j->next && n < max; i++) {
        const struct kept *k = &j->lines[i % JOURNAL_LINES];
        out[n++] = (struct journal_entry){i, k->time, k->level, arena_strdup(arena, k->text)};
    }
    pthread_mutex_unlock(&j->lock);
    return n;
}

void journal_range(struct journal *j, int64_t *before, int64_t *newest)
{
    *before = *newest = 0;
    if (!j)
        return;
    pthread_mutex_lock(&j->lock);
    *before = j->first - 1;
    *newest = j->next - 1;
    pthread_mutex_unlock(&j->lock);
}
