#include "base/os/mailbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t arrived; // signalled by a message and by mailbox_close()
    pthread_cond_t room;    // signalled by a receive and by mailbox_close()
    bool closed;
    size_t limit, first, count;
    void *ring[]; // `limit` entries; `count` messages from `first` on
};

struct mailbox *mailbox_new(size_t limit)
{
    must(limit > 0);
    struct mailbox *m = xcalloc(1, sizeof *m + limit * sizeof m->ring[0]);
    m->limit = limit;
    must(pthread_mutex_init(&m->lock, NULL) == 0);
    must(pthread_cond_init(&m->arrived, NULL) == 0);
    must(pthread_cond_init(&m->room, NULL) == 0);
    return m;
}

void mailbox_free(struct mailbox *m)
{
    if (!m)
        return;
    must(m->count == 0);
    pthread_cond_destroy(&m->room);
    pthread_cond_destroy(&m->arrived);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int send_message(struct mailbox *m, void *message, bool wait)
{
    int err = 0;
    pthread_mutex_lock(&m->lock);
    while (wait && !m->closed && m->count == m->limit)
        pthread_cond_wait(&m->room, &m->lock);
    if (m->closed) {
        err = ERR_UNAVAILABLE;
    } else if (m->count == m->limit) {
        err = ERR_BUSY;
    } else {
        m->ring[(m->first + m->count) % m->limit] = message;
        m->count++;
        pthread_cond_signal(&m->arrived);
    }
    pthread_mutex_unlock(&m->lock);
    return err;
}

int mailbox_send(struct mailbox *m, void *message)
{
    return send_message(m, message, false);
}

int mailbox_send_wait(struct mailbox *m, void *message)
{
    return send_message(m, message, true);
}

// Waits for a message, for mailbox_close() or for the deadline. The caller holds the lock.
static void wait_for_message(struct mailbox *m, int64_t deadline)
{
    struct timespec until = {.tv_sec = deadline / 1000000, .tv_nsec = deadline % 1000000 * 1000};
    int err = 0;
    while (m->count == 0 && !m->closed && !err)
        if (deadline == INT64_MAX)
            err = pthread_cond_wait(&m->arrived, &m->lock);
        else
            err = pthread_cond_clockwait(&m->arrived, &m->lock, CLOCK_MONOTONIC, &until);
}

size_t mailbox_receive(struct mailbox *m, void **out, size_t max, int64_t deadline)
{
    pthread_mutex_lock(&m->lock);
    wait_for_message(m, deadline < 0 ? 0 : deadline);
    size_t taken = 0;
    for (; taken < max && m->count > 0; taken++, m->count--) {
        out[taken] = m->ring[m->first];
        m->first = (m->first + 1) % m->limit;
    }
    if (taken > 0)
        pthread_cond_broadcast(&m->room);
    pthread_mutex_unlock(&m->lock);
    return taken;
}

void mailbox_close(struct mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    m->closed = true;
    pthread_cond_broadcast(&m->arrived);
    pthread_cond_broadcast(&m->room);
    pthread_mutex_unlock(&m->lock);
}

// Readers lock, too. The cast is safe, because no mailbox is a const object.
static pthread_mutex_t *lock_of(const struct mailbox *m)
{
    return &((struct mailbox *)m)->lock;
}

bool mailbox_closed(const struct mailbox *m)
{
    pthread_mutex_lock(lock_of(m));
    bool closed = m->closed;
    pthread_mutex_unlock(lock_of(m));
    return closed;
}

size_t mailbox_length(const struct mailbox *m)
{
    pthread_mutex_lock(lock_of(m));
    size_t count = m->count;
    pthread_mutex_unlock(lock_of(m));
    return count;
}
