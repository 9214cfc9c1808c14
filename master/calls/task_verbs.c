// Verbs of commands and generic tasks: kill, pause, unpause, priority, delete. A verb on a generic
// task applies to all active tasks below it, too.
#include "master/calls/verbs.h"

#include <string.h>

#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

// --- finding a task ------------------------------------------------------------------------------

static int refuse_missing_task(enum kind kind, const char *id, struct error *e)
{
    return error_not_found(e, kind_words[kind].noun, "%.64s", id);
}

static int may_change(struct core *c, const struct request *rq, const struct experiment *x,
                      const char *id, struct error *e)
{
    bool own = rq->principal.user_id == x->user_id;
    const struct workspace *ws = core_workspace_of(c, x);
    if (!core_sees(c, rq, x))
        return refuse_missing_task(x->kind, id, e);
    int err = role_check(core_role(rq, ws), own ? ACT_CHANGE_OWN : ACT_CHANGE_OTHERS, ws->name, e);
    return err ? error_prefix(e, "%s %.64s", kind_words[x->kind].noun, id) : 0;
}

int task_find(struct core *c, const struct request *rq, enum kind kind, const char *id,
              struct experiment **out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, TASK_HOME, id);
    *out =
        db_next(rows) > 0 ? core_experiment_find(c, DB_GET(rows, TASK_HOME, experiment_id)) : NULL;
    db_rows_close(rows);
    if (!*out || (*out)->kind != kind)
        return refuse_missing_task(kind, id, e);
    return may_change(c, rq, *out, id, e);
}

static int find_task(struct core *c, struct request *rq, enum kind kind, struct experiment **out,
                     struct error *e)
{
    int err = task_find(c, rq, kind, rq->params[0], out, e);
    rq->id = err ? 0 : (*out)->id;
    return err;
}

// --- commands, shells, notebooks and TensorBoards ------------------------------------------------

static int kill_task_of_kind(struct core *c, struct request *rq, enum kind kind, struct error *e)
{
    struct experiment *x;
    int err = find_task(c, rq, kind, &x, e);
    return err ? err : experiment_event(c, x, EXPERIMENT_EV_KILL, e);
}

static int set_task_priority(struct core *c, struct request *rq, enum kind kind, struct error *e)
{
    struct experiment *x;
    struct queue_move move;
    int err = find_task(c, rq, kind, &x, e);
    if (!err && !jget(rq->body, "priority"))
        err = error_set(e, ERR_INVALID, "priority: missing");
    if (!err && (!x->active || experiment_is_terminal(x->state)))
        err = error_set(e, ERR_STATE, "%s %.64s has ended; its priority cannot be changed",
                        kind_words[kind].noun, rq->params[0]);
    const json_t *only = err ? NULL : jget(rq->body, "priority");
    json_t *from = only ? json_pack("{s:O}", "priority", only) : NULL;
    if (!err)
        err = queue_move_read(c, x, from, "body", &move, e);
    if (!err)
        err = queue_move_check(c, rq, x->active, &move, "body", e);
    if (!err) {
        queue_move_apply(c, x->active, &move);
        STORE(c, EXPERIMENT_PATCH, NULL, NULL, NULL, NULL, move.priority, x->active->config_text,
              x->id);
    }
    json_decref(from);
    return err;
}

#define VERBS(noun, kind)                                                                          \
    int core_##noun##_kill(struct core *c, struct request *rq, struct error *e)                    \
    {                                                                                              \
        return kill_task_of_kind(c, rq, kind, e);                                                  \
    }                                                                                              \
    int core_##noun##_set_priority(struct core *c, struct request *rq, struct error *e)            \
    {                                                                                              \
        return set_task_priority(c, rq, kind, e);                                                  \
    }
VERBS(command, KIND_COMMAND)
VERBS(shell, KIND_SHELL)
VERBS(notebook, KIND_NOTEBOOK)
VERBS(tensorboard, KIND_TENSORBOARD)
#undef VERBS

// Shells, notebooks and TensorBoards need connections to running programs, which the master does
// not forward.
static int refuse_kind(const char *what, const char *instead, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "%s cannot be opened: it needs connections from outside to running programs, "
                     "which this master does not forward. %s",
                     what, instead);
}

int core_shell_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse_kind("a shell",
                       "Run a command instead (muster command run -- PROGRAM ..), or log in "
                       "to the machine itself",
                       e);
}

int core_notebook_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse_kind(
        "a notebook",
        "Run the notebook as a command (muster command run --files FOLDER -- jupyter "
        "execute FILE.ipynb), or start Jupyter on the machine itself",
        e);
}

int core_tensorboard_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c, (void)rq;
    return refuse_kind(
        "a TensorBoard",
        "The master's web page draws the metrics of experiments; muster trial metrics "
        "and GET /api/v1/trials/{id}/series give them",
        e);
}

// --- trees of generic tasks ----------------------------------------------------------------------

