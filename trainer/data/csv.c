// Format csv (RFC 4180): each row is a sample, and its columns are features, a label or values to
// predict. All numbers are read when the file is opened; an error names line and column.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/data/rows.h"

enum { FIELD_MAX = 4096, COLUMNS_MAX = 65536 };

enum column_role { ROLE_NONE, ROLE_FEATURE, ROLE_LABEL, ROLE_TARGET };

struct csv_column {
    char *name;
    enum column_role role;
    int64_t place; // index among the features or the targets
};

struct csv_table {
    const struct data_request *request;
    struct file_content *c;
    size_t at;    // offset of the next byte
    int64_t line; // line of that byte, from 1
    char delimiter, field[FIELD_MAX];
    bool row_ended; // the field was the last of its row
    struct csv_column *columns;
    int64_t column_count, features, targets, classes;
    float *inputs, *values; // [rows, features], [rows, targets]
    int32_t *labels;        // [rows]
    int64_t rows, capacity;
};

// --- fields --------------------------------------------------------------------------------------

static int fail_at_field(const struct csv_table *t, int64_t line, int64_t column, const char *what,
                         struct error *e)
{
    if (column < t->column_count)
        return error_set(e, ERR_CORRUPT, "%s: line %lld, column \"%.100s\": %s", t->c->path,
                         (long long)line, t->columns[column].name, what);
    return error_set(e, ERR_CORRUPT, "%s: line %lld, column %lld: %s", t->c->path, (long long)line,
                     (long long)column + 1, what);
}

static int peek_byte(const struct csv_table *t)
{
    return t->at < t->c->size ? t->c->data[t->at] : EOF;
}

static int next_byte(struct csv_table *t)
{
    int c = peek_byte(t);
    t->at += c != EOF;
    t->line += c == '\n';
    return c;
}

// Reads from the opening quote to after the closing one; a doubled quote is a quote.
static const char *read_quoted(struct csv_table *t, size_t *n)
{
    for (;;) {
        int c = next_byte(t);
        if (c == EOF)
            return "a quoted field without a closing quote";
        if (c == '"') {
            if (peek_byte(t) != '"')
                return NULL;
            next_byte(t);
        }
        if (*n == FIELD_MAX - 1)
            return "a field of more than 4095 bytes";
        t->field[(*n)++] = (char)c;
    }
}

static bool ends_field(const struct csv_table *t, int c)
{
    return c == EOF || c == '\n' || c == t->delimiter ||
           (c == '\r' && (t->at + 1 >= t->c->size || t->c->data[t->at + 1] == '\n'));
}

// Reads the next field into t->field; t->row_ended says whether it ends the row.
static int read_field(struct csv_table *t, int64_t column, struct error *e)
{
    size_t n = 0;
    int64_t line = t->line;
    const char *wrong = NULL;
    if (peek_byte(t) == '"') {
        next_byte(t);
        wrong = read_quoted(t, &n);
        if (!wrong && !ends_field(t, peek_byte(t)))
            wrong = "text after the closing quote";
    }
    while (!wrong && !ends_field(t, peek_byte(t))) {
        int c = next_byte(t);
        if (c == '"' || c == '\0')
            wrong = c ? "a quote within a field that is not quoted" : "a NUL byte";
        else if (n == FIELD_MAX - 1)
            wrong = "a field of more than 4095 bytes";
        else
            t->field[n++] = (char)c;
    }
    if (wrong)
        return fail_at_field(t, line, column, wrong, e);
    t->field[n] = '\0';
    if (peek_byte(t) == '\r')
        next_byte(t);
    t->row_ended = next_byte(t) != t->delimiter;
    return 0;
}

// --- columns -------------------------------------------------------------------------------------

static void add_column(struct csv_table *t, char *name)
{
    t->columns = xrealloc(t->columns, (size_t)(t->column_count + 1) * sizeof *t->columns);
    t->columns[t->column_count++] = (struct csv_column){.name = name};
}

// Column names come from the first line; without a header line they are "1", "2", ...
static int read_header(struct csv_table *t, struct error *e)
{
    bool header = jget_bool(t->request->spec, "header", true);
    if (t->c->size >= 3 && memcmp(t->c->data, "\xef\xbb\xbf", 3) == 0)
        t->at = 3; // byte order mark
    size_t begin = t->at;
    do {
        int rc = read_field(t, t->column_count, e);
        if (rc)
            return rc;
        if (t->column_count == COLUMNS_MAX)
            return error_set(e, ERR_TOO_LARGE, "%s: more than %d columns", t->c->path, COLUMNS_MAX);
        add_column(t,
                   header ? xstrdup(t->field) : xasprintf("%lld", (long long)t->column_count + 1));
    } while (!t->row_ended);
    if (!header) {
        t->at = begin;
        t->line = 1;
    }
    return 0;
}

