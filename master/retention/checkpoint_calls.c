// Checkpoints that a person, or the task that wrote them, deletes, reduces by path patterns, or
// reports as gone. A worker reads the rows, the core thread decides for all checkpoints of a call
// or none, and their files are removed later (gc.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/kernel/change_marks.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/retention/gc.h"
#include "master/retention/module.h"
#include "master/retention/path_patterns.h"
#include "master/teams/teams.h"

struct checkpoint_item { // one checkpoint of a call
    char uuid[UUID_TEXT];
    int64_t experiment, trial;
    const char *state;         // the new state; NULL: nothing changes
    char *resources;           // the new resources; NULL: unchanged
    char *needed_by;           // who needs it, by the store; NULL: nobody
    bool needed_by_trial_only; // .. only its own trial, to continue from
};

struct checkpoint_change {
    struct work work; // first
    const struct storage *storage;
    struct request *rq;
    enum { CHANGE_DELETE, CHANGE_REMOVE, CHANGE_PATCH } kind;
    struct checkpoint_item *items;
    size_t count;
    char *patterns; // JSON list
    int err;
    struct error e;
};

static void change_free(struct work *work)
{
    struct checkpoint_change *ch = (struct checkpoint_change *)work;
    for (size_t i = 0; i < ch->count; i++) {
        free(ch->items[i].resources);
        free(ch->items[i].needed_by);
    }
    free(ch->items);
    free(ch->patterns);
    free(ch);
}

// --- on the worker -------------------------------------------------------------------------------

// {path: bytes} with the bytes as JSON numbers, also where the caller sent strings.
static json_t *normalize_sizes(const json_t *resources)
{
    const char *path;
    json_t *size, *plain = json_object();
    json_object_foreach((json_t *)resources, path, size)
    {
        json_object_set_new(plain, path, json_integer(jget_int(resources, path, 0)));
    }
    return plain;
}

// The files of a checkpoint: the reported ones and, where the master can read the storage, those
// that exist.
static json_t *list_files(const struct storage *storage, const json_t *reported, const char *at,
                          const char *uuid)
{
    json_t *there = NULL, *files = normalize_sizes(reported);
    int dir = -1;
    if (!storage_open(storage, at, uuid, &dir, NULL, NULL) &&
        !checkpoint_resources_foreign(dir, uuid, &there, NULL)) {
        json_t *plain = normalize_sizes(there);
        json_object_update(files, plain);
        json_decref(plain);
    }
    if (dir >= 0)
        close(dir);
    json_decref(there);
    return files;
}

// Deletes the entries that match a pattern; returns whether there were any.
static bool delete_matching(json_t *files, const json_t *patterns)
{
    bool any = false;
    const char *path;
    json_t *size, *pattern;
    void *next;
    size_t i;
    json_object_foreach_safe(files, next, path, size)
    {
        bool out = false;
        json_array_foreach(patterns, i, pattern)
        {
            out |= path_pattern_match(json_string_value(pattern), path);
        }
        any |= out;
        if (out)
            json_object_del(files, path);
    }
    return any;
}

static void remove_matching(const struct storage *storage, struct checkpoint_item *it,
                            const json_t *reported, const char *at, const json_t *patterns)
{
    json_t *files = list_files(storage, reported, at, it->uuid);
    if (delete_matching(files, patterns)) {
        it->state = json_object_size(files) ? "PARTIALLY_DELETED" : "DELETED";
        it->resources = json_object_size(files) ? json_text(files) : NULL;
    }
    json_decref(files);
}

// Sets what a caller says is left. Older rows may lack the trainer's metadata.json.
static void set_remaining(struct checkpoint_item *it, const json_t *reported,
                          const json_t *remaining)
{
    const json_t *inner = jget(remaining, "resources");
    json_t *left = normalize_sizes(json_is_object(inner) ? inner : remaining);
    json_t *before = normalize_sizes(reported);
    if (!json_object_get(before, "metadata.json") && json_object_get(left, "metadata.json"))
        json_object_set(before, "metadata.json", json_object_get(left, "metadata.json"));
    if (!json_object_size(left)) {
        it->state = "DELETED";
    } else if (!json_equal(left, before)) {
        it->state = "PARTIALLY_DELETED";
        it->resources = json_text(left);
    }
    json_decref(before);
    json_decref(left);
}

