// The model registry: models, and their versions, each of which names a checkpoint. Retention keeps
// every checkpoint in the registry.
//
// Whoever may see a model's workspace may see the checkpoints of its versions, wherever they were
// trained: registering a checkpoint publishes it in that workspace.
//
// Clients repeat a POST when they lose the connection: a request that is identical to the newest
// version by the same user, made less than REPEAT_S ago, counts as a repetition. A model has its
// name, so a repetition is a conflict.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/statements/lists.h"
#include "master/notify/hub.h"
#include "master/registry/registry.h"
#include "master/views/lists/list.h"
#include "master/views/workspace_access.h"

enum {
    REPEAT_S = 60,
    NOTES_MAX = 1 << 20,    // bytes
    METADATA_MAX = 1 << 20, // bytes
    LABELS_MAX = 100,
};

struct words { // fields of a model or version as in the store; NULL: not given
    const char *name, *description, *notes;
    const char *metadata, *labels; // JSON
};

// --- request bodies ------------------------------------------------------------------------------

static int read_text(const json_t *body, const char *key, size_t most, const char **out,
                     struct error *e)
{
    const json_t *value = jget(body, key);
    *out = json_string_value(value);
    if (value && !*out)
        return error_set(e, ERR_INVALID, "%s: not a text", key);
    if (*out && strlen(*out) > most)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %zu bytes", key, most);
    return 0;
}

static const char *kept_text(struct view *v, const json_t *value)
{
    char *text = json_text(value);
    const char *kept = arena_strdup(&v->rq->arena, text);
    free(text);
    return kept;
}

static int read_labels(struct view *v, const json_t *body, const char **out, struct error *e)
{
    size_t i;
    json_t *label;
    const json_t *labels = jget(body, "labels");
    if (!labels)
        return 0;
    if (!json_is_array(labels) || json_array_size(labels) > LABELS_MAX)
        return error_set(e, ERR_INVALID, "labels: not a list of at most %d words", LABELS_MAX);
    json_array_foreach(labels, i, label)
    {
        if (!json_is_string(label) || json_string_length(label) > LIMIT_NAME)
            return error_set(e, ERR_INVALID, "labels.%zu: not a word of at most %d bytes", i,
                             LIMIT_NAME);
    }
    *out = kept_text(v, labels);
    return 0;
}

static int read_metadata(struct view *v, const json_t *body, const char **out, struct error *e)
{
    const json_t *metadata = jget(body, "metadata");
    if (!metadata)
        return 0;
    if (!json_is_object(metadata))
        return error_set(e, ERR_INVALID, "metadata: not an object");
    *out = kept_text(v, metadata);
    if (strlen(*out) > METADATA_MAX)
        return error_set(e, ERR_TOO_LARGE, "metadata: more than %d bytes", METADATA_MAX);
    return 0;
}

// `description`: its key, which is "comment" for a version.
static int read_words(struct view *v, const char *description, struct words *out, struct error *e)
{
    const json_t *body = v->rq->body;
    *out = (struct words){0};
    int rc = read_text(body, "name", LIMIT_NAME, &out->name, e);
    if (!rc)
        rc = read_text(body, description, LIMIT_DESCRIPTION, &out->description, e);
    if (!rc)
        rc = read_text(body, "notes", NOTES_MAX, &out->notes, e);
    if (!rc)
        rc = read_labels(v, body, &out->labels, e);
    if (!rc)
        rc = read_metadata(v, body, &out->metadata, e);
    return rc;
}

static void fill_words(struct words *w)
{
    w->name = w->name ? w->name : "";
    w->description = w->description ? w->description : "";
    w->notes = w->notes ? w->notes : "";
    w->metadata = w->metadata ? w->metadata : "{}";
    w->labels = w->labels ? w->labels : "[]";
}

// A path names a model by its name or its id (all digits), so a name must not be all digits.
static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

