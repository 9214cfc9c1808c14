// Commands and generic tasks by the hand of a person: end, pause, go on, another priority, delete.
// A verb of a generic task is one of all that were made below it.
#include "master/calls/task_verbs.h"

#include <string.h>

#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue_moves.h"
#include "master/calls/removal.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

// --- finding -------------------------------------------------------------------------------------

static int no_task(enum kind kind, const char *id, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no %s %.64s", kind_words[kind].noun, id);
}

static int may_change(struct core *c, const struct request *rq, const struct experiment *x,
                      const char *id, struct error *e)
{
    bool own = rq->principal.user_id == x->user_id;
    const struct workspace *ws = core_workspace_of(c, x);
    if (!core_sees(c, rq, x))
        return no_task(x->kind, id, e);
    int err = role_check(core_role(rq, ws), own ? ACT_CHANGE_OWN : ACT_CHANGE_OTHERS, ws->name, e);
    return err ? error_prefix(e, "%s %.64s", kind_words[x->kind].noun, id) : 0;
}

int task_find(struct core *c, const struct request *rq, enum kind kind, const char *id,
              struct experiment **out, struct error *e)
{
    struct db_rows *rows = db_query(c->reader, STMT_TASK_HOME, "s", id);
    *out = db_next(rows) > 0 ? core_experiment_find(c, db_int(rows, 0)) : NULL;
    db_rows_close(rows);
    if (!*out || (*out)->kind != kind)
        return no_task(kind, id, e);
    return may_change(c, rq, *out, id, e);
}

static int find(struct core *c, struct request *rq, enum kind kind, struct experiment **out,
                struct error *e)
{
    int err = task_find(c, rq, kind, rq->params[0], out, e);
    rq->id = err ? 0 : (*out)->id;
    return err;
}

// --- a command, and what is like it --------------------------------------------------------------

static int kill_one(struct core *c, struct request *rq, enum kind kind, struct error *e)
{
    struct experiment *x;
    int err = find(c, rq, kind, &x, e);
    return err ? err : experiment_event(c, x, EXPERIMENT_EV_KILL, e);
}

static int set_priority(struct core *c, struct request *rq, enum kind kind, struct error *e)
{
    struct experiment *x;
    struct steer steer;
    int err = find(c, rq, kind, &x, e);
    if (!err && !jget(rq->body, "priority"))
        err = error_set(e, ERR_INVALID, "priority: missing");
    if (!err && (!x->active || experiment_is_terminal(x->state)))
        err = error_set(e, ERR_CONFLICT, "%s %.64s has ended: its priority stays",
                        kind_words[kind].noun, rq->params[0]);
    const json_t *only = err ? NULL : jget(rq->body, "priority");
    json_t *from = only ? json_pack("{s:O}", "priority", only) : NULL;
    if (!err)
        err = steer_read(c, x, from, "body", &steer, e);
    if (!err)
        err = steer_check(c, rq, x->active, &steer, "body", e);
    if (!err) {
        steer_apply(c, x->active, &steer);
        STORE(c, EXPERIMENT_PATCH, "nnnnisi", steer.priority, x->active->config_text, x->id);
    }
    json_decref(from);
    return err;
}

#define VERBS(noun, kind)                                                                          \
    int core_##noun##_kill(struct core *c, struct request *rq, struct error *e)                    \
    {                                                                                              \
        return kill_one(c, rq, kind, e);                                                           \
    }                                                                                              \
    int core_##noun##_set_priority(struct core *c, struct request *rq, struct error *e)            \
    {                                                                                              \
        return set_priority(c, rq, kind, e);                                                       \
    }
VERBS(command, KIND_COMMAND)
VERBS(shell, KIND_SHELL)
VERBS(notebook, KIND_NOTEBOOK)
VERBS(tensorboard, KIND_TENSORBOARD)
#undef VERBS

// What needs a way into the cluster from outside, which this master has not.
static int refuse(const char *what, const char *instead, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "%s cannot be opened: it needs connections from outside to running programs, "
                     "and this master passes none on. %s",
                     what, instead);
}

int core_shell_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse("a shell",
                  "Run a command instead (muster command run -- PROGRAM ..), or log in "
                  "to the machine itself",
                  e);
}

int core_notebook_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse("a notebook",
                  "Run the notebook as a command (muster command run --files FOLDER -- jupyter "
                  "execute FILE.ipynb), or start Jupyter on the machine itself",
                  e);
}

int core_tensorboard_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse("a TensorBoard",
                  "The master's web page draws the metrics of experiments; muster trial metrics "
                  "and GET /api/v1/trials/{id}/series give them",
                  e);
}

