// Sweeps of the checkpoint collection. A sweep runs on a worker: it applies the policies of some
// experiments and removes the files of some checkpoints. The core thread then writes the rows.
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
    SWEEP_EXPERIMENTS = 16, // in one sweep
    SWEEP_FILES = 64,       // folders in one sweep
    SWEEP_ROWS = 2000,      // rows that one turn deletes
};
static const int64_t retry_us = 3600LL * 1000000; // the pause after a failed removal

struct gc_due { // an experiment whose policy is applied
    int64_t experiment, asked;
    struct checkpoint_candidate *rows;
    size_t count;
    bool failed;
};

struct gc_removal { // a checkpoint whose files are removed
    char uuid[UUID_TEXT];
    char *patterns, *resources;
    char *why; // it failed; NULL: it did not
};

struct gc_sweep {
    struct work work; // first
    const struct storage *storage;
    char after[UUID_TEXT];
    struct gc_due dues[SWEEP_EXPERIMENTS];
    struct gc_removal removals[SWEEP_FILES];
    size_t due_count, removal_count;
};

// --- on the worker -------------------------------------------------------------------------------

static void sweep_free(struct work *work)
{
    struct gc_sweep *s = (struct gc_sweep *)work;
    for (size_t i = 0; i < s->due_count; i++)
        free(s->dues[i].rows);
    for (size_t i = 0; i < s->removal_count; i++) {
        free(s->removals[i].patterns);
        free(s->removals[i].resources);
        free(s->removals[i].why);
    }
    free(s);
}

static void choose_due(struct gc_sweep *s, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, GC_DUE, SWEEP_EXPERIMENTS);
    while (db_next(rows) > 0 && s->due_count < SWEEP_EXPERIMENTS)
        s->dues[s->due_count++] = (struct gc_due){.experiment = DB_GET(rows, GC_DUE, experiment_id),
                                                  .asked = DB_GET(rows, GC_DUE, asked)};
    db_rows_close(rows);
    for (size_t i = 0; i < s->due_count; i++) {
        struct gc_due *d = &s->dues[i];
        struct error e = {0};
        char quoted[ERROR_TEXT_MAX];
        gc_choose(db, s->storage, d->experiment, NULL, &d->rows, &d->count, &e);
        d->failed = e.code && e.code != ERR_NOT_FOUND;
        if (d->failed)
            log_error("checkpoints could not be chosen", "exp=%lld err=%s",
                      (long long)d->experiment, log_quote(quoted, sizeof quoted, e.text));
    }
}

static void remove_files(const struct storage *storage, struct gc_removal *g, const char *at)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    if (gc_remove_files(storage, g->uuid, at, g->patterns, &g->resources, &e) == 0)
        return;
    g->why = xstrdup(e.text);
    log_warn("files of a checkpoint could not be removed; the next try is in an hour",
             "uuid=%s err=%s", g->uuid, log_quote(quoted, sizeof quoted, e.text));
}

static void remove_due_files(struct gc_sweep *s, struct db_reader *db)
{
    char *storages[SWEEP_FILES];
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_REMOVAL, s->after, SWEEP_FILES);
    while (s->removal_count < SWEEP_FILES && db_next(rows) > 0) {
        struct gc_removal *g = &s->removals[s->removal_count];
        snprintf(g->uuid, sizeof g->uuid, "%s", DB_GET(rows, CHECKPOINTS_REMOVAL, uuid));
        storages[s->removal_count++] = xstrdup(DB_GET(rows, CHECKPOINTS_REMOVAL, storage));
        g->patterns = xstrdup(DB_GET(rows, CHECKPOINTS_REMOVAL, removal));
    }
    db_rows_close(rows); // removing takes long: the reader must not stay open meanwhile
    for (size_t i = 0; i < s->removal_count; i++) {
        remove_files(s->storage, &s->removals[i], storages[i]);
        free(storages[i]);
    }
}

static void sweep_run(struct work *work, struct db_reader *db)
{
    struct gc_sweep *s = (struct gc_sweep *)work;
    choose_due(s, db);
    remove_due_files(s, db);
}

