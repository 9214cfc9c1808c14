// Templates: parts of configurations that many experiments share.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/expconf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/yaml.h"
#include "master/views/list.h"
#include "master/views/standing.h"
#include "master/views/views.h"

#define TEMPLATE_COLUMNS "SELECT t.name, t.config, t.workspace_id"
#define TEMPLATE_FROM    "FROM templates t"

static void write_template(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "name", db_text(rows, 0));
    jw_kv_raw(w, "config", db_text(rows, 1));
    jw_kv_int(w, "workspaceId", db_int(rows, 2));
    jw_object_end(w);
}

int template_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_NAME", "t.name"}, {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_seen(&l, "t.workspace_id");
    list_filter_part(&l, "name", "t.name");
    list_filter_ints(&l, "workspaceIds", "t.workspace_id");
    list_sort(&l, "sortBy", sorts, "t.name", "t.name");
    list_page(&l);
    static const struct list_source source = {"templates", TEMPLATE_COLUMNS, TEMPLATE_FROM, NULL,
                                              write_template};
    return list_answer(&l, &source, e);
}

static int no_template(const char *name, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no template %.128s", name);
}

static void write_doubt(struct json_writer *w, const char *doubt)
{
    jw_key(w, "warningTexts");
    jw_array(w);
    if (doubt)
        jw_string(w, doubt);
    jw_array_end(w);
}

static int answer_template(struct view *v, const char *name, const char *doubt, struct error *e)
{
    struct db_rows *rows = db_query(v->db, STMT_TEMPLATE_BY_NAME, "s", name);
    int found = db_next(rows);
    jw_object(&v->w);
    if (found == 1) {
        jw_key(&v->w, "template");
        write_template(&v->w, rows);
    }
    if (doubt)
        write_doubt(&v->w, doubt);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_template(name, e) : 0;
}

// Whether there is one at all, and what the caller may in its workspace. ERR_NOT_FOUND: he must
// not know of it.
static int find_template(struct view *v, const char *name, bool *exists, struct standing *out,
                         struct error *e)
{
    struct db_rows *rows = db_query(v->db, STMT_TEMPLATE_BY_NAME, "s", name);
    int found = db_next(rows);
    int64_t workspace = found == 1 ? db_int(rows, 2) : 0;
    db_rows_close(rows);
    *exists = found == 1;
    if (found < 0)
        return store_failed(e);
    if (found == 0 || standing_in(v, workspace, out, e))
        return no_template(name, e);
    return 0;
}

int template_get(struct view *v, struct error *e)
{
    bool exists;
    struct standing s;
    int rc = find_template(v, v->rq->params[0], &exists, &s, e);
    return rc ? rc : answer_template(v, v->rq->params[0], NULL, e);
}

static int check_name(const char *name, struct error *e)
{
    if (!*name || strlen(name) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "name: give 1 to %d bytes", LIMIT_NAME);
    for (const char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c) || *c == '/')
            return error_set(e, ERR_INVALID, "name: no control characters, no /");
    return 0;
}

// What an experiment could not take of it. A template may be for tasks alone, which have other
// keys, so it is no fault.
static const char *doubt_of(struct view *v, struct yaml_doc *doc)
{
    struct error doubt = {0};
    if (!schema_check_part(expconf_fields, doc, &doubt))
        return NULL;
    return arena_strdup(&v->rq->arena, doubt.text);
}

