// HTTP clients of the master for the agent's threads. The endpoint is constant after the start.
#ifndef MUSTER_AGENT_MASTER_CLIENT_H
#define MUSTER_AGENT_MASTER_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "api/http/client.h"
#include "base/error.h"

struct master_endpoint {
    const char *url, *token;
    const char *ca_file; // NULL: only the system's authorities
    bool only_ca_file;   // the system's are not trusted
};

// Opens a client with the agent's token. Its calls end within a second after *stop is set.
int master_client_open(const struct master_endpoint *master, int timeout_s, const atomic_bool *stop,
                       struct client **out, struct error *e);

#endif
