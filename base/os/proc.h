// Child processes: by argv, never by a shell string; every descriptor close-on-exec but those
// given.
#ifndef MUSTER_BASE_OS_PROC_H
#define MUSTER_BASE_OS_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct proc_spec {
    const char *const *argv;   // NULL-terminated; argv[0] is looked up in PATH
    const char *const *envp;   // NULL-terminated; NULL: inherit
    const char *cwd;           // NULL: inherit
    int fd_in, fd_out, fd_err; // become 0, 1, 2; -1: /dev/null
    bool new_group;            // own process group (for killing all of it)
    bool new_session;          // setsid
    bool die_with_parent;      // SIGKILL when the thread that spawned it ends (PR_SET_PDEATHSIG)
};

// Fails (nothing started) when the program is missing or the folder is not there: the child's errno
// comes back through a close-on-exec pipe. *pidfd (if not NULL) is close-on-exec.
int proc_spawn(const struct proc_spec *spec, pid_t *pid, int *pidfd, struct error *e);

// "exit 3", "signal 9 (SIGKILL)" of a wait status, for people; returns out.
const char *proc_status_text(int wait_status, char *out, size_t cap);

// The folder this executable stands in (for finding sibling programs); heap string.
char *proc_self_dir(void);

#endif
