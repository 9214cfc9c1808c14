// A ring of slots handed to and fro by their states, without a lock that the thread, which may lose
// its processor for long, could hold:
//
//   EMPTY -> WANTED        caller asks                 the slot is the caller's while EMPTY
//   WANTED -> FETCHING     thread begins               ... the thread's while FETCHING
//   FETCHING -> DONE       thread has finished         ... the caller's again when DONE
//   WANTED, DONE -> EMPTY  caller takes it back
//   FETCHING -> ABANDONED  caller gives it up          ... still the thread's
//   ABANDONED -> EMPTY     thread has finished
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
    struct prefetch_request ask;
    struct batch *batch;
    int64_t *indices; // [size]
    int err;
    struct error error;
};

struct prefetch {
    const struct dataset *data;
    int64_t size;
    struct prefetch_slot slots[PREFETCH_DEPTH];
    int64_t *indices; // [size], of the caller
    unsigned next;    // slot of the next ask
    int64_t hits;

    pthread_t thread;
    bool running;
    sem_t asks; // one for each WANTED ever set, and one to end
    atomic_bool ended;
};

static int fetch(const struct prefetch *p, const struct prefetch_request *ask, int64_t *indices,
                 struct batch *out, struct error *e)
{
    sampler_indices(ask->key.seed, dataset_count(p->data), ask->cursor, p->size, indices);
    return dataset_fetch(p->data, indices, p->size, &ask->key, out, e);
}

// --- the thread

static bool change(struct prefetch_slot *s, int from, int to)
{
    return atomic_compare_exchange_strong(&s->state, &from, to);
}

static void *work(void *arg)
{
    struct prefetch *p = arg;
    // Only advice: where it is refused the thread is one like others.
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
    for (unsigned at = 0;; at++) { // slots are asked for in turn
        while (sem_wait(&p->asks))
            ; // a signal
        struct prefetch_slot *s = &p->slots[at % PREFETCH_DEPTH];
        if (atomic_load(&p->ended))
            return NULL;
        if (!change(s, WANTED, FETCHING))
            continue;
        s->err = fetch(p, &s->ask, s->indices, s->batch, &s->error);
        if (!change(s, FETCHING, DONE))
            atomic_store(&s->state, EMPTY);
    }
}

// --- the caller

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
    must(sem_init(&p->asks, 0, 0) == 0);
    p->running = pthread_create(&p->thread, NULL, work, p) == 0;
    return p;
}

void prefetch_free(struct prefetch *p)
{
    if (!p)
        return;
    if (p->running) {
        atomic_store(&p->ended, true);
        sem_post(&p->asks);
        pthread_join(p->thread, NULL);
    }
    sem_destroy(&p->asks);
    for (int i = 0; i < PREFETCH_DEPTH; i++) {
        batch_free(p->slots[i].batch);
        free(p->slots[i].indices);
    }
    free(p->indices);
    free(p);
}

static bool same(const struct prefetch_request *a, const struct prefetch_request *b)
{
    return a->cursor == b->cursor && a->key.seed == b->key.seed && a->key.step == b->key.step;
}

static bool is_asked(const struct prefetch_slot *s)
{
    int state = atomic_load(&s->state);
    return state != EMPTY && state != ABANDONED;
}

void prefetch_request(struct prefetch *p, const struct prefetch_request *ask)
{
    struct prefetch_slot *s = &p->slots[p->next % PREFETCH_DEPTH];
    for (int i = 0; i < PREFETCH_DEPTH; i++)
        if (is_asked(&p->slots[i]) && same(&p->slots[i].ask, ask))
            return;
    if (!p->running || atomic_load(&s->state) != EMPTY)
        return;
    s->ask = *ask;
    p->next++;
    atomic_store(&s->state, WANTED);
    sem_post(&p->asks);
}

// Whether what was asked for is there; afterwards it is no longer asked for.
static bool take_back(struct prefetch_slot *s)
{
    if (change(s, WANTED, EMPTY) || change(s, FETCHING, ABANDONED))
        return false;
    return change(s, DONE, EMPTY);
}

int prefetch_get(struct prefetch *p, const struct prefetch_request *ask, struct batch **batch,
                 struct error *e)
{
    struct prefetch_slot *found = NULL;
    for (int i = 0; i < PREFETCH_DEPTH; i++) {
        struct prefetch_slot *s = &p->slots[i];
        if (is_asked(s) && s->ask.cursor <= ask->cursor && take_back(s) && same(&s->ask, ask))
            found = s;
    }
    if (!found)
        return fetch(p, ask, p->indices, *batch, e);
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