static void read_needed_by(struct db_rows *rows, struct checkpoint_item *it)
{
    it->needed_by_trial_only = DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_version) &&
                               DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_experiment) &&
                               DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_clone) &&
                               !DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_trial);
    if (!DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_version))
        it->needed_by = xasprintf("it is registered as model %s",
                                  DB_GET(rows, CHECKPOINT_TO_CHANGE, needed_by_version));
    else if (!DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_experiment))
        it->needed_by =
            xasprintf("experiment %lld starts from it",
                      (long long)DB_GET(rows, CHECKPOINT_TO_CHANGE, needed_by_experiment));
    else if (!DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, needed_by_clone))
        it->needed_by = xasprintf("trial %lld starts from it",
                                  (long long)DB_GET(rows, CHECKPOINT_TO_CHANGE, needed_by_clone));
    else if (it->needed_by_trial_only)
        it->needed_by = xasprintf("trial %lld continues from it",
                                  (long long)DB_GET(rows, CHECKPOINT_TO_CHANGE, needed_by_trial));
}

static int check_reach(const struct storage *storage, const char *text, const char *uuid,
                       struct error *e)
{
    json_t *at = NULL;
    int err = json_parse(text, strlen(text), "storage", &at, e);
    int reach = err ? 0 : storage_check(storage, at, e);
    if (reach == ERR_FORBIDDEN)
        err = error_prefix(e, "checkpoint %s", uuid);
    else if (reach)
        err = error_set(
            e, ERR_CONFLICT,
            "checkpoint %s lies in storage of type \"%.32s\", which the master cannot "
            "reach: remove its files there, then report that with PATCH /api/v1/checkpoints",
            uuid, jget_string(at, "type", ""));
    json_decref(at);
    return err;
}

static int read_item(struct checkpoint_change *ch, struct db_rows *rows, struct checkpoint_item *it,
                     const json_t *remaining)
{
    json_t *reported = NULL, *patterns = NULL;
    const char *resources = DB_GET(rows, CHECKPOINT_TO_CHANGE, resources),
               *storage = DB_GET(rows, CHECKPOINT_TO_CHANGE, storage);
    int err = 0;
    it->experiment = DB_GET(rows, CHECKPOINT_TO_CHANGE, experiment_id);
    it->trial = DB_GET(rows, CHECKPOINT_TO_CHANGE, trial_id);
    read_needed_by(rows, it);
    bool stuck = ch->kind == CHANGE_PATCH && !DB_IS_NULL(rows, CHECKPOINT_TO_CHANGE, removal_error);
    if (!stuck && !strcmp(DB_GET(rows, CHECKPOINT_TO_CHANGE, state), "DELETED"))
        return 0; // a repeated call
    if (ch->kind != CHANGE_PATCH)
        err = check_reach(ch->storage, storage, it->uuid, &ch->e);
    if (!err)
        err = json_parse(resources, strlen(resources), "resources", &reported, &ch->e);
    if (!err && ch->patterns)
        err = json_parse(ch->patterns, strlen(ch->patterns), "checkpointGlobs", &patterns, &ch->e);
    if (!err && ch->kind == CHANGE_DELETE)
        it->state = "DELETED";
    else if (!err && ch->kind == CHANGE_REMOVE)
        remove_matching(ch->storage, it, reported, storage, patterns);
    else if (!err && remaining)
        set_remaining(it, reported, remaining);
    json_decref(patterns);
    json_decref(reported);
    return err;
}

static int no_checkpoint(const char *uuid, struct error *e)
{
    return error_not_found(e, "checkpoint", "%.64s", uuid);
}

static void change_run(struct work *work, struct db_reader *db)
{
    struct checkpoint_change *ch = (struct checkpoint_change *)work;
    const json_t *list = jget(ch->rq->body, "checkpoints");
    for (size_t i = 0; !ch->err && i < ch->count; i++) {
        struct checkpoint_item *it = &ch->items[i];
        struct db_rows *rows = DB_QUERY(db, CHECKPOINT_TO_CHANGE, it->uuid);
        int found = db_next(rows);
        if (found < 0)
            ch->err = error_set(&ch->e, ERR_INTERNAL, "the store cannot be read");
        else if (!found)
            ch->err = no_checkpoint(it->uuid, &ch->e);
        else
            ch->err = read_item(ch, rows, it, jget(json_array_get(list, i), "resources"));
        db_rows_close(rows);
    }
}

// --- on the core thread --------------------------------------------------------------------------