static int check_name(const char *name, struct error *e)
{
    bool blank = true;
    for (const char *c = name; *c; c++) {
        blank &= *c == ' ';
        if (iscntrl((unsigned char)*c) || *c == '/')
            return error_set(e, ERR_INVALID, "name: no control characters, no /");
    }
    if (blank)
        return error_set(e, ERR_INVALID, "name: give the model a name");
    if (is_number(name))
        return error_set(e, ERR_INVALID, "name: not digits alone, which would be an id");
    return 0;
}

// --- finding -------------------------------------------------------------------------------------

struct model {
    int64_t id, workspace, user;
    bool archived;
    struct workspace_access access;
};

static struct db_rows *query_model(struct view *v, const char *key)
{
    int64_t id = 0; // no model
    if (!is_number(key))
        return DB_QUERY(v->db, MODEL_BY_NAME, key);
    (void)request_number(key, &id);
    return DB_QUERY(v->db, MODEL_BY_ID, id);
}

// Counts the models with that name or id that the caller may see, except `except`; *out: the first.
// Negative: the store failed.
static int find_models(struct view *v, const char *key, int64_t except, struct model *out,
                       struct error *e)
{
    struct db_rows *rows = query_model(v, key);
    int count = 0, more;
    while ((more = db_next(rows)) == 1) {
        struct model m = {.id = DB_GET(rows, MODEL_BY_ID, id),
                          .workspace = DB_GET(rows, MODEL_BY_ID, workspace_id),
                          .user = DB_GET(rows, MODEL_BY_ID, user_id),
                          .archived = DB_GET(rows, MODEL_BY_ID, archived)};
        if (m.id == except || workspace_access_find(v, m.workspace, &m.access, NULL))
            continue;
        if (!count++)
            *out = m;
    }
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : count;
}

// Finds the model of the path. If several visible models have the name, the caller must give the
// id.
static int find_model(struct view *v, struct model *out, struct error *e)
{
    const char *key = v->rq->params[0];
    int count = find_models(v, key, 0, out, e);
    if (count < 0)
        return count;
    if (count > 1)
        return error_set(e, ERR_CONFLICT,
                         "there are %d models \"%.128s\"; name the one that is meant by its id "
                         "(one of them is %lld, in workspace \"%.64s\")",
                         count, key, (long long)out->id, out->access.workspace);
    return count ? 0 : error_not_found(e, "model", "%.128s", key);
}

static int may_change(struct view *v, const struct model *m, int64_t owner, struct error *e)
{
    bool own = owner == v->rq->principal.user_id;
    return role_check(m->access.role, own ? ACT_CHANGE_OWN : ACT_CHANGE_OTHERS, m->access.workspace,
                      e);
}

static int find_to_change(struct view *v, struct model *m, struct error *e)
{
    int rc = find_model(v, m, e);
    return rc ? rc : may_change(v, m, m->user, e);
}

struct version {
    int64_t id, user;
};

static int find_version(struct view *v, const struct model *m, struct version *out, struct error *e)
{
    int64_t number;
    int rc = request_param_int(v->rq, 1, &number, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, MODEL_VERSION_BY_NUMBER, m->id, number);
    int found = db_next(rows);
    if (found == 1)
        *out = (struct version){DB_GET(rows, MODEL_VERSION_BY_NUMBER, id),
                                DB_GET(rows, MODEL_VERSION_BY_NUMBER, user_id)};
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "version '%lld' of model '%.128s' not found",
                                    (long long)number, v->rq->params[0])
                        : 0;
}

// --- models --------------------------------------------------------------------------------------

