// When the reports of a trial are folded (db/fold.h): after every so many, and once it has ended. A
// worker prepares one trial at a time; its rows go with the batch of the turn in which it is done,
// and the next one begins when that is committed, so that it sees the store as it then is.

#include <stdlib.h>

#include "base/arena.h"
#include "db/fold.h"
#include "master/ingest/reports.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"

struct fold {
    struct work work; // first
    int64_t trial, experiment;
    bool ended, more;
    uint64_t after; // the commit that it has to see
    struct db_batch *batch;
    struct error e;
    struct fold *next;
};

struct folds {
    struct fold *first, **end; // that wait, in the order they came
    bool under_way;
    uint64_t after; // commit of the last one
};

static void fold_free(struct work *work)
{
    struct fold *f = (struct fold *)work;
    db_batch_free(f->batch);
    free(f);
}

static void fold_run(struct work *work, struct db_reader *db)
{
    struct fold *f = (struct fold *)work;
    f->batch = db_batch_new();
    fold_trial(db, f->trial, f->ended, f->batch, &f->more, &f->e);
}

static void ask(struct core *c, int64_t trial, int64_t experiment, bool ended, uint64_t after);

static void fold_done(struct core *c, struct work *work)
{
    struct fold *f = (struct fold *)work;
    struct trial *t = core_trial_find(c, f->trial);
    const struct experiment *x = core_experiment_find(c, f->experiment);
    char quoted[ERROR_TEXT_MAX];
    c->folds->under_way = false;
    if (f->e.code)
        log_error("metrics cannot be folded", "trial=%lld err=%s", (long long)f->trial,
                  log_quote(quoted, sizeof quoted, f->e.text));
    else if (x && x->state != EXPERIMENT_DELETING) {
        if (t)
            latest_write(c, t); // a start would not find what is known of these rows
        db_batch_join(core_batch(c), f->batch);
        f->batch = NULL;
        if (f->more)
            ask(c, f->trial, f->experiment, f->ended, 0);
        else if (f->ended)
            STORE(c, TRIAL_SET_LOOSE, 0, f->trial);
        c->folds->after = c->submitted + 1;
    }
    fold_free(work);
}

static void ask(struct core *c, int64_t trial, int64_t experiment, bool ended, uint64_t after)
{
    struct fold *f = xcalloc(1, sizeof *f);
    if (!c->folds) {
        c->folds = xcalloc(1, sizeof *c->folds);
        c->folds->end = &c->folds->first;
    }
    f->work = (struct work){.run = fold_run, .done = fold_done, .drop = fold_free};
    f->trial = trial;
    f->experiment = experiment;
    f->ended = ended;
    f->after = after;
    *c->folds->end = f;
    c->folds->end = &f->next;
}

void folds_reported(struct core *c, struct trial *t, size_t reports, size_t bytes)
{
    t->new_reports += reports;
    t->new_bytes += bytes;
    t->has_reports = true;
    if (t->new_reports < FOLD_AT && t->new_bytes < FOLD_AT_BYTES)
        return;
    t->new_reports = FOLD_KEEP; // about what is left then
    t->new_bytes = 0;
    ask(c, t->id, t->active->experiment->id, false, c->submitted + 1);
}

void folds_trial_ended(struct core *c, struct trial *t)
{
    if (!t->has_reports)
        return;
    STORE(c, TRIAL_SET_LOOSE, 1, t->id);
    ask(c, t->id, t->active->experiment->id, true, c->submitted + 1);
}

int folds_load(struct core *c, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, TRIALS_LOOSE);
    int more;
    while ((more = db_next(rows)) == 1)
        ask(c, DB_GET(rows, TRIALS_LOOSE, id), DB_GET(rows, TRIALS_LOOSE, experiment_id), true, 0);
    db_rows_close(rows);
    return more ? db_unreadable(c->reader, e) : 0;
}

void folds_next(struct core *c)
{
    struct folds *all = c->folds;
    uint64_t committed = atomic_load(&c->committed);
    if (!all || !all->first || all->under_way || committed < all->after ||
        committed < all->first->after)
        return;
    struct fold *f = all->first;
    if (workers_send(c->workers, &f->work, WORK_SLOW, NULL))
        return; // with a later turn
    all->first = f->next;
    if (!all->first)
        all->end = &all->first;
    all->under_way = true;
}

void folds_free(struct core *c)
{
    while (c->folds && c->folds->first) {
        struct fold *f = c->folds->first;
        c->folds->first = f->next;
        fold_free(&f->work);
    }
    free(c->folds);
}
