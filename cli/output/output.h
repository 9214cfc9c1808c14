// Rows on standard output as table, JSON, JSON lines or CSV. A row is a JSON object; columns choose
// its members by dotted path. Numbers are right-aligned, absent values empty.
#ifndef MUSTER_CLI_OUTPUT_H
#define MUSTER_CLI_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"

// `columns` is comma-separated ("id,name,state"); options.columns goes before it. ERR_INVALID with
// the nearest name when a chosen column is in no row.
int output_rows(struct cli *c, const json_t *rows, const char *columns, struct error *e);

// One object: a line for each of `columns` that holds something; JSON: the object itself; else a
// row.
int output_object(struct cli *c, const json_t *object, const char *columns, struct error *e);

// All pages of a list of the API, each element through `row`, in the columns of the command.
int output_list(struct cli *c, const struct command *self, const char *key,
                json_t *(*row)(const json_t *), struct error *e, const char *path);

// The members of an object as a list of columns, in its order.
const char *output_labels(const json_t *object, struct arena *a);

// The pure halves, for tests: text of `rows` in a format.
void output_table(const json_t *rows, char **columns, size_t count, struct buf *out);
void output_csv(const json_t *rows, char **columns, size_t count, struct buf *out);

#endif