// --- generic tasks and what was made below them --------------------------------------------------

static bool is_below(const struct active_experiment *l, const char *id)
{
    return l->ancestors && strstr(l->ancestors, id);
}

// Calls act() on a task, then on all below it that live; the first error is kept, and ends it.
static int each_below(struct core *c, struct request *rq, const char *id,
                      int (*act)(struct core *c, struct experiment *x, struct error *e), bool check,
                      struct error *e)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (!x->active || x->kind != KIND_GENERIC || experiment_is_terminal(x->state) ||
            !(is_below(x->active, id) || !strcmp(x->active->trials->task_id, id)))
            continue;
        int err = check ? may_change(c, rq, x, x->active->trials->task_id, e) : act(c, x, e);
        if (err)
            return err;
    }
    return 0;
}

// All or none: who may not change one of them changes none.
static int each(struct core *c, struct request *rq, const char *id,
                int (*act)(struct core *c, struct experiment *x, struct error *e), struct error *e)
{
    int err = each_below(c, rq, id, act, true, e);
    return err ? err : each_below(c, rq, id, act, false, e);
}

static int kill_task(struct core *c, struct experiment *x, struct error *e)
{
    return experiment_event(c, x, EXPERIMENT_EV_KILL, e);
}

// Those that must not be paused, and those that are being ended, are left alone.
static int pause_task(struct core *c, struct experiment *x, struct error *e)
{
    bool pauses = x->state == EXPERIMENT_ACTIVE && !x->active->no_pause;
    return pauses ? experiment_event(c, x, EXPERIMENT_EV_PAUSE, e) : 0;
}

static int unpause_task(struct core *c, struct experiment *x, struct error *e)
{
    return x->state == EXPERIMENT_PAUSED ? experiment_event(c, x, EXPERIMENT_EV_ACTIVATE, e) : 0;
}

// The first of its tree, as bytes of the text of its ancestors; "" where it is that itself.
static int find_root(struct core *c, const char *id, char root[TASK_ID], struct error *e)
{
    struct db_rows *rows = db_query(c->reader, STMT_TASK_HOME, "s", id);
    bool found = db_next(rows) > 0;
    const char *ancestors = found ? db_text(rows, 2) : "";
    const char *first = *ancestors ? ancestors + 1 : id;
    snprintf(root, TASK_ID, "%.*s", (int)strcspn(first, "/"), first);
    db_rows_close(rows);
    return found ? 0 : no_task(KIND_GENERIC, id, e);
}

int core_task_kill(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    char root[TASK_ID];
    int err = find(c, rq, KIND_GENERIC, &x, e);
    if (err || !jget_bool(rq->body, "killFromRoot", false))
        return err ? err : each(c, rq, rq->params[0], kill_task, e);
    err = find_root(c, rq->params[0], root, e);
    return err ? err : each(c, rq, root, kill_task, e);
}

int core_task_pause(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find(c, rq, KIND_GENERIC, &x, e);
    if (err)
        return err;
    if (x->state != EXPERIMENT_ACTIVE && x->state != EXPERIMENT_PAUSED)
        return error_set(e, ERR_CONFLICT, "task %.64s is %s: it cannot be paused", rq->params[0],
                         experiment_state_word(x->state));
    if (x->active->no_pause)
        return error_set(e, ERR_CONFLICT,
                         "task %.64s was made with noPause: it is never asked to leave",
                         rq->params[0]);
    return each(c, rq, rq->params[0], pause_task, e);
}

int core_task_unpause(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find(c, rq, KIND_GENERIC, &x, e);
    if (err)
        return err;
    if (x->state != EXPERIMENT_ACTIVE && x->state != EXPERIMENT_PAUSED)
        return error_set(e, ERR_CONFLICT, "task %.64s is %s: it cannot go on", rq->params[0],
                         experiment_state_word(x->state));
    return each(c, rq, rq->params[0], unpause_task, e);
}

// --- delete --------------------------------------------------------------------------------------

// A command or a generic task; what was made below it stays.
int core_task_delete(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find(c, rq, KIND_COMMAND, &x, e);
    if (err && (!x || x->kind == KIND_GENERIC))
        err = find(c, rq, KIND_GENERIC, &x, e);
    if (err && x && x->kind == KIND_EXPERIMENT)
        return error_set(e, ERR_CONFLICT, "task %.64s is of experiment %lld: delete that",
                         rq->params[0], (long long)x->id);
    if (err)
        return err;
    if (!experiment_is_terminal(x->state))
        return error_set(e, ERR_CONFLICT, "%s %.64s has not ended: kill it first",
                         kind_words[x->kind].noun, rq->params[0]);
    return removal_begin(c, x, e);
}
