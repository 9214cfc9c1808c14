// CSV as in RFC 4180 with one record per line (a field does not span lines). Errors are reported as
// file:line:column; columns are bytes, counted from 1.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/trace.h"
#include "simulate/users.h"

enum { COLUMNS_MAX = 256, FIELD_MAX = 255 };

enum column { SUBMIT, GPUS, DURATION, USER, QUEUE, PRIORITY, MIN_GPUS, COLUMNS, OTHER = COLUMNS };
const char *const trace_job_columns[] = {"submit_s", "gpus",     "duration_s", "user",
                                         "queue",    "priority", "min_gpus",   NULL};
enum { REQUIRED = DURATION + 1 }; // these first columns are required

struct trace_field {
    char text[FIELD_MAX + 1];
    size_t column; // in bytes, from 1
};

struct trace_reader {
    const char *at, *end, *file;
    size_t line, column;
    enum column meaning[COLUMNS_MAX]; // of each column in the file
    size_t column_count;
    struct trace_field fields[COLUMNS + 1]; // of this line; the last entry collects ignored columns
};

static int field_error(const struct trace_reader *r, size_t column, struct error *e,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static int field_error(const struct trace_reader *r, size_t column, struct error *e,
                       const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(e, ERR_INVALID, fmt, args);
    va_end(args);
    error_prefix(e, "%s:%zu:%zu", r->file, r->line, column);
    return ERR_INVALID;
}

// --- fields --------------------------------------------------------------------------------------

static bool is_at_line_end(const struct trace_reader *r)
{
    return r->at == r->end || *r->at == '\n' ||
           (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
}

static char next_char(struct trace_reader *r)
{
    r->column++;
    return *r->at++;
}

static int put_char(const struct trace_reader *r, struct trace_field *f, size_t *len, char c,
                    struct error *e)
{
    if (c == '\0')
        return field_error(r, r->column - 1, e, "a zero byte; this is no text file");
    if (*len == FIELD_MAX)
        return field_error(r, f->column, e, "a field of more than %d bytes", FIELD_MAX);
    f->text[(*len)++] = c;
    f->text[*len] = '\0';
    return 0;
}

static int read_quoted(struct trace_reader *r, struct trace_field *f, struct error *e)
{
    size_t len = 0;
    next_char(r);
    for (;;) {
        if (is_at_line_end(r))
            return field_error(r, f->column, e, "a quoted field that does not end on its line");
        char c = next_char(r);
        if (c == '"' && (r->at == r->end || *r->at != '"'))
            break;
        if (c == '"')
            next_char(r);
        int err = put_char(r, f, &len, c, e);
        if (err)
            return err;
    }
    if (!is_at_line_end(r) && *r->at != ',')
        return field_error(r, r->column, e, "expected a comma after the quoted field");
    return 0;
}

// Reads one field without surrounding blanks; stops at the comma or the end of the line.
static int read_field(struct trace_reader *r, struct trace_field *f, struct error *e)
{
    while (!is_at_line_end(r) && (*r->at == ' ' || *r->at == '\t'))
        next_char(r);
    f->column = r->column;
    f->text[0] = '\0';
    if (r->at < r->end && *r->at == '"')
        return read_quoted(r, f, e);
    size_t len = 0;
    while (!is_at_line_end(r) && *r->at != ',') {
        int err = put_char(r, f, &len, next_char(r), e);
        if (err)
            return err;
    }
    while (len && (f->text[len - 1] == ' ' || f->text[len - 1] == '\t'))
        f->text[--len] = '\0';
    return 0;
}

static void end_line(struct trace_reader *r)
{
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end)
        r->at++;
    r->line++;
    r->column = 1;
}

// --- the line of names ---------------------------------------------------------------------------

static int read_name(struct trace_reader *r, bool seen[COLUMNS], struct error *e)
{
    struct trace_field f;
    int err = read_field(r, &f, e);
    if (err)
        return err;
    if (r->column_count == COLUMNS_MAX)
        return field_error(r, f.column, e, "more than %d columns", COLUMNS_MAX);
    enum column c = 0;
    while (c < COLUMNS && strcmp(trace_job_columns[c], f.text) != 0)
        c++;
    const char *near = c == OTHER ? nearest_word(f.text, trace_job_columns) : NULL;
    if (near)
        return field_error(r, f.column, e, "column \"%s\"; did you mean \"%s\"?", f.text, near);
    if (c != OTHER && seen[c])
        return field_error(r, f.column, e, "there are two columns \"%s\"", f.text);
    if (c != OTHER)
        seen[c] = true;
    r->meaning[r->column_count++] = c;
    return 0;
}

static int read_header(struct trace_reader *r, struct error *e)
{
    bool seen[COLUMNS] = {false};
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0)
        r->at += 3; // a byte order mark
    for (bool more = true; more;) {
        int err = read_name(r, seen, e);
        if (err)
            return err;
        more = !is_at_line_end(r);
        if (more)
            next_char(r);
    }
    for (int c = 0; c < REQUIRED; c++)
        if (!seen[c])
            return field_error(
                r, 1, e,
                "no column \"%s\"; the first line names the columns, and submit_s, gpus "
                "and duration_s must be there",
                trace_job_columns[c]);
    end_line(r);
    return 0;
}