// The columns of MODEL_VIEW begin at `first`.
static void write_model_at(struct json_writer *w, struct db_rows *rows, int first)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET_FROM(rows, first, MODEL_VIEW, id));
    jw_kv_string(w, "name", DB_GET_FROM(rows, first, MODEL_VIEW, name));
    jw_kv_string(w, "description", DB_GET_FROM(rows, first, MODEL_VIEW, description));
    jw_kv_raw(w, "metadata", DB_GET_FROM(rows, first, MODEL_VIEW, metadata));
    jw_kv_raw(w, "labels", DB_GET_FROM(rows, first, MODEL_VIEW, labels));
    jw_kv_string(w, "notes", DB_GET_FROM(rows, first, MODEL_VIEW, notes));
    write_time(w, "creationTime", DB_GET_FROM(rows, first, MODEL_VIEW, created_at));
    write_time(w, "lastUpdatedTime", DB_GET_FROM(rows, first, MODEL_VIEW, updated_at));
    jw_kv_bool(w, "archived", DB_GET_FROM(rows, first, MODEL_VIEW, archived));
    jw_kv_int(w, "userId", DB_GET_FROM(rows, first, MODEL_VIEW, user_id));
    jw_kv_string(w, "username", DB_GET_FROM(rows, first, MODEL_VIEW, username));
    jw_kv_int(w, "workspaceId", DB_GET_FROM(rows, first, MODEL_VIEW, workspace_id));
    jw_kv_int(w, "numVersions", DB_GET_FROM(rows, first, MODEL_VIEW, versions));
    jw_object_end(w);
}

static void write_model(struct json_writer *w, struct db_rows *rows)
{
    write_model_at(w, rows, 0);
}

static int write_model_member(struct view *v, int64_t id, struct error *e)
{
    v->rq->id = id;
    return write_object_of_row(v, "model", DB_QUERY(v->db, MODEL_VIEW_BY_ID, id), write_model, e);
}

static int answer_model(struct view *v, int64_t id, struct error *e)
{
    jw_object(&v->w);
    int rc = write_model_member(v, id, e);
    jw_object_end(&v->w);
    return rc;
}

// Writes all of them.
static void filter_labels(struct list *l)
{
    const char *labels[LABELS_MAX];
    size_t count = query_all(l->v->query, "labels", labels, LABELS_MAX);
    for (size_t i = 0; i < count && i < LABELS_MAX; i++) {
        list_and(l, SQL_MODEL_HAS_LABEL);
        list_bind_text(l, labels[i]);
    }
}

int model_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_NAME", "m.name"},
                                             {"SORT_BY_DESCRIPTION", "m.description"},
                                             {"SORT_BY_CREATION_TIME", "m.created_at"},
                                             {"SORT_BY_LAST_UPDATED_TIME", "m.updated_at"},
                                             {"SORT_BY_NUM_VERSIONS", SQL_MODEL_VERSION_COUNT},
                                             {"SORT_BY_WORKSPACE", SQL_MODEL_WORKSPACE_SORT},
                                             {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_visible(&l, "m.workspace_id");
    list_filter_contains(&l, "name", "m.name");
    list_filter_contains(&l, "description", "m.description");
    list_filter_bool(&l, "archived", "m.archived");
    list_filter_texts(&l, "users", SQL_MODEL_USERNAME);
    list_filter_ints(&l, "userIds", "m.user_id");
    list_filter_ints(&l, "id", "m.id");
    list_filter_ints(&l, "workspaceIds", "m.workspace_id");
    list_filter_texts(&l, "workspaceName", SQL_MODEL_WORKSPACE);
    list_filter_texts(&l, "workspaceNames", SQL_MODEL_WORKSPACE);
    filter_labels(&l);
    list_sort(&l, "sortBy", sorts, "m.updated_at DESC, m.id DESC", "m.id");
    list_page(&l);
    static const struct list_source source = {"models", SQL_SELECT(MODEL_VIEW_ROW), SQL_MODEL_FROM,
                                              SQL_MODEL_JOINED, write_model};
    return list_answer(&l, &source, e);
}

int model_get(struct view *v, struct error *e)
{
    struct model m;
    int rc = find_model(v, &m, e);
    return rc ? rc : answer_model(v, m.id, e);
}

