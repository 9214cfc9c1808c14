// Users, workspaces, projects, models and their versions. An object of the same name is used as it
// is: an import never changes what is here already.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/imports/internal.h"
#include "master/teams/project_keys.h"
#include "master/teams/teams.h"

enum { BCRYPT_LEN = 60 };

static bool name_is_good(const char *name, struct import_result *r)
{
    bool good = *name && strlen(name) <= LIMIT_NAME;
    for (const char *c = name; *c; c++)
        good &= !iscntrl((unsigned char)*c);
    if (!good)
        import_skip(r, "its name \"%.64s\" is not 1 to %d bytes without control characters", name,
                    LIMIT_NAME);
    return good;
}

static bool was_imported(struct import_call *m, const char *kind, const json_t *record,
                         struct import_result *r)
{
    struct imported found = import_find(m, kind, import_text(record, "old"));
    if (found.found)
        *r = (struct import_result){.outcome = IMPORT_EXISTING, .id = found.id};
    return found.found;
}

// --- users ---------------------------------------------------------------------------------------

// Stored for a user who cannot sign in with a password until an administrator sets one.
static const char no_password[] = "!";

// Two digits. A login with this cost takes seconds, and one with the greatest cost, 31, days.
static const char bcrypt_cost_max[] = "15";

// A hash by bcrypt, which libcrypt verifies. The first login replaces it (registry/accounts.c).
static const char *password_hash(const json_t *record)
{
    const char *hash = import_text(record, "passwordHash");
    bool bcrypt = strlen(hash) == BCRYPT_LEN && hash[0] == '$' && hash[1] == '2' &&
                  strchr("aby", hash[2]) && hash[3] == '$' && isdigit((unsigned char)hash[4]) &&
                  isdigit((unsigned char)hash[5]) && hash[6] == '$';
    return bcrypt && strncmp(hash + 4, bcrypt_cost_max, 2) <= 0 ? hash : no_password;
}

void import_user(struct import_call *m, const json_t *record, struct import_result *r)
{
    char name[LIMIT_NAME + 1] = "";
    const char *given = import_text(record, "username");
    if (was_imported(m, "user", record, r) || !name_is_good(given, r))
        return;
    for (size_t i = 0; given[i]; i++) // as names of users are stored
        name[i] = (char)tolower((unsigned char)given[i]);
    struct db_rows *rows = DB_QUERY(m->c->reader, USER_BY_NAME, name);
    if (db_next(rows) == 1)
        *r = (struct import_result){.outcome = IMPORT_EXISTING,
                                    .id = DB_GET(rows, USER_BY_NAME, id)};
    db_rows_close(rows);
    if (r->outcome == IMPORT_NEW)
        STORE(m->c, IMPORT_USER, name, import_text(record, "displayName"),
              jget_bool(record, "admin", false), jget_bool(record, "active", false),
              password_hash(record), m->c->wall);
    STORE(m->c, IMPORTED_SET_USER, m->id, import_text(record, "old"), name);
}

// --- workspaces and projects ---------------------------------------------------------------------

static struct workspace *workspace_named(struct core *c, const char *name)
{
    for (size_t i = 0; i < c->workspaces.count; i++) {
        struct workspace *ws = c->workspaces.items[i].value;
        if (!strcmp(ws->name, name))
            return ws;
    }
    return NULL;
}

static struct workspace *workspace_make(struct core *c, const json_t *record, const char *name,
                                        int64_t owner)
{
    struct workspace *ws = workspace_new(c, c->next_workspace, owner, name);
    ws->archived = jget_bool(record, "archived", false);
    STORE(c, WORKSPACE_INSERT, DB_NOT_NULL(ws->id), name, owner, import_time(record, "createdAt"));
    STORE(c, WORKSPACE_SET_ARCHIVED, ws->archived, ws->id);
    change_mark_workspace(c, ws->id);
    workspace_changed(c, ws);
    return ws;
}

void import_workspace(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t owner;
    const char *name = import_text(record, "name");
    if (was_imported(m, "workspace", record, r) || !name_is_good(name, r) ||
        !import_reference(m, record, "owner", "user", r, &owner))
        return;
    struct workspace *ws = workspace_named(m->c, name);
    r->outcome = ws ? IMPORT_EXISTING : IMPORT_NEW;
    if (!ws)
        ws = workspace_make(m->c, record, name, owner);
    r->id = ws->id;
    import_keep(m, "workspace", import_text(record, "old"), ws->id, false, "");
}

static struct project *project_named(const struct workspace *ws, const char *name)
{
    for (size_t i = 0; i < ws->projects.count; i++) {
        struct project *p = ws->projects.items[i].value;
        if (!strcmp(p->name, name))
            return p;
    }
    return NULL;
}

