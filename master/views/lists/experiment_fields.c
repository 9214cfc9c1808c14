// The fields by which a list of experiments can be filtered, sorted and shown, with the names of
// all metrics and hyperparameters; and the number of experiments by state, user and project.
// Everything is limited to the experiments that the caller may see.

#include <stdio.h>
#include <string.h>

#include "api/filter/filter.h"
#include "db/statements/lists.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

enum { NAMES_MAX = 2000, SQL_MAX = 8192 };

static const char *const type_words[] = {
    [FILTER_NUMBER] = "number", [FILTER_TEXT] = "text",         [FILTER_STATE] = "state",
    [FILTER_TIME] = "time",     [FILTER_DURATION] = "duration", [FILTER_FLAG] = "flag",
    [FILTER_WORDS] = "words",   [FILTER_METRIC] = "metric",     [FILTER_HPARAM] = "hparam"};

static int close_rows(struct db_rows *rows, int state, struct error *e)
{
    db_rows_close(rows);
    return state < 0 ? store_failed(e) : 0;
}

// Writes the names that begin with `prefix`, without the prefix. The query skips through an index
// from name to name, so its cost depends on the number of names and not of experiments.
static int write_names(struct view *v, const char *table, const char *prefix, struct error *e)
{
    struct list l;
    struct buf sql;
    int more = 0, rc;
    list_init(&l, v);
    list_filter_visible(&l, SQL_BRIEF_WORKSPACE);
    buf_init(&sql, SQL_MAX);
    buf_printf(&sql, SQL_NAMES_IN_USE, table, NAMES_MAX, buf_str(&l.where));
    struct db_rows *rows = db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
    size_t skipped = strlen(prefix);
    jw_key(&v->w, "names");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1)
        if (!strncmp(DB_GET(rows, NAME, name), prefix, skipped))
            jw_string(&v->w, DB_GET(rows, NAME, name) + skipped);
    jw_array_end(&v->w);
    rc = close_rows(rows, more, e);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    return rc;
}

static void write_list_names(struct json_writer *w, const struct filter_field *f)
{
    jw_key(w, "lists");
    jw_array(w);
    if (f->lists & FILTER_EXPERIMENTS)
        jw_string(w, "experiments");
    if (f->lists & FILTER_TRIALS)
        jw_string(w, "trials");
    jw_array_end(w);
}

static int write_field(struct view *v, const struct filter_field *f, struct error *e)
{
    struct json_writer *w = &v->w;
    char prefix[64];
    int rc = 0;
    jw_object(w);
    jw_kv_string(w, "name", f->name);
    jw_kv_string(w, "type", type_words[f->type]);
    jw_kv_bool(w, "optional", f->optional);
    jw_kv_bool(w, "sortable", f->sortable);
    jw_kv_string(w, "help", f->help);
    write_list_names(w, f);
    snprintf(prefix, sizeof prefix, "%s.", f->name);
    if (f->type == FILTER_METRIC)
        rc = write_names(v, "experiment_metrics", prefix, e);
    else if (f->type == FILTER_HPARAM)
        rc = write_names(v, "experiment_hparams", "", e);
    jw_object_end(w);
    return rc;
}

static const struct count_table {
    const char *key, *columns, *joined, *group;
} count_tables[] = {
    {"states", "c.state, NULL, NULL, NULL", "", "c.state"},
    {"users", "u.username, u.id, NULL, NULL", SQL_COUNTED_USERS, "u.id"},
    {"projects", "p.name, p.id, w.name, w.id", SQL_COUNTED_PROJECTS, "p.id"},
};

static void write_count(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "name", DB_GET(rows, VALUE_COUNT, name));
    if (!DB_IS_NULL(rows, VALUE_COUNT, id))
        jw_kv_int(w, "id", DB_GET(rows, VALUE_COUNT, id));
    if (!DB_IS_NULL(rows, VALUE_COUNT, workspace)) {
        jw_kv_string(w, "workspaceName", DB_GET(rows, VALUE_COUNT, workspace));
        jw_kv_int(w, "workspaceId", DB_GET(rows, VALUE_COUNT, workspace_id));
    }
    jw_kv_int(w, "count", DB_GET(rows, VALUE_COUNT, count));
    jw_object_end(w);
}

static int write_counts(struct view *v, const struct count_table *s, struct error *e)
{
    struct list l;
    struct buf sql;
    int more = 0, rc;
    list_init(&l, v);
    list_filter_visible(&l, SQL_COUNTED_WORKSPACE);
    list_filter_bool(&l, "archived", "c.archived");
    buf_init(&sql, SQL_MAX);
    buf_printf(&sql, SQL_COUNT_VALUES, s->columns, s->joined, buf_str(&l.where), s->group);
    struct db_rows *rows =
        l.error.code ? NULL : db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
    jw_key(&v->w, s->key);
    jw_array(&v->w);
    while (rows && (more = db_next(rows)) == 1)
        write_count(&v->w, rows);
    jw_array_end(&v->w);
    rc = close_rows(rows, more, e);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    if (l.error.code)
        *e = l.error;
    return l.error.code ? (int)l.error.code : rc;
}

int view_fields(struct view *v, struct error *e)
{
    int rc = 0;
    jw_object(&v->w);
    jw_key(&v->w, "fields");
    jw_array(&v->w);
    for (const struct filter_field *f = filter_fields; f->name && !rc; f++)
        if (f->lists & (FILTER_EXPERIMENTS | FILTER_TRIALS))
            rc = write_field(v, f, e);
    jw_array_end(&v->w);
    for (size_t i = 0; i < sizeof count_tables / sizeof *count_tables && !rc; i++)
        rc = write_counts(v, &count_tables[i], e);
    jw_object_end(&v->w);
    return rc;
}

// The labels of the experiments that the caller may see; the most frequent ones come first.
int view_labels(struct view *v, struct error *e)
{
    struct list l;
    struct buf sql;
    int more;
    list_init(&l, v);
    buf_init(&sql, SQL_MAX);
    list_filter_visible(&l, SQL_COUNTED_WORKSPACE);
    list_filter_ints(&l, "projectId", "c.project_id");
    buf_printf(&sql, SQL_LABELS_IN_USE, buf_str(&l.where));
    struct db_rows *rows =
        l.error.code ? NULL : db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
    jw_object(&v->w);
    jw_key(&v->w, "labels");
    jw_array(&v->w);
    while (rows && (more = db_next(rows)) == 1)
        jw_string(&v->w, DB_GET(rows, LABEL, label));
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    if (l.error.code)
        *e = l.error;
    return l.error.code;
}
