// Deletes a workspace or project and waits until it is gone: the master deletes what is in it in
// the background.
#ifndef MUSTER_CLI_REMOVAL_H
#define MUSTER_CLI_REMOVAL_H

#include "cli/cli.h"

// `noun`: "workspace" or "project". ERR_FAILED: the error gives the master's reason; ERR_TIMEOUT:
// the master is still deleting it.
int removal_run(struct cli *c, const char *noun, long long id, struct error *e);

#endif
