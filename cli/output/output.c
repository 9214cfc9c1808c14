#include "cli/output/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "base/text/csv.h"
#include "base/text/json.h"
#include "cli/output/rows.h"

enum { OUTPUT_LIMIT = 1 << 30, OUTPUT_COLUMNS_MAX = 256 };

static char *value_text(const json_t *value);

// A list as "a, b".
static char *list_text(const json_t *list)
{
    struct buf out;
    buf_init(&out, OUTPUT_LIMIT);
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        char *text = value_text(item);
        buf_printf(&out, "%s%s", i > 0 ? ", " : "", text);
        free(text);
    }
    return buf_take(&out);
}

// A value as text: strings without quotes, lists with commas, objects as JSON, null as "".
static char *value_text(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_NULL:
        return xstrdup("");
    case JSON_STRING:
        return xstrdup(json_string_value(value));
    case JSON_REAL:
        return xasprintf("%.6g", json_real_value(value));
    case JSON_ARRAY:
        return list_text(value);
    case JSON_OBJECT:
        return json_object_size(value) > 0 ? json_text(value) : xstrdup("");
    default:
        return json_text(value);
    }
}

static char *cell_text(const json_t *row, const char *column)
{
    const json_t *value = json_object_get(row, column);
    return value_text(value ? value : jget_path(row, column));
}

// Cuts the microseconds of a time: "2026-11-21T09:00:00.123456Z" is "2026-11-21T09:00:00Z" for
// people.
static void shorten_time(char *text)
{
    static const char shape[] = "2026-11-21T09:00:00.123456Z";
    const size_t seconds = 19;
    int64_t us;
    if (strlen(text) == sizeof shape - 1 && text[seconds] == '.' && clock_parse(text, &us) == 0)
        memcpy(text + seconds, "Z", sizeof "Z");
}

// The text of a cell on one line, with unprintable characters escaped.
static char *line_text(const json_t *row, const char *column)
{
    char *text = cell_text(row, column);
    shorten_time(text);
    for (char *p = text; *p != '\0'; p++)
        *p = (*p == '\n' || *p == '\t') ? ' ' : *p;
    char *shown = printable_text(text, "");
    free(text);
    return shown;
}

static bool cell_is_number(const json_t *row, const char *column)
{
    return json_is_number(json_object_get(row, column)) || json_is_number(jget_path(row, column));
}

// Terminal columns of a UTF-8 string, counted as code points.
static size_t text_width(const char *s)
{
    size_t width = 0;
    for (; *s != '\0'; s++)
        width += ((unsigned char)*s & 0xC0) != 0x80;
    return width;
}

static void append_padded(struct buf *out, const char *text, size_t width, bool right)
{
    size_t pad = width > text_width(text) ? width - text_width(text) : 0;
    if (right)
        buf_printf(out, "%*s%s  ", (int)pad, "", text);
    else
        buf_printf(out, "%s%*s  ", text, (int)pad, "");
}

static void end_line(struct buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->len--;
    buf_puts(out, "\n");
}

static char *heading(const char *column)
{
    char *text = xstrdup(column);
    for (char *p = text; *p != '\0'; p++)
        *p = (*p == '_') ? ' ' : *p;
    return text;
}

// One column of a table: its texts, their width, and whether all are numbers.
struct column_layout {
    char **texts; // [rows + 1], heading first
    size_t width;
    bool number;
};

static struct column_layout column_layout_make(const json_t *rows, const char *column)
{
    size_t n = json_array_size(rows);
    struct column_layout l = {.texts = xcalloc(n + 1, sizeof(char *)), .number = n > 0};
    l.texts[0] = heading(column);
    l.width = text_width(l.texts[0]);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        l.texts[i + 1] = line_text(row, column);
        size_t width = text_width(l.texts[i + 1]);
        l.width = width > l.width ? width : l.width;
        l.number = l.number && (cell_is_number(row, column) || l.texts[i + 1][0] == '\0');
    }
    return l;
}

