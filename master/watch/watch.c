#include "master/watch/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "db/figures.h"
#include "master/watch/module.h"
#include "master/watch/store_pace.h"

enum {
    LOOK_EVERY_S = 1,
    COUNT_EVERY = 3,       // looks
    PROVE_EVERY_S = 30,    // an idle store commits a row, so that a broken disk is noticed
    OVERDUE_LEAST_S = 3600 // a backup may be late by a quarter of its interval, or by so much
};

struct watch {
    struct watch_options o;
    struct core *core;
    int64_t (*newest_backup)(void *ctx);
    void *backup_ctx;
    int64_t started; // wall

    pthread_t thread;
    bool runs;
    atomic_int_least64_t answered_at; // monotonic; 0: never
    atomic_int_least64_t newest;      // the newest backup, in seconds since 1970; 0: none

    // The thread alone uses these:
    struct store_pace pace;
    bool slow; // seen since the last request was sent
    uint64_t commits;
    int64_t committed_at; // monotonic: when the number of commits was last seen to grow
    int looks;
    struct request rq; // under way, or empty

    pthread_mutex_t lock; // protects the following fields
    pthread_cond_t changed;
    bool stopping, under_way;
    struct arena arena;                  // of `counts`
    const struct cluster_counts *counts; // NULL: none yet
};

// --- trouble -------------------------------------------------------------------------------------

enum { TROUBLES_MAX = FREE_SPACE_PLACES + 2 };

static void look_at_store(struct watch *w)
{
    struct db_figures f;
    struct histogram_figures commits;
    int64_t now = clock_mono_us();
    db_read_figures(w->o.db, &f);
    histogram_read(f.commits, &commits);
    store_pace_add(&w->pace, commits.count, commits.sum_us);
    int64_t running = f.committing_since ? now - f.committing_since : 0;
    w->slow = w->slow || store_pace_is_slow(&w->pace, running, w->o.store_slow_us);
    if (commits.count != w->commits)
        w->committed_at = now;
    w->commits = commits.count;
}

static size_t add_slow_store(struct watch *w, struct trouble *list, struct arena *arena)
{
    if (!w->slow)
        return 0;
    w->slow = false;
    *list = (struct trouble){
        ALERT_STORE_SLOW, "",
        arena_printf(arena,
                     "the store is slow: its commits take %lld ms or more (--store-slow); look at "
                     "the disk of DATA_DIR",
                     (long long)w->o.store_slow_us / 1000)};
    return 1;
}

static size_t add_disks(const struct watch *w, struct trouble *list, struct arena *arena)
{
    char text[FREE_SPACE_TEXT];
    size_t count = 0;
    for (int i = 0; i < FREE_SPACE_PLACES; i++)
        if (w->o.free_space &&
            free_space_is_filling(w->o.free_space, (enum free_space_place)i, text))
            list[count++] = (struct trouble){ALERT_DISK_FILLING, free_space_words[i],
                                             arena_strdup(arena, text)};
    return count;
}

static size_t add_backups(const struct watch *w, struct trouble *list, struct arena *arena)
{
    char when[CLOCK_RFC3339_MAX];
    int64_t every = w->o.backup_every_us / 1000000;
    if (!every)
        return 0;
    int64_t newest = atomic_load(&w->newest), began = w->started / 1000000;
    int64_t late = every / 4 > OVERDUE_LEAST_S ? every / 4 : OVERDUE_LEAST_S;
    if (clock_wall_us() / 1000000 < (newest ? newest : began) + every + late)
        return 0;
    *list = (struct trouble){
        ALERT_BACKUP_OVERDUE, "",
        arena_printf(arena,
                     "no backup was made in time (--backup-every %lld): the newest one is %s; the "
                     "master's log says why",
                     (long long)every / 3600,
                     newest ? clock_format(newest * 1000000, when) : "missing")};
    return 1;
}

// --- asking the core -----------------------------------------------------------------------------

