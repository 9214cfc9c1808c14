#include "master/common/master_log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct master_log_line {
    char *text;
    int64_t time;
    enum log_level level;
};

struct master_log {
    pthread_mutex_t lock;
    struct master_log_line lines[MASTER_LOG_LINES]; // entry `id` is at id % MASTER_LOG_LINES
    int64_t first, next;                            // ids
    size_t bytes;
};

static void drop_oldest(struct master_log *j)
{
    struct master_log_line *k = &j->lines[j->first++ % MASTER_LOG_LINES];
    j->bytes -= strlen(k->text) + 1;
    free(k->text);
    k->text = NULL;
}

static void store_line(void *ctx, enum log_level level, int64_t time, const char *text)
{
    struct master_log *j = ctx;
    size_t size = strlen(text) + 1;
    pthread_mutex_lock(&j->lock);
    while (j->first < j->next &&
           (j->next - j->first == MASTER_LOG_LINES || j->bytes + size > MASTER_LOG_BYTES))
        drop_oldest(j);
    j->lines[j->next++ % MASTER_LOG_LINES] = (struct master_log_line){xstrdup(text), time, level};
    j->bytes += size;
    pthread_mutex_unlock(&j->lock);
}

struct master_log *master_log_new(void)
{
    struct master_log *j = xcalloc(1, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    j->first = j->next = 1;
    log_set_sink(store_line, j);
    return j;
}

void master_log_free(struct master_log *j)
{
    if (!j)
        return;
    log_set_sink(NULL, NULL);
    while (j->first < j->next)
        drop_oldest(j);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

size_t master_log_read(struct master_log *j, int64_t id, struct arena *arena,
                       struct master_log_entry *out, size_t max)
{
    size_t n = 0;
    if (!j)
        return 0;
    pthread_mutex_lock(&j->lock);
    for (int64_t i = id < j->first ? j->first : id + 1; i < j->next && n < max; i++) {
        const struct master_log_line *k = &j->lines[i % MASTER_LOG_LINES];
        out[n++] = (struct master_log_entry){i, k->time, k->level, arena_strdup(arena, k->text)};
    }
    pthread_mutex_unlock(&j->lock);
    return n;
}

void master_log_range(struct master_log *j, int64_t *before, int64_t *newest)
{
    *before = *newest = 0;
    if (!j)
        return;
    pthread_mutex_lock(&j->lock);
    *before = j->first - 1;
    *newest = j->next - 1;
    pthread_mutex_unlock(&j->lock);
}