static int assign_role(struct csv_table *t, const char *key, const json_t *name,
                       enum column_role role, int64_t *count, struct error *e)
{
    const char *wanted = json_is_string(name) ? json_string_value(name) : "";
    struct csv_column *found = NULL;
    for (int64_t i = 0; i < t->column_count; i++) {
        if (strcmp(t->columns[i].name, wanted) != 0)
            continue;
        if (found)
            return error_set(e, ERR_INVALID, "trainer.data.%s: %s has two columns \"%.100s\"", key,
                             t->c->path, wanted);
        found = &t->columns[i];
    }
    if (!found)
        return error_set(e, ERR_INVALID,
                         "trainer.data.%s: %s has no column \"%.100s\" (its first is \"%.100s\")",
                         key, t->c->path, wanted, t->columns[0].name);
    if (found->role != ROLE_NONE)
        return error_set(e, ERR_INVALID, "trainer.data.%s: column \"%.100s\" is used twice", key,
                         wanted);
    found->role = role;
    found->place = (*count)++;
    return 0;
}

static int assign_role_list(struct csv_table *t, const char *key, enum column_role role,
                            int64_t *count, struct error *e)
{
    const json_t *list = jget(t->request->spec, key), *name;
    size_t i;
    int rc = 0;
    json_array_foreach(list, i, name)
    {
        rc = rc ? rc : assign_role(t, key, name, role, count, e);
    }
    return rc;
}

static int assign_roles(struct csv_table *t, struct error *e)
{
    const json_t *spec = t->request->spec, *label = jget(spec, "label");
    int64_t labels = 0;
    if (!label == !jget(spec, "targets"))
        return error_set(e, ERR_INVALID,
                         "trainer.data.label: give a label (classes) or targets (values)");
    int rc = label ? assign_role(t, "label", label, ROLE_LABEL, &labels, e)
                   : assign_role_list(t, "targets", ROLE_TARGET, &t->targets, e);
    if (!rc)
        rc = assign_role_list(t, "features", ROLE_FEATURE, &t->features, e);
    for (int64_t i = 0; i < t->column_count && !rc && !jget(spec, "features"); i++)
        if (t->columns[i].role == ROLE_NONE)
            t->columns[i] = (struct csv_column){t->columns[i].name, ROLE_FEATURE, t->features++};
    if (!rc && (!t->features || !(labels || t->targets)))
        rc = error_set(e, ERR_INVALID, "trainer.data: %s has no column for %s", t->c->path,
                       t->features ? "targets" : "features");
    return rc;
}

// --- numbers -------------------------------------------------------------------------------------

static int read_number(const struct csv_table *t, int64_t line, int64_t column, float *out,
                       struct error *e)
{
    char *end, what[160];
    double v = strtod(t->field, &end);
    while (*end == ' ' || *end == '\t')
        end++;
    *out = (float)v;
    if (end != t->field && !*end && isfinite(*out))
        return 0;
    snprintf(what, sizeof what, "\"%.60s\" is %s", t->field,
             end == t->field || *end ? "not a number" : "not a finite number of 32 bits");
    return fail_at_field(t, line, column, what, e);
}

static int read_label(const struct csv_table *t, int64_t line, int64_t column, int32_t *out,
                      struct error *e)
{
    char *end, what[160];
    errno = 0;
    long long v = strtoll(t->field, &end, 10);
    *out = (int32_t)v;
    if (end != t->field && !*end && !errno && v >= 0 && v < t->classes)
        return 0;
    if (end == t->field || *end)
        snprintf(what, sizeof what, "\"%.60s\" is not a label; labels are whole numbers from 0",
                 t->field);
    else
        snprintf(what, sizeof what, "label %.60s is outside 0..%lld (trainer.model.classes)",
                 t->field, (long long)t->classes - 1);
    return fail_at_field(t, line, column, what, e);
}

static void grow_table(struct csv_table *t)
{
    if (t->rows < t->capacity)
        return;
    t->capacity = t->capacity ? 2 * t->capacity : 1024;
    size_t capacity = (size_t)t->capacity;
    t->inputs = xrealloc(t->inputs, capacity * (size_t)t->features * sizeof *t->inputs);
    if (t->targets)
        t->values = xrealloc(t->values, capacity * (size_t)t->targets * sizeof *t->values);
    else
        t->labels = xrealloc(t->labels, capacity * sizeof *t->labels);
}

static int store_field(struct csv_table *t, int64_t line, int64_t column, struct error *e)
{
    const struct csv_column *c = &t->columns[column];
    switch (c->role) {
    case ROLE_FEATURE:
        return read_number(t, line, column, &t->inputs[t->rows * t->features + c->place], e);
    case ROLE_TARGET:
        return read_number(t, line, column, &t->values[t->rows * t->targets + c->place], e);
    case ROLE_LABEL:
        return read_label(t, line, column, &t->labels[t->rows], e);
    default:
        return 0;
    }
}