// Core thread, after the commit of the turn.
static void answered(struct request *rq)
{
    struct watch *w = rq->http;
    atomic_store(&w->answered_at, clock_mono_us());
    pthread_mutex_lock(&w->lock);
    if (rq->result) {
        arena_free(&w->arena);
        w->arena = rq->arena;
        w->counts = rq->result;
        rq->arena = (struct arena){0};
    }
    w->under_way = false;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void ask_core(struct watch *w)
{
    struct request *rq = &w->rq;
    struct error e;
    arena_free(&rq->arena);
    *rq = (struct request){.method = "GET", .path = "", .complete = answered, .http = w};
    struct watch_input *in = arena_alloc(&rq->arena, sizeof *in);
    struct trouble *list = arena_alloc(&rq->arena, TROUBLES_MAX * sizeof *list);
    size_t count = add_slow_store(w, list, &rq->arena);
    count += add_disks(w, list + count, &rq->arena);
    count += add_backups(w, list + count, &rq->arena);
    *in = (struct watch_input){.troubles = list,
                               .trouble_count = count,
                               .counts = w->looks++ % COUNT_EVERY == 0,
                               .writes =
                                   clock_mono_us() - w->committed_at > PROVE_EVERY_S * 1000000LL};
    rq->input = in;
    pthread_mutex_lock(&w->lock);
    w->under_way = true;
    pthread_mutex_unlock(&w->lock);
    if (core_submit(w->core, core_watch, rq, &e)) { // its queue is full
        pthread_mutex_lock(&w->lock);
        w->under_way = false;
        pthread_mutex_unlock(&w->lock);
    }
}

static void *run(void *arg)
{
    struct watch *w = arg;
    bool free = true;
    for (;;) {
        look_at_store(w);
        if (w->newest_backup)
            atomic_store(&w->newest, w->newest_backup(w->backup_ctx));
        if (free)
            ask_core(w);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LOOK_EVERY_S;
        pthread_mutex_lock(&w->lock);
        while (!w->stopping &&
               !pthread_cond_clockwait(&w->changed, &w->lock, CLOCK_MONOTONIC, &until))
            ;
        while (w->stopping && w->under_way)
            pthread_cond_wait(&w->changed, &w->lock);
        free = !w->under_way;
        bool stopping = w->stopping;
        pthread_mutex_unlock(&w->lock);
        if (stopping)
            return NULL;
    }
}

// --- start and stop ------------------------------------------------------------------------------

struct watch *watch_new(const struct watch_options *options)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->o = *options;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return w;
}

int watch_start(struct watch *w, struct core *core, int64_t (*newest_backup)(void *ctx), void *ctx,
                struct error *e)
{
    w->core = core;
    w->newest_backup = newest_backup;
    w->backup_ctx = ctx;
    w->started = clock_wall_us();
    w->committed_at = clock_mono_us();
    int err = pthread_create(&w->thread, NULL, run, w);
    if (err)
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start the watch thread");
    w->runs = true;
    return 0;
}

void watch_stop(struct watch *w)
{
    if (!w || !w->runs)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->runs = false;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    arena_free(&w->arena);
    arena_free(&w->rq.arena);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

// --- reading -------------------------------------------------------------------------------------

int watch_ready(const struct watch *w, struct error *e)
{
    struct db_figures f;
    int64_t now = clock_mono_us(), last = atomic_load(&w->answered_at);
    db_read_figures(w->o.db, &f);
    int64_t committing = f.committing_since ? now - f.committing_since : 0;
    if (committing > WATCH_READY_S * 1000000LL)
        return error_set(e, ERR_UNAVAILABLE, "the store has not finished a commit for %lld s",
                         (long long)committing / 1000000);
    if (!last)
        return error_set(e, ERR_UNAVAILABLE, "the master is starting");
    if (now - last > (WATCH_READY_S + LOOK_EVERY_S) * 1000000LL)
        return error_set(e, ERR_UNAVAILABLE, "the core thread has not answered for %lld s",
                         (long long)(now - last) / 1000000);
    return 0;
}

bool watch_read(struct watch *w, struct arena *arena, struct watch_figures *out)
{
    int64_t last = w ? atomic_load(&w->answered_at) : 0;
    *out = (struct watch_figures){.core_answered_us = last ? clock_mono_us() - last : -1};
    if (!w || !last)
        return false;
    out->core_queue = core_queue_length(w->core);
    out->newest_backup = atomic_load(&w->newest);
    pthread_mutex_lock(&w->lock);
    bool counted = w->counts;
    if (counted)
        cluster_counts_copy(w->counts, arena, &out->counts);
    pthread_mutex_unlock(&w->lock);
    return counted;
}
