// Deletes an experiment: a worker deletes the folders of its checkpoints and media, then one batch
// deletes its rows.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "master/calls/code_archives.h"
#include "master/calls/external_ids.h"
#include "master/calls/module.h"
#include "master/calls/verbs.h"
#include "master/common/media.h"
#include "master/kernel/loop.h"
#include "master/kernel/module.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/retention/gc.h"
#include "master/teams/teams.h"

struct removal {
    struct work work; // first
    const struct storage *storage;
    const char *cluster_id;
    int64_t id;
    char *model_definition;
    int64_t parts; // the number of the parts of its files; 0: none
    int err;
    struct error e;
};

static void removal_free(struct work *work)
{
    struct removal *r = (struct removal *)work;
    free(r->model_definition);
    free(r);
}

// A checkpoint's folder has its uuid as name, directly below the root of its storage; nothing else
// is deleted.
static int remove_checkpoint(const struct storage *storage, const char *uuid, const char *at,
                             struct error *e)
{
    char lower[UUID_TEXT];
    int root = -1;
    if (checkpoint_uuid(uuid, lower, NULL))
        return 0; // it names no folder
    int err = storage_open_root(storage, at, &root, NULL, e);
    if (!err)
        err = dir_remove_tree_at(root, uuid, e);
    if (root >= 0)
        close(root);
    return err;
}

// The checkpoints of an unmanaged experiment are left where the master cannot reach them: its
// programs have stored them themselves.
static int remove_or_leave(const struct storage *storage, struct db_rows *rows, struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    const char *uuid = DB_GET(rows, CHECKPOINTS_OF_EXPERIMENT, uuid);
    int err = remove_checkpoint(storage, uuid, DB_GET(rows, CHECKPOINTS_OF_EXPERIMENT, storage), e);
    if (!err || !DB_GET(rows, CHECKPOINTS_OF_EXPERIMENT, unmanaged))
        return err ? error_prefix(e,
                                  "the files of checkpoint %s cannot be removed (report them as "
                                  "gone with PATCH /api/v1/checkpoints, if they are)",
                                  uuid)
                   : 0;
    log_warn("a checkpoint is left in its storage", "uuid=%s err=%s", uuid,
             log_quote(quoted, sizeof quoted, e->text));
    return 0;
}

// Removes the images, histograms, tables and texts.
static int remove_media(const struct removal *r, struct db_rows *rows, struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    const struct media_folder folder = {.storage = r->storage,
                                        .at = DB_GET(rows, MEDIA_FOLDER, storage),
                                        .cluster_id = r->cluster_id,
                                        .experiment = r->id};
    int err = media_remove(&folder, e);
    if (!err || !DB_GET(rows, MEDIA_FOLDER, unmanaged))
        return err ? error_prefix(e, "the media of experiment %lld cannot be removed",
                                  (long long)r->id)
                   : 0;
    log_warn("the media of an experiment are left in their storage", "exp=%lld err=%s",
             (long long)r->id, log_quote(quoted, sizeof quoted, e->text));
    return 0;
}

static void remove_files(struct work *work, struct db_reader *db)
{
    struct removal *r = (struct removal *)work;
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_OF_EXPERIMENT, r->id);
    int more = 0;
    while (!r->err && (more = db_next(rows)) > 0)
        r->err = remove_or_leave(r->storage, rows, &r->e);
    db_rows_close(rows);
    if (!r->err && more < 0)
        r->err = error_set(&r->e, ERR_IO, "the store cannot be read");
    rows = DB_QUERY(db, MEDIA_FOLDER, r->id);
    if (!r->err && db_next(rows) > 0)
        r->err = remove_media(r, rows, &r->e);
    db_rows_close(rows);
    rows = DB_QUERY(db, EXPERIMENT_BY_ID, r->id);
    if (!r->err && db_next(rows) > 0)
        r->model_definition = xstrdup(DB_GET(rows, EXPERIMENT_BY_ID, model_definition_hash));
    db_rows_close(rows);
    rows = DB_QUERY(db, EXPERIMENT_PARTS, r->id);
    if (!r->err && db_next(rows) > 0)
        r->parts = DB_GET(rows, EXPERIMENT_PARTS, parts);
    db_rows_close(rows);
}

