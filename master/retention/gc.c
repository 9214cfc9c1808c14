// Sweeps: each takes some experiments to choose from and some checkpoints to remove, works on a
// worker, and leaves its rows on the core thread.
#include "master/retention/gc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/kernel/change_marks.h"
#include "master/kernel/workers.h"
#include "master/retention/module.h"

enum {
    SWEEP_EXPERIMENTS = 16, // at a time
    SWEEP_FILES = 64,       // folders
    SWEEP_ROWS = 2000,      // that one turn deletes
};
static const int64_t retry_us = 3600LL * 1000000; // what could not be removed is tried again

struct due { // an experiment to choose from
    int64_t experiment, asked;
    struct keep_row *rows;
    size_t count;
    bool failed;
};

struct gone { // a checkpoint whose files were removed
    char uuid[UUID_TEXT];
    char *patterns, *resources;
    bool failed;
};

struct sweep {
    struct work work; // first
    const struct storage *storage;
    char after[UUID_TEXT];
    struct due dues[SWEEP_EXPERIMENTS];
    struct gone gone[SWEEP_FILES];
    size_t due_count, gone_count;
};

// --- on the worker -------------------------------------------------------------------------------

static void sweep_free(struct work *work)
{
    struct sweep *s = (struct sweep *)work;
    for (size_t i = 0; i < s->due_count; i++)
        free(s->dues[i].rows);
    for (size_t i = 0; i < s->gone_count; i++) {
        free(s->gone[i].patterns);
        free(s->gone[i].resources);
    }
    free(s);
}

static void choose_all(struct sweep *s, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, GC_DUE, SWEEP_EXPERIMENTS);
    while (db_next(rows) > 0 && s->due_count < SWEEP_EXPERIMENTS)
        s->dues[s->due_count++] = (struct due){.experiment = DB_GET(rows, GC_DUE, experiment_id),
                                               .asked = DB_GET(rows, GC_DUE, asked)};
    db_rows_close(rows);
    for (size_t i = 0; i < s->due_count; i++) {
        struct due *d = &s->dues[i];
        struct error e = {0};
        char quoted[ERROR_TEXT_MAX];
        gc_choose(db, s->storage, d->experiment, NULL, &d->rows, &d->count, &e);
        d->failed = e.code && e.code != ERR_NOT_FOUND;
        if (d->failed)
            log_error("checkpoints could not be chosen", "exp=%lld err=%s",
                      (long long)d->experiment, log_quote(quoted, sizeof quoted, e.text));
    }
}

static void remove_one(const struct storage *storage, struct gone *g, const char *at)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    g->failed = gc_remove_files(storage, g->uuid, at, g->patterns, &g->resources, &e) != 0;
    if (g->failed)
        log_warn("files of a checkpoint could not be removed; it is tried again in an hour",
                 "uuid=%s err=%s", g->uuid, log_quote(quoted, sizeof quoted, e.text));
}

static void remove_all(struct sweep *s, struct db_reader *db)
{
    char *storages[SWEEP_FILES];
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_REMOVAL, s->after, SWEEP_FILES);
    while (s->gone_count < SWEEP_FILES && db_next(rows) > 0) {
        struct gone *g = &s->gone[s->gone_count];
        snprintf(g->uuid, sizeof g->uuid, "%s", DB_GET(rows, CHECKPOINTS_REMOVAL, uuid));
        storages[s->gone_count++] = xstrdup(DB_GET(rows, CHECKPOINTS_REMOVAL, storage));
        g->patterns = xstrdup(DB_GET(rows, CHECKPOINTS_REMOVAL, removal));
    }
    db_rows_close(rows); // removing takes long: the store is not held open meanwhile
    for (size_t i = 0; i < s->gone_count; i++) {
        remove_one(s->storage, &s->gone[i], storages[i]);
        free(storages[i]);
    }
}

static void sweep_run(struct work *work, struct db_reader *db)
{
    struct sweep *s = (struct sweep *)work;
    choose_all(s, db);
    remove_all(s, db);
}

// --- on the core thread --------------------------------------------------------------------------

struct gc {
    bool wanted, running;
    uint64_t commit;       // not before this one
    char after[UUID_TEXT]; // checkpoints up to here have been looked at
    struct timer retry;
    uint64_t began;         // what the sweep that runs has seen at least
    struct gc_taken *taken; // the oldest first
    size_t taken_count, taken_cap;
};

