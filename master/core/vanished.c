// Checkpoints whose files have disappeared without a word: a trial that starts again after a
// failure must not start from one for ever. A worker looks for the folder of the newest checkpoint,
// then for the ones before it; the trial goes on from the first that is there, or begins anew.
//
// The trial does not wait for the answer, as storage may hang: it starts again after a pause anyway
// (an answer that comes too late is good for the start after the next). The rows of the checkpoints
// stay as they are, for files may come back. A storage that the master does not see tells nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "master/core/gc.h"
#include "master/core/lives.h"
#include "master/core/logs.h"
#include "master/core/workers.h"

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

static void look_for_all(struct work *work, struct db_reader *db)
{
    struct look *l = (struct look *)work;
    look_at(l, l->newest, l->newest_steps);
    if (l->found[0] || l->unknown)
        return;
    struct db_rows *rows = db_query(db, STMT_CHECKPOINTS_BELOW, "ii", l->trial, INT64_MAX);
    int more = 0;
    while (!l->found[0] && !l->unknown && (more = db_next(rows)) > 0)
        if (strcmp(db_text(rows, 0), l->newest) != 0)
            look_at(l, db_text(rows, 0), db_int(rows, 1));
    db_rows_close(rows);
    l->unknown |= more < 0;
}

static char *what_follows(const struct look *l, const struct trial *t)
{
    const char *source =
        jget_string(jget(t->live->config, "searcher"), "source_checkpoint_uuid", NULL);
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
    STORE(c, TRIAL_SET_LATEST_CHECKPOINT, "si", t->checkpoint[0] ? t->checkpoint : NULL, t->id);
    logs_say(c, t, "", "WARNING", text);
    if (!l->found[0]) {
        char *reason = xasprintf("%s%s%s", t->exit_reason ? t->exit_reason : "",
                                 t->exit_reason ? "; " : "", text);
        trial_set_reason(c, t, reason);
        free(reason);
    }
    log_warn("checkpoints have disappeared", "exp=%lld trial=%lld gone=%lld steps=%lld",
             (long long)t->live->experiment->id, (long long)t->id, (long long)l->gone,
             (long long)t->checkpoint_steps);
    free(text);
}

static void looked(struct core *c, struct work *work)
{
    const struct look *l = (const struct look *)work;
    struct trial *t = core_trial_find(c, l->trial);
    bool same = t && !strcmp(t->checkpoint, l->newest); // nobody has said otherwise meanwhile
    if (same && l->gone && !l->unknown)
        go_on(c, t, l);
    look_free(work);
}

void gc_look_for_vanished(struct core *c, const struct trial *t)
{
    if (!t->checkpoint[0])
        return;
    struct look *l = xcalloc(1, sizeof *l);
    l->work = (struct work){.run = look_for_all, .done = looked, .drop = look_free};
    l->storage = c->options.storage;
    l->at = xstrdup(t->live->storage);
    l->trial = t->id;
    snprintf(l->newest, sizeof l->newest, "%s", t->checkpoint);
    l->newest_steps = t->checkpoint_steps;
    if (workers_send(c->workers, &l->work, false, NULL))
        look_free(&l->work); // too much waits: at its next failure
}
