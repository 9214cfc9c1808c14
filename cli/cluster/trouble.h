// Known failures in the logs of the daemons. Pure.
#ifndef MUSTER_CLI_CLUSTER_TROUBLE_H
#define MUSTER_CLI_CLUSTER_TROUBLE_H

#include <jansson.h>

// The last line of a log that reports a fault, or its last line; heap. An empty log gives a
// sentence that says so.
char *trouble_reason(const char *log);

// Adds a finding for each known failure among the lines after the daemon's newest start.
void trouble_find(const char *log, const char *daemon, json_t *findings);

#endif