void gc_init(struct core *c)
{
    c->gc = xcalloc(1, sizeof *c->gc);
}

void gc_free(struct core *c)
{
    free(c->gc->taken);
    free(c->gc);
}

struct gc_forks gc_forks_of(const struct core *c)
{
    struct gc_forks forks = {0};
    size_t cap = 0;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        const json_t *searcher = x->active ? jget(x->active->config, "searcher") : NULL;
        const char *source = jget_string(searcher, "source_checkpoint_uuid", NULL);
        if (!source)
            continue;
        if (forks.count == cap) {
            cap = cap ? 2 * cap : 16;
            forks.items = xrealloc(forks.items, cap * sizeof *forks.items);
        }
        forks.items[forks.count++] = (struct gc_fork){source, x->id};
    }
    return forks;
}

bool gc_is_needed(struct core *c, const struct gc_forks *forks, int64_t trial_id, const char *uuid,
                  char who[64])
{
    const struct trial *t = core_trial_find(c, trial_id);
    if (t && !strcmp(t->checkpoint, uuid)) {
        snprintf(who, 64, "trial %lld goes on from it", (long long)trial_id);
        return true;
    }
    for (size_t i = 0; i < forks->count; i++)
        if (!strcmp(forks->items[i].source, uuid)) {
            snprintf(who, 64, "experiment %lld starts from it",
                     (long long)forks->items[i].experiment);
            return true;
        }
    return false;
}

// Those that every store to be read from now on has are forgotten.
static void forget_taken(struct core *c)
{
    uint64_t known = c->gc->running ? c->gc->began : atomic_load(&c->committed);
    size_t old = 0;
    while (old < c->gc->taken_count && c->gc->taken[old].batch <= known)
        old++;
    c->gc->taken_count -= old;
    memmove(c->gc->taken, c->gc->taken + old, c->gc->taken_count * sizeof *c->gc->taken);
}

void gc_take(struct core *c, const char *uuid, bool whole)
{
    if (c->gc->taken_count == c->gc->taken_cap && c->gc->taken_count)
        forget_taken(c);
    if (c->gc->taken_count == c->gc->taken_cap) {
        c->gc->taken_cap = c->gc->taken_cap ? 2 * c->gc->taken_cap : 64;
        c->gc->taken = xrealloc(c->gc->taken, c->gc->taken_cap * sizeof *c->gc->taken);
    }
    struct gc_taken *one = &c->gc->taken[c->gc->taken_count++];
    *one = (struct gc_taken){.whole = whole, .batch = c->submitted + 1};
    snprintf(one->uuid, sizeof one->uuid, "%s", uuid);
}

// The newest word of the first `count`, by a batch after `known`.
static const struct gc_taken *find_taken(const struct core *c, const char *uuid, size_t count,
                                         uint64_t known)
{
    for (size_t i = count; i > 0 && c->gc->taken[i - 1].batch > known; i--)
        if (!strcmp(c->gc->taken[i - 1].uuid, uuid))
            return &c->gc->taken[i - 1];
    return NULL;
}

const struct gc_taken *gc_taken(const struct core *c, const char *uuid)
{
    return find_taken(c, uuid, c->gc->taken_count, atomic_load(&c->committed));
}

void gc_step_back(struct core *c, struct trial *t, int64_t below)
{
    struct db_rows *rows = DB_QUERY(c->reader, CHECKPOINTS_BELOW, t->id, below);
    bool found;
    while ((found = db_next(rows) > 0) && gc_taken(c, DB_GET(rows, CHECKPOINTS_BELOW, uuid)))
        ;
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s",
             found ? DB_GET(rows, CHECKPOINTS_BELOW, uuid) : "");
    t->checkpoint_steps = found ? DB_GET(rows, CHECKPOINTS_BELOW, steps) : 0;
    db_rows_close(rows);
}

// Of a running trial, unless a person has asked: the validation of a step may still be on its way,
// after its checkpoint.
static bool is_left_alone(struct core *c, const struct keep_row *row)
{
    const struct trial *t = core_trial_find(c, row->trial_id);
    return t && !t->active->collect_all;
}

