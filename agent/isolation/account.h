// The account under which the processes of a task run. Pure except for account_find(), which asks
// the machine's databases of users. Any thread.
#ifndef MUSTER_AGENT_ISOLATION_ACCOUNT_H
#define MUSTER_AGENT_ISOLATION_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { ACCOUNT_GROUPS_MAX = 256 };

struct task_account {
    bool switches; // false: processes keep the account of the agent
    uid_t uid;
    gid_t gid;
    gid_t groups[ACCOUNT_GROUPS_MAX]; // supplementary
    size_t group_count;
    char name[64];
    char home[256]; // "": the account has none of its own, so each task gets a folder
};

// The decision for a task with the specification `spec` (task_spec.h) under an agent with the user
// id `agent`: `account` of the master goes before `taskAccount`, the flag of the agent. An agent
// that is not root cannot switch. ERR_FORBIDDEN: an agent that runs as root has no account for the
// task, or the master's account or group is root's or the system's. Only uid, gid, name and
// switches are set.
int account_choose(const json_t *spec, uid_t agent, struct task_account *out, struct error *e);

// Adds the groups and the home folder of the account from the machine's databases, and the group
// `taskGroup`, the agent's flag. For an account that this machine does not know, only its numbers
// count.
int account_complete(const json_t *spec, struct task_account *a, struct error *e);

// The account NAME of the flag --task-account. ERR_NOT_FOUND, or ERR_FORBIDDEN for root's.
int account_find(const char *name, struct task_account *out, struct error *e);

// The group NAME of the flag --task-group. ERR_NOT_FOUND, or ERR_FORBIDDEN for root's.
int account_find_group(const char *name, gid_t *out, struct error *e);

// Sets HOME, USER and LOGNAME in `env` if the account is switched. `home`: the folder of the task
// for an account without one; NULL: the user has set HOME, which stays. So do the other two.
void account_set_environment(const struct task_account *a, const char *home, json_t *env);

// Until account_leave_files, files are opened and made with the rights of the account, if tasks run
// under one. For a process of one thread, which has the groups of the account from then on. False:
// errno is set.
bool account_enter_files(const struct task_account *a);
void account_leave_files(const struct task_account *a);

#endif
