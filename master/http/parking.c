#include "master/http/parking.h"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"

enum { SWEEP_US = 200 * 1000 };

struct parking {
    pthread_mutex_t lock;
    pthread_cond_t stop;
    pthread_t thread;
    bool stopping, closing;
    struct parked *head;
    size_t count;
    struct pollfd *polls; // used by the thread alone
    size_t polls_max;
};

static void unlink_parked(struct parking *k, struct parked *p)
{
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    p->suspended = false;
    k->count--;
    int bell = p->bell; // after it is resumed, it belongs to another thread
    MHD_resume_connection(p->connection);
    eventfd_write(bell, 1);
}

bool parking_wait(struct parking *k, struct parked *p)
{
    pthread_mutex_lock(&k->lock);
    bool sleeps = !p->woken && !(k->closing && p->gone(p));
    p->woken = false;
    if (sleeps) {
        p->suspended = true;
        p->told = false;
        p->next = k->head;
        p->link = &k->head;
        if (p->next)
            p->next->link = &p->next;
        k->head = p;
        k->count++;
        MHD_suspend_connection(p->connection);
        if (p->asleep)
            p->asleep(p);
    }
    pthread_mutex_unlock(&k->lock);
    return sleeps;
}

void parking_set_until(struct parking *k, struct parked *p, int64_t until)
{
    pthread_mutex_lock(&k->lock);
    p->until = until;
    pthread_mutex_unlock(&k->lock);
}

void parking_wake(struct parking *k, struct parked *p)
{
    pthread_mutex_lock(&k->lock);
    if (p->suspended)
        unlink_parked(k, p);
    else
        p->woken = true;
    pthread_mutex_unlock(&k->lock);
}

void parking_close(struct parking *k)
{
    struct parked *next = NULL;
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    for (struct parked *p = k->head; p; p = next) {
        next = p->next;
        if (p->gone(p))
            unlink_parked(k, p);
    }
    while (k->count) { // objects that a worker still holds
        pthread_mutex_unlock(&k->lock);
        clock_sleep_us(1000);
        pthread_mutex_lock(&k->lock);
    }
    pthread_mutex_unlock(&k->lock);
}

static size_t gather(struct parking *k)
{
    if (k->count > k->polls_max) {
        k->polls_max = k->count * 2;
        k->polls = xrealloc(k->polls, k->polls_max * sizeof *k->polls);
    }
    size_t n = 0;
    for (struct parked *p = k->head; p; p = p->next)
        k->polls[n++] = (struct pollfd){.fd = p->told ? -1 : p->fd, .events = POLLRDHUP};
    return n;
}

// Under the lock, so that a checked connection cannot be freed meanwhile; the poll does not wait.
static void sweep(struct parking *k)
{
    size_t n = gather(k);
    if (!n)
        return;
    if (poll(k->polls, n, 0) < 0)
        memset(k->polls, 0, n * sizeof *k->polls);
    int64_t now = clock_mono_us();
    struct parked *next = NULL;
    size_t i = 0;
    for (struct parked *p = k->head; p; p = next, i++) {
        next = p->next;
        bool due = p->until && p->until <= now, wake = due && !p->due;
        if (due && p->due) {
            p->until = 0;
            p->due(p);
        }
        if (k->polls[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
            p->told = true;
            wake |= p->gone(p);
        }
        if (wake)
            unlink_parked(k, p);
    }
}

static void *parking_main(void *arg)
{
    struct parking *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->stopping) {
        int64_t until = clock_mono_us() + SWEEP_US;
        struct timespec t = {.tv_sec = until / 1000000, .tv_nsec = until % 1000000 * 1000};
        pthread_cond_clockwait(&k->stop, &k->lock, CLOCK_MONOTONIC, &t);
        sweep(k);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

int parking_new(struct parking **out, struct error *e)
{
    struct parking *k = xcalloc(1, sizeof *k);
    pthread_cond_init(&k->stop, NULL);
    pthread_mutex_init(&k->lock, NULL);
    int err = pthread_create(&k->thread, NULL, parking_main, k);
    if (err) {
        pthread_cond_destroy(&k->stop);
        pthread_mutex_destroy(&k->lock);
        free(k);
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    *out = k;
    return 0;
}

void parking_free(struct parking *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    must(!k->head);
    k->stopping = true;
    pthread_cond_signal(&k->stop);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->stop);
    pthread_mutex_destroy(&k->lock);
    free(k->polls);
    free(k);
}
