// Commands, shells, notebooks, TensorBoards and generic tasks. Each is a row of the table of
// experiments, with a kind of its own and one trial.

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text/yaml.h"
#include "db/statements/lists.h"
#include "master/common/kinds.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static void write_members(struct json_writer *w, struct db_rows *rows)
{
    jw_kv_string(w, "id", DB_GET(rows, TASK_VIEW, task_id));
    jw_kv_string(w, "description", DB_GET(rows, TASK_VIEW, name));
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, DB_GET(rows, TASK_VIEW, state)));
    write_time(w, "startTime", DB_GET(rows, TASK_VIEW, submitted_at));
    write_time(w, "endTime", DB_GET(rows, TASK_VIEW, ended_at));
    jw_kv_int(w, "userId", DB_GET(rows, TASK_VIEW, user_id));
    jw_kv_string(w, "username", DB_GET(rows, TASK_VIEW, username));
    jw_kv_string(w, "displayName", DB_GET(rows, TASK_VIEW, display_name));
    write_pool_name(w, DB_GET(rows, TASK_VIEW, pool));
    jw_kv_string(w, "exitStatus", DB_GET(rows, TASK_VIEW, exit_status));
    if (!DB_IS_NULL(rows, TASK_VIEW, exit_code))
        jw_kv_int(w, "exitCode", DB_GET(rows, TASK_VIEW, exit_code));
    jw_kv_string(w, "jobId", DB_GET(rows, TASK_VIEW, job_id));
    jw_kv_int(w, "workspaceId", DB_GET(rows, TASK_VIEW, workspace_id));
}

static void write_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_members(w, rows);
    jw_object_end(w);
}

static void write_generic(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_members(w, rows);
    write_generic_task_members(
        w, DB_GET(rows, TASK_VIEW, trial_state), DB_GET(rows, TASK_VIEW, ancestors),
        DB_GET(rows, TASK_VIEW, forked_from), DB_GET(rows, TASK_VIEW, no_pause));
    jw_object_end(w);
}

// --- lists and objects of all kinds --------------------------------------------------------------

