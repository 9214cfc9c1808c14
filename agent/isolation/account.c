#include "agent/isolation/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

// --- the decision --------------------------------------------------------------------------------

static bool is_own_id(int64_t id)
{
    return id >= LIMIT_TASK_UID_MIN && id < UINT32_MAX;
}

// The master refuses such links too, but its store may have one that an older master accepted.
static int check_numbers(int64_t uid, int64_t gid, const char *user, struct error *e)
{
    if (uid == 0 || gid == 0)
        return error_set(e, ERR_FORBIDDEN,
                         "the user of this task is linked with root's account or group (uid %lld, "
                         "gid %lld), and tasks never run as root; link the user with an ordinary "
                         "account: det user link-with-agent-user",
                         (long long)uid, (long long)gid);
    if (!is_own_id(uid))
        return error_set(e, ERR_FORBIDDEN,
                         "the user of this task is linked with the account \"%.60s\" (uid %lld, "
                         "gid %lld), a system account; link the user with one from uid %d on: det "
                         "user link-with-agent-user",
                         user, (long long)uid, (long long)gid, LIMIT_TASK_UID_MIN);
    if (!is_own_id(gid) && gid != LIMIT_TASK_GID_USERS)
        return error_set(e, ERR_FORBIDDEN,
                         "the user of this task is linked with the account \"%.60s\" (uid %lld) "
                         "and a system group (gid %lld), which could change the machine; link the "
                         "user with a group from gid %d on, or %d: det user link-with-agent-user",
                         user, (long long)uid, (long long)gid, LIMIT_TASK_UID_MIN,
                         LIMIT_TASK_GID_USERS);
    return 0;
}

static int choose_linked(const json_t *linked, struct task_account *out, struct error *e)
{
    const char *user = jget_string(linked, "user", "");
    int64_t uid = jget_int(linked, "uid", -1), gid = jget_int(linked, "gid", -1);
    int err = check_numbers(uid, gid, user, e);
    if (err)
        return err;
    out->switches = true;
    out->uid = (uid_t)uid;
    out->gid = (gid_t)gid;
    snprintf(out->name, sizeof out->name, "%s", user);
    return 0;
}

int account_choose(const json_t *spec, uid_t agent, struct task_account *out, struct error *e)
{
    const json_t *linked = jget(spec, "account");
    const char *name = jget_string(spec, "taskAccount", NULL);
    *out = (struct task_account){0};
    if (agent != 0)
        return 0;
    if (linked)
        return choose_linked(linked, out, e);
    if (name)
        return account_find(name, out, e);
    if (jget_bool(spec, "tasksAsRoot", false))
        return 0;
    return error_set(e, ERR_FORBIDDEN,
                     "this agent runs as root and has no account for the task: start it with "
                     "--task-account NAME, or link the user with an account of the machines (det "
                     "user link-with-agent-user)");
}

// --- the databases of the machine ----------------------------------------------------------------

// `home` of a linked user only: an account that several users share must not carry files from one
// task to the next.
static void take_home(const struct passwd *found, struct task_account *a)
{
    struct stat st;
    const char *home = found->pw_dir;
    if (home && stat(home, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == a->uid)
        snprintf(a->home, sizeof a->home, "%s", home);
}

static int take_groups(struct task_account *a, struct error *e)
{
    int count = ACCOUNT_GROUPS_MAX;
    if (getgrouplist(a->name, a->gid, a->groups, &count) < 0)
        return error_set(e, ERR_INVALID, "the account %s has more than %d groups", a->name,
                         ACCOUNT_GROUPS_MAX);
    a->group_count = (size_t)count;
    return 0;
}

int account_find(const char *name, struct task_account *out, struct error *e)
{
    *out = (struct task_account){.switches = true};
    errno = 0;
    const struct passwd *found = getpwnam(name);
    if (!found)
        return error_set(e, ERR_NOT_FOUND,
                         "this machine has no account \"%.60s\"; create it: useradd --system "
                         "--no-create-home --shell /usr/sbin/nologin %.60s",
                         name, name);
    if (found->pw_uid == 0 || found->pw_gid == 0)
        return error_set(e, ERR_FORBIDDEN,
                         "the account \"%.60s\" is root's or has root's group; tasks need another",
                         name);
    out->uid = found->pw_uid;
    out->gid = found->pw_gid;
    snprintf(out->name, sizeof out->name, "%s", found->pw_name);
    return 0;
}

int account_find_group(const char *name, gid_t *out, struct error *e)
{
    const struct group *found = getgrnam(name);
    if (!found)
        return error_set(e, ERR_NOT_FOUND, "this machine has no group \"%.60s\"", name);
    *out = found->gr_gid;
    return *out != 0 ? 0
                     : error_set(e, ERR_FORBIDDEN, "\"%.60s\" is root's; tasks need another", name);
}

static int add_task_group(const json_t *spec, struct task_account *a, struct error *e)
{
    gid_t group;
    const char *name = jget_string(spec, "taskGroup", NULL);
    int err = name ? account_find_group(name, &group, e) : 0;
    if (!err && name && a->group_count < ACCOUNT_GROUPS_MAX)
        a->groups[a->group_count++] = group;
    return err;
}

int account_complete(const json_t *spec, struct task_account *a, struct error *e)
{
    if (!a->switches)
        return 0;
    const struct passwd *found = getpwuid(a->uid);
    int err = 0;
    if (found) {
        snprintf(a->name, sizeof a->name, "%s", found->pw_name);
        if (jget(spec, "account"))
            take_home(found, a);
        err = take_groups(a, e);
    } else {
        a->groups[0] = a->gid;
        a->group_count = 1;
    }
    return err ? err : add_task_group(spec, a, e);
}

// --- the environment -----------------------------------------------------------------------------

static void set_variable(json_t *env, const char *name, const char *value)
{
    json_t *text = *value ? json_string(value) : NULL; // NULL: not UTF-8
    if (text)
        must(json_object_set_new(env, name, text) == 0);
}

void account_set_environment(const struct task_account *a, const char *home, json_t *env)
{
    if (!a->switches)
        return;
    if (home)
        set_variable(env, "HOME", *a->home ? a->home : home);
    if (!jget(env, "USER"))
        set_variable(env, "USER", a->name);
    if (!jget(env, "LOGNAME"))
        set_variable(env, "LOGNAME", a->name);
}

// --- the files -----------------------------------------------------------------------------------

// The kernel forgets the signal at the end of the parent (PR_SET_PDEATHSIG) when the ids change.
static void set_ids_of_files(uid_t uid, gid_t gid)
{
    int signal = 0;
    prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
    setfsgid(gid);
    setfsuid(uid);
    prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
}

bool account_enter_files(const struct task_account *a)
{
    if (!a->switches)
        return true;
    if (setgroups(a->group_count, a->groups) != 0)
        return false;
    set_ids_of_files(a->uid, a->gid);
    return true;
}

void account_leave_files(const struct task_account *a)
{
    if (a->switches)
        set_ids_of_files(geteuid(), getegid());
}
