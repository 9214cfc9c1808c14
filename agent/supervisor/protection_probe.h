// Tries at the agent's start which protections this machine can give to tasks (protections.h), each
// in a child process, with the same code that the supervisors run.
#ifndef MUSTER_AGENT_SUPERVISOR_PROTECTION_PROBE_H
#define MUSTER_AGENT_SUPERVISOR_PROTECTION_PROBE_H

#include "agent/supervisor/protections.h"

// Of the agent's flags.
struct protection_wishes {
    const char *work_dir; // absolute
    // Why tasks without an account of their own run as root if the agent does; NULL: they do not.
    const char *tasks_as_root;
};

// Tries all protections. To be called before the agent has threads.
void protections_probe(const struct protection_wishes *wishes, struct protections *out);

#endif
