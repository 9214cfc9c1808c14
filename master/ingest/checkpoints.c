// Checkpoints that tasks report. A report of an allocation that has ended is refused, so the newest
// checkpoint of a trial always comes from the run that is current.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/ingest/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/retention/gc.h"

struct reported_checkpoint {
    char uuid[UUID_TEXT]; // lower case
    const char *state;
    int64_t steps, time;
    const json_t *metadata, *resources;
    char *storage; // of an unmanaged trial, by its number; NULL: that of the experiment
};

// Lists show the size of the whole checkpoint. The size of a file may be a text.
static int check_sizes(const json_t *resources, struct error *e)
{
    const char *path;
    json_t *size;
    int64_t total = 0;
    json_object_foreach((json_t *)resources, path, size)
    {
        int64_t bytes = jget_int(resources, path, 0);
        total += bytes >= 0 && bytes <= LIMIT_REPORTED_INTEGER ? bytes : LIMIT_REPORTED_INTEGER + 1;
        if (total > LIMIT_REPORTED_INTEGER)
            return error_set(e, ERR_INVALID,
                             "resources: \"%.64s\": expected sizes from 0 to %lld, all together",
                             path, LIMIT_REPORTED_INTEGER);
    }
    return 0;
}

static int read_checkpoint(struct core *c, const json_t *body, struct reported_checkpoint *in,
                           struct error *e)
{
    const char *time = jget_string(body, "reportTime", NULL);
    int err = checkpoint_uuid(jget_string(body, "uuid", ""), in->uuid, e);
    if (err)
        return error_prefix(e, "uuid");
    err = wire_parse(WIRE_CHECKPOINT_STATE, jget_string(body, "state", "COMPLETED"), &in->state, e);
    if (err)
        return err;
    in->time = c->wall;
    in->metadata = jget(body, "metadata");
    in->resources = jget(body, "resources");
    in->steps = jget_int(in->metadata, "steps_completed", -1);
    if (in->steps < 0 || in->steps > LIMIT_REPORTED_INTEGER)
        return error_set(e, ERR_INVALID,
                         "metadata.steps_completed: missing, or not a number of steps from 0 to "
                         "%lld",
                         LIMIT_REPORTED_INTEGER);
    if (in->resources && !json_is_object(in->resources))
        return error_set(e, ERR_INVALID, "resources: not an object of sizes by path");
    if (json_object_size(in->resources) > LIMIT_CHECKPOINT_FILES)
        return error_set(e, ERR_TOO_LARGE, "resources: more than %d files", LIMIT_CHECKPOINT_FILES);
    if (time && clock_parse(time, &in->time))
        return error_set(e, ERR_INVALID, "reportTime: \"%.64s\" is not an RFC 3339 time", time);
    return check_sizes(in->resources, e);
}

// The validation metrics of the same step, if they were reported before; else NULL. Heap.
static char *validation_of_step(const struct trial *t, int64_t steps)
{
    json_t *latest = NULL;
    char *text = NULL;
    if (!t->validation.text || t->validation.steps != steps)
        return NULL;
    if (json_parse(t->validation.text, strlen(t->validation.text), "validation", &latest, NULL))
        return NULL;
    text = json_text(jget(latest, "metrics"));
    json_decref(latest);
    return text;
}

static void checkpoint_store(struct core *c, const struct trial *t,
                             const struct reported_checkpoint *in)
{
    const char *allocation = t->allocation ? t->allocation->id : "";
    char *metadata = json_text(in->metadata);
    char *resources = in->resources ? json_text(in->resources) : xstrdup("{}");
    char *validation = validation_of_step(t, in->steps);
    STORE(c, CHECKPOINT_UPSERT, in->uuid, t->task_id, allocation, t->id, t->active->experiment->id,
          in->state, in->steps, metadata, resources, in->storage ? in->storage : t->active->storage,
          validation, in->time);
    change_mark(c, EVENT_CHECKPOINT, t->active->experiment->id, t->id, in->uuid);
    free(metadata);
    free(resources);
    free(validation);
}