// --- jobs ----------------------------------------------------------------------------------------

static int read_line(struct trace_reader *r, struct error *e)
{
    for (size_t i = 0; i < r->column_count; i++) {
        int err = read_field(r, &r->fields[r->meaning[i]], e);
        if (err)
            return err;
        if (i + 1 < r->column_count) {
            if (is_at_line_end(r))
                return field_error(r, r->column, e, "%zu fields, the first line has %zu", i + 1,
                                   r->column_count);
            next_char(r);
        }
    }
    return is_at_line_end(r)
               ? 0
               : field_error(r, r->column, e, "more fields than the %zu of the first line",
                             r->column_count);
}

// Reads seconds and returns microseconds.
static int seconds_of(const struct trace_reader *r, enum column c, double max, int64_t *out,
                      struct error *e)
{
    const struct trace_field *f = &r->fields[c];
    char *end;
    errno = 0;
    double value = strtod(f->text, &end);
    if (end == f->text || *end || isspace((unsigned char)f->text[0]) || !isfinite(value))
        return field_error(r, f->column, e, "%s: expected a number of seconds, found \"%s\"",
                           trace_job_columns[c], f->text);
    if (value < 0 || value > max)
        return field_error(r, f->column, e, "%s: %s is not between 0 and %.0f",
                           trace_job_columns[c], f->text, max);
    *out = llround(value * SIMULATE_SECOND);
    return 0;
}

// Reads an integer; an empty field leaves *out unchanged if the column is optional.
static int integer_of(const struct trace_reader *r, enum column c, int min, int max, int *out,
                      struct error *e)
{
    const struct trace_field *f = &r->fields[c];
    if (!f->text[0] && (int)c >= REQUIRED)
        return 0;
    char *end;
    errno = 0;
    long value = strtol(f->text, &end, 10);
    if (end == f->text || *end)
        return field_error(r, f->column, e, "%s: expected a whole number, found \"%s\"",
                           trace_job_columns[c], f->text);
    if (errno || value < min || value > max)
        return field_error(r, f->column, e, "%s: %s is not between %d and %d", trace_job_columns[c],
                           f->text, min, max);
    *out = (int)value;
    return 0;
}

static int team_of(struct trace *t, const struct trace_reader *r)
{
    const char *user = r->fields[USER].text, *queue = r->fields[QUEUE].text;
    const struct trace_user *known = trace_user_find(t, user);
    const char *team = known ? t->teams[known->team].name : *queue ? queue : "-";
    return trace_user(t, team, *user ? user : "-");
}

static int read_job(struct trace *t, struct trace_reader *r, int64_t from, int64_t to,
                    struct error *e)
{
    static const double latest_s = 1e11; // about 3,000 years, for traces that count from 1970
    struct simulate_job job = {.priority = SCHED_PRIORITY_DEFAULT};
    int err = read_line(r, e);
    err = err ? err : seconds_of(r, SUBMIT, latest_s, &job.submit, e);
    err = err ? err : integer_of(r, GPUS, 0, SIMULATE_GANG_MAX, &job.max_slots, e);
    double longest_s = (double)SIMULATE_TIME_MAX / SIMULATE_SECOND;
    err = err ? err : seconds_of(r, DURATION, longest_s, &job.length, e);
    err = err ? err
              : integer_of(r, PRIORITY, SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX, &job.priority, e);
    job.min_slots = job.max_slots;
    if (job.max_slots)
        err = err ? err : integer_of(r, MIN_GPUS, 1, job.max_slots, &job.min_slots, e);
    if (err)
        return err;
    bool is_inside = job.submit >= from && job.submit < to;
    t->outside += !is_inside;
    t->no_slots += is_inside && !job.max_slots;
    if (!is_inside || !job.max_slots)
        return 0;
    job.length = job.length ? job.length : 1;
    job.team = team_of(t, r);
    if (t->job_count == SIMULATE_JOBS_MAX || t->team_count > SIMULATE_TEAMS_MAX)
        return field_error(r, 1, e, "more than %d jobs, or than %d teams and users",
                           SIMULATE_JOBS_MAX, SIMULATE_TEAMS_MAX);
    trace_add(t, &job);
    return 0;
}

int trace_read_jobs(struct trace *t, const char *text, size_t len, const char *file, int64_t from,
                    int64_t to, struct error *e)
{
    struct trace_reader *r = xcalloc(1, sizeof *r);
    *r = (struct trace_reader){.at = text, .end = text + len, .file = file, .line = 1, .column = 1};
    int err = read_header(r, e);
    while (!err && r->at < r->end) {
        if (!is_at_line_end(r))
            err = read_job(t, r, from, to, e);
        end_line(r);
    }
    free(r);
    if (err)
        return err;
    trace_sort(t);
    if (t->job_count && t->jobs[t->job_count - 1].submit - t->jobs[0].submit > SIMULATE_TIME_MAX)
        return error_set(e, ERR_INVALID,
                         "%s: from the first submission to the last it is more than %d years; "
                         "choose a part with --window",
                         file, SIMULATE_YEARS_MAX);
    return 0;
}