// --- on the core thread --------------------------------------------------------------------------

struct gc {
    bool requested, running;
    uint64_t commit;       // the next sweep waits for this commit
    char after[UUID_TEXT]; // the sweeps have seen the checkpoints up to this one
    struct timer retry;
    uint64_t seen_commit;          // the running sweep has read at least this commit
    struct gc_deletion *deletions; // the oldest first
    size_t deletion_count, deletion_cap;
};

void gc_init(struct core *c)
{
    c->gc = xcalloc(1, sizeof *c->gc);
}

void gc_free(struct core *c)
{
    free(c->gc->deletions);
    free(c->gc);
}

static void forks_add(struct gc_forks *forks, size_t *cap, struct gc_fork fork)
{
    if (forks->count == *cap) {
        *cap = *cap ? 2 * *cap : 16;
        forks->items = xrealloc(forks->items, *cap * sizeof *forks->items);
    }
    forks->items[forks->count++] = fork;
}

// Visits the live trials in memory, once in a sweep and in a call that deletes checkpoints, not for
// each checkpoint. The store cannot answer instead: it lacks the changes of this turn.
struct gc_forks gc_forks_of(const struct core *c)
{
    struct gc_forks forks = {0};
    size_t cap = 0;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        const json_t *searcher = x->active ? jget(x->active->config, "searcher") : NULL;
        const char *source = jget_string(searcher, "source_checkpoint_uuid", NULL);
        if (source)
            forks_add(&forks, &cap, (struct gc_fork){.source = source, .experiment = x->id});
        for (const struct trial *t = x->active ? x->active->trials : NULL; t; t = t->next)
            if (t->source_checkpoint[0] && !t->checkpoint[0] && !trial_is_terminal(t->state))
                forks_add(&forks, &cap, (struct gc_fork){t->source_checkpoint, x->id, t->id});
    }
    return forks;
}

static void fork_write_name(const struct gc_fork *fork, char who[64])
{
    if (fork->trial)
        snprintf(who, 64, "trial %lld starts from it", (long long)fork->trial);
    else
        snprintf(who, 64, "experiment %lld starts from it", (long long)fork->experiment);
}

bool gc_is_needed(struct core *c, const struct gc_forks *forks, int64_t trial_id, const char *uuid,
                  char who[64])
{
    const struct trial *t = core_trial_find(c, trial_id);
    if (t && !strcmp(t->checkpoint, uuid)) {
        snprintf(who, 64, "trial %lld continues from it", (long long)trial_id);
        return true;
    }
    for (size_t i = 0; i < forks->count; i++)
        if (!strcmp(forks->items[i].source, uuid)) {
            fork_write_name(&forks->items[i], who);
            return true;
        }
    return false;
}

// Forgets the deletions that every reader opened from now on sees.
static void forget_old_deletions(struct core *c)
{
    uint64_t known = c->gc->running ? c->gc->seen_commit : atomic_load(&c->committed);
    size_t old = 0;
    while (old < c->gc->deletion_count && c->gc->deletions[old].batch <= known)
        old++;
    c->gc->deletion_count -= old;
    memmove(c->gc->deletions, c->gc->deletions + old,
            c->gc->deletion_count * sizeof *c->gc->deletions);
}

void gc_record_deletion(struct core *c, const char *uuid, bool whole)
{
    if (c->gc->deletion_count == c->gc->deletion_cap && c->gc->deletion_count)
        forget_old_deletions(c);
    if (c->gc->deletion_count == c->gc->deletion_cap) {
        c->gc->deletion_cap = c->gc->deletion_cap ? 2 * c->gc->deletion_cap : 64;
        c->gc->deletions =
            xrealloc(c->gc->deletions, c->gc->deletion_cap * sizeof *c->gc->deletions);
    }
    struct gc_deletion *d = &c->gc->deletions[c->gc->deletion_count++];
    *d = (struct gc_deletion){.whole = whole, .batch = c->submitted + 1};
    snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
}

