// A dump of a PostgreSQL database, as text. It is opened, and every table that the first pass found
// is read again.
//
// Both passes see the same rows. A row splits into its fields if their number is right, unless it
// ends in a backslash; decoded fields lie within the row.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "cli/import/dump_file.h"
#include "tests/fuzz/support.h"

enum { TABLES_MAX = 16 };

struct seen {
    char tables[TABLES_MAX][COPY_NAME_MAX];
    int table_count;
    size_t raw_rows, rows;
};

static int on_raw(void *ctx, const struct copy_header *h, const char *row, size_t len,
                  struct error *e)
{
    struct seen *s = ctx;
    size_t field, tabs = 0;
    (void)e;
    s->raw_rows++;
    for (size_t i = 0; i < len; i++)
        tabs += row[i] == '\t';
    must(copy_raw_field(row, len, (int)tabs, &field));
    must(!copy_raw_field(row, len, (int)tabs + 1, &field));
    must(copy_find_column(h, h->columns[h->column_count - 1]) >= 0);
    return 0;
}

static int on_row(void *ctx, const struct dump_row *row, struct error *e)
{
    struct seen *s = ctx;
    const char *end = NULL;
    (void)e;
    s->rows++;
    for (int i = 0; i < row->header->column_count; i++) {
        const struct copy_field *f = &row->fields[i];
        if (!f->text)
            continue;
        must(!end || f->text > end); // fields do not overlap
        must(f->text[f->len] == '\0');
        end = f->text + f->len;
    }
    dump_int(row, row->header->columns[0], 0);
    return 0;
}

// The names of the tables, which the first pass must be told.
static void find_tables(const char *text, struct seen *s)
{
    struct copy_header h;
    for (const char *line = text; line && s->table_count < TABLES_MAX;) {
        const char *end = strchrnul(line, '\n');
        char *copy = strndup(line, (size_t)(end - line));
        if (copy_is_header(copy) && !copy_read_header(copy, &h, NULL))
            memcpy(s->tables[s->table_count++], h.table, COPY_NAME_MAX);
        free(copy);
        line = *end ? end + 1 : NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen s = {.table_count = 0};
    const char *names[TABLES_MAX + 1] = {NULL};
    struct dump_file *d;
    struct error e;
    be_quiet();
    char *text = piece_copy((struct piece){(const char *)data, size}),
         *path = scratch_path("dump.sql");
    find_tables(text, &s);
    for (int i = 0; i < s.table_count; i++)
        names[i] = s.tables[i];
    scratch_write("dump.sql", data, size);
    const struct dump_watch watch = {.tables = names, .on_row = on_raw, .ctx = &s};
    if (!dump_open(path, &watch, &d, &e)) {
        int err = 0;
        for (int i = 0; i < s.table_count; i++) {
            bool again = false;
            for (int k = 0; k < i; k++)
                again |= !strcmp(s.tables[k], s.tables[i]);
            if (!again && dump_read(d, s.tables[i], on_row, &s, &e))
                err = 1;
        }
        must(err || s.table_count == TABLES_MAX || s.rows == s.raw_rows);
        dump_close(d);
    }
    free(path);
    free(text);
    return 0;
}
