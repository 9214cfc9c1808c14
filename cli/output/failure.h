// The reasons why trials have failed: short ones for tables, with the last lines elsewhere.
#ifndef MUSTER_CLI_FAILURE_H
#define MUSTER_CLI_FAILURE_H

#include <jansson.h>

#include "cli/cli.h"

// `columns` and "failure", if a row has one.
const char *failure_columns(const json_t *rows, const char *columns, struct arena *a);

// The trial of a list of the API whose failure is the newest; NULL: none has failed.
const json_t *failure_newest(const json_t *trials);

// Prints the last lines of the rank that failed, indented, on stdout; nothing if there are none.
void failure_print(const json_t *trial);

// Returns ERR_FAILED, and says how the experiment has ended without success, and why.
int failure_of(const json_t *experiment, struct error *e);

#endif