// The newest of the first `count` deletions of a checkpoint, by a batch after `known`.
static const struct gc_deletion *find_deletion(const struct core *c, const char *uuid, size_t count,
                                               uint64_t known)
{
    for (size_t i = count; i > 0 && c->gc->deletions[i - 1].batch > known; i--)
        if (!strcmp(c->gc->deletions[i - 1].uuid, uuid))
            return &c->gc->deletions[i - 1];
    return NULL;
}

const struct gc_deletion *gc_find_deletion(const struct core *c, const char *uuid)
{
    return find_deletion(c, uuid, c->gc->deletion_count, atomic_load(&c->committed));
}

bool gc_is_deleted(struct core *c, const char *uuid)
{
    if (gc_find_deletion(c, uuid))
        return true;
    struct db_rows *rows = DB_QUERY(c->reader, CHECKPOINT_OWNER, uuid);
    bool deleted = db_next(rows) > 0 && strcmp(DB_GET(rows, CHECKPOINT_OWNER, state), "COMPLETED");
    db_rows_close(rows);
    return deleted;
}

void gc_use_older_checkpoint(struct core *c, struct trial *t, int64_t below)
{
    struct db_rows *rows = DB_QUERY(c->reader, CHECKPOINTS_BELOW, t->id, below);
    bool found;
    while ((found = db_next(rows) > 0) &&
           gc_find_deletion(c, DB_GET(rows, CHECKPOINTS_BELOW, uuid)))
        ;
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s",
             found ? DB_GET(rows, CHECKPOINTS_BELOW, uuid) : "");
    t->checkpoint_steps = found ? DB_GET(rows, CHECKPOINTS_BELOW, steps) : 0;
    db_rows_close(rows);
}

// A checkpoint of a running trial is kept unless a person asked for a collection: the validation of
// its step may still arrive.
static bool is_of_running_trial(struct core *c, const struct checkpoint_candidate *row)
{
    const struct trial *t = core_trial_find(c, row->trial_id);
    return t && !t->active->collect_all;
}

struct resumable { // trials that a search may run again, by id
    const struct trial **items;
    size_t count;
};