static int list_tasks(struct view *v, enum kind kind, const char *key, list_writer *write,
                      struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_ID", "t.task_id"},
                                             {"SORT_BY_DESCRIPTION", "e.name"},
                                             {"SORT_BY_START_TIME", "e.submitted_at"},
                                             {"SORT_BY_WORKSPACE_ID", "p.workspace_id"},
                                             {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_and(&l, "e.kind <> 'EXPERIMENT' AND e.kind = ?");
    list_bind_text(&l, kind_words[kind].word);
    list_filter_visible(&l, "p.workspace_id");
    list_filter_texts(&l, "users", "u.username");
    list_filter_ints(&l, "userIds", "e.user_id");
    const char *workspace = query_get(v->query, "workspaceId");
    if (workspace && strcmp(workspace, "0"))
        list_filter_ints(&l, "workspaceId", "p.workspace_id");
    list_sort(&l, "sortBy", sorts, "e.id DESC", "e.id");
    list_page(&l);
    const struct list_source source = {key, SQL_SELECT(TASK_VIEW_ROW), SQL_TASK_FROM,
                                       SQL_TASK_JOINED, write};
    return list_answer(&l, &source, e);
}

// Writes {"command": {..}} from the only row, and "config" if `config` is set.
static int answer_task(struct view *v, struct db_rows *rows, enum kind kind, bool config,
                       struct error *e)
{
    int found = db_next(rows);
    if (found == 1) {
        jw_object(&v->w);
        jw_key(&v->w, kind_words[kind].noun);
        if (kind == KIND_GENERIC)
            write_generic(&v->w, rows);
        else
            write_row(&v->w, rows);
        if (config && kind == KIND_GENERIC) // the YAML text as it was submitted
            jw_kv_string(&v->w, "config", DB_GET(rows, TASK_VIEW, config));
        else if (config)
            jw_kv_raw(&v->w, "config", DB_GET(rows, TASK_VIEW, config));
        if (config && v->rq->id)
            request_write_warning(v->rq, &v->w);
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_not_found(e, kind_words[kind].noun, "%.64s",
                                          v->rq->params[0] ? v->rq->params[0] : "")
                        : 0;
}

static int answer_named_task(struct view *v, enum kind kind, struct error *e)
{
    const char *id = v->rq->params[0], *word = kind_words[kind].word;
    return answer_task(v, DB_QUERY(v->db, TASK_VIEW_BY_ID, id, word), kind, true, e);
}

// Renders the object of the experiment in rq->id.
static int render_task(struct view *v, enum kind kind, bool config, struct error *e)
{
    return answer_task(v, DB_QUERY(v->db, TASK_VIEW_OF_EXPERIMENT, v->rq->id), kind, config, e);
}

int render_command_created(struct view *v, struct error *e)
{
    return render_task(v, KIND_COMMAND, true, e);
}

#define VIEWS(noun, kind)                                                                          \
    int view_##noun##s(struct view *v, struct error *e)                                            \
    {                                                                                              \
        return list_tasks(v, kind, kind_words[kind].list, write_row, e);                           \
    }                                                                                              \
    int view_##noun(struct view *v, struct error *e)                                               \
    {                                                                                              \
        return answer_named_task(v, kind, e);                                                      \
    }                                                                                              \
    int render_##noun(struct view *v, struct error *e)                                             \
    {                                                                                              \
        return render_task(v, kind, false, e);                                                     \
    }
VIEWS(command, KIND_COMMAND)
VIEWS(shell, KIND_SHELL)
VIEWS(notebook, KIND_NOTEBOOK)
VIEWS(tensorboard, KIND_TENSORBOARD)
#undef VIEWS

// --- generic tasks -------------------------------------------------------------------------------

int view_generic_tasks(struct view *v, struct error *e)
{
    return list_tasks(v, KIND_GENERIC, "tasks", write_generic, e);
}

int view_generic_task(struct view *v, struct error *e)
{
    return answer_named_task(v, KIND_GENERIC, e);
}

int render_generic_created(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_TASK, v->rq->id);
    int found = db_next(rows);
    jw_object(&v->w);
    if (found == 1)
        jw_kv_string(&v->w, "taskId", DB_GET(rows, EXPERIMENT_TASK, task_id));
    request_write_warning(v->rq, &v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found == 1 ? 0 : store_failed(e);
}

// --- tasks of any kind
// ---------------------------------------------------------------------------------

// Writes the configuration, which was submitted as YAML, as the text of a JSON object.
static int write_config_text(struct json_writer *w, const char *yaml, struct error *e)
{
    struct yaml_doc doc = {0};
    int err = yaml_parse(yaml, strlen(yaml), "config", &doc, e);
    if (!err) {
        char *text = json_text(doc.root);
        jw_kv_string(w, "config", text);
        free(text);
    }
    yaml_doc_free(&doc);
    return err;
}

int view_task_config(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, TASK_HOME, v->rq->params[0]);
    int found = db_next(rows);
    int err = found < 0    ? store_failed(e)
              : found == 0 ? error_not_found(e, "task", "%.64s", v->rq->params[0])
                           : 0;
    jw_object(&v->w);
    if (!err)
        err = write_config_text(&v->w, DB_GET(rows, TASK_HOME, original_config), e);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return err;
}

// Counts the active tasks of each kind.
int view_task_count(struct view *v, struct error *e)
{
    struct list l;
    struct buf sql;
    int rc = 0;
    list_init(&l, v);
    buf_init(&sql, LIST_SQL_MAX);
    list_filter_visible(&l, SQL_EXPERIMENT_WORKSPACE);
    list_and(&l, "e.kind = ?");
    list_bind_text(&l, "");
    buf_printf(&sql, SQL_COUNT_ACTIVE, buf_str(&l.where));
    jw_object(&v->w);
    for (int kind = KIND_COMMAND; kind < KINDS && !rc; kind++) {
        const char *word = kind_words[kind].word;
        l.values[l.value_count - 1] = db_value_text(word);
        struct db_rows *rows = db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
        rc = db_next(rows) == 1 ? 0 : store_failed(e);
        if (!rc)
            jw_kv_int(&v->w, kind_words[kind].list, DB_GET(rows, COUNT, count));
        db_rows_close(rows);
    }
    jw_object_end(&v->w);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    return rc;
}