// Labels of all models that the caller may see, the most frequent first.
int model_labels(struct view *v, struct error *e)
{
    const struct principal *me = &v->rq->principal;
    int64_t workspace, offset, limit, total = 0, shown = 0;
    int rc = request_query_int(v->rq, "workspaceId", 0, &workspace, e), more;
    if (!rc)
        rc = request_query_int(v->rq, "offset", 0, &offset, e);
    if (!rc)
        rc = request_query_int(v->rq, "limit", 0, &limit, e);
    if (rc)
        return rc;
    struct db_rows *rows =
        DB_QUERY(v->db, MODEL_LABELS, me->admin, me->user_id, workspace, workspace);
    jw_object(&v->w);
    jw_key(&v->w, "labels");
    jw_array(&v->w);
    for (; (more = db_next(rows)) == 1; total++)
        if (total >= offset && (limit <= 0 || shown < limit)) {
            jw_string(&v->w, DB_GET(rows, MODEL_LABELS, label));
            shown++;
        }
    jw_array_end(&v->w);
    wire_write_pagination(&v->w, offset < 0 ? 0 : offset, limit < 0 ? 0 : limit, shown, total);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}

// The workspace by id, by name, or else the default one.
static int named_workspace(struct view *v, int64_t *out, struct error *e)
{
    const char *name = jget_string(v->rq->body, "workspaceName", NULL);
    *out = jget_int(v->rq->body, "workspaceId", 0);
    if (!*out && (!name || !*name))
        *out = UNCATEGORIZED;
    if (*out)
        return 0;
    struct db_rows *rows = DB_QUERY(v->db, WORKSPACE_OF_NAME, name);
    size_t count = authz_count_visible(v->db, &v->rq->principal, AUTHZ_WORKSPACE, rows, out);
    if (count > 1)
        return error_set(e, ERR_CONFLICT,
                         "workspaceName: there are %zu of the name \"%.64s\": give workspaceId",
                         count, name);
    return count ? 0 : error_not_found(e, "workspace", "%.64s", name);
}

static int64_t id_in(struct view *v, const char *name, int64_t workspace)
{
    struct db_rows *rows = DB_QUERY(v->db, MODEL_BY_NAME, name);
    int64_t id = 0;
    while (!id && db_next(rows) == 1)
        if (DB_GET(rows, MODEL_BY_NAME, workspace_id) == workspace)
            id = DB_GET(rows, MODEL_BY_NAME, id);
    db_rows_close(rows);
    return id;
}

static int name_is_taken(const char *name, struct error *e)
{
    return error_set(e, ERR_CONFLICT, "there is a model \"%.128s\" already; choose another name",
                     name);
}

// Followers get the event after the commit.
static int commit_model(struct view *v, struct db_batch *b, const struct model *m, struct error *e)
{
    int rc = view_commit(v, b, e);
    if (!rc)
        hub_add_change(v->service->hub, EVENT_MODEL, m->workspace, m->id);
    return rc;
}

int model_create(struct view *v, struct error *e)
{
    struct words w;
    int64_t workspace;
    int rc = read_words(v, "description", &w, e);
    fill_words(&w);
    if (!rc)
        rc = check_name(w.name, e);
    if (!rc)
        rc = named_workspace(v, &workspace, e);
    if (!rc)
        rc = workspace_access_check_add(v, workspace, e);
    if (rc)
        return rc;
    struct model other;
    int taken = find_models(v, w.name, 0, &other, e);
    if (taken)
        return taken < 0 ? taken : name_is_taken(w.name, e);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_INSERT, w.name, w.description, w.metadata, w.labels, w.notes,
           v->rq->principal.user_id, workspace, clock_wall_us());
    rc = view_commit(v, b, e);
    if (rc)
        return rc == ERR_CONFLICT ? name_is_taken(w.name, e) : rc; // by another call meanwhile
    int64_t id = id_in(v, w.name, workspace);
    hub_add_change(v->service->hub, EVENT_MODEL, workspace, id);
    return answer_model(v, id, e);
}

