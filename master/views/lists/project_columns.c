// The columns of a project's tables in Determined's web client, and the ranges of its metrics.
// Every column can be filtered and sorted by (api/filter/filter_json.h).

#include <stdio.h>
#include <string.h>

#include "api/filter/filter_json.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

enum { NAMES_MAX = 2000 }; // hyperparameters; metrics

static const char *const column_types[] = {
    [FILTER_NUMBER] = "NUMBER", [FILTER_TEXT] = "TEXT",       [FILTER_STATE] = "TEXT",
    [FILTER_TIME] = "DATE",     [FILTER_DURATION] = "NUMBER", [FILTER_FLAG] = "TEXT",
    [FILTER_WORDS] = "TEXT",    [FILTER_METRIC] = "NUMBER",   [FILTER_HPARAM] = "UNSPECIFIED",
};

static void write_column(struct json_writer *w, const char *name, const char *title,
                         const char *location, const char *type)
{
    char word[64];
    jw_object(w);
    jw_kv_string(w, "column", name);
    jw_kv_string(w, "displayName", title);
    snprintf(word, sizeof word, "LOCATION_TYPE_%s", location);
    jw_kv_string(w, "location", word);
    snprintf(word, sizeof word, "COLUMN_TYPE_%s", type);
    jw_kv_string(w, "type", word);
    jw_object_end(w);
}

static enum filter_type type_of_field(const char *name)
{
    const struct filter_field *f = filter_fields;
    while (strcmp(f->name, name))
        f++;
    return f->type;
}

static void write_fields(struct json_writer *w, enum filter_list list)
{
    for (const struct filter_column *c = filter_columns; c->column; c++)
        if (c->lists & list)
            write_column(w, c->column, c->title, list == FILTER_RUNS ? "RUN" : "EXPERIMENT",
                         column_types[type_of_field(c->field)]);
}

static int write_hparams(struct view *v, int64_t project, enum filter_list list, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, PROJECT_HPARAMS, project, NAMES_MAX);
    int more;
    while ((more = db_next(rows)) == 1) {
        bool numbers = DB_GET(rows, PROJECT_HPARAMS, numbers);
        bool texts = DB_GET(rows, PROJECT_HPARAMS, texts);
        const char *name =
            arena_printf(&v->rq->arena, "hp.%s", DB_GET(rows, PROJECT_HPARAMS, name));
        write_column(&v->w, name, "",
                     list == FILTER_RUNS ? "RUN_HYPERPARAMETERS" : "HYPERPARAMETERS",
                     numbers && texts ? "UNSPECIFIED"
                     : texts          ? "TEXT"
                                      : "NUMBER");
    }
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}

static const char *metric_location(const char *name)
{
    return !strncmp(name, "training.", 9)      ? "TRAINING"
           : !strncmp(name, "validation.", 11) ? "VALIDATIONS"
                                               : "CUSTOM_METRIC";
}

static int write_metrics(struct view *v, int64_t project, struct error *e)
{
    static const char *const picks[] = {"last", "max", "min"};
    struct db_rows *rows = DB_QUERY(v->db, PROJECT_METRICS, project, NAMES_MAX);
    int more;
    while ((more = db_next(rows)) == 1) {
        const char *name = DB_GET(rows, PROJECT_METRICS, name);
        for (size_t i = 0; i < sizeof picks / sizeof *picks; i++)
            write_column(&v->w, arena_printf(&v->rq->arena, "%s.%s", name, picks[i]), "",
                         metric_location(name), "NUMBER");
    }
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}

// -1, every project, has no columns of its own.
static int param_project(struct view *v, int64_t *id, struct error *e)
{
    int err = request_param_int(v->rq, 0, id, e);
    return !err && *id < 1 ? error_not_found(e, "project", "%lld", (long long)*id) : err;
}

static int read_table(struct view *v, enum filter_list *list, struct error *e)
{
    const char *table = query_get(v->query, "tableType");
    bool runs = table && !strcmp(table, "TABLE_TYPE_RUN");
    *list = runs ? FILTER_RUNS : FILTER_EXPERIMENTS;
    if (!table || !*table || runs || !strcmp(table, "TABLE_TYPE_EXPERIMENT") ||
        !strcmp(table, "TABLE_TYPE_UNSPECIFIED"))
        return 0;
    return error_set(e, ERR_INVALID,
                     "query parameter tableType: TABLE_TYPE_EXPERIMENT or TABLE_TYPE_RUN");
}

int view_project_columns(struct view *v, struct error *e)
{
    int64_t project;
    enum filter_list list;
    int err = param_project(v, &project, e);
    if (!err)
        err = read_table(v, &list, e);
    if (err)
        return err;
    jw_object(&v->w);
    jw_key(&v->w, "columns");
    jw_array(&v->w);
    write_fields(&v->w, list);
    err = write_hparams(v, project, list, e);
    if (!err)
        err = write_metrics(v, project, e);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return err;
}

int view_project_metric_ranges(struct view *v, struct error *e)
{
    int64_t project;
    int more, err = param_project(v, &project, e);
    if (err)
        return err;
    jw_object(&v->w);
    jw_key(&v->w, "ranges");
    jw_array(&v->w);
    struct db_rows *rows = DB_QUERY(v->db, PROJECT_METRIC_RANGES, project, NAMES_MAX);
    while ((more = db_next(rows)) == 1) {
        jw_object(&v->w);
        jw_kv_string(&v->w, "metricsName", DB_GET(rows, PROJECT_METRIC_RANGES, name));
        jw_kv_double(&v->w, "min", DB_GET(rows, PROJECT_METRIC_RANGES, low));
        jw_kv_double(&v->w, "max", DB_GET(rows, PROJECT_METRIC_RANGES, high));
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return more < 0 ? store_failed(e) : 0;
}