// What the policy leaves out, at most `room` rows; how many.
static size_t delete_chosen(struct core *c, const struct gc_forks *forks, const struct due *d,
                            size_t room)
{
    size_t deleted = 0, before = c->gc->taken_count; // its own are taken once each
    char who[64];
    for (size_t i = 0; i < d->count && deleted < room; i++) {
        const struct keep_row *row = &d->rows[i];
        if (row->keep || is_left_alone(c, row) ||
            gc_is_needed(c, forks, row->trial_id, row->uuid, who) ||
            find_taken(c, row->uuid, before, c->gc->began))
            continue;
        gc_take(c, row->uuid, true);
        STORE(c, CHECKPOINT_REMOVE, "DELETED", NULL, "[\"**\"]", row->uuid, "COMPLETED");
        STORE(c, TRIAL_FORGET_CHECKPOINT, row->uuid);
        change_mark(c, EVENT_CHECKPOINT, d->experiment, row->trial_id, row->uuid);
        deleted++;
    }
    if (deleted)
        log_info("checkpoints collected", "exp=%lld deleted=%zu", (long long)d->experiment,
                 deleted);
    return deleted;
}

static void retry_due(struct core *c, void *arg)
{
    (void)arg;
    gc_ask(c);
}

static void settle_gone(struct core *c, const struct sweep *s)
{
    bool failed = false;
    for (size_t i = 0; i < s->gone_count; i++) {
        const struct gone *g = &s->gone[i];
        failed |= g->failed;
        if (!g->failed)
            STORE(c, CHECKPOINT_REMOVED, g->uuid, g->resources, g->patterns);
    }
    if (failed) {
        c->gc->retry.fire = retry_due;
        timer_set(&c->timers, &c->gc->retry, c->now + retry_us);
    }
}

static bool settle_dues(struct core *c, const struct sweep *s)
{
    struct gc_forks forks = gc_forks_of(c);
    size_t room = SWEEP_ROWS;
    for (size_t i = 0; i < s->due_count; i++) {
        const struct due *d = &s->dues[i];
        room -= delete_chosen(c, &forks, d, room);
        if (room && !d->failed)
            STORE(c, GC_DONE, d->experiment, d->asked);
    }
    free(forks.items);
    return room < SWEEP_ROWS;
}

// Goes on behind what it has looked at, unless somebody asked anew meanwhile.
static void sweep_done(struct core *c, struct work *work)
{
    struct sweep *s = (struct sweep *)work;
    settle_gone(c, s);
    bool deleted = s->due_count && settle_dues(c, s);
    bool more = s->gone_count == SWEEP_FILES || s->due_count == SWEEP_EXPERIMENTS;
    c->gc->running = false;
    if (deleted) {
        gc_ask(c);
    } else if (more && !c->gc->wanted) {
        gc_ask(c);
        if (s->gone_count)
            memcpy(c->gc->after, s->gone[s->gone_count - 1].uuid, UUID_TEXT);
    }
    sweep_free(work);
}

void gc_ask(struct core *c)
{
    c->gc->wanted = true;
    c->gc->after[0] = '\0';
    c->gc->commit = c->submitted + (c->batch && !db_batch_empty(c->batch));
}

void gc_ended_trials(struct core *c, struct experiment *x)
{
    STORE(c, GC_ASK, x->id);
    gc_ask(c);
}

void gc_experiment(struct core *c, struct experiment *x)
{
    if (x->active)
        x->active->collect_all = true;
    gc_ended_trials(c, x);
}

void gc_resume(struct core *c)
{
    gc_ask(c);
}

void gc_pass(struct core *c)
{
    if (!c->gc->wanted || c->gc->running || atomic_load(&c->committed) < c->gc->commit)
        return;
    struct sweep *s = xcalloc(1, sizeof *s);
    s->work = (struct work){.run = sweep_run, .done = sweep_done, .drop = sweep_free};
    s->storage = c->options.storage;
    memcpy(s->after, c->gc->after, UUID_TEXT);
    if (workers_send(c->workers, &s->work, WORK_SLOW, NULL)) {
        sweep_free(&s->work); // at the next turn
        return;
    }
    c->gc->wanted = false;
    c->gc->running = true;
    c->gc->began = c->gc->commit;
}
