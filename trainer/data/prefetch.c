// A ring of slots whose state says who owns them. There is no lock, because the thread may lose its
// processor for a long time while it holds one:
//
//   EMPTY -> WANTED        the caller requests           EMPTY: the caller owns the slot
//   WANTED -> FETCHING     the thread begins             FETCHING: the thread owns it
//   FETCHING -> DONE       the thread has finished       DONE: the caller owns it again
//   WANTED, DONE -> EMPTY  the caller reclaims it
//   FETCHING -> ABANDONED  the caller gives up           ABANDONED: the thread still owns it
//   ABANDONED -> EMPTY     the thread has finished
#include "trainer/data/prefetch.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/reduction/sampler.h"

enum prefetch_state { EMPTY, WANTED, FETCHING, DONE, ABANDONED };

struct prefetch_slot {
    _Atomic int state;
    struct prefetch_request request;
    struct batch *batch;
    int64_t *indices; // [size]
    int err;
    struct error error;
};

struct prefetch {
    const struct dataset *data;
    int64_t size;
    struct prefetch_slot slots[PREFETCH_DEPTH];
    int64_t *indices; // [size], used by the caller
    unsigned next;    // slot of the next request
    int64_t hits;

    pthread_t thread;
    bool running;
    sem_t requests; // posted once for each WANTED, and once to end the thread
    atomic_bool ended;
};

static int fetch_samples(const struct prefetch *p, const struct prefetch_request *request,
                         int64_t *indices, struct batch *out, struct error *e)
{
    sampler_indices(request->key.seed, dataset_count(p->data), request->cursor, p->size, indices);
    return dataset_fetch(p->data, indices, p->size, &request->key, out, e);
}

// --- the thread ----------------------------------------------------------------------------------

static bool change_state(struct prefetch_slot *s, int from, int to)
{
    return atomic_compare_exchange_strong(&s->state, &from, to);
}

static void *run_prefetch_thread(void *arg)
{
    struct prefetch *p = arg;
    // If this is refused, the thread runs at normal priority.
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
    for (unsigned at = 0;; at++) { // slots are used in turn
        while (sem_wait(&p->requests))
            ; // interrupted by a signal
        struct prefetch_slot *s = &p->slots[at % PREFETCH_DEPTH];
        if (atomic_load(&p->ended))
            return NULL;
        if (!change_state(s, WANTED, FETCHING))
            continue;
        s->err = fetch_samples(p, &s->request, s->indices, s->batch, &s->error);
        if (!change_state(s, FETCHING, DONE))
            atomic_store(&s->state, EMPTY);
    }
}

// --- the caller ----------------------------------------------------------------------------------

struct prefetch *prefetch_new(const struct dataset *d, int64_t size)
{
    struct prefetch *p = xcalloc(1, sizeof *p);
    p->data = d;
    p->size = size;
    p->indices = xcalloc((size_t)size, sizeof *p->indices);
    for (int i = 0; i < PREFETCH_DEPTH; i++) {
        p->slots[i].batch = batch_new(dataset_shape(d), size);
        p->slots[i].indices = xcalloc((size_t)size, sizeof *p->indices);
    }
    must(sem_init(&p->requests, 0, 0) == 0);
    p->running = pthread_create(&p->thread, NULL, run_prefetch_thread, p) == 0;
    return p;
}

void prefetch_free(struct prefetch *p)
{
    if (!p)
        return;
    if (p->running) {
        atomic_store(&p->ended, true);
        sem_post(&p->requests);
        pthread_join(p->thread, NULL);
    }
    sem_destroy(&p->requests);
    for (int i = 0; i < PREFETCH_DEPTH; i++) {
        batch_free(p->slots[i].batch);
        free(p->slots[i].indices);
    }
    free(p->indices);
    free(p);
}

static bool is_same_request(const struct prefetch_request *a, const struct prefetch_request *b)
{
    return a->cursor == b->cursor && a->key.seed == b->key.seed && a->key.step == b->key.step;
}

static bool is_pending(const struct prefetch_slot *s)
{
    int state = atomic_load(&s->state);
    return state != EMPTY && state != ABANDONED;
}

void prefetch_request(struct prefetch *p, const struct prefetch_request *request)
{
    struct prefetch_slot *s = &p->slots[p->next % PREFETCH_DEPTH];
    for (int i = 0; i < PREFETCH_DEPTH; i++)
        if (is_pending(&p->slots[i]) && is_same_request(&p->slots[i].request, request))
            return;
    if (!p->running || atomic_load(&s->state) != EMPTY)
        return;
    s->request = *request;
    p->next++;
    atomic_store(&s->state, WANTED);
    sem_post(&p->requests);
}

// Withdraws the request; returns whether its samples are there.
static bool slot_reclaim(struct prefetch_slot *s)
{
    if (change_state(s, WANTED, EMPTY) || change_state(s, FETCHING, ABANDONED))
        return false;
    return change_state(s, DONE, EMPTY);
}

int prefetch_get(struct prefetch *p, const struct prefetch_request *request, struct batch **batch,
                 struct error *e)
{
    struct prefetch_slot *found = NULL;
    for (int i = 0; i < PREFETCH_DEPTH; i++) {
        struct prefetch_slot *s = &p->slots[i];
        if (is_pending(s) && s->request.cursor <= request->cursor && slot_reclaim(s) &&
            is_same_request(&s->request, request))
            found = s;
    }
    if (!found)
        return fetch_samples(p, request, p->indices, *batch, e);
    struct batch *given = *batch;
    *batch = found->batch;
    found->batch = given;
    p->hits++;
    return found->err ? error_set(e, found->err, "%s", found->error.text) : 0;
}

int64_t prefetch_hits(const struct prefetch *p)
{
    return p->hits;
}
