#include "master/notify/hub.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "master/common/audit.h"

enum {
    TEXT_MAX = 64 * 1024, // bytes of one event's data
    REST_FACTOR = 4,      // the thread rests this many times as long as it worked
};

static const int64_t begin_us = 1767225600LL * 1000000; // 2026-01-01

struct hub {
    struct db_reader *db; // of the thread
    pthread_t thread;
    struct buf text; // of the thread

    pthread_mutex_t lock; // guards everything below
    pthread_cond_t arrived;
    bool stopping;
    struct changes *pending; // NULL: none
    bool eager;              // `pending` has a change of an eager topic
    int64_t next_pass;       // monotonic: the earliest time of the next pass
    struct event_ring *ring;
    struct hub_follower *followers;
    int count;
    int64_t last_left; // monotonic: when the last follower left
    bool idle;         // changes were dropped since the last follower left
};

// --- changes -------------------------------------------------------------------------------------

static bool is_lazy(enum event_topic topic)
{
    return topic == EVENT_METRICS || topic == EVENT_LOGS || topic == EVENT_QUEUE ||
           topic == EVENT_AUDIT;
}

static void hub_discard(struct hub *h)
{
    changes_free(h->pending);
    h->pending = NULL;
    h->eager = false;
    event_ring_lose(h->ring);
}

// Nobody follows, and nobody is likely to resume.
static bool is_idle(struct hub *h)
{
    if (h->count || (h->last_left && clock_mono_us() < h->last_left + HUB_LINGER_US))
        return false;
    if (!h->idle)
        hub_discard(h);
    h->idle = true;
    return true;
}

static void hub_append(struct hub *h, struct changes *changes)
{
    for (size_t i = 0; i < changes->count; i++)
        h->eager |= !is_lazy(changes->items[i].topic);
    if (h->pending) {
        changes_merge(h->pending, changes);
        changes_free(changes);
    } else {
        h->pending = changes;
    }
    if (h->pending->count > LIMIT_EVENTS_KEPT)
        hub_discard(h); // more than a follower could read: it reads the store again
    pthread_cond_signal(&h->arrived);
}

void hub_notify(void *ctx, struct changes *changes)
{
    struct hub *h = ctx;
    pthread_mutex_lock(&h->lock);
    if (is_idle(h))
        changes_free(changes);
    else
        hub_append(h, changes);
    pthread_mutex_unlock(&h->lock);
}

void hub_add_change(struct hub *h, enum event_topic topic, int64_t workspace_id, int64_t id)
{
    if (!h)
        return;
    char name[32];
    struct changes *changes = changes_new();
    snprintf(name, sizeof name, "%lld", (long long)id);
    changes_add(changes, topic, 0, 0, name)->workspace_id = workspace_id;
    hub_notify(h, changes);
}

void hub_add_audit_change(struct hub *h, const char *path)
{
    if (!h)
        return;
    char subject[AUDIT_SUBJECT];
    struct changes *changes = changes_new();
    audit_subject(path, subject);
    changes_add(changes, EVENT_AUDIT, 0, 0, subject);
    hub_notify(h, changes);
}

// --- the thread ----------------------------------------------------------------------------------

static void wake_followers(struct hub *h, uint64_t after)
{
    for (struct hub_follower *f = h->followers; f; f = f->next) {
        struct event *first = NULL;
        uint64_t place = after;
        int found = f->listens ? event_ring_read(h->ring, &place, f->filter, &first, 1) : 0;
        if (found > 0)
            event_release(first);
        if (found)
            stream_wake(f->stream);
    }
}

// Only the thread numbers events, so one number is one event, except for discarded ones.
static void publish_change(struct hub *h, struct change *n)
{
    buf_reset(&h->text);
    if (!event_write_json(h->db, n, &h->text) || h->text.err)
        return;
    pthread_mutex_lock(&h->lock);
    event_ring_add(h->ring, event_new(event_ring_last(h->ring) + 1, n, buf_str(&h->text)));
    pthread_mutex_unlock(&h->lock);
}

// Called with the lock held; releases it while it works.
static void hub_publish_pending(struct hub *h)
{
    struct changes *changes = h->pending;
    uint64_t last = event_ring_last(h->ring);
    h->pending = NULL;
    h->eager = false;
    pthread_mutex_unlock(&h->lock);
    int64_t began = clock_mono_us();
    for (size_t i = 0; i < changes->count; i++)
        publish_change(h, &changes->items[i]);
    changes_free(changes);
    int64_t now = clock_mono_us();
    pthread_mutex_lock(&h->lock);
    wake_followers(h, last);
    h->next_pass = now + REST_FACTOR * (now - began);
}

static void hub_wait_until(struct hub *h, int64_t at)
{
    const struct timespec t = {.tv_sec = at / 1000000, .tv_nsec = at % 1000000 * 1000};
    pthread_cond_clockwait(&h->arrived, &h->lock, CLOCK_MONOTONIC, &t);
}

