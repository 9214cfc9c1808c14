// The agent: one event loop that keeps the tasks of this machine as the master wants them.
//
//   sync answer -> desired set -> reconcile -> actions -> supervisors
//   supervisors -> observed set -> sync request
//
// Threads beside it: the log shipper, a worker for files, and with GPUs a watch of them. They send
// notes to the loop.
#ifndef MUSTER_AGENT_AGENT_H
#define MUSTER_AGENT_AGENT_H

#include <stdbool.h>

#include "base/error.h"

struct agent_options {
    const char *master;     // http://host:port
    const char *token_file; // the agent token
    const char *ca_file;    // NULL: the system's authorities alone
    const char *work_dir;
    const char *id;      // NULL: the host's name
    const char *pool;    // resource pool
    const char *rack;    // its neighbours share a fast network; NULL: not known
    const char *address; // as other machines reach this one; NULL: found out
    long long slots;     // CPU slots; 0: by what is there
    bool gpus;           // look for GPUs
};

// Runs until SIGTERM or SIGINT (0), or an error that waiting cannot mend: a wrong token, a work
// folder that cannot be used or is another agent's. The tasks go on in any case.
int agent_run(const struct agent_options *options, struct error *e);

#endif