// A task may change checkpoints of its own experiment only. *own: they are of its own trial, which
// may delete even the one that it would continue from.
static int may_change(struct core *c, struct checkpoint_change *ch,
                      const struct checkpoint_item *it, bool *own)
{
    struct allocation *a = core_calling_allocation(c, ch->rq);
    struct experiment *x = core_experiment_find(c, it->experiment);
    *own = a && a->trial->id == it->trial;
    if (!x)
        return no_checkpoint(it->uuid, &ch->e);
    if (ch->rq->principal.kind == PRINCIPAL_TASK) {
        int err = core_caller(c, ch->rq, &a, &ch->e);
        if (!err && a->trial->active->experiment != x)
            err = no_checkpoint(it->uuid, &ch->e);
        return err;
    }
    int err = core_may_change(c, ch->rq, x, &ch->e);
    return err == ERR_NOT_FOUND ? no_checkpoint(it->uuid, &ch->e) : err;
}

static int check_item(struct core *c, struct checkpoint_change *ch, const struct gc_forks *forks,
                      const struct checkpoint_item *it)
{
    char who[64];
    bool own;
    int err = may_change(c, ch, it, &own);
    if (err || !it->state)
        return err;
    const char *needed_by = own && it->needed_by_trial_only ? NULL : it->needed_by;
    if (!needed_by && !own && gc_is_needed(c, forks, it->trial, it->uuid, who))
        needed_by = who;
    if (needed_by)
        err = error_set(&ch->e, ERR_STATE, "checkpoint %s cannot be deleted: %s", it->uuid,
                        needed_by);
    return err;
}

// A live trial would have continued from the deleted checkpoint.
static void trial_use_older(struct core *c, struct trial *t)
{
    gc_use_older_checkpoint(c, t, t->checkpoint_steps + 1);
    STORE(c, TRIAL_SET_LATEST_CHECKPOINT, t->checkpoint[0] ? t->checkpoint : NULL, t->id);
}

static void apply_item(struct core *c, const struct checkpoint_change *ch,
                       const struct checkpoint_item *it)
{
    struct trial *t = core_trial_find(c, it->trial);
    const struct gc_deletion *taken = gc_find_deletion(c, it->uuid);
    if (!it->state || (taken && taken->whole))
        return; // a repeated call
    gc_record_deletion(c, it->uuid, !strcmp(it->state, "DELETED"));
    if (ch->kind == CHANGE_PATCH)
        STORE(c, CHECKPOINT_SET_RESOURCES, it->resources, it->state, it->uuid);
    else
        STORE(c, CHECKPOINT_REMOVE, it->state, it->resources, ch->patterns, it->uuid, NULL);
    STORE(c, TRIAL_FORGET_CHECKPOINT, it->uuid);
    if (t && !strcmp(t->checkpoint, it->uuid))
        trial_use_older(c, t);
    change_mark(c, EVENT_CHECKPOINT, it->experiment, it->trial, it->uuid);
}

static void change_done(struct core *c, struct work *work)
{
    struct checkpoint_change *ch = (struct checkpoint_change *)work;
    struct gc_forks forks = gc_forks_of(c);
    for (size_t i = 0; !ch->err && i < ch->count; i++)
        ch->err = check_item(c, ch, &forks, &ch->items[i]);
    free(forks.items);
    for (size_t i = 0; !ch->err && i < ch->count; i++)
        apply_item(c, ch, &ch->items[i]);
    if (ch->err) {
        core_refuse(c, ch->rq, &ch->e);
    } else {
        if (ch->kind != CHANGE_PATCH)
            gc_request(c);
        core_complete(c, ch->rq);
    }
    change_free(work);
}

// --- the requests --------------------------------------------------------------------------------

static int read_uuids(struct checkpoint_change *ch, const json_t *list, const char *key,
                      const char *field, struct error *e)
{
    size_t i;
    json_t *entry;
    if (!json_is_array(list))
        return error_set(e, ERR_INVALID, "%s: missing, or not a list", key);
    if (json_array_size(list) > LIMIT_CHECKPOINTS_PER_CALL)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %d", key, LIMIT_CHECKPOINTS_PER_CALL);
    ch->items = xcalloc(json_array_size(list) + 1, sizeof *ch->items);
    json_array_foreach(list, i, entry)
    {
        const char *text = field ? jget_string(entry, field, NULL) : json_string_value(entry);
        int err = checkpoint_uuid(text ? text : "", ch->items[i].uuid, e);
        if (err)
            return error_prefix(e, "%s.%zu", key, i);
        ch->count++;
    }
    return 0;
}

