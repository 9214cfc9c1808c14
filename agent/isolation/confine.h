// The last steps of a child process before it becomes a program of a user: it enters the task's
// view of the files, changes its account and gives up every way to gain privileges. The supervisor
// fills a struct confinement once for all processes of its task.
#ifndef MUSTER_AGENT_ISOLATION_CONFINE_H
#define MUSTER_AGENT_ISOLATION_CONFINE_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/isolation/account.h"

struct confinement {
    int mount_namespace; // a descriptor; -1: that of the supervisor
    struct task_account account;
    bool no_privileges;       // no capabilities, and none by set-user-id programs
    bool keeps_root;          // the task is to run as root: what installing packages needs stays
    struct sock_fprog filter; // of system calls; len 0: none. Its memory is the supervisor's
    int64_t processes;        // RLIMIT_NPROC; 0: as it is
    int cgroup;               // cgroup_fd(); 0: that of the supervisor
};

// For proc_spec.prepare, with a struct confinement as its context: makes system calls only. NULL,
// or the step that failed, with errno set.
const char *confine_process(const void *confinement);

// Gives up all capabilities and makes this process closed to others of its account; for a process
// that goes on with code of its own. False: errno is set.
bool confine_own_process(void);

#endif
