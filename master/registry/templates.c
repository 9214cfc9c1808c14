// Templates: parts of configurations that many experiments share.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/yaml.h"
#include "master/registry/registry.h"
#include "master/views/lists/list.h"
#include "master/views/workspace_access.h"

static void write_template(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "name", DB_GET(rows, TEMPLATE, name));
    jw_kv_raw(w, "config", DB_GET(rows, TEMPLATE, config));
    jw_kv_int(w, "workspaceId", DB_GET(rows, TEMPLATE, workspace_id));
    jw_object_end(w);
}

int template_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_NAME", "t.name"}, {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_visible(&l, "t.workspace_id");
    list_filter_contains(&l, "name", "t.name");
    list_filter_ints(&l, "workspaceIds", "t.workspace_id");
    list_sort(&l, "sortBy", sorts, "t.name", "t.id");
    list_page(&l);
    static const struct list_source source = {"templates", SQL_SELECT(TEMPLATE_ROW),
                                              SQL_TEMPLATE_FROM, NULL, write_template};
    return list_answer(&l, &source, e);
}

static int no_template(const char *name, struct error *e)
{
    return error_not_found(e, "template", "%.128s", name);
}

static void write_doubt(struct json_writer *w, const char *doubt)
{
    jw_key(w, "warningTexts");
    jw_array(w);
    if (doubt)
        jw_string(w, doubt);
    jw_array_end(w);
}

static int answer_template(struct view *v, int64_t id, const char *doubt, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, TEMPLATE_BY_ID, id);
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
    return found < 0 ? store_failed(e) : found == 0 ? no_template(v->rq->params[0], e) : 0;
}

struct template
{
    int64_t id, workspace;
    char *config; // in the arena
    struct workspace_access access;
};

// Counts the visible templates of that name, in this workspace or (0) in all; *out: the first.
// Negative: the store failed.
static int find_all(struct view *v, const char *name, int64_t workspace, struct template *out,
                    struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, TEMPLATE_BY_NAME, name);
    int count = 0, more;
    while ((more = db_next(rows)) == 1) {
        struct template t = {.id = DB_GET(rows, TEMPLATE_BY_NAME, id),
                             .workspace = DB_GET(rows, TEMPLATE_BY_NAME, workspace_id)};
        if ((workspace && t.workspace != workspace) ||
            workspace_access_find(v, t.workspace, &t.access, NULL))
            continue;
        t.config = arena_strdup(&v->rq->arena, DB_GET(rows, TEMPLATE_BY_NAME, config));
        if (!count++)
            *out = t;
    }
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : count;
}

// Finds the only visible template of that name, in this workspace or (0) in all.
static int find_only(struct view *v, const char *name, int64_t workspace, struct template *out,
                     struct error *e)
{
    int count = find_all(v, name, workspace, out, e);
    if (count < 0)
        return count;
    if (count > 1)
        return error_set(e, ERR_CONFLICT,
                         "there are %d templates \"%.128s\": say with workspaceId= whose is meant",
                         count, name);
    return count ? 0 : no_template(name, e);
}

// Finds the template of the path. If several visible templates have the name, the caller must name
// the workspace. ERR_NOT_FOUND: the caller may see none.
static int find_template(struct view *v, struct template *out, struct error *e)
{
    int64_t workspace;
    int rc = request_query_int(v->rq, "workspaceId", 0, &workspace, e);
    return rc ? rc : find_only(v, v->rq->params[0], workspace, out, e);
}