static int read_patterns(struct checkpoint_change *ch, const json_t *list, struct error *e)
{
    size_t i;
    json_t *pattern;
    char where[48];
    if (!json_is_array(list) || !json_array_size(list))
        return error_set(e, ERR_INVALID, "checkpointGlobs: missing, or an empty list");
    if (json_array_size(list) > LIMIT_GLOBS_PER_CALL)
        return error_set(e, ERR_TOO_LARGE, "checkpointGlobs: more than %d", LIMIT_GLOBS_PER_CALL);
    json_array_foreach(list, i, pattern)
    {
        snprintf(where, sizeof where, "checkpointGlobs.%zu", i);
        int err = path_pattern_check(json_string_value(pattern), where, e);
        if (err)
            return err;
    }
    ch->patterns = json_text(list);
    return 0;
}

static int change_begin(struct core *c, struct checkpoint_change *ch, int err, struct error *e)
{
    ch->work = (struct work){.run = change_run, .done = change_done, .drop = change_free};
    ch->storage = c->options.storage;
    if (!err)
        err = workers_send(c->workers, &ch->work, WORK_STORAGE, e);
    if (err)
        change_free(&ch->work);
    return err ? err : REQUEST_PARKED;
}

int core_checkpoints_delete(struct core *c, struct request *rq, struct error *e)
{
    struct checkpoint_change *ch = xcalloc(1, sizeof *ch);
    ch->rq = rq;
    ch->kind = CHANGE_DELETE;
    ch->patterns = xstrdup("[\"**\"]");
    int err = read_uuids(ch, jget(rq->body, "checkpointUuids"), "checkpointUuids", NULL, e);
    return change_begin(c, ch, err, e);
}

int core_checkpoints_remove_files(struct core *c, struct request *rq, struct error *e)
{
    struct checkpoint_change *ch = xcalloc(1, sizeof *ch);
    ch->rq = rq;
    ch->kind = CHANGE_REMOVE;
    int err = read_uuids(ch, jget(rq->body, "checkpointUuids"), "checkpointUuids", NULL, e);
    if (!err)
        err = read_patterns(ch, jget(rq->body, "checkpointGlobs"), e);
    return change_begin(c, ch, err, e);
}

int core_checkpoints_patch(struct core *c, struct request *rq, struct error *e)
{
    struct checkpoint_change *ch = xcalloc(1, sizeof *ch);
    size_t i;
    json_t *entry;
    ch->rq = rq;
    ch->kind = CHANGE_PATCH;
    int err = read_uuids(ch, jget(rq->body, "checkpoints"), "checkpoints", "uuid", e);
    json_array_foreach(jget(rq->body, "checkpoints"), i, entry)
    {
        const json_t *left = jget(entry, "resources");
        if (!err && left && !json_is_object(left))
            err = error_set(e, ERR_INVALID, "checkpoints.%zu.resources: not an object", i);
        else if (!err && json_object_size(left) > LIMIT_CHECKPOINT_FILES)
            err = error_set(e, ERR_TOO_LARGE, "checkpoints.%zu.resources: more than %d files", i,
                            LIMIT_CHECKPOINT_FILES);
    }
    return change_begin(c, ch, err, e);
}

// Whether the caller may change the checkpoint in the path.
static int check_owner(struct core *c, struct request *rq, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, CHECKPOINT_TO_CHANGE, rq->params[0]);
    bool found = db_next(rows) > 0;
    struct experiment *x =
        found ? core_experiment_find(c, DB_GET(rows, CHECKPOINT_TO_CHANGE, experiment_id)) : NULL;
    db_rows_close(rows);
    return x ? core_may_change(c, rq, x, e) : no_checkpoint(rq->params[0], e);
}

int core_checkpoint_metadata(struct core *c, struct request *rq, struct error *e)
{
    const json_t *metadata = jget_path(rq->body, "checkpoint.metadata");
    int err = check_owner(c, rq, e);
    if (!err && !json_is_object(metadata))
        err = error_set(e, ERR_INVALID, "checkpoint.metadata: missing, or not an object");
    if (err)
        return err;
    char *text = json_text(metadata);
    STORE(c, CHECKPOINT_SET_METADATA, text, rq->params[0]);
    free(text);
    return 0;
}

int core_experiment_gc(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err)
        gc_collect_experiment(c, x);
    return err;
}