static void *hub_main(void *arg)
{
    struct hub *h = arg;
    int64_t last = 0; // when the last pass began
    pthread_mutex_lock(&h->lock);
    while (!h->stopping) {
        int64_t due = last + (h->eager ? HUB_GAP_US : HUB_LAZY_GAP_US);
        due = due > h->next_pass ? due : h->next_pass;
        int64_t now = clock_mono_us();
        if (!h->pending) {
            pthread_cond_wait(&h->arrived, &h->lock);
        } else if (now < due) {
            hub_wait_until(h, due);
        } else {
            last = now;
            hub_publish_pending(h);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

// --- followers -----------------------------------------------------------------------------------

static int count_followers(const struct hub *h, int64_t user)
{
    int count = 0;
    for (const struct hub_follower *f = h->followers; f; f = f->next)
        count += f->user_id == user;
    return count;
}

int hub_add_follower(struct hub *h, struct hub_follower *f, struct error *e)
{
    int rc = 0;
    pthread_mutex_lock(&h->lock);
    if (h->count >= LIMIT_EVENT_STREAMS)
        rc = error_set(e, ERR_BUSY, "%d streams of events are open, the most there can be",
                       LIMIT_EVENT_STREAMS);
    else if (count_followers(h, f->user_id) >= LIMIT_EVENT_STREAMS_USER)
        rc = error_set(e, ERR_BUSY,
                       "you have %d streams of events open, the most one user can have; close one",
                       LIMIT_EVENT_STREAMS_USER);
    if (!rc) {
        f->next = h->followers;
        f->link = &h->followers;
        if (f->next)
            f->next->link = &f->next;
        h->followers = f;
        h->count++;
        h->idle = false;
    }
    pthread_mutex_unlock(&h->lock);
    return rc;
}

void hub_listen(struct hub *h, struct hub_follower *f)
{
    pthread_mutex_lock(&h->lock);
    f->listens = true;
    pthread_mutex_unlock(&h->lock);
}

void hub_remove_follower(struct hub *h, struct hub_follower *f)
{
    pthread_mutex_lock(&h->lock);
    *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
    h->count--;
    h->last_left = clock_mono_us();
    pthread_mutex_unlock(&h->lock);
}

uint64_t hub_last(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    uint64_t last = event_ring_last(h->ring);
    pthread_mutex_unlock(&h->lock);
    return last;
}

int hub_read(struct hub *h, uint64_t *place, const struct event_filter *f, struct event **out,
             int most)
{
    pthread_mutex_lock(&h->lock);
    int found = event_ring_read(h->ring, place, f, out, most);
    pthread_mutex_unlock(&h->lock);
    return found;
}

void hub_end_all(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    for (struct hub_follower *f = h->followers; f; f = f->next) {
        atomic_store(&f->stream->ending, true);
        if (f->listens)
            stream_wake(f->stream);
    }
    pthread_mutex_unlock(&h->lock);
}

// --- start and end -------------------------------------------------------------------------------

static int count_start(struct db *db, struct db_reader *reader, uint64_t *out, struct error *e)
{
    char text[32];
    int64_t minutes = (clock_wall_us() - begin_us) / 60000000;
    struct db_rows *rows = DB_QUERY(reader, META_GET, "event_start");
    int found = db_next(rows);
    *out = found == 1 ? strtoull(DB_GET(rows, META_GET, value), NULL, 10) + 1 : 1;
    if (minutes > 0 && (uint64_t)minutes > *out)
        *out = (uint64_t)minutes;
    db_rows_close(rows);
    if (found < 0)
        return error_set(e, ERR_INTERNAL, "the store cannot be read");
    snprintf(text, sizeof text, "%" PRIu64, *out);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, META_SET, "event_start", text);
    return db_commit_wait(db, b, e);
}

static void hub_release(struct hub *h)
{
    changes_free(h->pending);
    event_ring_free(h->ring);
    buf_free(&h->text);
    if (h->db)
        db_reader_close(h->db);
    pthread_cond_destroy(&h->arrived);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static struct hub *hub_alloc(void)
{
    struct hub *h = xcalloc(1, sizeof *h);
    pthread_cond_init(&h->arrived, NULL);
    pthread_mutex_init(&h->lock, NULL);
    buf_init(&h->text, TEXT_MAX);
    return h;
}

int hub_start(struct db *db, struct hub **out, struct error *e)
{
    uint64_t start = 0;
    struct hub *h = hub_alloc();
    int rc = db_reader_open(db, &h->db, e);
    if (!rc)
        rc = count_start(db, h->db, &start, e);
    if (!rc) {
        h->ring = event_ring_new(start << HUB_NUMBER_BITS, LIMIT_EVENTS_KEPT, LIMIT_EVENT_BYTES);
        int err = pthread_create(&h->thread, NULL, hub_main, h);
        if (err)
            rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    if (rc) {
        hub_release(h);
        return rc;
    }
    *out = h;
    return 0;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    must(!h->followers);
    h->stopping = true;
    pthread_cond_signal(&h->arrived);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    hub_release(h);
}