void output_table(const json_t *rows, char **columns, size_t count, struct buf *out)
{
    size_t n = json_array_size(rows);
    struct column_layout *layouts = xcalloc(count, sizeof(*layouts));
    for (size_t k = 0; k < count; k++)
        layouts[k] = column_layout_make(rows, columns[k]);
    for (size_t i = 0; i <= n; i++) {
        for (size_t k = 0; k < count; k++) {
            append_padded(out, layouts[k].texts[i], layouts[k].width, layouts[k].number);
            free(layouts[k].texts[i]);
        }
        end_line(out);
    }
    for (size_t k = 0; k < count; k++)
        free(layouts[k].texts);
    free(layouts);
}

void output_csv(const json_t *rows, char **columns, size_t count, struct buf *out)
{
    for (size_t k = 0; k < count; k++) {
        csv_append_cell(out, columns[k]);
        buf_puts(out, k + 1 == count ? "\n" : ",");
    }
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; k < count; k++) {
            char *text = cell_text(row, columns[k]);
            csv_append_cell(out, text);
            free(text);
            buf_puts(out, k + 1 == count ? "\n" : ",");
        }
    }
}

// --- columns and formats -----------------------------------------------------------------

static bool column_exists(const json_t *rows, const char *column)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (json_object_get(row, column) || jget_path(row, column))
            return true;
    }
    return false;
}

static int unknown_column(const json_t *rows, const char *column, struct error *e)
{
    const char *names[OUTPUT_COLUMNS_MAX + 1] = {NULL};
    struct buf all;
    buf_init(&all, ERROR_TEXT_MAX / 2);
    int n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json_array_get(rows, 0), key, value)
    {
        if (n < OUTPUT_COLUMNS_MAX) {
            buf_printf(&all, "%s%s", n > 0 ? ", " : "", key);
            names[n++] = key;
        }
    }
    const char *near = nearest_word(column, names);
    int err =
        near ? error_set(e, ERR_INVALID, "no column \"%s\"; did you mean \"%s\"?", column, near)
             : error_set(e, ERR_INVALID, "no column \"%s\"; the columns are: %s", column,
                         buf_str(&all));
    buf_free(&all);
    return err;
}

// Splits "id,name" into heap strings; returns their number.
static size_t split_columns(const char *text, char *columns[OUTPUT_COLUMNS_MAX])
{
    size_t n = 0;
    for (const char *p = text; n < OUTPUT_COLUMNS_MAX; p++) {
        size_t len = strcspn(p, ",");
        if (len > 0)
            columns[n++] = strndup(p, len);
        p += len;
        if (*p == '\0')
            break;
    }
    return n;
}

static void free_columns(char **columns, size_t count)
{
    for (size_t k = 0; k < count; k++)
        free(columns[k]);
}

static int write_rows(enum output_format format, const json_t *rows, char **columns, size_t count,
                      struct error *e)
{
    struct buf out;
    buf_init(&out, OUTPUT_LIMIT);
    if (format == OUTPUT_TABLE)
        output_table(rows, columns, count, &out);
    else
        output_csv(rows, columns, count, &out);
    int err =
        out.err ? error_set(e, out.err, "the list is too long for this format; use -o jsonl") : 0;
    if (!err && out.len > 0 && fwrite(out.data, out.len, 1, stdout) != 1)
        err = error_set_errno(e, ERR_IO, errno, "cannot write to standard output");
    buf_free(&out);
    return err;
}

// Reduces the rows to the chosen columns, for JSON with --columns.
static json_t *select_columns(const json_t *rows, char **columns, size_t count)
{
    json_t *picked = json_array();
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        json_t *one = json_object();
        for (size_t k = 0; k < count; k++) {
            json_t *value = json_object_get(row, columns[k]);
            value = value ? value : jget_path(row, columns[k]);
            json_object_set_new(one, columns[k], value ? json_incref(value) : json_null());
        }
        json_array_append_new(picked, one);
    }
    return picked;
}

