// Checks whether the files of a failed trial's checkpoint still exist, so that the trial does not
// fail for ever on a missing one. A worker looks for the folder of the newest checkpoint, then of
// the older ones; the trial continues from the first that exists, or starts over.
//
// The trial does not wait for the result, since storage may hang, but a restart has a pause anyway.
// A result that arrives after the restart is dropped; the next failure checks again. The rows of
// the checkpoints stay, because the files may come back.
//
// Storage that the master cannot read gives no result. Neither does a folder without any checkpoint
// of the store, since it may be the mount point of a file system that is not mounted: then the
// trial keeps its checkpoint. A failed restart can be repeated, lost training cannot.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/retention/gc.h"

enum { OTHERS_MAX = 256 }; // checkpoints of other trials that are looked for

struct checkpoint_probe {
    struct work work; // first
    const struct storage *storage;
    char *at; // the trial's storage, JSON
    int64_t trial, gone;
    char newest[UUID_TEXT]; // the trial would start from it
    int64_t newest_steps;
    char found[UUID_TEXT]; // the newest whose files exist; "": none
    int64_t found_steps;
    bool unknown; // the storage gives no result
    bool empty;   // .. since it has no checkpoint at all
};

static void probe_free(struct work *work)
{
    struct checkpoint_probe *l = (struct checkpoint_probe *)work;
    free(l->at);
    free(l);
}

static void probe_folder(struct checkpoint_probe *l, const char *uuid, int64_t steps)
{
    int dir = -1, err = storage_open(l->storage, l->at, uuid, &dir, NULL, NULL);
    if (!err) {
        close(dir);
        snprintf(l->found, sizeof l->found, "%s", uuid);
        l->found_steps = steps;
    }
    l->gone += err == ERR_NOT_FOUND;
    l->unknown = err && err != ERR_NOT_FOUND;
}

// Whether the folder holds a checkpoint of another trial, which shows that its file system is
// mounted.
static bool has_other_checkpoint(const struct checkpoint_probe *l, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_BESIDE, l->trial, l->at, OTHERS_MAX);
    bool found = false;
    while (!found && db_next(rows) > 0) {
        int dir = -1;
        found = !storage_open(l->storage, l->at, DB_GET(rows, CHECKPOINTS_BESIDE, uuid), &dir, NULL,
                              NULL);
        if (found)
            close(dir);
    }
    db_rows_close(rows);
    return found;
}

static void probe_run(struct work *work, struct db_reader *db)
{
    struct checkpoint_probe *l = (struct checkpoint_probe *)work;
    probe_folder(l, l->newest, l->newest_steps);
    if (l->found[0] || l->unknown)
        return;
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_BELOW, l->trial, INT64_MAX);
    int more = 0;
    while (!l->found[0] && !l->unknown && (more = db_next(rows)) > 0)
        if (strcmp(DB_GET(rows, CHECKPOINTS_BELOW, uuid), l->newest) != 0)
            probe_folder(l, DB_GET(rows, CHECKPOINTS_BELOW, uuid),
                         DB_GET(rows, CHECKPOINTS_BELOW, steps));
    db_rows_close(rows);
    l->unknown |= more < 0;
    l->empty = !l->found[0] && !l->unknown && !has_other_checkpoint(l, db);
}

static char *describe_restart(const struct checkpoint_probe *l, const struct trial *t)
{
    const char *source = t->source_checkpoint[0] ? t->source_checkpoint
                                                 : jget_string(jget(t->active->config, "searcher"),
                                                               "source_checkpoint_uuid", NULL);
    const char *place =
        l->gone > 1 ? "all checkpoints of this trial have" : "the checkpoint of this trial has";
    if (l->found[0])
        return xasprintf("the files of checkpoint %s (step %lld) have disappeared; the trial "
                         "continues from checkpoint %s (step %lld)",
                         l->newest, (long long)l->newest_steps, l->found,
                         (long long)l->found_steps);
    if (source)
        return xasprintf("%s disappeared from storage; it starts again from checkpoint %s, from "
                         "which it started at first",
                         place, source);
    return xasprintf("%s disappeared from storage; it starts again from the beginning", place);
}

static void trial_use_found(struct core *c, struct trial *t, const struct checkpoint_probe *l)
{
    char *text = describe_restart(l, t);
    memcpy(t->checkpoint, l->found, sizeof t->checkpoint);
    t->checkpoint_steps = l->found[0] ? l->found_steps : 0;
    STORE(c, TRIAL_SET_LATEST_CHECKPOINT, t->checkpoint[0] ? t->checkpoint : NULL, t->id);
    CORE_DISPATCH(c, trial_message, c, t, "", "WARNING", text);
    if (!l->found[0]) {
        char *reason = xasprintf("%s%s%s", t->exit_reason ? t->exit_reason : "",
                                 t->exit_reason ? "; " : "", text);
        trial_set_reason(c, t, reason);
        free(reason);
    }
    log_warn("checkpoints have disappeared", "exp=%lld trial=%lld gone=%lld steps=%lld",
             (long long)t->active->experiment->id, (long long)t->id, (long long)l->gone,
             (long long)t->checkpoint_steps);
    free(text);
}

// Only the log mentions it: the cause is not known yet.
static void trial_keep_checkpoint(struct core *c, struct trial *t, const struct checkpoint_probe *l)
{
    char *text =
        xasprintf("the files of checkpoint %s (step %lld) are not in its storage, nor is any "
                  "other checkpoint: perhaps the file system is not mounted where the "
                  "master runs; the trial keeps to this checkpoint; if its files are gone "
                  "for good, submit the experiment again",
                  l->newest, (long long)l->newest_steps);
    CORE_DISPATCH(c, trial_message, c, t, "", "WARNING", text);
    log_warn("checkpoint storage is empty; is it mounted?", "exp=%lld trial=%lld",
             (long long)t->active->experiment->id, (long long)t->id);
    free(text);
}

// A run that has started keeps its checkpoint: another one would look as if this run had written
// it.
static bool awaits_start(const struct trial *t)
{
    return t->state == TRIAL_ACTIVE &&
           (!t->allocation || t->allocation->state == ALLOCATION_QUEUED);
}

static void probe_done(struct core *c, struct work *work)
{
    const struct checkpoint_probe *l = (const struct checkpoint_probe *)work;
    struct trial *t = core_trial_find(c, l->trial);
    bool same = t && !strcmp(t->checkpoint, l->newest); // nothing has changed it meanwhile
    if (same && awaits_start(t) && l->gone && !l->unknown)
        (l->empty ? trial_keep_checkpoint : trial_use_found)(c, t, l);
    probe_free(work);
}

void missing_checkpoints_check(struct core *c, struct trial *t)
{
    if (!t->checkpoint[0])
        return;
    struct checkpoint_probe *l = xcalloc(1, sizeof *l);
    l->work = (struct work){.run = probe_run, .done = probe_done, .drop = probe_free};
    l->storage = c->options.storage;
    l->at = xstrdup(t->active->storage);
    l->trial = t->id;
    snprintf(l->newest, sizeof l->newest, "%s", t->checkpoint);
    l->newest_steps = t->checkpoint_steps;
    if (workers_send(c->workers, &l->work, WORK_STORAGE, NULL))
        probe_free(&l->work); // the queue is full: the next failure checks
}
