#include "cli/common/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text/json.h"

struct lookup_kind {
    const char *what, *path, *key, *list_command;
};

static const struct lookup_kind teams = {"team", "/api/v1/workspaces", "workspaces",
                                         "muster team list"};
static const struct lookup_kind users = {"user", "/api/v1/users", "users", "muster user list"};
static const struct lookup_kind pools = {"pool", "/api/v1/resource-pools", "resourcePools",
                                         "muster pool list"};
static const struct lookup_kind hooks = {"webhook", "/api/v1/webhooks", "webhooks",
                                         "muster webhook list"};

static const char *object_name(const json_t *object)
{
    return jget_string(object, "name", jget_string(object, "username", ""));
}

static int report_not_found(const struct lookup_kind *kind, const json_t *list, const char *flag,
                            const char *name, struct error *e)
{
    const char **names = xcalloc(json_array_size(list) + 1, sizeof(*names));
    for (size_t i = 0; i < json_array_size(list); i++)
        names[i] = object_name(json_array_get(list, i));
    const char *near = nearest_word(name, names);
    free(names);
    error_set(e, ERR_NOT_FOUND, "%s%sthere is no %s \"%s\"; %s%s%s", flag ? flag : "",
              flag ? ": " : "", kind->what, name,
              near ? "did you mean \"" : "see: ", near ? near : kind->list_command,
              near ? "\"?" : "");
    return ERR_NOT_FOUND;
}

// A name takes precedence over an equal id. *others: number of further objects with the name.
static const json_t *find_object(const json_t *list, const char *name, int *others)
{
    const json_t *by_id = NULL, *by_name = NULL;
    char *end;
    long long id = strtoll(name, &end, 10);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(object_name(one), name) == 0) {
            *others += by_name != NULL;
            by_name = by_name ? by_name : one;
        }
        by_id = *end == '\0' && id > 0 && jget_int(one, "id", 0) == id ? one : by_id;
    }
    return by_name ? by_name : by_id;
}

static int lookup(struct cli *c, const struct lookup_kind *kind, const char *flag, const char *name,
                  long long *id, struct error *e)
{
    json_t *list = NULL;
    int err = cli_list(c, kind->key, 0, &list, e, "%s", kind->path);
    int others = 0;
    const json_t *found = find_object(list, name, &others);
    *id = jget_int(found, "id", 0);
    if (!err && others > 0) {
        err = error_set(e, ERR_CONFLICT,
                        "%s%s%d objects have the name \"%s\"; give an id instead (%s)",
                        flag ? flag : "", flag ? ": " : "", others + 1, name, kind->list_command);
    }
    err = !err && !found ? report_not_found(kind, list, flag, name, e) : err;
    json_decref(list);
    return err;
}

int lookup_team(struct cli *c, const char *flag, const char *name, long long *id, struct error *e)
{
    return lookup(c, &teams, flag, name, id, e);
}

int lookup_project(struct cli *c, long long team, const char *name, long long *id, struct error *e)
{
    struct lookup_kind projects = {
        "project", arena_printf(&c->arena, "/api/v1/workspaces/%lld/projects", team), "projects",
        arena_printf(&c->arena, "muster project list %lld", team)};
    return lookup(c, &projects, NULL, name, id, e);
}

int lookup_user(struct cli *c, const char *flag, const char *name, long long *id, struct error *e)
{
    return lookup(c, &users, flag, name, id, e);
}

int lookup_webhook(struct cli *c, const char *name, long long *id, struct error *e)
{
    return lookup(c, &hooks, NULL, name, id, e);
}

int lookup_pool(struct cli *c, const char *flag, const char *name, struct error *e)
{
    long long unused;
    return lookup(c, &pools, flag, name, &unused, e);
}

int lookup_none(struct cli *c, const char *what, const char *path, const char *name,
                struct error *e)
{
    json_t *answer = NULL;
    struct error why = {0};
    int err = cli_call(c, "GET", NULL, &answer, &why, "%s", path);
    if (!err && strcmp(object_name(jget(answer, what)), name) == 0) {
        err = error_set(e, ERR_CONFLICT, "a %s \"%s\" exists already; see: muster %s describe %s",
                        what, name, what, name);
    } else if (err == ERR_NOT_FOUND) {
        err = 0;
    } else if (err && e) {
        *e = why;
    }
    json_decref(answer);
    return err;
}

// Fetches each name once and keeps it for later rows.
static const char *cached_name(struct cli *c, const char *path, const char *key, long long id)
{
    json_t *answer = NULL;
    const char *full = arena_printf(&c->arena, "%s/%lld", path, id);
    if (!c->names)
        c->names = json_object();
    const char *name = jget_string(c->names, full, NULL);
    if (!name) {
        bool found = cli_call(c, "GET", NULL, &answer, NULL, "%s", full) == 0;
        name = found ? object_name(jget(answer, key)) : arena_printf(&c->arena, "%lld", id);
        json_object_set_new(c->names, full, json_string(name));
        name = jget_string(c->names, full, "");
        json_decref(answer);
    }
    return name;
}

const char *lookup_team_name(struct cli *c, long long id)
{
    return id > 0 ? cached_name(c, teams.path, "workspace", id) : "";
}

const char *lookup_user_name(struct cli *c, long long id)
{
    return id > 0 ? cached_name(c, users.path, "user", id) : "";
}