int template_get(struct view *v, struct error *e)
{
    struct template t;
    int rc = find_template(v, &t, e);
    return rc ? rc : answer_template(v, t.id, NULL, e);
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

// Describes parts that an experiment could not use. That is no error, because a template for tasks
// has other keys.
static const char *doubt_of(struct view *v, struct yaml_doc *doc)
{
    struct error doubt = {0};
    if (!schema_check_part(expconf_fields, doc, &doubt))
        return NULL;
    return arena_strdup(&v->rq->arena, doubt.text);
}

// Accepts an object, or its text (YAML); *doubt: why no experiment
// could use it, which is only a warning; NULL: nothing.
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

static int create(struct view *v, const char *name, int64_t workspace, const char *config,
                  struct error *e)
{
    int rc = workspace_access_check_add(v, workspace, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TEMPLATE_INSERT, name, config, workspace, clock_wall_us());
    rc = view_commit(v, b, e);
    if (rc == ERR_CONFLICT)
        rc = error_set(e, ERR_CONFLICT,
                       "another call has just made a template \"%.128s\" in this workspace; "
                       "look at it before you replace it",
                       name);
    return rc;
}

static int replace(struct view *v, const struct template *t, const char *config, struct error *e)
{
    int rc = role_check(t->access.role, ACT_SUBMIT, t->access.workspace, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TEMPLATE_SET_CONFIG, config, clock_wall_us(), t->id);
    return view_commit(v, b, e);
}

// Checks whether the template would be accepted, and changes nothing.
static int answer_doubt(struct view *v, const char *doubt)
{
    jw_object(&v->w);
    write_doubt(&v->w, doubt);
    jw_object_end(&v->w);
    return 0;
}

// POST creates a template; PUT creates or replaces the one in the workspace of the body, or else
// the only visible one. A POST that is repeated after a lost connection finds the identical
// template. Invisible templates cause no conflict.
static int put_template(struct view *v, bool may_replace, struct error *e)
{
    const char *name = v->rq->params[0], *config, *doubt;
    struct template t;
    int64_t named = jget_int(v->rq->body, "workspaceId", 0);
    int rc = check_name(name, e);
    if (!rc)
        rc = read_config(v, jget(v->rq->body, "config"), &config, &doubt, e);
    if (rc)
        return rc;
    if (jget_bool(v->rq->body, "validateOnly", false))
        return answer_doubt(v, doubt);
    int count = named ? find_all(v, name, named, &t, e) : 0;
    if (!count)
        count = find_all(v, name, 0, &t, e);
    if (count < 0)
        return count;
    bool same = count == 1 && !strcmp(t.config, config) && (!named || t.workspace == named);
    if (count > 1 || (count && !may_replace && !same) || (count && named && t.workspace != named))
        return error_set(e, ERR_CONFLICT,
                         "there is a template \"%.128s\" already, in workspace \"%.64s\"", name,
                         t.access.workspace);
    if (!count)
        rc = create(v, name, named ? named : UNCATEGORIZED, config, e);
    else if (!same)
        rc = replace(v, &t, config, e);
    if (!rc && !count && find_all(v, name, named ? named : UNCATEGORIZED, &t, e) != 1)
        rc = no_template(name, e);
    return rc ? rc : answer_template(v, t.id, doubt, e);
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
    struct template t;
    const char *config, *doubt;
    int rc = find_template(v, &t, e);
    if (!rc)
        rc = read_config(v, v->rq->body, &config, &doubt, e);
    if (!rc)
        rc = replace(v, &t, config, e);
    return rc ? rc : answer_template(v, t.id, doubt, e);
}

static int commit_name(struct view *v, const struct template *t, const char *name, struct error *e)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TEMPLATE_SET_NAME, name, clock_wall_us(), t->id);
    int rc = view_commit(v, b, e);
    return rc == ERR_CONFLICT ? error_set(e, ERR_CONFLICT,
                                          "newName: another call has just made a template "
                                          "\"%.128s\" in this workspace; choose another name",
                                          name)
                              : rc;
}

int template_rename(struct view *v, struct error *e)
{
    const char *name = jget_string(v->rq->body, "newName", "");
    struct template t, other;
    int rc = find_only(v, jget_string(v->rq->body, "oldName", ""), 0, &t, e);
    if (!rc)
        rc = role_check(t.access.role, ACT_SUBMIT, t.access.workspace, e);
    if (!rc && check_name(name, e))
        rc = error_prefix(e, "newName");
    if (rc)
        return rc;
    int count = find_all(v, name, 0, &other, e);
    if (count < 0)
        return count;
    if (count && (count > 1 || other.id != t.id))
        return error_set(e, ERR_CONFLICT,
                         "newName: there is a template \"%.128s\" already, in workspace "
                         "\"%.64s\"; choose another name",
                         name, other.access.workspace);
    rc = commit_name(v, &t, name, e);
    return rc ? rc : answer_template(v, t.id, NULL, e);
}

int template_delete(struct view *v, struct error *e)
{
    struct template t;
    int rc = find_template(v, &t, e);
    if (!rc)
        rc = role_check(t.access.role, ACT_SUBMIT, t.access.workspace, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TEMPLATE_DELETE, t.id);
    return view_commit(v, b, e);
}
