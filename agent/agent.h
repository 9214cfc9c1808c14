// The agent: an event loop that makes the tasks of this machine match the master's desired state.
//
//   master's response -> desired state -> reconcile -> actions -> supervisors
//   supervisors -> observed state -> request to the master
//
// Other threads ship logs, fetch and remove files, and monitor GPUs if there are any. They send
// messages to the loop's inbox.
#ifndef MUSTER_AGENT_AGENT_H
#define MUSTER_AGENT_AGENT_H

#include <stdbool.h>

#include "agent/quotas/task_limits.h"
#include "base/error.h"

struct agent_options {
    const char *master;     // http://host:port; NULL: that of the credential
    const char *token_file; // the token that agents share; NULL: the agent has a credential
    const char *enrolment;  // string to exchange for a credential; NULL: none
    bool enrol_only;        // end when the credential is stored
    const char *ca_file;    // NULL: only the system's authorities
    const char *work_dir;
    const char *id;           // NULL: the host's name
    const char *pool;         // resource pool; NULL: that of the credential, else the default
    const char *rack;         // agents of one rack share a fast network; NULL: unknown
    const char *address;      // at which other machines reach this one; NULL: detected
    long long slots;          // CPU slots; 0: use the GPUs or all cores
    bool gpus;                // detect GPUs
    const char *task_account; // of tasks whose user is not linked with one; NULL: none
    const char *task_group;   // of all tasks with an account, besides its own; NULL: none
    bool tasks_as_root;       // those tasks run as root if the agent does
    struct task_limits limits;
    const char *task_cgroup; // for cgroup_prepare(); NULL: its choice
};

// Runs until SIGTERM or SIGINT (0), or until an error that a retry cannot fix: a token or
// credential that the master refuses, a master with another authority than the expected one, or a
// work folder that cannot be used or belongs to another agent. The tasks keep running in any case.
int agent_run(const struct agent_options *options, struct error *e);

#endif
