#include "master/teams/agent_user.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"

static const struct {
    const char *id, *name;
} pairs[] = {{"agentUid", "agentUser"}, {"agentGid", "agentGroup"}};

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
        if (strlen(name) > LIMIT_NAME)
            return error_set(e, ERR_INVALID, "agentUserGroup.%s: more than %d bytes", pairs[i].name,
                             LIMIT_NAME);
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
