// Prints rows on standard output as table, JSON, JSON lines or CSV. A row is a JSON object; columns
// select its members by dotted path. Numbers are right-aligned, missing values empty.
#ifndef MUSTER_CLI_OUTPUT_H
#define MUSTER_CLI_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"

// `columns` is separated by commas ("id,name,state"); options.columns replaces it. ERR_INVALID with
// the nearest name if no row has a chosen column.
int output_rows(struct cli *c, const json_t *rows, const char *columns, struct error *e);

// Prints one object: as a table one line for each of `columns` that is not empty, as JSON the
// object itself, in the other formats one row.
int output_object(struct cli *c, const json_t *object, const char *columns, struct error *e);

// Fetches all pages of a list, converts each element by `row`, and prints the command's columns.
int output_list(struct cli *c, const struct command *self, const char *key,
                json_t *(*row)(const json_t *), struct error *e, const char *path);

// Returns the members of an object as a list of columns, in the object's order.
const char *output_labels(const json_t *object, struct arena *a);

// Format `rows` as text; pure.
void output_table(const json_t *rows, char **columns, size_t count, struct buf *out);
void output_csv(const json_t *rows, char **columns, size_t count, struct buf *out);

#endif
