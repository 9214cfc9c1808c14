#include "master/notify/log_followers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

enum { BUCKETS = 256 };

struct follow {
    pthread_mutex_t lock;
    struct follower *buckets[BUCKETS];
};

struct follow *follow_new(void)
{
    struct follow *f = xcalloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    for (int i = 0; i < BUCKETS; i++)
        must(!f->buckets[i]);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static struct follower **bucket_of(struct follow *f, const char *task_id)
{
    return &f->buckets[hash64(task_id, strlen(task_id)) % BUCKETS];
}

void follow_add(struct follow *f, struct follower *w)
{
    struct follower **head = bucket_of(f, w->task_id);
    pthread_mutex_lock(&f->lock);
    w->next = *head;
    w->link = head;
    if (w->next)
        w->next->link = &w->next;
    *head = w;
    pthread_mutex_unlock(&f->lock);
}

void follow_remove(struct follow *f, struct follower *w)
{
    pthread_mutex_lock(&f->lock);
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    pthread_mutex_unlock(&f->lock);
}

void follow_notify(void *ctx, const char *task_id)
{
    struct follow *f = ctx;
    pthread_mutex_lock(&f->lock);
    for (struct follower *w = *bucket_of(f, task_id); w; w = w->next)
        if (!strcmp(w->task_id, task_id))
            stream_wake(w->stream);
    pthread_mutex_unlock(&f->lock);
}

void follow_end_all(struct follow *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct follower *w = f->buckets[i]; w; w = w->next) {
            atomic_store(&w->stream->ending, true);
            stream_wake(w->stream);
        }
    pthread_mutex_unlock(&f->lock);
}
