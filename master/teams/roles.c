#include "master/teams/roles.h"

#include <string.h>

const char *const role_words[ROLES] = {"none", "viewer", "editor", "admin", "administrator"};

static const struct {
    enum role lowest;
    const char *what;
} rules[ACTS] = {
    [ACT_SEE] = {ROLE_VIEWER, "to see it"},
    [ACT_SUBMIT] = {ROLE_EDITOR, "to submit experiments, or add anything else"},
    [ACT_CHANGE_OWN] = {ROLE_EDITOR, "to change anything"},
    [ACT_CHANGE_OTHERS] = {ROLE_ADMIN, "to change what belongs to another user"},
    [ACT_MANAGE] = {ROLE_ADMIN, "to change its name, roles, members or projects"},
    [ACT_SET_AGENT_USER] = {ROLE_CLUSTER_ADMIN, "to set its agentUserGroup"},
    [ACT_SET_QUOTA] = {ROLE_CLUSTER_ADMIN, "to change its weight and slots, or a member's slots"},
};

const char *role_word(const char *text, enum role highest)
{
    for (int i = 0; text && i <= (int)highest; i++)
        if (!strcmp(role_words[i], text))
            return role_words[i];
    return NULL;
}

static enum role role_of_word(const char *word)
{
    for (int i = ROLE_NONE; i <= ROLE_ADMIN; i++)
        if (!strcmp(role_words[i], word))
            return (enum role)i;
    return ROLE_NONE;
}

enum role role_of(bool cluster_admin, bool creator, const char *member, const char *fallback)
{
    if (cluster_admin)
        return ROLE_CLUSTER_ADMIN;
    if (creator)
        return ROLE_ADMIN;
    return role_of_word(member && *member ? member : fallback);
}

bool role_may(enum role role, enum act act)
{
    return role >= rules[act].lowest;
}

int role_check(enum role role, enum act act, const char *workspace, struct error *e)
{
    enum role lowest = rules[act].lowest;
    if (role_may(role, act))
        return 0;
    if (lowest == ROLE_CLUSTER_ADMIN)
        return error_set(e, ERR_FORBIDDEN,
                         "%s takes an administrator of the cluster; you are %s of workspace "
                         "\"%.64s\"",
                         rules[act].what, role_words[role], workspace);
    return error_set(e, ERR_FORBIDDEN,
                     "%s takes the role %s in workspace \"%.64s\", and yours is %s; its "
                     "administrators can grant it (muster team members \"%.64s\" names them), and "
                     "so can those of the cluster",
                     rules[act].what, role_words[lowest], workspace, role_words[role], workspace);
}