static void write_json(enum output_format format, const json_t *rows)
{
    if (format == OUTPUT_JSON) {
        json_dumpf(rows, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
        putchar('\n');
        return;
    }
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        json_dumpf(row, stdout, JSON_COMPACT);
        putchar('\n');
    }
}

int output_rows(struct cli *c, const json_t *rows, const char *columns, struct error *e)
{
    const char *chosen = c->options.columns ? c->options.columns : columns;
    char *names[OUTPUT_COLUMNS_MAX];
    size_t count = split_columns(chosen, names);
    int err = 0;
    for (size_t k = 0; k < count && !err; k++)
        if (c->options.columns && json_array_size(rows) > 0 && !column_exists(rows, names[k]))
            err = unknown_column(rows, names[k], e);
    if (!err && (c->format == OUTPUT_JSON || c->format == OUTPUT_JSONL)) {
        json_t *picked =
            c->options.columns ? select_columns(rows, names, count) : json_incref((json_t *)rows);
        write_json(c->format, picked);
        json_decref(picked);
    } else if (!err) {
        err = write_rows(c->format, rows, names, count, e);
    }
    free_columns(names, count);
    return err;
}

// A value of several lines stays in its column, so no line of it looks like another value.
static void write_pair(const char *label, const char *text, int width)
{
    for (const char *line = text, *next; line; line = next, label = "") {
        size_t len = strcspn(line, "\n");
        next = line[len] == '\n' && line[len + 1] != '\0' ? line + len + 1 : NULL;
        char *part = strndup(line, len), *shown = printable_text(part, "\t");
        printf("%-*s  %s\n", width, label, shown);
        free(shown);
        free(part);
    }
}

static void write_pairs(const json_t *object, char **columns, size_t count)
{
    size_t width = 0;
    for (size_t k = 0; k < count; k++)
        width = strlen(columns[k]) > width ? strlen(columns[k]) : width;
    for (size_t k = 0; k < count; k++) {
        char *label = heading(columns[k]), *text = cell_text(object, columns[k]);
        if (text[0] != '\0')
            write_pair(label, text, (int)width);
        free(label);
        free(text);
    }
}

int output_object(struct cli *c, const json_t *object, const char *columns, struct error *e)
{
    if (c->format == OUTPUT_TABLE && !c->options.columns) {
        char *names[OUTPUT_COLUMNS_MAX];
        size_t count = split_columns(columns, names);
        write_pairs(object, names, count);
        free_columns(names, count);
        return 0;
    }
    if (c->format == OUTPUT_JSON && !c->options.columns) {
        write_json(OUTPUT_JSON, object);
        return 0;
    }
    json_t *rows = json_pack("[O]", object);
    int err = output_rows(c, rows, columns, e);
    json_decref(rows);
    return err;
}

int output_list(struct cli *c, const struct command *self, const char *key,
                json_t *(*row)(const json_t *), struct error *e, const char *path)
{
    json_t *list = NULL;
    int err = cli_list(c, key, c->options.limit, &list, e, "%s", path);
    if (!err) {
        json_t *rows = rows_of(list, row);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    json_decref(list);
    return err;
}

const char *output_labels(const json_t *object, struct arena *a)
{
    const char *labels = "", *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        labels = arena_printf(a, "%s%s%s", labels, *labels != '\0' ? "," : "", key);
    }
    return labels;
}

int cli_report(struct cli *c, json_t *row, struct error *e, const char *line, ...)
{
    int err = 0;
    if (c->format != OUTPUT_TABLE && row) {
        err = output_object(c, row, output_labels(row, &c->arena), e);
    } else if (c->format == OUTPUT_TABLE && !c->options.quiet) {
        va_list args;
        va_start(args, line);
        vprintf(line, args);
        va_end(args);
        putchar('\n');
    }
    json_decref(row);
    return err;
}
