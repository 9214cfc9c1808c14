// A plain-text dump of pg_dump: one pass finds the blocks of rows and checks that the file is
// complete; then any table can be read, in any order. Lines are read into one buffer, so memory
// does not grow with the file. One thread.
#ifndef MUSTER_CLI_IMPORT_DUMP_FILE_H
#define MUSTER_CLI_IMPORT_DUMP_FILE_H

#include <stdint.h>

#include "cli/import/copy_text.h"

struct dump_file; // opaque

// Called by the first pass for each row of a table that `watched` says to look at.
typedef int dump_on_raw(void *ctx, const struct copy_header *h, const char *row, size_t len,
                        struct error *e);

struct dump_watch {
    const char *const *tables; // ends with NULL
    dump_on_raw *on_row;
    void (*progress)(void *ctx, int64_t bytes, int64_t total); // may be NULL
    void *ctx;
};

// `path` "-" is standard input, if it is a file. Errors name file and line. ERR_INVALID: not a
// plain-text dump with COPY blocks, and what to do; ERR_CORRUPT: the file ends too early;
// ERR_TOO_LARGE: a line is too long.
int dump_open(const char *path, const struct dump_watch *watch, struct dump_file **out,
              struct error *e);
void dump_close(struct dump_file *d); // accepts NULL

bool dump_has_table(const struct dump_file *d, const char *table);
int64_t dump_size(const struct dump_file *d);

struct dump_row {
    const struct copy_header *header;
    const struct copy_field *fields;
    int64_t line;   // its number in the file
    int64_t offset; // bytes of the file up to it
};

typedef int dump_on_row(void *ctx, const struct dump_row *row, struct error *e);

// Calls on_row() for each row of the table; none if the dump does not have it. An error of on_row()
// ends the reading and gets file and line as a prefix.
int dump_read(struct dump_file *d, const char *table, dump_on_row *on_row, void *ctx,
              struct error *e);

// A field by the name of its column; NULL if it is null, or if the table has no such column.
const char *dump_text(const struct dump_row *row, const char *column);
size_t dump_len(const struct dump_row *row, const char *column);
int64_t dump_int(const struct dump_row *row, const char *column, int64_t fallback);
bool dump_bool(const struct dump_row *row, const char *column);

#endif
