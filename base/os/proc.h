// Child processes, started from an argv and never from a shell string. A child inherits only the
// descriptors of its proc_spec.
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
    bool new_group;            // a process group of its own
    bool new_session;          // setsid(2)
    bool die_with_parent;      // SIGKILL when the spawning thread ends (PR_SET_PDEATHSIG)
    // NULL, or a function that the child calls before it enters `cwd`, for example to change its
    // account. It makes only async-signal-safe calls. It returns NULL, or with errno set the step
    // that failed, as a constant: "entering the namespace".
    const char *(*prepare)(const void *ctx);
    const void *prepare_ctx;
};

// Also fails when the child cannot change its folder or execute the program: the child reports its
// errno through a close-on-exec pipe. *pidfd (if not NULL) is close-on-exec.
int proc_spawn(const struct proc_spec *spec, pid_t *pid, int *pidfd, struct error *e);

// Describes a wait status for people: "exit 3", "signal 9 (SIGKILL)". Returns out.
const char *proc_status_text(int wait_status, char *out, size_t cap);

// The folder of this executable, in which its sibling programs lie. Heap string.
char *proc_self_dir(void);

#endif