// As an object, or as the text of one (YAML), of which `doubt` tells what is odd; NULL: nothing.
static int read_config(struct view *v, const json_t *config, const char **out, const char **doubt,
                       struct error *e)
{
    struct yaml_doc doc = {0};
    const char *text = json_string_value(config);
    *doubt = NULL;
    if (text) {
        int rc = yaml_parse(text, strlen(text), "config", &doc, e);
        if (rc)
            return rc;
        config = doc.root;
    }
    int rc = 0;
    if (!json_is_object(config)) {
        rc =
            error_set(e, ERR_INVALID, "config: a template is an object of keys of a configuration");
    } else {
        char *kept = json_text(config);
        if (strlen(kept) > LIMIT_CONFIG)
            rc = error_set(e, ERR_TOO_LARGE, "config: more than %d bytes", LIMIT_CONFIG);
        *out = arena_strdup(&v->rq->arena, kept);
        free(kept);
        *doubt = text ? doubt_of(v, &doc) : NULL;
    }
    yaml_doc_free(&doc);
    return rc;
}

static int create(struct view *v, const char *name, const char *config, struct error *e)
{
    int64_t workspace = jget_int(v->rq->body, "workspaceId", 0);
    int rc = standing_may_add(v, workspace ? workspace : UNCATEGORIZED, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    db_batch_add(b, STMT_TEMPLATE_INSERT, "ssii", name, config,
                 workspace ? workspace : (int64_t)UNCATEGORIZED, clock_wall_us());
    return view_commit(v, b, e);
}

static int replace(struct view *v, const char *name, const struct standing *s, const char *config,
                   struct error *e)
{
    int rc = role_check(s->role, ACT_SUBMIT, s->workspace, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    db_batch_add(b, STMT_TEMPLATE_SET_CONFIG, "sis", config, clock_wall_us(), name);
    return view_commit(v, b, e);
}

// Whether it would be taken, and nothing else.
static int answer_doubt(struct view *v, const char *doubt)
{
    jw_object(&v->w);
    write_doubt(&v->w, doubt);
    jw_object_end(&v->w);
    return 0;
}

// POST makes one, PUT makes or replaces one. A POST that is repeated after a lost connection finds
// what it has made, word for word.
static int put_template(struct view *v, bool may_replace, struct error *e)
{
    const char *name = v->rq->params[0], *config, *doubt;
    struct standing s;
    bool exists;
    int rc = check_name(name, e);
    if (!rc)
        rc = read_config(v, jget(v->rq->body, "config"), &config, &doubt, e);
    if (rc)
        return rc;
    if (jget_bool(v->rq->body, "validateOnly", false))
        return answer_doubt(v, doubt);
    bool seen = !find_template(v, name, &exists, &s, NULL);
    struct db_rows *rows = db_query(v->db, STMT_TEMPLATE_BY_NAME, "s", name);
    bool same = seen && db_next(rows) == 1 && !strcmp(db_text(rows, 1), config);
    db_rows_close(rows);
    if (exists && (!seen || (!may_replace && !same)))
        return error_set(e, ERR_CONFLICT, "there is a template \"%.128s\" already", name);
    if (!exists)
        rc = create(v, name, config, e);
    else if (!same)
        rc = replace(v, name, &s, config, e);
    return rc ? rc : answer_template(v, name, doubt, e);
}

int template_create(struct view *v, struct error *e)
{
    return put_template(v, false, e);
}

int template_put(struct view *v, struct error *e)
{
    return put_template(v, true, e);
}

// The body is the configuration itself.
int template_patch(struct view *v, struct error *e)
{
    struct standing s;
    bool exists;
    const char *name = v->rq->params[0], *config, *doubt;
    int rc = find_template(v, name, &exists, &s, e);
    if (!rc)
        rc = read_config(v, v->rq->body, &config, &doubt, e);
    if (!rc)
        rc = replace(v, name, &s, config, e);
    return rc ? rc : answer_template(v, name, doubt, e);
}

int template_delete(struct view *v, struct error *e)
{
    struct standing s;
    bool exists;
    int rc = find_template(v, v->rq->params[0], &exists, &s, e);
    if (!rc)
        rc = role_check(s.role, ACT_SUBMIT, s.workspace, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    db_batch_add(b, STMT_TEMPLATE_DELETE, "s", v->rq->params[0]);
    return view_commit(v, b, e);
}
