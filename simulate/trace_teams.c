#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"
#include "simulate/trace.h"
#include "simulate/users.h"

enum { SLOTS_MAX = SIMULATE_NODES_MAX * SIMULATE_NODE_SLOTS_MAX };

static const struct schema_field user_element = {.name = "user", .type = SCHEMA_STRING};
static const struct schema_field team_fields[] = {
    {.name = "name", .type = SCHEMA_STRING, .required = true, .doc = "as in the column queue"},
    {.name = "weight", .type = SCHEMA_NUMBER, .fallback = "1", .min = 0.001, .max = 1e6},
    {.name = "guaranteed", .type = SCHEMA_INT, .fallback = "0", .min = 0, .max = SLOTS_MAX},
    {.name = "maximum", .type = SCHEMA_INT, .fallback = "0", .min = 0, .max = SLOTS_MAX},
    {.name = "users", .type = SCHEMA_LIST, .fallback = "[]", .element = &user_element},
    {0}};
static const struct schema_field team_element = {
    .name = "team", .type = SCHEMA_OBJECT, .fields = team_fields};
static const struct schema_field file_fields[] = {
    {.name = "teams", .type = SCHEMA_LIST, .required = true, .element = &team_element}, {0}};

// Users are sorted by name. Returns the first one that is not before `name`.
static size_t user_place(const struct trace *t, const char *name)
{
    size_t low = 0, high = t->user_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(t->users[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct trace_user *trace_user_find(const struct trace *t, const char *name)
{
    size_t at = user_place(t, name);
    bool is_known = at < t->user_count && strcmp(t->users[at].name, name) == 0;
    return is_known ? &t->users[at] : NULL;
}

static void insert_user(struct trace *t, const char *name, int team)
{
    size_t at = user_place(t, name);
    memmove(t->users + at + 1, t->users + at, (t->user_count - at) * sizeof *t->users);
    t->users[at] = (struct trace_user){arena_strdup(&t->arena, name), team};
    t->user_count++;
}

static int add_users(struct trace *t, const struct yaml_doc *doc, const json_t *list, size_t number,
                     int team, struct error *e)
{
    size_t i;
    const json_t *user;
    json_array_foreach(list, i, user)
    {
        const char *name = json_string_value(user);
        const struct trace_user *known = trace_user_find(t, name);
        char path[64], where[512];
        snprintf(path, sizeof path, "teams.%zu.users.%zu", number, i);
        if (known)
            return error_set(
                e, ERR_INVALID, "%s: user %s is in team %s already; a user has one team",
                yaml_where(doc, path, where, sizeof where), name, t->teams[known->team].name);
        if (t->user_count >= TRACE_USERS_MAX)
            return error_set(e, ERR_TOO_LARGE, "%s: more than %d users",
                             yaml_where(doc, path, where, sizeof where), TRACE_USERS_MAX);
        insert_user(t, name, team);
    }
    return 0;
}

static int add_team(struct trace *t, const struct yaml_doc *doc, const json_t *row, size_t number,
                    struct error *e)
{
    const char *name = jget_string(row, "name", "");
    size_t before = t->team_count;
    int team = trace_team(t, name);
    char path[64], where[512];
    snprintf(path, sizeof path, "teams.%zu.name", number);
    if (t->team_count == before)
        return error_set(e, ERR_INVALID, "%s: there are two teams %s",
                         yaml_where(doc, path, where, sizeof where), name);
    t->teams[team].weight = llround(jget_double(row, "weight", 1) * SCHED_WEIGHT_ONE);
    t->teams[team].guaranteed = jget_int(row, "guaranteed", 0);
    t->teams[team].maximum = jget_int(row, "maximum", 0);
    if (t->teams[team].maximum && t->teams[team].guaranteed > t->teams[team].maximum)
        return error_set(e, ERR_INVALID, "%s: team %s is guaranteed more than its maximum",
                         yaml_where(doc, path, where, sizeof where), name);
    return add_users(t, doc, jget(row, "users"), number, team, e);
}

int trace_read_teams(struct trace *t, const char *text, size_t len, const char *file,
                     struct error *e)
{
    struct yaml_doc doc = {0};
    int err = yaml_parse(text, len, file, &doc, e);
    if (!err)
        err = schema_apply(file_fields, &doc, e);
    t->users = arena_alloc(&t->arena, TRACE_USERS_MAX * sizeof *t->users);
    size_t i;
    const json_t *row;
    if (!err)
        json_array_foreach(jget(doc.root, "teams"), i, row)
        {
            err = add_team(t, &doc, row, i, e);
            if (err)
                break;
        }
    yaml_doc_free(&doc);
    return err;
}