int model_patch(struct view *v, struct error *e)
{
    struct model m;
    struct words w;
    int rc = find_to_change(v, &m, e);
    if (!rc)
        rc = read_words(v, "description", &w, e);
    if (!rc && w.name)
        rc = check_name(w.name, e);
    if (rc)
        return rc;
    struct model other;
    int taken = w.name ? find_models(v, w.name, m.id, &other, e) : 0;
    if (taken)
        return taken < 0 ? taken : name_is_taken(w.name, e);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_PATCH, w.name, w.description, w.metadata, w.labels, w.notes, clock_wall_us(),
           m.id);
    rc = commit_model(v, b, &m, e);
    if (rc == ERR_CONFLICT) // another call took the name meanwhile
        return name_is_taken(w.name, e);
    return rc ? rc : answer_model(v, m.id, e);
}

static int set_archived(struct view *v, bool archived, struct error *e)
{
    struct model m;
    int rc = find_to_change(v, &m, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_SET_ARCHIVED, archived, clock_wall_us(), m.id);
    return commit_model(v, b, &m, e);
}

int model_archive(struct view *v, struct error *e)
{
    return set_archived(v, true, e);
}

int model_unarchive(struct view *v, struct error *e)
{
    return set_archived(v, false, e);
}

// Returns whether the name is free among the models that the caller may see in a workspace.
static int check_room(struct view *v, int64_t id, int64_t workspace, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, MODEL_NAMESAKE, id, workspace);
    bool found = db_next(rows) == 1;
    if (found)
        (void)name_is_taken(DB_GET(rows, MODEL_NAMESAKE, name), e);
    db_rows_close(rows);
    return found ? ERR_CONFLICT : 0;
}

int model_move(struct view *v, struct error *e)
{
    struct model m;
    int64_t to = jget_int(v->rq->body, "destinationWorkspaceId", 0);
    int rc = find_to_change(v, &m, e);
    if (!rc && !to)
        rc = error_set(e, ERR_INVALID, "destinationWorkspaceId: missing: the workspace to move to");
    if (!rc)
        rc = workspace_access_check_add(v, to, e);
    if (!rc)
        rc = check_room(v, m.id, to, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_SET_WORKSPACE, to, clock_wall_us(), m.id);
    rc = commit_model(v, b, &m, e);
    return rc == ERR_CONFLICT ? name_is_taken(v->rq->params[0], e) : rc;
}

int model_delete(struct view *v, struct error *e)
{
    struct model m;
    int rc = find_to_change(v, &m, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_DELETE, m.id);
    return commit_model(v, b, &m, e);
}

// --- versions ------------------------------------------------------------------------------------

// Only the UUID is left of a version whose experiment was deleted.
static void write_lost_checkpoint(struct json_writer *w, const char *uuid)
{
    jw_object(w);
    jw_kv_string(w, "uuid", uuid);
    jw_kv_string(w, "state", "STATE_DELETED");
    jw_kv_raw(w, "resources", "{}");
    jw_kv_raw(w, "metadata", "{}");
    jw_kv_raw(w, "training", "{}");
    jw_object_end(w);
}

