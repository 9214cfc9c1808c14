// When the reports of a trial are folded (db/metrics/compaction.h): after every so many, and once
// it has ended. A worker prepares one trial at a time; its rows go with the batch of the turn in
// which it is done, and the next one begins when that is committed, so that it sees the store as it
// then is.

#include <stdlib.h>

#include "base/arena.h"
#include "db/metrics/compaction.h"
#include "master/ingest/reports.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"

struct compaction_job {
    struct work work; // first
    int64_t trial, experiment;
    bool ended, more;
    uint64_t after; // the commit that it has to see
    struct db_batch *batch;
    struct error e;
    struct compaction_job *next;
};

struct compaction_queue {
    struct compaction_job *first, **end; // that wait, in the order they came
    bool under_way;
    uint64_t after; // commit of the last one
};

static void compaction_job_free(struct work *work)
{
    struct compaction_job *f = (struct compaction_job *)work;
    db_batch_free(f->batch);
    free(f);
}

static void compaction_job_run(struct work *work, struct db_reader *db)
{
    struct compaction_job *f = (struct compaction_job *)work;
    f->batch = db_batch_new();
    compaction_run(db, f->trial, f->ended, f->batch, &f->more, &f->e);
}

static void ask(struct core *c, int64_t trial, int64_t experiment, bool ended, uint64_t after);

static void compaction_job_done(struct core *c, struct work *work)
{
    struct compaction_job *f = (struct compaction_job *)work;
    struct trial *t = core_trial_find(c, f->trial);
    const struct experiment *x = core_experiment_find(c, f->experiment);
    char quoted[ERROR_TEXT_MAX];
    c->compaction->under_way = false;
    if (f->e.code)
        log_error("metrics cannot be compacted", "trial=%lld err=%s", (long long)f->trial,
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
        c->compaction->after = c->submitted + 1;
    }
    compaction_job_free(work);
}

static void ask(struct core *c, int64_t trial, int64_t experiment, bool ended, uint64_t after)
{
    struct compaction_job *f = xcalloc(1, sizeof *f);
    if (!c->compaction) {
        c->compaction = xcalloc(1, sizeof *c->compaction);
        c->compaction->end = &c->compaction->first;
    }
    f->work = (struct work){
        .run = compaction_job_run, .done = compaction_job_done, .drop = compaction_job_free};
    f->trial = trial;
    f->experiment = experiment;
    f->ended = ended;
    f->after = after;
    *c->compaction->end = f;
    c->compaction->end = &f->next;
}

void folds_reported(struct core *c, struct trial *t, size_t reports, size_t bytes)
{
    t->new_reports += reports;
    t->new_bytes += bytes;
    t->has_reports = true;
    if (t->new_reports < COMPACTION_AT && t->new_bytes < COMPACTION_AT_BYTES)
        return;
    t->new_reports = COMPACTION_KEEP; // about what is left then
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

int compaction_load(struct core *c, struct error *e)
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
    struct compaction_queue *all = c->compaction;
    uint64_t committed = atomic_load(&c->committed);
    if (!all || !all->first || all->under_way || committed < all->after ||
        committed < all->first->after)
        return;
    struct compaction_job *f = all->first;
    if (workers_send(c->workers, &f->work, WORK_SLOW, NULL))
        return; // with a later turn
    all->first = f->next;
    if (!all->first)
        all->end = &all->first;
    all->under_way = true;
}

void folds_free(struct core *c)
{
    while (c->compaction && c->compaction->first) {
        struct compaction_job *f = c->compaction->first;
        c->compaction->first = f->next;
        compaction_job_free(&f->work);
    }
    free(c->compaction);
}
