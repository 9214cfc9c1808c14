// Why trials have failed: in short for tables, with the last lines of the program for a person.
#ifndef MUSTER_CLI_FAILURE_H
#define MUSTER_CLI_FAILURE_H

#include <jansson.h>

#include "api/cli/cli.h"

// `columns` and "failure", if a row has one.
const char *failure_columns(const json_t *rows, const char *columns, struct arena *a);

// The trial of a list of the API whose failure is the newest; NULL: none has failed.
const json_t *failure_newest(const json_t *trials);

// What the rank that failed wrote last, indented, on stdout; nothing where there is nothing.
void failure_print(const json_t *trial);

// ERR_FAILED: how the experiment has ended without success, and why.
int failure_of(const json_t *experiment, struct error *e);

#endif
