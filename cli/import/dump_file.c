#include "cli/import/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"

enum { CHUNK = 1 << 20, LINE_MAX_BYTES = 512 << 20 }; // a row holds the files of an experiment

struct dump_block {
    struct copy_header header;
    int64_t offset, line; // of its first row
};

struct dump_file {
    char *path;           // for messages
    const char *argument; // the same in the commands of messages
    int fd;
    int64_t size;
    struct dump_block *blocks;
    size_t block_count;
    char *buffer;              // bytes start .. end - 1 were read and not used
    size_t start, end, cap;    // one byte more than cap is allocated
    int64_t offset, line;      // of the line at `start`
    struct copy_field *fields; // of the current row
};

// --- lines ---------------------------------------------------------------------------------------

static int at_line(const struct dump_file *d, struct error *e)
{
    return error_prefix(e, "%s, line %lld", d->path, (long long)d->line);
}

static int refill(struct dump_file *d, struct error *e)
{
    memmove(d->buffer, d->buffer + d->start, d->end - d->start);
    d->end -= d->start;
    d->start = 0;
    if (d->end == d->cap && d->cap >= LINE_MAX_BYTES)
        return error_set(e, ERR_TOO_LARGE, "the line is longer than %d MiB", LINE_MAX_BYTES >> 20);
    if (d->end == d->cap) {
        d->cap *= 2;
        d->buffer = xrealloc(d->buffer, d->cap + 1);
    }
    ssize_t n = read(d->fd, d->buffer + d->end, d->cap - d->end);
    if (n < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read");
    d->end += (size_t)n;
    return n > 0;
}

// Returns the next line without its end, which is 0 then. 1: a line; 0: the end of the file.
static int next_line(struct dump_file *d, char **out, size_t *len, struct error *e)
{
    size_t seen = 0;
    char *end;
    int more = 1;
    while (!(end = memchr(d->buffer + d->start + seen, '\n', d->end - d->start - seen))) {
        seen = d->end - d->start;
        more = refill(d, e);
        if (more < 0)
            return at_line(d, e);
        if (!more && !seen)
            return 0;
        if (!more) {
            end = d->buffer + d->end;
            break;
        }
    }
    *out = d->buffer + d->start;
    *len = (size_t)(end - *out);
    size_t used = *len + (more ? 1 : 0);
    d->start += used;
    d->offset += (int64_t)used;
    if (*len && (*out)[*len - 1] == '\r')
        --*len;
    (*out)[*len] = '\0';
    return 1;
}

static int seek_to(struct dump_file *d, int64_t offset, int64_t line, struct error *e)
{
    if (lseek(d->fd, offset, SEEK_SET) < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", d->path);
    d->start = d->end = 0;
    d->offset = offset;
    d->line = line;
    return 0;
}

static bool is_end_of_block(const char *line, size_t len)
{
    return len == 2 && line[0] == '\\' && line[1] == '.';
}

// --- the first pass ------------------------------------------------------------------------------

struct first_pass {
    struct dump_file *d;
    const struct dump_watch *watch;
    bool complete; // its last line was read
    bool inserts;  // it has rows as INSERT commands
};

static bool is_watched(const struct dump_watch *w, const char *table)
{
    for (size_t i = 0; w->tables[i]; i++)
        if (!strcmp(w->tables[i], table))
            return true;
    return false;
}

static int scan_rows(struct first_pass *p, const struct copy_header *h, struct error *e)
{
    struct dump_file *d = p->d;
    bool watched = is_watched(p->watch, h->table);
    char *line;
    size_t len;
    int more;
    while ((more = next_line(d, &line, &len, e)) > 0 && !is_end_of_block(line, len)) {
        int err = watched ? p->watch->on_row(p->watch->ctx, h, line, len, e) : 0;
        if (err)
            return at_line(d, e);
        d->line++;
        if (p->watch->progress && d->line % 65536 == 0)
            p->watch->progress(p->watch->ctx, d->offset, d->size);
    }
    if (more == 0)
        return error_set(e, ERR_CORRUPT,
                         "%s, line %lld: the file ends in the rows of table %s: the dump is "
                         "truncated; make it again with pg_dump",
                         d->path, (long long)d->line, h->table);
    d->line++;
    return more < 0 ? more : 0;
}

static int scan_line(struct first_pass *p, const char *line, struct error *e)
{
    struct dump_file *d = p->d;
    struct copy_header h;
    p->inserts |= !strncmp(line, "INSERT ", 7);
    p->complete |= !strncmp(line, "-- PostgreSQL database dump complete", 36);
    if (!copy_is_header(line)) {
        d->line++;
        return 0;
    }
    if (copy_read_header(line, &h, e))
        return at_line(d, e);
    d->line++;
    d->blocks = xrealloc(d->blocks, (d->block_count + 1) * sizeof *d->blocks);
    d->blocks[d->block_count++] =
        (struct dump_block){.header = h, .offset = d->offset, .line = d->line};
    return scan_rows(p, &h, e);
}

// Beginnings of files that hold a dump in another form.
static const struct {
    const char *bytes, *form, *next; // next: the command that makes a plain dump of it
    size_t len;
} other_forms[] = {
    {"PGDMP", "a dump in PostgreSQL's custom format", "pg_restore --file=dump.sql", 5},
    {"toc.dat", "a dump in PostgreSQL's tar format", "pg_restore --file=dump.sql", 7},
    {"\x1f\x8b", "compressed with gzip", "gunzip --keep", 2},
    {"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd --decompress", 4},
    {"\xfd\x37\x7a\x58\x5a", "compressed with xz", "unxz --keep", 5},
    {"BZh", "compressed with bzip2", "bunzip2 --keep", 3},
    {"\x04\x22\x4d\x18", "compressed with lz4", "lz4 --decompress", 4},
    {"PK\x03\x04", "a zip archive", "unzip", 4},
};

static int refuse_format(const struct dump_file *d, const char *line, size_t len, struct error *e)
{
    for (size_t i = 0; i < sizeof(other_forms) / sizeof(other_forms[0]); i++) {
        if (len >= other_forms[i].len && !memcmp(line, other_forms[i].bytes, other_forms[i].len))
            return error_set(e, ERR_INVALID,
                             "%s is %s; make a plain dump of it and import that one: %s %s",
                             d->path, other_forms[i].form, other_forms[i].next, d->argument);
    }
    if (len >= 2 && (!memcmp(line, "\xff\xfe", 2) || !memcmp(line, "\xfe\xff", 2)))
        return error_set(
            e, ERR_INVALID,
            "%s is text in UTF-16, which a shell of Windows writes; make the dump again "
            "with pg_dump --format=plain --file=dump.sql DATABASE",
            d->path);
    return 0;
}

static int check_whole(const struct first_pass *p, struct error *e)
{
    const struct dump_file *d = p->d;
    if (!d->block_count && p->inserts)
        return error_set(e, ERR_INVALID,
                         "%s has its rows as INSERT commands; make the dump without --inserts",
                         d->path);
    if (!d->block_count)
        return error_set(e, ERR_INVALID,
                         "%s is not a dump of pg_dump: it has no COPY ... FROM stdin; make one of "
                         "Determined's database: pg_dump --format=plain determined > dump.sql",
                         d->path);
    if (!p->complete)
        return error_set(e, ERR_CORRUPT,
                         "%s, line %lld: the file ends without \"PostgreSQL database dump "
                         "complete\": the dump is truncated; make it again with pg_dump",
                         d->path, (long long)d->line);
    return 0;
}

static int scan_file(struct dump_file *d, const struct dump_watch *watch, struct error *e)
{
    struct first_pass p = {.d = d, .watch = watch};
    char *line;
    size_t len;
    int more, err = 0;
    while (!err && (more = next_line(d, &line, &len, e)) > 0) {
        if (d->line == 1)
            err = refuse_format(d, line, len, e);
        if (!err)
            err = scan_line(&p, line, e);
    }
    if (!err)
        err = more;
    return err ? err : check_whole(&p, e);
}

static int refuse_folder(const char *path, struct error *e)
{
    char *contents = xasprintf("%s/toc.dat", path);
    bool dumped = access(contents, F_OK) == 0;
    free(contents);
    if (dumped)
        return error_set(
            e, ERR_INVALID,
            "%s is a dump in PostgreSQL's directory format; make a plain dump of it and "
            "import that one: pg_restore --file=dump.sql %s",
            path, path);
    return error_set(e, ERR_INVALID, "%s is a folder; give the file that pg_dump wrote", path);
}

static int check_file(struct dump_file *d, struct error *e)
{
    struct stat st;
    if (d->fd < 0 || fstat(d->fd, &st))
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", d->path);
    if (S_ISDIR(st.st_mode))
        return refuse_folder(d->path, e);
    if (!S_ISREG(st.st_mode))
        return error_set(
            e, ERR_INVALID,
            "%s is not a file; a dump is read several times, so write it to a file and "
            "import that: pg_dump --format=plain determined > dump.sql",
            d->path);
    d->size = st.st_size;
    return st.st_size ? 0
                      : error_set(e, ERR_INVALID,
                                  "%s is empty; make the dump again: pg_dump --format=plain "
                                  "determined > dump.sql",
                                  d->path);
}

int dump_open(const char *path, const struct dump_watch *watch, struct dump_file **out,
              struct error *e)
{
    bool standard_input = !strcmp(path, "-");
    struct dump_file *d = xcalloc(1, sizeof *d);
    *d = (struct dump_file){
        .path = xstrdup(standard_input ? "standard input" : path), .cap = CHUNK, .line = 1};
    d->argument = standard_input ? "FILE" : d->path;
    d->buffer = xrealloc(NULL, d->cap + 1);
    d->fields = xcalloc(COPY_COLUMNS_MAX, sizeof *d->fields);
    d->fd =
        standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    int err = check_file(d, e);
    if (!err && standard_input)
        err = seek_to(d, 0, 1, e);
    if (!err)
        err = scan_file(d, watch, e);
    if (err)
        dump_close(d);
    else
        *out = d;
    return err;
}

void dump_close(struct dump_file *d)
{
    if (!d)
        return;
    if (d->fd >= 0)
        close(d->fd);
    free(d->fields);
    free(d->blocks);
    free(d->buffer);
    free(d->path);
    free(d);
}

// --- reading a table -----------------------------------------------------------------------------

bool dump_has_table(const struct dump_file *d, const char *table)
{
    for (size_t i = 0; i < d->block_count; i++)
        if (!strcmp(d->blocks[i].header.table, table))
            return true;
    return false;
}

int64_t dump_size(const struct dump_file *d)
{
    return d->size;
}

static int read_block(struct dump_file *d, const struct dump_block *b, dump_on_row *on_row,
                      void *ctx, struct error *e)
{
    char *line;
    size_t len;
    int more, err = seek_to(d, b->offset, b->line, e);
    while (!err && (more = next_line(d, &line, &len, e)) > 0 && !is_end_of_block(line, len)) {
        struct dump_row row = {
            .header = &b->header, .fields = d->fields, .line = d->line, .offset = d->offset};
        err = copy_split(line, len, d->fields, b->header.column_count, e);
        if (!err)
            err = on_row(ctx, &row, e);
        if (err)
            return at_line(d, e);
        d->line++;
    }
    return err ? err : more < 0 ? more : 0;
}

int dump_read(struct dump_file *d, const char *table, dump_on_row *on_row, void *ctx,
              struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < d->block_count && !err; i++)
        if (!strcmp(d->blocks[i].header.table, table))
            err = read_block(d, &d->blocks[i], on_row, ctx, e);
    return err;
}

static const struct copy_field *field_of(const struct dump_row *row, const char *column)
{
    static const struct copy_field none;
    int at = copy_find_column(row->header, column);
    return at < 0 ? &none : &row->fields[at];
}

const char *dump_text(const struct dump_row *row, const char *column)
{
    return field_of(row, column)->text;
}

size_t dump_len(const struct dump_row *row, const char *column)
{
    return field_of(row, column)->len;
}

int64_t dump_int(const struct dump_row *row, const char *column, int64_t fallback)
{
    const char *text = dump_text(row, column);
    char *end;
    if (!text || !*text)
        return fallback;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return *end || errno ? fallback : value;
}

bool dump_bool(const struct dump_row *row, const char *column)
{
    const char *text = dump_text(row, column);
    return text && *text == 't';
}
