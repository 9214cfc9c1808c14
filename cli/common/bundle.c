#include "cli/common/bundle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/file.h"
#include "base/text/csv.h"
#include "base/text/json.h"

FILE *bundle_create(const char *folder, struct error *e, const char *name, ...)
{
    va_list args;
    char *relative = NULL;
    va_start(args, name);
    if (vasprintf(&relative, name, args) < 0)
        abort();
    va_end(args);
    char *path = path_join(folder, relative);
    char *parent = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    FILE *f = NULL;
    if (dir_make(parent, 0700, e) == 0) {
        f = fopen(path, "we");
        if (!f)
            error_set_errno(e, ERR_IO, errno, "%s", path);
    }
    free(parent);
    free(path);
    free(relative);
    return f;
}

int bundle_close(FILE *f, const char *what, struct error *e)
{
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be written; is the disk full?", what);
    return 0;
}

int bundle_put(const char *folder, const char *name, const char *text, size_t len, struct error *e)
{
    FILE *f = bundle_create(folder, e, "%s", name);
    if (!f)
        return ERR_IO;
    fwrite(text, 1, len, f);
    return bundle_close(f, name, e);
}

int bundle_put_line(FILE *f, const json_t *value, struct error *e)
{
    char *text = json_text(value);
    bool fine = fputs(text, f) >= 0 && fputc('\n', f) != EOF;
    free(text);
    return fine ? 0 : error_set_errno(e, ERR_IO, errno, "a file of the export cannot be written");
}

// --- reading -------------------------------------------------------------------------------------

static int read_lines(FILE *f, const char *name, bundle_line *on_line, void *ctx, struct error *e)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int err = 0;
    for (long number = 1; !err && (len = getline(&line, &cap, f)) > 0; number++) {
        json_t *value = NULL;
        if (len > BUNDLE_LINE_MAX) {
            err = error_set(e, ERR_TOO_LARGE, "%s:%ld: a line of more than %d bytes", name, number,
                            BUNDLE_LINE_MAX);
            break;
        }
        err = json_parse(line, (size_t)len, name, &value, e);
        err = err ? err : on_line(ctx, value, e);
        if (err)
            error_prefix(e, "%s:%ld", name, number);
        json_decref(value);
    }
    if (!err && ferror(f))
        err = error_set_errno(e, ERR_IO, errno, "%s", name);
    free(line);
    return err;
}

int bundle_lines(const char *folder, const char *name, bundle_line *on_line, void *ctx,
                 struct error *e)
{
    char *path = path_join(folder, name);
    FILE *f = fopen(path, "re");
    int err = 0;
    if (f) {
        err = read_lines(f, name, on_line, ctx, e);
        fclose(f);
    } else if (errno != ENOENT) {
        err = error_set_errno(e, ERR_IO, errno, "%s", path);
    }
    free(path);
    return err;
}

int bundle_json(const char *folder, const char *name, json_t **out, struct error *e)
{
    char *path = path_join(folder, name), *text = NULL;
    size_t len = 0;
    int err = file_read(path, BUNDLE_LINE_MAX, &text, &len, e);
    err = err ? err : json_parse(text, len, name, out, e);
    free(text);
    free(path);
    return err;
}

// --- tables --------------------------------------------------------------------------------------

enum { GROUPS_MAX = 64, NAMES_MAX = 10000 };

struct bundle_table {
    char *group;
    json_t *names; // metric names in order of appearance
    FILE *file;
};

struct bundle_tables {
    struct bundle_table each[GROUPS_MAX];
    size_t count;
};

// Returns the table of a group; NULL: there are too many groups.
static struct bundle_table *table_of(struct bundle_tables *t, const char *group)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->each[i].group, group) == 0)
            return &t->each[i];
    if (t->count == GROUPS_MAX)
        return NULL;
    t->each[t->count] = (struct bundle_table){.group = xstrdup(group), .names = json_object()};
    return &t->each[t->count++];
}

static int on_report_names(void *ctx, const json_t *report, struct error *e)
{
    (void)e;
    struct bundle_table *t = table_of(ctx, jget_string(report, "group", ""));
    const char *name;
    json_t *value;
    json_object_foreach(jget(report, "metrics"), name, value)
    {
        if (t && json_object_size(t->names) < NAMES_MAX)
            json_object_set_new(t->names, name, json_true());
    }
    return 0;
}

static void write_cell(FILE *f, const char *text)
{
    struct buf cell;
    buf_init(&cell, 2 * BUNDLE_LINE_MAX);
    csv_append_cell(&cell, text);
    fputs(buf_str(&cell), f);
    buf_free(&cell);
}

static void write_value(FILE *f, const json_t *value)
{
    fputc(',', f);
    if (json_is_string(value)) {
        write_cell(f, json_string_value(value));
    } else if (value && !json_is_null(value)) {
        char *text = json_text(value);
        write_cell(f, text);
        free(text);
    }
}

static int on_report_row(void *ctx, const json_t *report, struct error *e)
{
    (void)e;
    struct bundle_table *t = table_of(ctx, jget_string(report, "group", ""));
    const char *name;
    json_t *known;
    if (!t || !t->file)
        return 0;
    fprintf(t->file, "%lld", (long long)jget_int(report, "steps", -1));
    write_value(t->file, json_object_get(report, "time"));
    write_value(t->file, json_object_get(report, "run"));
    json_object_foreach(t->names, name, known)
    {
        write_value(t->file, json_object_get(jget(report, "metrics"), name));
    }
    fputc('\n', t->file);
    return 0;
}

static int table_open(struct bundle_table *t, const char *folder, long long trial, size_t number,
                      struct error *e)
{
    char safe[65] = "";
    const char *name;
    json_t *known;
    bool plain = *t->group != '\0' && *t->group != '.' && strlen(t->group) < sizeof(safe);
    for (const char *p = t->group; *p != '\0' && plain; p++) {
        plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                *p == '-' || *p == '_' || *p == '.';
    }
    snprintf(safe, sizeof(safe), plain ? "%.0zu%s" : "group-%zu%.0s", plain ? 0 : number, t->group);
    t->file = bundle_create(folder, e, "trials/%lld/%s.csv", trial, safe);
    if (!t->file)
        return ERR_IO;
    fputs("steps,time,run", t->file);
    json_object_foreach(t->names, name, known)
    {
        fputc(',', t->file);
        write_cell(t->file, name);
    }
    fputc('\n', t->file);
    return 0;
}

int bundle_tables(const char *folder, long long trial, struct error *e)
{
    struct bundle_tables *t = xcalloc(1, sizeof(*t));
    char *name = xasprintf("trials/%lld/metrics.jsonl", trial);
    int err = bundle_lines(folder, name, on_report_names, t, e);
    for (size_t i = 0; i < t->count && !err; i++)
        err = table_open(&t->each[i], folder, trial, i, e);
    err = err ? err : bundle_lines(folder, name, on_report_row, t, e);
    for (size_t i = 0; i < t->count; i++) {
        struct error ignored;
        if (t->each[i].file) {
            int closed = bundle_close(t->each[i].file, "a table", !err ? e : &ignored);
            err = err ? err : closed;
        }
        json_decref(t->each[i].names);
        free(t->each[i].group);
    }
    free(name);
    free(t);
    return err;
}
