// The system calls that a task may not make: those that administer a machine, or that training
// does not need and that have often led to a takeover of the kernel. They fail with EPERM. All
// others are allowed, so that no program fails for an unusual one; decision 0049 gives the reasons.
// Any thread.
#ifndef MUSTER_AGENT_ISOLATION_SYSTEM_CALLS_H
#define MUSTER_AGENT_ISOLATION_SYSTEM_CALLS_H

#include <linux/filter.h>
#include <stddef.h>

#include "base/error.h"

// The names of the calls that are always refused; the list ends with NULL. clone, clone3, unshare
// and ioctl are refused for some arguments only.
extern const char *const system_calls_refused[];

// Compiles the filter, for this machine's architecture and its 32-bit variant. The caller frees
// filter->filter.
int system_calls_filter(struct sock_fprog *filter, struct error *e);

#endif
