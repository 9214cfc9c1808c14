// The reasons why trials failed: a short text for tables, the last lines of the log elsewhere.
#ifndef MUSTER_CLI_FAILURE_H
#define MUSTER_CLI_FAILURE_H

#include <jansson.h>

#include "cli/cli.h"

// Returns `columns`, with "failure" appended if a row has one.
const char *failure_columns(const json_t *rows, const char *columns, struct arena *a);

// Returns the trial with the newest failure in a list of the API; NULL: none has failed.
const json_t *failure_newest(const json_t *trials);

// Prints the last lines of the failed rank, indented, on stdout; nothing if there are none.
void failure_print(const json_t *trial);

// Returns why the experiment or trials of it failed; "": nothing has failed.
const char *failure_reason(const json_t *experiment);

// Returns ERR_FAILED with the final state of the experiment and the reason.
int failure_of(const json_t *experiment, struct error *e);

#endif
