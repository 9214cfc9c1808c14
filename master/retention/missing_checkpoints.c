// Checkpoints whose files have disappeared without a word: a trial that starts again after a
// failure must not start from one for ever. A worker looks for the folder of the newest checkpoint,
// then for the ones before it; the trial goes on from the first that is there, or begins anew.
//
// The trial does not wait for the answer, as storage may hang: it starts again after a pause
// anyway. An answer that comes after that start is dropped, and the next failure looks again. The
// rows of the checkpoints stay as they are, for files may come back.
//
// A storage that the master does not see tells nothing. Neither does a folder without any
// checkpoint of the store, since it may be the mount point of a file system that is not mounted:
// then the trial keeps its checkpoint. A lost start can be repeated, lost training cannot.
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

enum { WITNESSES = 256 }; // checkpoints of others that are looked for

struct look {
    struct work work; // first
    const struct storage *storage;
    char *at; // the trial's storage, JSON
    int64_t trial, gone;
    char newest[UUID_TEXT]; // that the trial would start from
    int64_t newest_steps;
    char found[UUID_TEXT]; // the first that is there; "": none is
    int64_t found_steps;
    bool unknown; // the storage does not tell
    bool empty;   // .. as no checkpoint at all is there
};

static void look_free(struct work *work)
{
    struct look *l = (struct look *)work;
    free(l->at);
    free(l);
}

static void look_at(struct look *l, const char *uuid, int64_t steps)
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

// Whether the folder holds a checkpoint of another trial, so that its file system is mounted.
static bool has_witness(const struct look *l, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_BESIDE, l->trial, l->at, WITNESSES);
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

static void look_for_all(struct work *work, struct db_reader *db)
{
    struct look *l = (struct look *)work;
    look_at(l, l->newest, l->newest_steps);
    if (l->found[0] || l->unknown)
        return;
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_BELOW, l->trial, INT64_MAX);
    int more = 0;
    while (!l->found[0] && !l->unknown && (more = db_next(rows)) > 0)
        if (strcmp(DB_GET(rows, CHECKPOINTS_BELOW, uuid), l->newest) != 0)
            look_at(l, DB_GET(rows, CHECKPOINTS_BELOW, uuid),
                    DB_GET(rows, CHECKPOINTS_BELOW, steps));
    db_rows_close(rows);
    l->unknown |= more < 0;
    l->empty = !l->found[0] && !l->unknown && !has_witness(l, db);
}

static char *what_follows(const struct look *l, const struct trial *t)
{
    const char *source =
        jget_string(jget(t->active->config, "searcher"), "source_checkpoint_uuid", NULL);
    const char *place =
        l->gone > 1 ? "all checkpoints of this trial have" : "the checkpoint of this trial has";
    if (l->found[0])
        return xasprintf("the files of checkpoint %s (step %lld) have disappeared; the trial goes "
                         "on from checkpoint %s (step %lld)",
                         l->newest, (long long)l->newest_steps, l->found,
                         (long long)l->found_steps);
    if (source)
        return xasprintf("%s disappeared from storage; it starts again from checkpoint %s, from "
                         "which its experiment started",
                         place, source);
    return xasprintf("%s disappeared from storage; it starts again from the beginning", place);
}

static void go_on(struct core *c, struct trial *t, const struct look *l)
{
    char *text = what_follows(l, t);
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

// Said in the log alone: nothing is known yet.
static void keep(struct core *c, struct trial *t, const struct look *l)
{
    char *text =
        xasprintf("the files of checkpoint %s (step %lld) are not in its storage, nor is any "
                  "other checkpoint: perhaps the file system is not mounted where the "
                  "master runs; the trial keeps to this checkpoint; if its files are gone "
                  "for good, submit the experiment anew",
                  l->newest, (long long)l->newest_steps);
    CORE_DISPATCH(c, trial_message, c, t, "", "WARNING", text);
    log_warn("checkpoint storage is empty; is it mounted?", "exp=%lld trial=%lld",
             (long long)t->active->experiment->id, (long long)t->id);
    free(text);
}

// A run that has begun keeps the checkpoint it began with: another would look as if it had saved
// it.
static bool awaits_start(const struct trial *t)
{
    return t->state == TRIAL_ACTIVE &&
           (!t->allocation || t->allocation->state == ALLOCATION_QUEUED);
}

static void looked(struct core *c, struct work *work)
{
    const struct look *l = (const struct look *)work;
    struct trial *t = core_trial_find(c, l->trial);
    bool same = t && !strcmp(t->checkpoint, l->newest); // nobody has said otherwise meanwhile
    if (same && awaits_start(t) && l->gone && !l->unknown)
        (l->empty ? keep : go_on)(c, t, l);
    look_free(work);
}

void gc_look_for_vanished(struct core *c, struct trial *t)
{
    if (!t->checkpoint[0])
        return;
    struct look *l = xcalloc(1, sizeof *l);
    l->work = (struct work){.run = look_for_all, .done = looked, .drop = look_free};
    l->storage = c->options.storage;
    l->at = xstrdup(t->active->storage);
    l->trial = t->id;
    snprintf(l->newest, sizeof l->newest, "%s", t->checkpoint);
    l->newest_steps = t->checkpoint_steps;
    if (workers_send(c->workers, &l->work, WORK_STORAGE, NULL))
        look_free(&l->work); // too much waits: at its next failure
}