static struct project *project_make(struct core *c, const json_t *record, struct workspace *ws,
                                    int64_t owner)
{
    const char *name = import_text(record, "name");
    struct project_key key = project_key_make(c, name);
    struct project *p = project_new(c, c->next_project, ws, name);
    char *notes = import_json(record, "notes", "[]");
    p->archived = jget_bool(record, "archived", false);
    memcpy(p->key, key.text, sizeof p->key);
    STORE(c, PROJECT_INSERT, p->id, name, ws->id, import_text(record, "description"), owner,
          import_time(record, "createdAt"), p->key);
    STORE(c, PROJECT_SET_ARCHIVED, p->archived, p->id);
    STORE(c, PROJECT_SET_NOTES, notes, p->id);
    change_mark_workspace(c, ws->id);
    free(notes);
    return p;
}

void import_project(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t owner, workspace;
    if (was_imported(m, "project", record, r) || !name_is_good(import_text(record, "name"), r) ||
        !import_reference(m, record, "owner", "user", r, &owner) ||
        !import_reference(m, record, "workspace", "workspace", r, &workspace))
        return;
    struct workspace *ws = core_workspace(m->c, workspace);
    if (!ws) {
        import_skip(r, "its workspace was deleted here");
        return;
    }
    struct project *p = project_named(ws, import_text(record, "name"));
    r->outcome = p ? IMPORT_EXISTING : IMPORT_NEW;
    if (!p)
        p = project_make(m->c, record, ws, owner);
    r->id = p->id;
    import_keep(m, "project", import_text(record, "old"), p->id, false, "");
}

// --- models --------------------------------------------------------------------------------------

static bool model_exists(struct core *c, const char *name, int64_t workspace, int64_t *id)
{
    struct db_rows *rows = DB_QUERY(c->reader, MODEL_BY_NAME, name);
    bool found = false;
    while (!found && db_next(rows) == 1) {
        found = DB_GET(rows, MODEL_BY_NAME, workspace_id) == workspace;
        *id = DB_GET(rows, MODEL_BY_NAME, id);
    }
    db_rows_close(rows);
    return found;
}

void import_model(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t owner, workspace;
    const char *name = import_text(record, "name");
    if (was_imported(m, "model", record, r) || !name_is_good(name, r) ||
        !import_reference(m, record, "owner", "user", r, &owner) ||
        !import_reference(m, record, "workspace", "workspace", r, &workspace))
        return;
    if (!core_workspace(m->c, workspace)) {
        import_skip(r, "its workspace was deleted here");
        return;
    }
    if (model_exists(m->c, name, workspace, &r->id)) {
        r->outcome = IMPORT_EXISTING;
    } else {
        char *metadata = import_json(record, "metadata", "{}"),
             *labels = import_json(record, "labels", "[]");
        STORE(m->c, IMPORT_MODEL, name, import_text(record, "description"), metadata, labels,
              import_text(record, "notes"), owner, workspace, jget_bool(record, "archived", false),
              import_time(record, "createdAt"), import_time(record, "updatedAt"));
        free(labels);
        free(metadata);
    }
    STORE(m->c, IMPORTED_SET_MODEL, m->id, import_text(record, "old"), name, workspace);
}

void import_model_version(struct import_call *m, const json_t *record, struct import_result *r)
{
    struct db_reader *db = m->c->reader;
    int64_t model, owner, version = jget_int(record, "version", 0);
    const char *uuid = import_text(record, "checkpoint");
    if (!import_reference(m, record, "model", "model", r, &model) ||
        !import_reference(m, record, "owner", "user", r, &owner))
        return;
    r->id = version;
    if (import_row_exists(DB_QUERY(db, MODEL_VERSION_BY_NUMBER, model, version))) {
        r->outcome = IMPORT_EXISTING;
    } else if (!import_row_exists(DB_QUERY(db, MODEL_BY_ID, model))) {
        import_skip(r, "its model was deleted here");
    } else if (version < 1 || !import_row_exists(DB_QUERY(db, CHECKPOINT_OWNER, uuid))) {
        import_skip(r, "its checkpoint %.40s was not imported", uuid);
    } else {
        char *metadata = import_json(record, "metadata", "{}"),
             *labels = import_json(record, "labels", "[]");
        STORE(m->c, IMPORT_MODEL_VERSION, model, version, uuid, import_text(record, "name"),
              import_text(record, "comment"), metadata, labels, import_text(record, "notes"), owner,
              import_time(record, "createdAt"), import_time(record, "updatedAt"));
        STORE(m->c, IMPORT_LAST_VERSION, version, model);
        free(labels);
        free(metadata);
    }
}
