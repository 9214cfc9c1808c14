// The way to the master, for the agent's threads. Read-only after the start.
#ifndef MUSTER_AGENT_MASTER_CLIENT_H
#define MUSTER_AGENT_MASTER_CLIENT_H

#include <stdatomic.h>

#include "api/client.h"
#include "base/error.h"

struct master_link {
    const char *url, *token;
    const char *ca_file; // NULL: the system's authorities alone
};

// A client with the agent's token; its calls end within a second after *stop is set.
int link_open(const struct master_link *master, int timeout_s, const atomic_bool *stop,
              struct client **out, struct error *e);

#endif