static void write_version(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, MODEL_VERSION, version.id));
    jw_kv_int(w, "version", DB_GET(rows, MODEL_VERSION, version.version));
    jw_kv_string(w, "name", DB_GET(rows, MODEL_VERSION, version.name));
    jw_kv_string(w, "comment", DB_GET(rows, MODEL_VERSION, version.comment));
    jw_kv_raw(w, "metadata", DB_GET(rows, MODEL_VERSION, version.metadata));
    jw_kv_raw(w, "labels", DB_GET(rows, MODEL_VERSION, version.labels));
    jw_kv_string(w, "notes", DB_GET(rows, MODEL_VERSION, version.notes));
    jw_kv_int(w, "userId", DB_GET(rows, MODEL_VERSION, version.user_id));
    jw_kv_string(w, "username", DB_GET(rows, MODEL_VERSION, version.username));
    write_time(w, "creationTime", DB_GET(rows, MODEL_VERSION, version.created_at));
    write_time(w, "lastUpdatedTime", DB_GET(rows, MODEL_VERSION, version.updated_at));
    jw_key(w, "model");
    write_model_at(w, rows, DB_COLUMN(MODEL_VERSION, model));
    jw_key(w, "checkpoint");
    if (DB_IS_NULL(rows, MODEL_VERSION, checkpoint.uuid))
        write_lost_checkpoint(w, DB_GET(rows, MODEL_VERSION, version.checkpoint_uuid));
    else
        write_checkpoint_object(w, rows);
    jw_object_end(w);
}

static int answer_version(struct view *v, int64_t id, struct error *e)
{
    v->rq->id = id;
    jw_object(&v->w);
    int rc = write_object_of_row(v, "modelVersion", DB_QUERY(v->db, MODEL_VERSION_VIEW_BY_ID, id),
                                 write_version, e);
    jw_object_end(&v->w);
    return rc;
}

int model_version_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"SORT_BY_VERSION", "v.version"}, {"SORT_BY_CREATION_TIME", "v.created_at"}, {NULL, NULL}};
    struct model m;
    struct list l;
    int rc = find_model(v, &m, e);
    if (rc)
        return rc;
    list_init(&l, v);
    list_and(&l, "v.model_id = ?");
    list_bind_int(&l, m.id);
    list_sort(&l, "sortBy", sorts, "v.version DESC", "v.version");
    list_page(&l);
    static const struct list_source source = {"modelVersions", SQL_SELECT_MODEL_VERSION,
                                              SQL_MODEL_VERSION_FROM, SQL_MODEL_VERSION_JOINED,
                                              write_version};
    l.inside_object = true; // it appears beside its model
    jw_object(&v->w);
    rc = write_model_member(v, m.id, e);
    if (!rc)
        rc = list_answer(&l, &source, e);
    jw_object_end(&v->w);
    return rc;
}

int model_version_get(struct view *v, struct error *e)
{
    struct model m;
    struct version version;
    int rc = find_model(v, &m, e);
    if (!rc)
        rc = find_version(v, &m, &version, e);
    return rc ? rc : answer_version(v, version.id, e);
}

int model_version_metrics(struct view *v, struct error *e)
{
    struct model m;
    struct version version;
    const char *type;
    int64_t number;
    int rc = find_model(v, &m, e);
    if (!rc)
        rc = find_version(v, &m, &version, e);
    if (!rc)
        rc = request_param_int(v->rq, 1, &number, e);
    if (!rc)
        rc = read_source_type(v, &type, e);
    return rc ? rc
              : write_source_metrics(v, DB_QUERY(v->db, TRIALS_OF_VERSION, m.id, number, type), e);
}

// The version that an earlier, identical call created; 0: none.
static int64_t registered_before(struct view *v, const struct model *m, const char *uuid,
                                 const struct words *w)
{
    struct db_rows *rows =
        DB_QUERY(v->db, MODEL_VERSION_NEWEST, m->id, clock_wall_us() - REPEAT_S * 1000000LL);
    int64_t id = 0;
    if (db_next(rows) == 1 && !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, checkpoint_uuid), uuid) &&
        !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, name), w->name) &&
        !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, comment), w->description) &&
        !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, metadata), w->metadata) &&
        !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, labels), w->labels) &&
        !strcmp(DB_GET(rows, MODEL_VERSION_NEWEST, notes), w->notes) &&
        DB_GET(rows, MODEL_VERSION_NEWEST, user_id) == v->rq->principal.user_id)
        id = DB_GET(rows, MODEL_VERSION_NEWEST, id);
    db_rows_close(rows);
    return id;
}

