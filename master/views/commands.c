// Commands, shells, notebooks, tensorboards and generic tasks as the wire has them: rows of
// experiments of another kind, each with its one trial.

#include <string.h>

#include "base/log.h"
#include "master/common/kinds.h"
#include "master/views/list.h"
#include "master/views/views.h"

enum {
    C_TASK,
    C_NAME,
    C_STATE,
    C_SUBMITTED_AT,
    C_ENDED_AT,
    C_USER_ID,
    C_USERNAME,
    C_DISPLAY_NAME,
    C_POOL,
    C_EXIT_CODE,
    C_EXIT_STATUS,
    C_JOB_ID,
    C_WORKSPACE_ID,
    C_TASK_STATE,
    C_ANCESTORS,
    C_FORKED_FROM,
    C_NO_PAUSE,
    C_CONFIG
};

#define ENDED "t.state IN ('COMPLETED', 'CANCELED', 'ERROR')"
#define COLUMNS                                                                                    \
    "SELECT t.task_id, e.name, CASE WHEN " ENDED " THEN 'TERMINATED' WHEN coalesce(a.state, "      \
    "'TERMINATED') = 'TERMINATED' THEN 'QUEUED' ELSE a.state END, e.submitted_at, t.ended_at, "    \
    "e.user_id, u.username, u.display_name, coalesce(a.pool, ''), a.exit_code, "                   \
    "CASE WHEN NOT " ENDED " THEN '' WHEN a.exit_code IS NOT NULL AND a.outcome NOT IN "           \
    "('KILLED', 'LOST') THEN 'exit code ' || a.exit_code ELSE coalesce(nullif(t.exit_reason, "     \
    "''), 'killed') END, e.job_id, p.workspace_id, t.state, e.ancestors, "                         \
    "(SELECT task_id FROM trials WHERE experiment_id = e.parent_id), e.no_pause, "                 \
    "e.original_config"
#define FROM                                                                                       \
    "FROM experiments e JOIN trials t ON t.experiment_id = e.id "                                  \
    "JOIN projects p ON p.id = e.project_id JOIN users u ON u.id = e.user_id"
#define JOINED "LEFT JOIN allocations a ON a.trial_id = t.id AND a.epoch = t.run_id"

static void write_members(struct json_writer *w, struct db_rows *rows)
{
    jw_kv_string(w, "id", db_text(rows, C_TASK));
    jw_kv_string(w, "description", db_text(rows, C_NAME));
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, db_text(rows, C_STATE)));
    write_time(w, "startTime", db_int(rows, C_SUBMITTED_AT));
    write_time(w, "endTime", db_int(rows, C_ENDED_AT));
    jw_kv_int(w, "userId", db_int(rows, C_USER_ID));
    jw_kv_string(w, "username", db_text(rows, C_USERNAME));
    jw_kv_string(w, "displayName", db_text(rows, C_DISPLAY_NAME));
    jw_kv_string(w, "resourcePool", db_text(rows, C_POOL));
    jw_kv_string(w, "exitStatus", db_text(rows, C_EXIT_STATUS));
    if (!db_is_null(rows, C_EXIT_CODE))
        jw_kv_int(w, "exitCode", db_int(rows, C_EXIT_CODE));
    jw_kv_string(w, "jobId", db_text(rows, C_JOB_ID));
    jw_kv_int(w, "workspaceId", db_int(rows, C_WORKSPACE_ID));
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
    write_generic_members(w, db_text(rows, C_TASK_STATE), db_text(rows, C_ANCESTORS),
                          db_text(rows, C_FORKED_FROM), db_int(rows, C_NO_PAUSE));
    jw_object_end(w);
}

// --- commands and what is like them --------------------------------------------------------------

static int list(struct view *v, enum kind kind, const char *key, list_writer *write,
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
    list_filter_seen(&l, "p.workspace_id");
    list_filter_texts(&l, "users", "u.username");
    list_filter_ints(&l, "userIds", "e.user_id");
    const char *workspace = query_get(v->query, "workspaceId");
    if (workspace && strcmp(workspace, "0"))
        list_filter_ints(&l, "workspaceId", "p.workspace_id");
    list_sort(&l, "sortBy", sorts, "e.id DESC", "e.id");
    list_page(&l);
    const struct list_source source = {key, COLUMNS, FROM, JOINED, write};
    return list_answer(&l, &source, e);
}

