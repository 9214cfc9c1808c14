// The text format of PostgreSQL's COPY, as pg_dump writes it: one row on a line, fields separated
// by tabs, \N for null, and escapes \b \f \n \r \t \v \\ \123 \x1f. Pure; any thread.
#ifndef MUSTER_CLI_IMPORT_COPY_TEXT_H
#define MUSTER_CLI_IMPORT_COPY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { COPY_COLUMNS_MAX = 128, COPY_NAME_MAX = 64 };

struct copy_header { // COPY public.users (id, username) FROM stdin;
    char table[COPY_NAME_MAX];
    char columns[COPY_COLUMNS_MAX][COPY_NAME_MAX];
    int column_count;
};

// Whether the line begins a block of rows. ERR_INVALID: it does, but cannot be read.
bool copy_is_header(const char *line);
int copy_read_header(const char *line, struct copy_header *out, struct error *e);
int copy_find_column(const struct copy_header *h, const char *name); // -1: there is none

struct copy_field {
    char *text; // ends with 0; may hold zeros before; NULL: null
    size_t len;
};

// Splits a row into exactly `count` fields and decodes them within the line, which it changes.
// line[len] must be writable. ERR_INVALID: another number of fields, or an escape at the end.
int copy_split(char *line, size_t len, struct copy_field *out, int count, struct error *e);

// The raw text of one field of a row that was not split; *len 0 and NULL if there are fewer fields.
const char *copy_raw_field(const char *line, size_t len, int column, size_t *field_len);

#endif