static bool is_descendant(const struct active_experiment *active, const char *id)
{
    return active->ancestors && strstr(active->ancestors, id);
}

// Calls act() for a task and all active tasks below it, or only checks that the caller may change
// them. Stops at the first error.
static int for_each_in_tree(struct core *c, struct request *rq, const char *id,
                            int (*act)(struct core *c, struct experiment *x, struct error *e),
                            bool check, struct error *e)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        struct experiment *x = c->experiments.items[i].value;
        if (!x->active || x->kind != KIND_GENERIC || experiment_is_terminal(x->state) ||
            !(is_descendant(x->active, id) || !strcmp(x->active->trials->task_id, id)))
            continue;
        int err = check ? may_change(c, rq, x, x->active->trials->task_id, e) : act(c, x, e);
        if (err)
            return err;
    }
    return 0;
}

// Applies the verb to all tasks of a tree, or to none if the caller may not change one of them.
static int apply_to_tree(struct core *c, struct request *rq, const char *id,
                         int (*act)(struct core *c, struct experiment *x, struct error *e),
                         struct error *e)
{
    int err = for_each_in_tree(c, rq, id, act, true, e);
    return err ? err : for_each_in_tree(c, rq, id, act, false, e);
}

static int kill_task(struct core *c, struct experiment *x, struct error *e)
{
    return experiment_event(c, x, EXPERIMENT_EV_KILL, e);
}

// Tasks with noPause, and tasks that are being ended, are skipped.
static int pause_task(struct core *c, struct experiment *x, struct error *e)
{
    bool pauses = x->state == EXPERIMENT_ACTIVE && !x->active->no_pause;
    return pauses ? experiment_event(c, x, EXPERIMENT_EV_PAUSE, e) : 0;
}

static int unpause_task(struct core *c, struct experiment *x, struct error *e)
{
    return x->state == EXPERIMENT_PAUSED ? experiment_event(c, x, EXPERIMENT_EV_ACTIVATE, e) : 0;
}

// The root of a task's tree.
static int find_tree_root(struct core *c, const char *id, char root[TASK_ID], struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, TASK_HOME, id);
    bool found = db_next(rows) > 0;
    const char *ancestors = found ? DB_GET(rows, TASK_HOME, ancestors) : "";
    const char *first = *ancestors ? ancestors + 1 : id;
    snprintf(root, TASK_ID, "%.*s", (int)strcspn(first, "/"), first);
    db_rows_close(rows);
    return found ? 0 : refuse_missing_task(KIND_GENERIC, id, e);
}

int core_task_kill(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    char root[TASK_ID];
    int err = find_task(c, rq, KIND_GENERIC, &x, e);
    if (err || !jget_bool(rq->body, "killFromRoot", false))
        return err ? err : apply_to_tree(c, rq, rq->params[0], kill_task, e);
    err = find_tree_root(c, rq->params[0], root, e);
    return err ? err : apply_to_tree(c, rq, root, kill_task, e);
}

int core_task_pause(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find_task(c, rq, KIND_GENERIC, &x, e);
    if (err)
        return err;
    if (x->state != EXPERIMENT_ACTIVE && x->state != EXPERIMENT_PAUSED)
        return error_set(e, ERR_STATE, "task %.64s is %s: it cannot be paused", rq->params[0],
                         experiment_state_word(x->state));
    if (x->active->no_pause)
        return error_set(e, ERR_STATE, "task %.64s was created with noPause: it cannot be paused",
                         rq->params[0]);
    return apply_to_tree(c, rq, rq->params[0], pause_task, e);
}

int core_task_unpause(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find_task(c, rq, KIND_GENERIC, &x, e);
    if (err)
        return err;
    if (x->state != EXPERIMENT_ACTIVE && x->state != EXPERIMENT_PAUSED)
        return error_set(e, ERR_STATE, "task %.64s is %s: it cannot be unpaused", rq->params[0],
                         experiment_state_word(x->state));
    return apply_to_tree(c, rq, rq->params[0], unpause_task, e);
}

// --- deleting ------------------------------------------------------------------------------------

// Deletes a command or a generic task; the tasks below it stay.
int core_task_delete(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    int err = find_task(c, rq, KIND_COMMAND, &x, e);
    if (err && (!x || x->kind == KIND_GENERIC))
        err = find_task(c, rq, KIND_GENERIC, &x, e);
    if (err && x && x->kind == KIND_EXPERIMENT)
        return error_set(e, ERR_CONFLICT,
                         "task %.64s belongs to experiment %lld; delete the experiment",
                         rq->params[0], (long long)x->id);
    if (err)
        return err;
    if (!experiment_is_terminal(x->state))
        return error_set(e, ERR_STATE, "%s %.64s has not ended; kill it first",
                         kind_words[x->kind].noun, rq->params[0]);
    return removal_begin(c, x, e);
}