static void remove_rows(struct core *c, struct removal *r)
{
    STORE(c, EXPERIMENT_DELETE_LOGS, r->id);
    STORE(c, EXPERIMENT_DELETE_LOG_SENDERS, r->id);
    STORE(c, EXPERIMENT_DELETE_POLICIES, r->id);
    STORE(c, EXPERIMENT_DELETE_METRICS, r->id);
    STORE(c, EXPERIMENT_DELETE_METRIC_COLUMNS, r->id);
    STORE(c, EXPERIMENT_DELETE_METRIC_CHUNKS, r->id);
    STORE(c, EXPERIMENT_DELETE_METRIC_CUTS, r->id);
    STORE(c, EXPERIMENT_DELETE_CHECKPOINTS, r->id);
    STORE(c, EXPERIMENT_DELETE_TOKENS, r->id);
    STORE(c, EXPERIMENT_DELETE_ALLOCATIONS, r->id);
    STORE(c, EXPERIMENT_DELETE_TRIALS, r->id);
    STORE(c, EXPERIMENT_DELETE, r->id);
    change_mark(c, EVENT_EXPERIMENT, r->id, 0, NULL);
    STORE(c, MODEL_DEFINITION_DELETE_UNUSED, r->model_definition ? r->model_definition : "");
    code_archives_check(c, r->parts);
}

static void removal_done(struct core *c, struct work *work)
{
    struct removal *r = (struct removal *)work;
    struct experiment *x = core_experiment_find(c, r->id);
    char quoted[ERROR_TEXT_MAX];
    if (r->err) {
        log_error("an experiment could not be deleted", "exp=%lld err=%s", (long long)r->id,
                  log_quote(quoted, sizeof quoted, r->e.text));
        CORE_DISPATCH(c, experiment_removed, c, x, r->e.text);
        experiment_event(c, x, EXPERIMENT_EV_DELETE_FAILED, NULL);
    } else {
        remove_rows(c, r);
        external_id_forget(c, x);
        id_map_remove(&c->experiments, r->id);
        core_project(c, x->project_id)->experiments--;
        CORE_DISPATCH(c, experiment_removed, c, x, NULL);
        free(x);
        log_info("experiment deleted", "exp=%lld", (long long)r->id);
    }
    removal_free(work);
}

static int removal_check(struct core *c, const struct experiment *x, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, EXPERIMENT_HELD, x->id);
    int err = 0, found = db_next(rows);
    if (found > 0 && DB_IS_NULL(rows, EXPERIMENT_HELD, model_version))
        err = error_set(e, ERR_STATE,
                        "experiment %lld cannot be deleted: experiment %lld starts from one of its "
                        "checkpoints; end that experiment first",
                        (long long)x->id, (long long)DB_GET(rows, EXPERIMENT_HELD, experiment_id));
    else if (found > 0)
        err = error_set(e, ERR_STATE,
                        "experiment %lld cannot be deleted: one of its checkpoints is model %s; "
                        "delete that version first",
                        (long long)x->id, DB_GET(rows, EXPERIMENT_HELD, model_version));
    db_rows_close(rows);
    return err;
}

static void removal_start(struct core *c, struct experiment *x)
{
    struct removal *r = xcalloc(1, sizeof *r);
    r->work = (struct work){.run = remove_files, .done = removal_done, .drop = removal_free};
    r->storage = c->options.storage;
    r->cluster_id = c->options.cluster_id;
    r->id = x->id;
    if (!workers_send(c->workers, &r->work, WORK_SLOW, NULL))
        return;
    removal_free(&r->work);
    experiment_event(c, x, EXPERIMENT_EV_DELETE_FAILED, NULL); // the caller may try again
}

int removal_begin(struct core *c, struct experiment *x, struct error *e)
{
    struct transition to = experiment_transition(x->state, EXPERIMENT_EV_DELETE);
    bool begins = to.action == EXPERIMENT_DO_DELETE;
    int err = begins ? removal_check(c, x, e) : 0;
    if (!err)
        err = experiment_event(c, x, EXPERIMENT_EV_DELETE, e);
    if (!err && begins)
        removal_start(c, x);
    return err;
}

void removals_resume(struct core *c)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (x->state == EXPERIMENT_DELETING)
            removal_start(c, x);
    }
    gc_resume(c);
    code_archives_sweep(c);
}