static int by_trial_id(const void *a, const void *b)
{
    const struct trial *x = *(const struct trial *const *)a, *y = *(const struct trial *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

// free(items); valid during this turn.
static struct resumable resumable_of(struct core *c, int64_t experiment)
{
    const struct experiment *x = core_experiment_find(c, experiment);
    const struct active_experiment *l = x ? x->active : NULL;
    const struct trial *first = l && l->search && search_resumes(l->search) ? l->trials : NULL;
    struct resumable r = {0};
    size_t most = 0;
    for (const struct trial *t = first; t; t = t->next)
        most += t->checkpoint[0] != '\0';
    if (most)
        r.items = xcalloc(most, sizeof *r.items);
    for (const struct trial *t = first; t; t = t->next)
        if (t->checkpoint[0])
            r.items[r.count++] = t;
    if (r.count)
        qsort(r.items, r.count, sizeof *r.items, by_trial_id);
    return r;
}

// The newest checkpoint of a trial that has ended is kept while its search may run it again.
static bool is_to_resume(const struct resumable *r, const struct checkpoint_candidate *row)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->items[middle]->id < row->trial_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->count && r->items[low]->id == row->trial_id &&
           !strcmp(r->items[low]->checkpoint, row->uuid);
}

// Deletes the rows that the policy does not keep, at most `budget` rows; returns their number.
static size_t delete_unkept(struct core *c, const struct gc_forks *forks, const struct gc_due *d,
                            size_t budget)
{
    size_t deleted = 0, before = c->gc->deletion_count; // a sweep has each checkpoint once
    char who[64];
    struct resumable resumable = resumable_of(c, d->experiment);
    for (size_t i = 0; i < d->count && deleted < budget; i++) {
        const struct checkpoint_candidate *row = &d->rows[i];
        if (row->reasons || is_of_running_trial(c, row) || is_to_resume(&resumable, row) ||
            gc_is_needed(c, forks, row->trial_id, row->uuid, who) ||
            find_deletion(c, row->uuid, before, c->gc->seen_commit))
            continue;
        gc_record_deletion(c, row->uuid, true);
        STORE(c, CHECKPOINT_REMOVE, "DELETED", NULL, "[\"**\"]", row->uuid, "COMPLETED");
        STORE(c, TRIAL_FORGET_CHECKPOINT, row->uuid);
        change_mark(c, EVENT_CHECKPOINT, d->experiment, row->trial_id, row->uuid);
        deleted++;
    }
    free(resumable.items);
    if (deleted)
        log_info("checkpoints collected", "exp=%lld deleted=%zu", (long long)d->experiment,
                 deleted);
    return deleted;
}

static void retry_due(struct core *c, void *arg)
{
    (void)arg;
    gc_request(c);
}

static void store_removals(struct core *c, const struct gc_sweep *s)
{
    bool failed = false;
    for (size_t i = 0; i < s->removal_count; i++) {
        const struct gc_removal *g = &s->removals[i];
        failed |= g->why != NULL;
        if (g->why)
            STORE(c, CHECKPOINT_REMOVAL_FAILED, g->why, g->uuid);
        else
            STORE(c, CHECKPOINT_REMOVED, g->uuid, g->resources, g->patterns);
    }
    if (failed) {
        c->gc->retry.fire = retry_due;
        timer_set(&c->timers, &c->gc->retry, c->now + retry_us);
    }
}

static bool apply_choices(struct core *c, const struct gc_sweep *s)
{
    struct gc_forks forks = gc_forks_of(c);
    size_t budget = SWEEP_ROWS;
    for (size_t i = 0; i < s->due_count; i++) {
        const struct gc_due *d = &s->dues[i];
        budget -= delete_unkept(c, &forks, d, budget);
        if (budget && !d->failed)
            STORE(c, GC_DONE, d->experiment, d->asked);
    }
    free(forks.items);
    return budget < SWEEP_ROWS;
}

// The next sweep starts behind this one's checkpoints, unless a new request restarts it.
static void sweep_done(struct core *c, struct work *work)
{
    struct gc_sweep *s = (struct gc_sweep *)work;
    store_removals(c, s);
    bool deleted = s->due_count && apply_choices(c, s);
    bool more = s->removal_count == SWEEP_FILES || s->due_count == SWEEP_EXPERIMENTS;
    c->gc->running = false;
    if (deleted) {
        gc_request(c);
    } else if (more && !c->gc->requested) {
        gc_request(c);
        if (s->removal_count)
            memcpy(c->gc->after, s->removals[s->removal_count - 1].uuid, UUID_TEXT);
    }
    sweep_free(work);
}

void gc_request(struct core *c)
{
    c->gc->requested = true;
    c->gc->after[0] = '\0';
    c->gc->commit = c->submitted + (c->batch && !db_batch_empty(c->batch));
}

void gc_request_experiment(struct core *c, struct experiment *x)
{
    STORE(c, GC_ASK, x->id);
    gc_request(c);
}

void gc_collect_experiment(struct core *c, struct experiment *x)
{
    if (x->active)
        x->active->collect_all = true;
    gc_request_experiment(c, x);
}

void gc_resume(struct core *c)
{
    gc_request(c);
}

void gc_start_sweep(struct core *c)
{
    if (!c->gc->requested || c->gc->running || atomic_load(&c->committed) < c->gc->commit)
        return;
    struct gc_sweep *s = xcalloc(1, sizeof *s);
    s->work = (struct work){.run = sweep_run, .done = sweep_done, .drop = sweep_free};
    s->storage = c->options.storage;
    memcpy(s->after, c->gc->after, UUID_TEXT);
    if (workers_send(c->workers, &s->work, WORK_SLOW, NULL)) {
        sweep_free(&s->work); // the next turn tries again
        return;
    }
    c->gc->requested = false;
    c->gc->running = true;
    c->gc->seen_commit = c->gc->commit;
}
