#include "master/teams/agent_user.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"

static const struct {
    const char *id, *name;
} pairs[] = {{"agentUid", "agentUser"}, {"agentGid", "agentGroup"}};

// Accounts of the system could change the machine: root, daemons, groups of devices.
static int id_check(const char *what, const char *name, int64_t id, bool is_group, struct error *e)
{
    bool own = id >= LIMIT_TASK_UID_MIN && id < UINT32_MAX;
    if (own || (is_group && id == LIMIT_TASK_GID_USERS))
        return 0;
    return error_set(e, ERR_INVALID,
                     "%s %lld (%.64s): tasks cannot run as root or as an account of the system; "
                     "use a number from %d on",
                     what, (long long)id, name, LIMIT_TASK_UID_MIN);
}

// The names become part of environments and paths.
static int name_check(const char *what, const char *name, struct error *e)
{
    size_t len = strlen(name);
    bool good = len > 0 && len <= LIMIT_NAME && name[0] != '-';
    for (const char *c = name; *c; c++)
        good &= (unsigned char)*c > ' ' && *c != 0x7f && *c != ':' && *c != '/';
    return good ? 0
                : error_set(e, ERR_INVALID,
                            "%s: expected the name of an account: 1 to %d bytes without blanks, "
                            "\":\" and \"/\"",
                            what, LIMIT_NAME);
}

static int pair_check(const json_t *group, size_t i, struct error *e)
{
    char what[64];
    const char *name = jget_string(group, pairs[i].name, "");
    snprintf(what, sizeof what, "agentUserGroup.%s", pairs[i].name);
    int err = name_check(what, name, e);
    snprintf(what, sizeof what, "agentUserGroup.%s", pairs[i].id);
    return err ? err : id_check(what, name, jget_int(group, pairs[i].id, 0), i == 1, e);
}

static int agent_user_check(const json_t *group, enum agent_user_of owner, struct error *e)
{
    if (!json_is_object(group))
        return error_set(e, ERR_INVALID, "agentUserGroup: not an object");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *name = jget_string(group, pairs[i].name, NULL);
        bool has_id = jget(group, pairs[i].id);
        if (!has_id && !name && owner == AGENT_USER_OF_WORKSPACE)
            continue;
        if (!has_id || !name || !*name)
            return error_set(e, ERR_INVALID,
                             "agentUserGroup: %s and %s belong together; give both, and the name "
                             "not empty",
                             pairs[i].id, pairs[i].name);
        int err = pair_check(group, i, e);
        if (err)
            return err;
    }
    return 0;
}

int agent_user_read(const json_t *group, enum agent_user_of owner, struct arena *arena,
                    const char **out, struct error *e)
{
    int err = agent_user_check(group, owner, e);
    if (err)
        return err;
    json_t *kept = json_object();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!jget(group, pairs[i].id))
            continue;
        json_object_set_new(kept, pairs[i].id, json_integer(jget_int(group, pairs[i].id, 0)));
        json_object_set(kept, pairs[i].name, jget(group, pairs[i].name));
    }
    char *text = json_text(kept);
    *out = arena_strdup(arena, text);
    free(text);
    json_decref(kept);
    return 0;
}

// The pair `i` of the first of two groups that has it.
static void account_set(json_t *account, const char *id, const char *name, size_t i,
                        const json_t *first, const json_t *second)
{
    const json_t *from = jget(first, pairs[i].id) ? first : second;
    if (!jget(from, pairs[i].id))
        return;
    json_object_set(account, id, jget(from, pairs[i].id));
    json_object_set(account, name, jget(from, pairs[i].name));
}

json_t *agent_user_account(const char *user, const char *workspace)
{
    json_t *account = json_object();
    json_t *of_user = json_loads(user, 0, NULL), *of_workspace = json_loads(workspace, 0, NULL);
    account_set(account, "uid", "user", 0, of_workspace, of_user);
    account_set(account, "gid", "group", 1, of_workspace, of_user);
    json_decref(of_user);
    json_decref(of_workspace);
    if (!jget(account, "uid")) {
        json_decref(account);
        return NULL;
    }
    if (!jget(account, "gid")) {
        json_object_set(account, "gid", jget(account, "uid"));
        json_object_set(account, "group", jget(account, "user"));
    }
    return account;
}

int agent_user_check_account(const json_t *account, struct error *e)
{
    if (!account)
        return 0;
    int err = id_check("the linked account", jget_string(account, "user", ""),
                       jget_int(account, "uid", 0), false, e);
    return err ? err
               : id_check("the linked group", jget_string(account, "group", ""),
                          jget_int(account, "gid", 0), true, e);
}
