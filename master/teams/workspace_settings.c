#include "master/teams/workspace_settings.h"

#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/text/json.h"
#include "master/common/storage.h"
#include "master/teams/agent_user.h"
#include "master/teams/teams.h"

static const char storage_key[] = "checkpointStorageConfig";

static const char *json_in_arena(struct arena *arena, const json_t *value)
{
    char *text = json_text(value);
    const char *out = arena_strdup(arena, text);
    free(text);
    return out;
}

static int read_agent_user(struct request *rq, enum role role, const char *workspace,
                           struct workspace_settings *out, struct error *e)
{
    const json_t *group = jget(rq->body, "agentUserGroup");
    int err = group ? role_check(role, ACT_SET_AGENT_USER, workspace, e) : 0;
    if (group && !err)
        err = agent_user_read(group, AGENT_USER_OF_WORKSPACE, &rq->arena, &out->agent_user, e);
    if (out->agent_user && !strcmp(out->agent_user, "{}"))
        out->agent_user = "";
    return err;
}

static bool is_folder(const json_t *storage)
{
    const char *type = jget_string(storage, "type", "");
    return !strcmp(type, "directory") || !strcmp(type, "shared_fs");
}

static int read_storage(struct core *c, struct request *rq, struct workspace_settings *out,
                        struct error *e)
{
    json_t *given = jget(rq->body, storage_key);
    if (!given)
        return 0;
    out->storage = "";
    if (!json_object_size(given))
        return 0;
    json_t *storage = json_deep_copy(given);
    int err = expconf_check_storage(storage, storage_key, e);
    if (!err && is_folder(storage) && (err = storage_check(c->options.storage, storage, e)))
        error_prefix(e, "%s", storage_key);
    if (!err)
        out->storage = json_in_arena(&rq->arena, storage);
    json_decref(storage);
    return err;
}

// The value that the workspace has already is no change, also when that pool has vanished: forms
// send it with every other change.
static int read_pool(struct core *c, const json_t *body, const char *key, const char *stored,
                     const char **out, struct error *e)
{
    struct pool *pool;
    const char *name = jget_string(body, key, NULL);
    int err = 0;
    if (!name || !strcmp(name, stored))
        return 0;
    if (*name)
        err = core_pool_require(c, name, &pool, e);
    *out = name;
    return err ? error_prefix(e, "%s", key) : 0;
}

static int read_pools(struct core *c, const json_t *body, const struct workspace *ws,
                      struct workspace_settings *out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, WORKSPACE_POOLS, ws->id);
    bool found = db_next(rows) > 0;
    int err =
        read_pool(c, body, "defaultComputePool",
                  found ? DB_GET(rows, WORKSPACE_POOLS, compute_pool) : "", &out->compute_pool, e);
    if (!err)
        err = read_pool(c, body, "defaultAuxPool",
                        found ? DB_GET(rows, WORKSPACE_POOLS, aux_pool) : "", &out->aux_pool, e);
    db_rows_close(rows);
    return err;
}

int workspace_settings_read(struct core *c, struct request *rq, const struct workspace *ws,
                            struct workspace_settings *out, struct error *e)
{
    *out = (struct workspace_settings){0};
    int err = read_agent_user(rq, core_role(rq, ws), ws->name, out, e);
    err = err ? err : read_storage(c, rq, out, e);
    return err ? err : read_pools(c, rq->body, ws, out, e);
}

void workspace_settings_store(struct core *c, const struct workspace_settings *s, int64_t workspace)
{
    if (s->agent_user)
        STORE(c, WORKSPACE_SET_AGENT_USER, s->agent_user, workspace);
    if (s->storage)
        STORE(c, WORKSPACE_SET_STORAGE, s->storage, workspace);
    if (s->compute_pool)
        STORE(c, WORKSPACE_SET_COMPUTE_POOL, s->compute_pool, workspace);
    if (s->aux_pool)
        STORE(c, WORKSPACE_SET_AUX_POOL, s->aux_pool, workspace);
}
