// A running Determined master as the source of an import, through its REST API. One thread.
#ifndef MUSTER_CLI_IMPORT_REMOTE_SOURCE_H
#define MUSTER_CLI_IMPORT_REMOTE_SOURCE_H

#include "cli/cli.h"

int import_remote(struct cli *c, const char *url, struct error *e);

#endif
