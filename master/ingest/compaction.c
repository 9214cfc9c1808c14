// Schedules the compaction of a trial's reports (db/metrics/compaction.h): after every
// COMPACTION_AT reports, and when the trial has ended. A worker prepares one trial at a time. Its
// rows join the batch of the turn that receives them, and the next trial starts after that commit,
// so that its worker reads the new rows.

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
    uint64_t after; // the commit that its reader must see
    struct db_batch *batch;
    struct error e;
    struct compaction_job *next;
};

struct compaction_queue {
    struct compaction_job *first, **end; // waiting jobs, the oldest first
    bool under_way;
    uint64_t after; // the commit of the last job
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

static void compaction_enqueue(struct core *c, int64_t trial, int64_t experiment, bool ended,
                               uint64_t after);

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
        // A start does not read compacted reports, so the trial's row must cover them first.
        if (t)
            trial_metrics_write(c, t);
        db_batch_join(core_batch(c), f->batch);
        f->batch = NULL;
        if (f->more)
            compaction_enqueue(c, f->trial, f->experiment, f->ended, 0);
        else if (f->ended)
            STORE(c, TRIAL_SET_LOOSE, 0, f->trial);
        c->compaction->after = c->submitted + 1;
    }
    compaction_job_free(work);
}

static void compaction_enqueue(struct core *c, int64_t trial, int64_t experiment, bool ended,
                               uint64_t after)
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

void compaction_count_reports(struct core *c, struct trial *t, size_t reports, size_t bytes)
{
    t->new_reports += reports;
    t->new_bytes += bytes;
    t->has_reports = true;
    if (t->new_reports < COMPACTION_AT && t->new_bytes < COMPACTION_AT_BYTES)
        return;
    t->new_reports = COMPACTION_KEEP; // about as many as stay uncompacted
    t->new_bytes = 0;
    compaction_enqueue(c, t->id, t->active->experiment->id, false, c->submitted + 1);
}

void compaction_trial_ended(struct core *c, struct trial *t)
{
    if (!t->has_reports)
        return;
    STORE(c, TRIAL_SET_LOOSE, 1, t->id);
    compaction_enqueue(c, t->id, t->active->experiment->id, true, c->submitted + 1);
}

int compaction_load(struct core *c, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, TRIALS_LOOSE);
    int more;
    while ((more = db_next(rows)) == 1)
        compaction_enqueue(c, DB_GET(rows, TRIALS_LOOSE, id),
                           DB_GET(rows, TRIALS_LOOSE, experiment_id), true, 0);
    db_rows_close(rows);
    return more ? db_unreadable(c->reader, e) : 0;
}

void compaction_start_next(struct core *c)
{
    struct compaction_queue *all = c->compaction;
    uint64_t committed = atomic_load(&c->committed);
    if (!all || !all->first || all->under_way || committed < all->after ||
        committed < all->first->after)
        return;
    struct compaction_job *f = all->first;
    if (workers_send(c->workers, &f->work, WORK_SLOW, NULL))
        return; // a later turn tries again
    all->first = f->next;
    if (!all->first)
        all->end = &all->first;
    all->under_way = true;
}

void compaction_free(struct core *c)
{
    while (c->compaction && c->compaction->first) {
        struct compaction_job *f = c->compaction->first;
        c->compaction->first = f->next;
        compaction_job_free(&f->work);
    }
    free(c->compaction);
}
