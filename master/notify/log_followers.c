#include "master/notify/log_followers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

enum { BUCKETS = 256 };

struct log_followers {
    pthread_mutex_t lock;
    struct log_follower *buckets[BUCKETS];
};

struct log_followers *log_followers_new(void)
{
    struct log_followers *f = xcalloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void log_followers_free(struct log_followers *f)
{
    if (!f)
        return;
    for (int i = 0; i < BUCKETS; i++)
        must(!f->buckets[i]);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static struct log_follower **bucket_of(struct log_followers *f, const char *task_id)
{
    return &f->buckets[hash64(task_id, strlen(task_id)) % BUCKETS];
}

void log_followers_add(struct log_followers *f, struct log_follower *w)
{
    struct log_follower **head = bucket_of(f, w->task_id);
    pthread_mutex_lock(&f->lock);
    w->next = *head;
    w->link = head;
    if (w->next)
        w->next->link = &w->next;
    *head = w;
    pthread_mutex_unlock(&f->lock);
}

void log_followers_remove(struct log_followers *f, struct log_follower *w)
{
    pthread_mutex_lock(&f->lock);
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    pthread_mutex_unlock(&f->lock);
}

void log_followers_notify(void *ctx, const char *task_id)
{
    struct log_followers *f = ctx;
    pthread_mutex_lock(&f->lock);
    for (struct log_follower *w = *bucket_of(f, task_id); w; w = w->next)
        if (!strcmp(w->task_id, task_id))
            stream_wake(w->stream);
    pthread_mutex_unlock(&f->lock);
}

void log_followers_end_all(struct log_followers *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct log_follower *w = f->buckets[i]; w; w = w->next) {
            atomic_store(&w->stream->ending, true);
            stream_wake(w->stream);
        }
    pthread_mutex_unlock(&f->lock);
}
