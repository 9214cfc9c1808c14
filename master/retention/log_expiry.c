// Deletes old logs. Logs are kept for a number of days after the end of their task. The trial, its
// experiment, its configuration and the cluster may set that number, in this order of precedence;
// -1 keeps them for ever.
//
// Every hour, all tasks with logs are checked, a few at a time. Each step deletes a few chunks of
// an expired log until none is left, so no step occupies the store for long.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/kernel/workers.h"
#include "master/retention/log_expiry.h"
#include "master/retention/module.h"
#include "master/teams/teams.h"

enum {
    DAYS_MAX = 32767,
    FIRST_US = 60 * 1000000, // from the start of the master to the first check
    TASKS_IN_A_STEP = 256,
    EXPIRED_IN_A_STEP = 16,
    CHUNKS_IN_A_STEP = 16, // for each expired task
    BUSY_US = 50 * 1000,   // between steps that delete
    NEXT_US = 1000 * 1000, // between other steps
};

static const int64_t hour = 3600LL * 1000 * 1000, day = 24LL * 3600 * 1000 * 1000;

// --- deleting logs -------------------------------------------------------------------------------

struct log_expiry {
    struct timer next; // the next check
    char *before;      // tasks up to this one have been checked; NULL: none
};

struct expiry_job {
    struct work work;
    int64_t now, days; // days: the default
    char *after;       // the last task that has been checked
    char *expired[EXPIRED_IN_A_STEP];
    int count;
    bool finished; // there are no more tasks
};

static bool is_expired(const struct expiry_job *x, struct db_reader *db, const char *task)
{
    struct db_rows *rows = DB_QUERY(db, LOG_RETENTION, task, x->days);
    bool expired = false;
    if (db_next(rows) == 1 && !DB_IS_NULL(rows, LOG_RETENTION, ended_at) &&
        DB_GET(rows, LOG_RETENTION, days) >= 0)
        expired = DB_GET(rows, LOG_RETENTION, ended_at) + DB_GET(rows, LOG_RETENTION, days) * day <=
                  x->now;
    db_rows_close(rows);
    return expired;
}

// The next task that has a log, on the heap; NULL: none.
static char *next_task(struct db_reader *db, const char *after)
{
    struct db_rows *rows = DB_QUERY(db, LOG_NEXT_TASK, after);
    const char *task = db_next(rows) == 1 ? DB_GET(rows, LOG_NEXT_TASK, task_id) : NULL;
    char *copy = xstrdup(task);
    db_rows_close(rows);
    return copy;
}

static void expiry_run(struct work *w, struct db_reader *db)
{
    struct expiry_job *x = (struct expiry_job *)w;
    char *after = xstrdup(x->after);
    for (int i = 0; i < TASKS_IN_A_STEP && x->count < EXPIRED_IN_A_STEP && !x->finished; i++) {
        char *task = next_task(db, after);
        x->finished = !task;
        if (!task)
            break;
        if (is_expired(x, db, task))
            x->expired[x->count++] = xstrdup(task);
        free(after);
        after = task;
    }
    if (x->count) { // the next step starts here again, until these logs are gone
        free(after);
        x->finished = false;
        return;
    }
    free(x->after);
    x->after = after;
}

static void expiry_drop(struct work *w)
{
    struct expiry_job *x = (struct expiry_job *)w;
    for (int i = 0; i < x->count; i++)
        free(x->expired[i]);
    free(x->after);
    free(x);
}

static void expiry_done(struct core *c, struct work *w)
{
    struct expiry_job *x = (struct expiry_job *)w;
    struct log_expiry *l = c->log_expiry;
    for (int i = 0; i < x->count; i++)
        STORE(c, LOG_CHUNKS_EXPIRE, x->expired[i], CHUNKS_IN_A_STEP);
    free(l->before);
    l->before = x->finished ? NULL : xstrdup(x->after);
    timer_set(&c->timers, &l->next, c->now + (x->finished ? hour : x->count ? BUSY_US : NEXT_US));
    expiry_drop(w);
}

static void expiry_begin(struct core *c, void *arg)
{
    struct log_expiry *l = arg;
    struct expiry_job *x = xcalloc(1, sizeof *x);
    x->work = (struct work){.run = expiry_run, .done = expiry_done, .drop = expiry_drop};
    x->now = c->wall;
    x->days = c->options.log_days ? c->options.log_days : -1;
    x->after = xstrdup(l->before ? l->before : "");
    if (!workers_send(c->workers, &x->work, WORK_SLOW, NULL))
        return;
    expiry_drop(&x->work);
    timer_set(&c->timers, &l->next, c->now + NEXT_US);
}

void log_expiry_init(struct core *c)
{
    struct log_expiry *l = xcalloc(1, sizeof *l);
    l->next = (struct timer){.fire = expiry_begin, .arg = l};
    timer_set(&c->timers, &l->next, c->now + FIRST_US);
    c->log_expiry = l;
}

void log_expiry_free(struct core *c)
{
    free(c->log_expiry->before);
    free(c->log_expiry);
}

// --- the requests --------------------------------------------------------------------------------

int log_retention_read_days(const struct request *rq, int64_t *days, struct error *e)
{
    *days = jget_int(rq->body, "numDays", -2);
    return *days < -1 || *days > DAYS_MAX
               ? error_set(e, ERR_INVALID,
                           "numDays: not a number of days from 0 to %d, or -1 for ever", DAYS_MAX)
               : 0;
}

void log_retention_set(struct core *c, const struct experiment *x, int64_t days)
{
    STORE(c, EXPERIMENT_SET_LOG_RETENTION, days, x->id);
    STORE(c, TRIALS_CLEAR_LOG_RETENTION, x->id);
}

int core_experiment_retain_logs(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int64_t days;
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err)
        err = log_retention_read_days(rq, &days, e);
    if (!err)
        log_retention_set(c, x, days);
    return err;
}

int core_trial_retain_logs(struct core *c, struct request *rq, struct error *e)
{
    int64_t id, days;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(c->reader, TRIAL_EXPERIMENT, id);
    struct experiment *x =
        db_next(rows) == 1 ? core_experiment_find(c, DB_GET(rows, TRIAL_EXPERIMENT, experiment_id))
                           : NULL;
    db_rows_close(rows);
    if (!x)
        return error_not_found(e, "trial", "%lld", (long long)id);
    err = core_may_change(c, rq, x, e);
    if (!err)
        err = log_retention_read_days(rq, &days, e);
    if (!err)
        STORE(c, TRIAL_SET_LOG_RETENTION, days, id);
    return err;
}