// {"command": {..}} of the row, and "config" where it is asked for.
static int answer(struct view *v, struct db_rows *rows, enum kind kind, bool config,
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
        if (config && kind == KIND_GENERIC) // as it was written, in YAML
            jw_kv_string(&v->w, "config", db_text(rows, C_CONFIG));
        else if (config)
            jw_kv_raw(&v->w, "config", db_text(rows, C_CONFIG));
        if (config && v->rq->id)
            request_write_warning(v->rq, &v->w);
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "there is no %s %.64s", kind_words[kind].noun,
                                    v->rq->params[0] ? v->rq->params[0] : "")
                        : 0;
}

static int view_one(struct view *v, enum kind kind, struct error *e)
{
    const char *id = v->rq->params[0], *word = kind_words[kind].word;
    const struct db_value values[] = {{.type = 's', .p = id, .len = strlen(id)},
                                      {.type = 's', .p = word, .len = strlen(word)}};
    return answer(v,
                  db_query_sql(v->db,
                               COLUMNS " " FROM " " JOINED " WHERE t.task_id = ? AND e.kind = ?",
                               values, 2),
                  kind, true, e);
}

// Of rq->id, that the core left.
static int render_one(struct view *v, enum kind kind, bool config, struct error *e)
{
    const struct db_value value = {.type = 'i', .i = v->rq->id};
    return answer(v, db_query_sql(v->db, COLUMNS " " FROM " " JOINED " WHERE e.id = ?", &value, 1),
                  kind, config, e);
}

int render_command_created(struct view *v, struct error *e)
{
    return render_one(v, KIND_COMMAND, true, e);
}

#define VIEWS(noun, kind)                                                                          \
    int view_##noun##s(struct view *v, struct error *e)                                            \
    {                                                                                              \
        return list(v, kind, kind_words[kind].list, write_row, e);                                 \
    }                                                                                              \
    int view_##noun(struct view *v, struct error *e)                                               \
    {                                                                                              \
        return view_one(v, kind, e);                                                               \
    }                                                                                              \
    int render_##noun(struct view *v, struct error *e)                                             \
    {                                                                                              \
        return render_one(v, kind, false, e);                                                      \
    }
VIEWS(command, KIND_COMMAND)
VIEWS(shell, KIND_SHELL)
VIEWS(notebook, KIND_NOTEBOOK)
VIEWS(tensorboard, KIND_TENSORBOARD)
#undef VIEWS

// --- generic tasks -------------------------------------------------------------------------------

int view_generic_tasks(struct view *v, struct error *e)
{
    return list(v, KIND_GENERIC, "tasks", write_generic, e);
}

int view_generic_task(struct view *v, struct error *e)
{
    return view_one(v, KIND_GENERIC, e);
}

int render_generic_created(struct view *v, struct error *e)
{
    const struct db_value value = {.type = 'i', .i = v->rq->id};
    struct db_rows *rows =
        db_query_sql(v->db, "SELECT task_id FROM trials WHERE experiment_id = ?", &value, 1);
    int found = db_next(rows);
    jw_object(&v->w);
    if (found == 1)
        jw_kv_string(&v->w, "taskId", db_text(rows, 0));
    request_write_warning(v->rq, &v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found == 1 ? 0 : store_failed(e);
}

// --- of any task ---------------------------------------------------------------------------------

int view_task_config(struct view *v, struct error *e)
{
    struct db_rows *rows = db_query(v->db, STMT_TASK_HOME, "s", v->rq->params[0]);
    int found = db_next(rows);
    jw_object(&v->w);
    if (found == 1)
        jw_kv_string(&v->w, "config", db_text(rows, 4));
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "there is no task %.64s", v->rq->params[0])
                        : 0;
}

// How many of each live.
int view_task_count(struct view *v, struct error *e)
{
    struct list l;
    struct buf sql;
    int rc = 0;
    list_init(&l, v);
    buf_init(&sql, LIST_SQL_MAX);
    list_filter_seen(&l, "SELECT workspace_id FROM projects WHERE id = e.project_id");
    list_and(&l, "e.kind = ?");
    list_bind_text(&l, "");
    buf_printf(&sql,
               "SELECT count(*) FROM experiments e INDEXED BY experiments_live WHERE e.state NOT "
               "IN ('COMPLETED', 'CANCELED', 'ERROR')%s",
               buf_str(&l.where));
    jw_object(&v->w);
    for (int kind = KIND_COMMAND; kind < KINDS && !rc; kind++) {
        const char *word = kind_words[kind].word;
        l.values[l.value_count - 1] =
            (struct db_value){.type = 's', .p = word, .len = strlen(word)};
        struct db_rows *rows = db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
        rc = db_next(rows) == 1 ? 0 : store_failed(e);
        if (!rc)
            jw_kv_int(&v->w, kind_words[kind].list, db_int(rows, 0));
        db_rows_close(rows);
    }
    jw_object_end(&v->w);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    return rc;
}