static int read_row(struct csv_table *t, struct error *e)
{
    int64_t line = t->line, column = 0;
    grow_table(t);
    do {
        int64_t begun = t->line;
        int rc = read_field(t, column, e);
        if (!rc && column == t->column_count)
            rc = error_set(e, ERR_CORRUPT, "%s: line %lld: more than the %lld fields of line 1",
                           t->c->path, (long long)line, (long long)t->column_count);
        if (!rc)
            rc = store_field(t, begun, column++, e);
        if (rc)
            return rc;
    } while (!t->row_ended);
    if (column < t->column_count)
        return error_set(e, ERR_CORRUPT, "%s: line %lld: %lld fields, but line 1 has %lld",
                         t->c->path, (long long)line, (long long)column,
                         (long long)t->column_count);
    t->rows++;
    return 0;
}

static bool skip_empty_lines(struct csv_table *t)
{
    while (peek_byte(t) == '\n' || (peek_byte(t) == '\r' && ends_field(t, '\r')))
        next_byte(t);
    return peek_byte(t) != EOF;
}

// --- the format ----------------------------------------------------------------------------------

static void csv_table_free(struct csv_table *t)
{
    for (int64_t i = 0; i < t->column_count; i++)
        free(t->columns[i].name);
    free(t->columns);
    free(t->inputs);
    free(t->values);
    free(t->labels);
    file_content_unref(t->c);
}

static struct file_array array_of(const struct csv_table *t, void *data, int64_t columns,
                                  enum number_type type)
{
    size_t bytes = (size_t)t->rows * (size_t)columns * number_size(type);
    struct file_content *c = file_content_from_memory(t->c->path, data, bytes);
    return (struct file_array){c, c->data, type, 2, {t->rows, columns}};
}

// Moves the numbers from the table to the rows.
static void make_rows(struct csv_table *t, struct sample_rows *out)
{
    out->values = t->targets > 0;
    out->inputs = array_of(t, t->inputs, t->features, NUMBER_F32);
    out->targets = out->values ? array_of(t, t->values, t->targets, NUMBER_F32)
                               : array_of(t, t->labels, 1, NUMBER_I32);
    out->targets.rank = out->values ? 2 : 1;
    t->inputs = t->values = NULL;
    t->labels = NULL;
}

static int read_table(const struct data_request *r, const char *key, struct sample_rows *out,
                      struct error *e)
{
    struct csv_table t = {.request = r, .line = 1};
    t.delimiter = jget_string(r->spec, "delimiter", ",")[0];
    t.classes = jget_int(r->model, "classes", INT32_MAX);
    int rc = data_open_file(r, key, true, &t.c, e);
    if (!rc)
        rc = read_header(&t, e);
    if (!rc)
        rc = assign_roles(&t, e);
    while (!rc && skip_empty_lines(&t))
        rc = read_row(&t, e);
    if (!rc && !t.rows)
        rc = error_set(e, ERR_CORRUPT, "%s: has no rows of numbers", t.c->path);
    if (!rc)
        make_rows(&t, out);
    csv_table_free(&t);
    return rc;
}

// Mean and deviation of each feature over the first `count` rows, summed in their order. A constant
// feature gets deviation 1.
static struct scaling standardize(const struct sample_rows *rows, int64_t count)
{
    const float *x = (const float *)(const void *)rows->inputs.first;
    int64_t features = rows->inputs.dims[1];
    struct scaling s = scaling_new(features, 0, 0);
    for (int64_t i = 0; i < count * features; i++)
        s.mean[i % features] += (double)x[i] / (double)count;
    for (int64_t i = 0; i < count * features; i++) {
        double off = (double)x[i] - s.mean[i % features];
        s.deviation[i % features] += off * off / (double)count;
    }
    for (int64_t f = 0; f < features; f++)
        s.deviation[f] = s.deviation[f] > 0 ? sqrt(s.deviation[f]) : 1;
    return s;
}

int csv_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e)
{
    struct sample_rows a = {0}, b = {0};
    struct scaling scaling = {0};
    bool separate = jget(r->spec, "validation_path") != NULL;
    int64_t held_out = 0;
    int rc = read_table(r, "path", &a, e);
    if (!rc)
        rc = separate ? read_table(r, "validation_path", &b, e)
                      : rows_validation_count(r, &a, &held_out, e);
    if (!rc) {
        bool wanted = jget_bool(r->spec, "standardize", false);
        scaling = wanted ? standardize(&a, a.inputs.dims[0] - held_out) : scaling_new(1, 0, 1);
        rc = rows_open(r, &a, separate ? &b : NULL, &scaling, train, validation, e);
    }
    scaling_free(&scaling);
    sample_rows_close(&a);
    sample_rows_close(&b);
    return rc;
}