// The checkpoint that the body names; it must be completed and visible to the caller.
static int read_checkpoint(struct view *v, const char **uuid, struct error *e)
{
    *uuid = jget_string(v->rq->body, "checkpointUuid", "");
    if (!**uuid)
        return error_set(e, ERR_INVALID, "checkpointUuid: missing: the checkpoint to register");
    int rc = view_authorize(v, AUTHZ_CHECKPOINT, *uuid, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, CHECKPOINT_STORAGE, *uuid);
    bool complete =
        db_next(rows) == 1 && !strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "COMPLETED");
    db_rows_close(rows);
    return complete ? 0
                    : error_set(e, ERR_CONFLICT,
                                "checkpoint %.64s is not complete: it cannot be registered", *uuid);
}

// The version that was created at `now`; 0: its checkpoint disappeared meanwhile.
static int64_t version_of_moment(struct view *v, const struct model *m, int64_t now)
{
    struct db_rows *rows = DB_QUERY(v->db, MODEL_VERSION_NEWEST, m->id, now - 1);
    int64_t id = db_next(rows) == 1 ? DB_GET(rows, MODEL_VERSION_NEWEST, id) : 0;
    db_rows_close(rows);
    return id;
}

static int may_register(struct view *v, const struct model *m, struct error *e)
{
    int rc = workspace_access_check_add(v, m->workspace, e);
    if (!rc && m->archived)
        rc = error_set(e, ERR_CONFLICT, "model %.128s is archived; unarchive it first",
                       v->rq->params[0]);
    return rc;
}

int model_version_create(struct view *v, struct error *e)
{
    struct model m;
    struct words w;
    const char *uuid;
    int64_t id, now = clock_wall_us();
    int rc = find_model(v, &m, e);
    if (!rc)
        rc = may_register(v, &m, e);
    if (!rc)
        rc = read_words(v, "comment", &w, e);
    if (!rc)
        rc = read_checkpoint(v, &uuid, e);
    if (rc)
        return rc;
    fill_words(&w);
    if ((id = registered_before(v, &m, uuid, &w)))
        return answer_version(v, id, e);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_COUNT_VERSION, now, m.id);
    DB_ADD(b, MODEL_VERSION_INSERT, m.id, uuid, w.name, w.description, w.metadata, w.labels,
           w.notes, v->rq->principal.user_id, now);
    rc = commit_model(v, b, &m, e);
    if (rc)
        return rc;
    id = version_of_moment(v, &m, now);
    return id ? answer_version(v, id, e)
              : error_set(e, ERR_CONFLICT, "checkpoint %.64s was deleted meanwhile", uuid);
}

static int find_version_to_change(struct view *v, struct model *m, struct version *version,
                                  struct error *e)
{
    int rc = find_model(v, m, e);
    if (!rc)
        rc = find_version(v, m, version, e);
    return rc ? rc : may_change(v, m, version->user, e);
}

int model_version_patch(struct view *v, struct error *e)
{
    struct model m;
    struct version version;
    struct words w;
    int64_t now = clock_wall_us();
    int rc = find_version_to_change(v, &m, &version, e);
    if (!rc)
        rc = read_words(v, "comment", &w, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_VERSION_PATCH, w.name, w.description, w.metadata, w.labels, w.notes, now,
           version.id);
    DB_ADD(b, MODEL_TOUCH, now, m.id);
    rc = commit_model(v, b, &m, e);
    return rc ? rc : answer_version(v, version.id, e);
}

int model_version_delete(struct view *v, struct error *e)
{
    struct model m;
    struct version version;
    int rc = find_version_to_change(v, &m, &version, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_VERSION_DELETE, version.id);
    DB_ADD(b, MODEL_TOUCH, clock_wall_us(), m.id);
    return commit_model(v, b, &m, e);
}