// POST /runs/start has numbered the storage. A managed task always writes to its experiment's.
static int find_storage(struct core *c, struct request *rq, const struct trial *t,
                        struct reported_checkpoint *in, struct error *e)
{
    int64_t id = jget_int(rq->body, "storageId", 0);
    if (!id || !t->active->unmanaged)
        return 0;
    struct db_rows *rows = DB_QUERY(c->reader, STORAGE_OF_TRIAL, id, t->id);
    if (db_next(rows) == 1)
        in->storage = arena_strdup(&rq->arena, DB_GET(rows, STORAGE_OF_TRIAL, storage));
    db_rows_close(rows);
    return in->storage ? 0
                       : error_set(e, ERR_INVALID,
                                   "storageId: %lld is not the number that POST /api/v1/runs/start "
                                   "gave to the storage of this trial",
                                   (long long)id);
}

// *done: nothing is left to do, since the checkpoint was reported before and has been deleted
// since. ERR_CONFLICT: the id belongs to another task.
static int checkpoint_check_known(struct core *c, const struct trial *t, const char *uuid,
                                  bool *done, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, CHECKPOINT_OWNER, uuid);
    bool found = db_next(rows) > 0;
    bool mine = found && DB_GET(rows, CHECKPOINT_OWNER, trial_id) == t->id;
    const char *state = found ? DB_GET(rows, CHECKPOINT_OWNER, state) : "";
    *done = !strcmp(state, "DELETED") || !strcmp(state, "PARTIALLY_DELETED") ||
            gc_find_deletion(c, uuid);
    db_rows_close(rows);
    if (!found || mine)
        return 0;
    return error_set(e, ERR_CONFLICT, "uuid: checkpoint %s belongs to another task", uuid);
}

// The trial whose task reports the checkpoint. For an unmanaged trial, the body names the task.
static int find_reporting_trial(struct core *c, struct request *rq, struct trial **t,
                                struct error *e)
{
    const char *task = jget_string(rq->body, "taskId", "");
    bool user = rq->principal.kind == PRINCIPAL_USER;
    struct task_id id = {0};
    if (user && !task_id_read(task, &id))
        return error_set(e, ERR_INVALID, "taskId: \"%.64s\" is not a task of a trial", task);
    int err = core_reporter(c, rq, id.trial, t, e);
    if (!err && user && !task_id_names(task, (*t)->task_id))
        err = error_set(e, ERR_NOT_FOUND, "taskId: task '%.64s' not found", task);
    const char *mine = err || !(*t)->allocation ? "" : (*t)->allocation->id;
    if (!err && *mine && strcmp(jget_string(rq->body, "allocationId", mine), mine))
        err = error_set(e, ERR_FORBIDDEN, "allocation has ended");
    return err;
}

int core_checkpoint_report(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    struct reported_checkpoint in = {0};
    bool done = false;
    int err = find_reporting_trial(c, rq, &t, e);
    if (!err)
        err = read_checkpoint(c, rq->body, &in, e);
    if (!err)
        err = find_storage(c, rq, t, &in, e);
    if (!err)
        err = checkpoint_check_known(c, t, in.uuid, &done, e);
    if (err || done)
        return err;
    checkpoint_store(c, t, &in);
    if (strcmp(in.state, "COMPLETED") || (t->checkpoint[0] && in.steps < t->checkpoint_steps))
        return 0;
    if (t->allocation)
        sched_gang_set_saved(c->sched, t->allocation->gang, c->now);
    memcpy(t->checkpoint, in.uuid, sizeof t->checkpoint);
    t->checkpoint_steps = in.steps;
    STORE(c, TRIAL_SET_LATEST_CHECKPOINT, in.uuid, t->id);
    return 0;
}
