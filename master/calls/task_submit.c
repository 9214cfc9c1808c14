// Submissions of commands and generic tasks, as far as they differ from experiments: other
// configuration keys, forks of tasks, and tasks below a parent task.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/taskconf.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/submit.h"
#include "master/calls/verbs.h"
#include "master/teams/teams.h"

// --- the configuration ---------------------------------------------------------------------------

// The configuration of a command is an object, that of a generic task is YAML. A command may leave
// it to its template.
static int read_text(struct submission *s)
{
    const json_t *config = jget(s->rq->body, "config");
    bool object = s->kind == KIND_COMMAND;
    if (s->text && !config)
        return 0; // a fork without changes
    if (!config && !object)
        return error_set(&s->e, ERR_INVALID, "config: missing: YAML with an entrypoint, as text");
    if (config && (object ? !json_is_object(config) : !json_is_string(config)))
        return error_set(&s->e, ERR_INVALID, "config: not %s",
                         object ? "an object" : "YAML as text");
    char *text = !config  ? xstrdup("{}")
                 : object ? json_text(config)
                          : xstrdup(json_string_value(config));
    free(s->text);
    s->text = text;
    return 0;
}

// Completes the configuration of a fork with that of its original.
static int merge_original_config(struct submission *s, char *original)
{
    struct yaml_doc own = {0}, from = {0};
    int err = yaml_parse(s->text, strlen(s->text), "config", &own, &s->e);
    if (!err)
        err = yaml_parse(original, strlen(original), "the original's config", &from, &s->e);
    if (!err && !json_is_object(own.root))
        err = error_set(&s->e, ERR_INVALID, "config: not a YAML mapping of keys to values");
    if (!err) {
        json_deep_merge(from.root, own.root);
        free(s->text);
        s->text = json_text(from.root);
    }
    yaml_doc_free(&own);
    yaml_doc_free(&from);
    return err;
}

int task_submission_finish(struct submission *s, struct yaml_doc *doc)
{
    json_t *experiment;
    int err = taskconf_finish(doc, &experiment, &s->e);
    if (err)
        return err;
    if (s->kind == KIND_COMMAND)
        s->command = json_incref(doc->root);
    json_decref(doc->root);
    doc->root = experiment;
    return 0;
}

// A command is stored with all keys, as it is shown.
void task_submission_show(struct submission *s)
{
    if (!s->command)
        return;
    const char *pool = jget_string(jget(s->config, "resources"), "resource_pool", "");
    must(!json_object_set_new(jget(s->command, "resources"), "resource_pool", json_string(pool)));
    free(s->text);
    s->text = json_text(s->command);
}

// --- related tasks -------------------------------------------------------------------------------

// Finds a generic task that the caller may see. The caller closes the rows, also after an error.
static int find_task(struct submission *s, struct db_reader *db, const char *key, const char *id,
                     struct db_rows **rows)
{
    *rows = DB_QUERY(db, TASK_HOME, id);
    bool found = db_next(*rows) > 0 &&
                 !strcmp(DB_GET(*rows, TASK_HOME, kind), kind_words[KIND_GENERIC].word) &&
                 !authz_check(db, &s->rq->principal, AUTHZ_TASK, id, NULL);
    return found ? 0
                 : error_set(&s->e, ERR_NOT_FOUND, "%s: generic task '%.64s' not found", key, id);
}

static void copy_task_files(struct submission *s, struct db_rows *rows)
{
    if (!DB_IS_NULL(rows, TASK_HOME, hash))
        submission_copy_files(s, DB_GET(rows, TASK_HOME, experiment_id),
                              DB_GET(rows, TASK_HOME, hash));
}

static int read_original(struct submission *s, struct db_reader *db)
{
    struct db_rows *rows;
    const char *id = jget_string(s->rq->body, "forkedFrom", NULL);
    if (!id)
        return read_text(s);
    char *original = NULL;
    int err = find_task(s, db, "forkedFrom", id, &rows);
    if (!err) {
        s->parent = DB_GET(rows, TASK_HOME, experiment_id);
        original = xstrdup(DB_GET(rows, TASK_HOME, original_config));
        if (!json_array_size(jget(s->rq->body, s->fields->files)))
            copy_task_files(s, rows);
    }
    db_rows_close(rows);
    bool changed = *jget_string(s->rq->body, "config", "");
    if (!err && changed)
        err = read_text(s);
    if (!err && changed)
        err = merge_original_config(s, original);
    if (!err && !changed)
        s->text = xstrdup(original);
    free(original);
    return err;
}

static int tree_depth(const char *ancestors)
{
    int depth = 0;
    while ((ancestors = strchr(ancestors, '/')))
        ancestors++, depth++;
    return depth;
}

static int read_parent(struct submission *s, struct db_reader *db)
{
    struct db_rows *rows;
    const char *id = jget_string(s->rq->body, "parentId", NULL);
    bool inherit = jget_bool(s->rq->body, "inheritContext", false);
    if (!id)
        return inherit ? error_set(&s->e, ERR_INVALID,
                                   "inheritContext: needs parentId, the task whose files are used")
                       : 0;
    int err = find_task(s, db, "parentId", id, &rows);
    if (!err && tree_depth(DB_GET(rows, TASK_HOME, ancestors)) >= LIMIT_TASK_DEPTH - 1)
        err = error_set(&s->e, ERR_TOO_LARGE, "parentId: a tree of tasks has at most %d levels",
                        LIMIT_TASK_DEPTH);
    if (!err)
        s->ancestors = xasprintf("%s/%s", DB_GET(rows, TASK_HOME, ancestors), id);
    if (!err && inherit)
        copy_task_files(s, rows);
    db_rows_close(rows);
    return err;
}

int task_submission_read(struct submission *s, struct db_reader *db)
{
    if (s->kind != KIND_GENERIC)
        return read_text(s);
    s->no_pause = jget_bool(s->rq->body, "noPause", false);
    int err = read_original(s, db);
    return err ? err : read_parent(s, db);
}

int task_submission_find_project(struct submission *s, struct db_reader *db, int64_t workspace)
{
    if (!submission_sees(s, db, AUTHZ_WORKSPACE, workspace))
        return error_set(&s->e, ERR_NOT_FOUND, "workspaceId: workspace '%lld' not found",
                         (long long)workspace);
    struct db_rows *rows = DB_QUERY(db, WORKSPACE_PROJECT, workspace);
    bool found = db_next(rows) > 0;
    s->project = found ? DB_GET(rows, WORKSPACE_PROJECT, id) : 0;
    db_rows_close(rows);
    return found ? 0
                 : error_set(&s->e, ERR_CONFLICT,
                             "workspaceId: workspace %lld has no project that is not archived; "
                             "create one first",
                             (long long)workspace);
}

// A caller who adds a task to a tree must be allowed to change its parent.
int task_submission_check_parent(struct core *c, struct submission *s)
{
    struct experiment *x;
    const char *id = strrchr(s->ancestors, '/') + 1;
    int err = task_find(c, s->rq, KIND_GENERIC, id, &x, &s->e);
    if (err)
        return error_prefix(&s->e, "parentId");
    if (x->state == EXPERIMENT_STOPPING_KILLED || x->state == EXPERIMENT_STOPPING_CANCELED ||
        x->state == EXPERIMENT_CANCELED || x->state >= EXPERIMENT_DELETING)
        return error_set(&s->e, ERR_CONFLICT, "parentId: task %.64s has been killed", id);
    return 0;
}
