// Images, histograms, tables and texts that tasks report by step. The content is in checkpoint
// storage before its report arrives: a worker checks that it is there, then the rows join a batch.
//
// An item is identified by (trial, name, step): a repeated report changes nothing, and a later run
// replaces the items of an earlier one.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/media.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/common/media.h"
#include "master/ingest/module.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/teams/teams.h"

struct media_post {
    struct work work; // first
    struct request *rq;
    struct media_folder folder;
    char *at;
    int64_t trial, run;
    struct media_item *items;
    size_t count;
    int err;
    struct error e;
};

static void post_free(struct work *work)
{
    struct media_post *p = (struct media_post *)work;
    free(p->items);
    free(p->at);
    free(p);
}

// --- reading the body ----------------------------------------------------------------------------

static int read_items(const struct core *c, struct media_post *p, struct error *e)
{
    size_t i;
    json_t *from;
    const json_t *list = jget(p->rq->body, "items");
    if (!json_is_array(list))
        return error_set(e, ERR_INVALID, "items: missing, or not a list");
    if (json_array_size(list) > LIMIT_MEDIA_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "items: more than %d in one call; make several calls",
                         LIMIT_MEDIA_PER_POST);
    p->items = xcalloc(json_array_size(list) + 1, sizeof *p->items);
    json_array_foreach(list, i, from)
    {
        int err = media_item_read(from, c->wall, &p->items[i], e);
        if (err)
            return error_prefix(e, "items.%zu", i);
        p->count++;
    }
    return 0;
}

// --- on the worker -------------------------------------------------------------------------------

static bool is_known(struct db_reader *db, int64_t trial, const struct media_item *item)
{
    struct db_rows *rows = DB_QUERY(db, MEDIA_EXISTS, trial, item->name, item->step);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

// Posts of one trial that arrive at the same moment do not count each other; they may exceed the
// limit together, once.
static int check_count(const struct media_post *p, struct db_reader *db, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, MEDIA_COUNT, p->trial);
    int64_t count = db_next(rows) == 1 ? DB_GET(rows, MEDIA_COUNT, count) : 0;
    db_rows_close(rows);
    if (count + (int64_t)p->count <= LIMIT_MEDIA_ITEMS)
        return 0;
    for (size_t i = 0; i < p->count; i++)
        count += !is_known(db, p->trial, &p->items[i]);
    return count <= LIMIT_MEDIA_ITEMS
               ? 0
               : error_set(e, ERR_TOO_LARGE,
                           "items: trial %lld would have more than %d; report at fewer steps",
                           (long long)p->trial, LIMIT_MEDIA_ITEMS);
}

// A file that is missing, unreadable or other than reported is an error of the report, not of its
// address or its sender.
static int check_content(const struct media_post *p, size_t i, struct error *e)
{
    int fd = -1, err = media_open(&p->folder, p->items[i].digest, p->items[i].size, &fd, e);
    if (!err) {
        err = media_check_digest(fd, p->items[i].digest, e);
        close(fd);
    }
    if (err == ERR_NOT_FOUND || err == ERR_FORBIDDEN)
        err = e->code = ERR_INVALID;
    return err ? error_prefix(e, "items.%zu", i) : 0;
}

static void post_run(struct work *work, struct db_reader *db)
{
    struct media_post *p = (struct media_post *)work;
    p->err = check_count(p, db, &p->e);
    for (size_t i = 0; !p->err && i < p->count; i++)
        p->err = check_content(p, i, &p->e);
}

// --- on the core thread --------------------------------------------------------------------------

static int check_run(struct core *c, struct request *rq, struct trial **t, struct error *e)
{
    int err = core_metric_reporter(c, rq, t, e);
    int64_t run = err ? -1 : jget_int(rq->body, "trialRunId", -1);
    if (err || run == -1 || run == (*t)->run)
        return err;
    return rq->principal.kind == PRINCIPAL_TASK || (*t)->active->unmanaged
               ? error_set(e, ERR_FORBIDDEN, "allocation has ended")
               : error_set(e, ERR_INVALID,
                           "trialRunId: the newest run of trial %lld is %d, not %lld",
                           (long long)(*t)->id, (int)(*t)->run, (long long)run);
}

// While the worker looked into the storage, the run may have ended and a later one begun, and the
// experiment may have been deleted. A user reports for ended trials, too.
static int check_again(struct core *c, const struct media_post *p, struct error *e)
{
    struct trial *t = core_trial_find(c, p->trial);
    if (t || p->rq->principal.kind != PRINCIPAL_USER) {
        int err = check_run(c, p->rq, &t, e);
        return !err && t->run != p->run ? error_set(e, ERR_FORBIDDEN, "allocation has ended") : err;
    }
    const struct experiment *x = core_experiment_find(c, p->folder.experiment);
    if (!x || x->state == EXPERIMENT_DELETING)
        return error_not_found(e, "trial", "%lld", (long long)p->trial);
    return core_may_change(c, p->rq, x, e);
}

static void store_items(struct core *c, const struct media_post *p)
{
    STORE(c, MEDIA_FOLDER_ADD, p->folder.experiment);
    for (size_t i = 0; i < p->count; i++) {
        const struct media_item *item = &p->items[i];
        STORE(c, MEDIA_UPSERT, p->trial, item->name, item->step, p->run, item->type, item->digest,
              item->size, item->time);
    }
    change_mark(c, EVENT_TRIAL, p->folder.experiment, p->trial, NULL);
}

static void post_done(struct core *c, struct work *work)
{
    struct media_post *p = (struct media_post *)work;
    if (!p->err)
        p->err = check_again(c, p, &p->e);
    if (p->err) {
        core_refuse(c, p->rq, &p->e);
    } else {
        store_items(c, p);
        core_complete(c, p->rq);
    }
    post_free(work);
}

int core_trial_media(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = check_run(c, rq, &t, e);
    if (err)
        return err;
    struct media_post *p = xcalloc(1, sizeof *p);
    p->work = (struct work){.run = post_run, .done = post_done, .drop = post_free};
    p->rq = rq;
    p->trial = t->id;
    p->run = t->run;
    p->at = xstrdup(t->active->storage);
    p->folder = (struct media_folder){.storage = c->options.storage,
                                      .at = p->at,
                                      .cluster_id = c->options.cluster_id,
                                      .experiment = t->active->experiment->id};
    err = read_items(c, p, e);
    bool none = !err && !p->count;
    if (!err && !none)
        err = workers_send(c->workers, &p->work, WORK_STORAGE, e);
    if (err || none)
        post_free(&p->work);
    return err || none ? err : REQUEST_PARKED;
}

void media_restart(struct core *c, struct trial *t, int64_t from)
{
    STORE(c, MEDIA_DELETE_LATER, t->id, from);
}
