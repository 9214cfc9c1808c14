#include "master/ingest/metric_parse.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text/json_reader.h"
#include "db/metrics/series_json.h"

static void free_nothing(void *input)
{
    (void)input; // freed with the arena
}

static void request_set_post(struct request *rq, const struct metric_post *p)
{
    struct metric_post *kept = arena_alloc(&rq->arena, sizeof *kept);
    *kept = *p;
    rq->input = kept;
    rq->input_free = free_nothing;
}

static void block_alloc_axis(struct arena *a, size_t count, struct series_block *b)
{
    b->count = count;
    b->ids = arena_alloc(a, count * sizeof *b->ids);
    b->runs = arena_alloc(a, count * sizeof *b->runs);
    b->steps = arena_alloc(a, count * sizeof *b->steps);
    b->times = arena_alloc(a, count * sizeof *b->times);
}

static int check_group(const char *group, struct error *e)
{
    if (!*group || strlen(group) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "group: not a name of 1 to %d bytes", LIMIT_NAME);
    return 0;
}

// --- one report, as a JSON tree ------------------------------------------------------------------

int metric_report_parse(struct request *rq, const json_t *body, struct error *e)
{
    struct metric_post p = {0};
    const json_t *report = jget(body, "metrics"), *inner = jget(report, "metrics");
    const json_t *values = jget(inner, "avgMetrics");
    const char *time = jget_string(report, "reportTime", NULL);
    p.group = arena_strdup(&rq->arena, jget_string(body, "group", ""));
    p.run = jget_int(report, "trialRunId", -1);
    p.timed = time;
    int err = check_group(p.group, e);
    if (err)
        return err;
    if (!json_is_object(values))
        return error_set(e, ERR_INVALID, "metrics.metrics.avgMetrics: not an object of values");
    if (json_object_size(values) > LIMIT_METRICS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "metrics.metrics.avgMetrics: more than %d names",
                         LIMIT_METRICS_PER_POST);
    err = series_from_json(&rq->arena, values, jget(inner, "batchMetrics"), &p.block, e);
    if (err)
        return error_prefix(e, "metrics.metrics.avgMetrics");
    if (time && clock_parse(time, p.block.times))
        return error_set(e, ERR_INVALID, "metrics.reportTime: \"%.64s\" is not an RFC 3339 time",
                         time);
    const json_t *steps = jget(report, "stepsCompleted");
    *p.block.steps = steps ? jget_int(report, "stepsCompleted", INT64_MIN) : -1;
    if (*p.block.steps < -1 || *p.block.steps > LIMIT_REPORTED_INTEGER)
        return error_set(e, ERR_INVALID,
                         "metrics.stepsCompleted: not a number of steps from 0 to %lld",
                         LIMIT_REPORTED_INTEGER);
    request_set_post(rq, &p);
    return 0;
}

// --- columns, as a JSON tree ---------------------------------------------------------------------

static int parse_steps(struct arena *a, const json_t *steps, struct series_block *b,
                       struct error *e)
{
    size_t count = json_array_size(steps);
    if (!count || count > LIMIT_STEPS_PER_POST)
        return error_set(e, count ? ERR_TOO_LARGE : ERR_INVALID,
                         "steps: not a list of 1 to %d steps", LIMIT_STEPS_PER_POST);
    block_alloc_axis(a, count, b);
    for (size_t i = 0; i < count; i++) {
        const json_t *step = json_array_get(steps, i);
        b->steps[i] = json_is_integer(step) ? json_integer_value(step) : -1;
        if (b->steps[i] < 0 || b->steps[i] > LIMIT_REPORTED_INTEGER)
            return error_set(e, ERR_INVALID, "steps[%zu]: not a number of steps from 0 to %lld", i,
                             LIMIT_REPORTED_INTEGER);
    }
    return 0;
}

static bool convert_seconds(double seconds, int64_t *out)
{
    if (!(fabs(seconds) < 1e12))
        return false;
    *out = (int64_t)llround(seconds * 1e6);
    return true;
}

static int parse_times(const json_t *times, struct series_block *b, struct error *e)
{
    if (times && json_array_size(times) != b->count)
        return error_set(e, ERR_INVALID, "times: not a list of %zu, one for each step", b->count);
    for (size_t i = 0; times && i < b->count; i++) {
        const json_t *time = json_array_get(times, i);
        bool good =
            json_is_string(time)
                ? !clock_parse(json_string_value(time), &b->times[i])
                : json_is_number(time) && convert_seconds(json_number_value(time), &b->times[i]);
        if (!good)
            return error_set(e, ERR_INVALID,
                             "times[%zu]: neither an RFC 3339 time nor seconds since 1970", i);
    }
    return 0;
}

static int parse_column(struct arena *a, const json_t *values, size_t count,
                        struct series_column *out, struct error *e)
{
    if (json_array_size(values) != count)
        return error_set(e, ERR_INVALID, "metrics.%.64s: not a list of %zu, one for each step",
                         out->name, count);
    out->end = count;
    out->kinds = arena_alloc(a, count);
    out->values = arena_alloc(a, count * sizeof *out->values);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(values, i);
        if (!json_is_null(value) && !series_number(value, &out->kinds[i], &out->values[i]))
            return error_set(e, ERR_INVALID,
                             "metrics.%.64s[%zu]: not a number, null, \"NaN\" or \"Infinity\"",
                             out->name, i);
    }
    return 0;
}

static int parse_columns(struct arena *a, const json_t *metrics, struct series_block *b,
                         struct error *e)
{
    size_t names = json_object_size(metrics);
    const char *name;
    json_t *values;
    int err = 0;
    if (!json_is_object(metrics))
        return error_set(e, ERR_INVALID, "metrics: not an object of lists");
    if (names > LIMIT_METRICS_PER_POST || names * b->count > LIMIT_POINTS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "metrics: more than %d names, or %d values in all",
                         LIMIT_METRICS_PER_POST, LIMIT_POINTS_PER_POST);
    b->columns = arena_alloc(a, (names + 1) * sizeof *b->columns);
    json_object_foreach((json_t *)metrics, name, values)
    {
        struct series_column *out = &b->columns[b->column_count++];
        out->name = arena_strdup(a, name);
        err = series_check_name(name, e);
        if (!err)
            err = parse_column(a, values, b->count, out, e);
        if (err)
            return err;
    }
    return 0;
}

int metric_columns_parse(struct request *rq, const json_t *body, struct error *e)
{
    struct metric_post p = {.run = jget_int(body, "trialRunId", -1)};
    const json_t *times = jget(body, "times");
    p.group = arena_strdup(&rq->arena, jget_string(body, "group", ""));
    p.timed = times;
    int err = check_group(p.group, e);
    if (!err)
        err = parse_steps(&rq->arena, jget(body, "steps"), &p.block, e);
    if (!err)
        err = parse_times(times, &p.block, e);
    if (!err)
        err = parse_columns(&rq->arena, jget(body, "metrics"), &p.block, e);
    if (!err)
        request_set_post(rq, &p);
    return err;
}

// --- one pass ------------------------------------------------------------------------------------
// Each of these returns whether everything was as expected; if not, *p is unusable.

struct column_names { // the names of a body, to find duplicates
    uint32_t *slots;  // by hash: index + 1; 0: free
    size_t slot_count;
};

static bool column_names_add(struct column_names *n, const struct series_column *columns, size_t at)
{
    const char *name = columns[at].name;
    size_t slot = hash64(name, strlen(name)) & (n->slot_count - 1);
    for (; n->slots[slot]; slot = (slot + 1) & (n->slot_count - 1))
        if (!strcmp(columns[n->slots[slot] - 1].name, name))
            return false;
    n->slots[slot] = (uint32_t)at + 1;
    return true;
}

static bool names_are_unique(struct arena *a, const struct series_block *b)
{
    struct column_names n = {.slot_count = 16};
    while (n.slot_count < 2 * b->column_count)
        n.slot_count *= 2;
    n.slots = arena_alloc(a, n.slot_count * sizeof *n.slots);
    for (size_t i = 0; i < b->column_count; i++)
        if (!column_names_add(&n, b->columns, i))
            return false;
    return true;
}

// Printable ASCII, which needs no check for UTF-8.
static bool is_plain_name(const char *name)
{
    const char *c = name;
    while (*c >= ' ' && *c <= '~')
        c++;
    return !*c && c - name <= LIMIT_METRIC_NAME;
}

static bool is_key(const char *key, const char *camel, const char *snake)
{
    return !strcmp(key, camel) || !strcmp(key, snake);
}

static bool scan_enter(struct json_reader *s, char bracket)
{
    return jr_peek(s) == bracket && jr_enter(s, bracket);
}

static bool scan_value(struct json_reader *s, uint8_t *kind, double *out)
{
    bool whole;
    if (!jr_number(s, out, &whole))
        return false;
    *kind = whole ? SERIES_INTEGER : SERIES_REAL;
    *out += whole ? 0.0 : -0.0; // -0 is the integer 0
    return whole ? fabs(*out) < 0x1p53 : isfinite(*out);
}

static struct series_column *block_add_column(struct arena *a, struct series_block *b, size_t *cap,
                                              const char *name)
{
    if (b->column_count == *cap) {
        struct series_column *old = b->columns;
        *cap = *cap ? 2 * *cap : 32;
        b->columns = arena_alloc(a, *cap * sizeof *b->columns);
        if (b->column_count)
            memcpy(b->columns, old, b->column_count * sizeof *old);
    }
    struct series_column *c = &b->columns[b->column_count++];
    *c = (struct series_column){.name = name};
    return c;
}

static bool scan_values(struct arena *a, struct json_reader *s, struct series_block *b)
{
    char *name;
    size_t cap = 0;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &name)) {
        struct series_column *c = block_add_column(a, b, &cap, name);
        c->end = 1;
        c->kinds = arena_alloc(a, sizeof *c->kinds);
        c->values = arena_alloc(a, sizeof *c->values);
        if (!is_plain_name(name) || !scan_value(s, c->kinds, c->values) ||
            b->column_count > LIMIT_METRICS_PER_POST)
            return false;
    }
    return !s->err && names_are_unique(a, b);
}

static bool scan_inner(struct arena *a, struct json_reader *s, struct series_block *b)
{
    char *key;
    bool found = false;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &key)) {
        if (is_key(key, "avgMetrics", "avg_metrics")) {
            if (found || !scan_values(a, s, b))
                return false;
            found = true;
        } else if (is_key(key, "batchMetrics", "batch_metrics")) {
            if (!jr_null(s))
                return false;
        } else {
            jr_skip(s);
        }
    }
    return found && !s->err;
}

static bool scan_report(struct arena *a, struct json_reader *s, struct metric_post *p)
{
    char *key;
    bool found = false;
    block_alloc_axis(a, 1, &p->block);
    *p->block.steps = -1;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &key)) {
        bool good = true;
        if (jr_null(s))
            continue;
        if (!strcmp(key, "metrics")) {
            good = !found && scan_inner(a, s, &p->block);
            found = true;
        } else if (is_key(key, "stepsCompleted", "steps_completed")) {
            good = jr_int(s, p->block.steps) && *p->block.steps >= -1 &&
                   *p->block.steps <= LIMIT_REPORTED_INTEGER;
        } else if (is_key(key, "trialRunId", "trial_run_id")) {
            good = jr_int(s, &p->run);
        } else if (is_key(key, "reportTime", "report_time")) {
            const char *time = jr_peek(s) == '"' ? jr_string(s, NULL) : NULL;
            good = p->timed = time && !clock_parse(time, p->block.times);
        } else {
            jr_skip(s);
        }
        if (!good)
            return false;
    }
    return found && !s->err;
}

static bool scan_report_body(struct arena *a, struct json_reader *s, struct metric_post *p)
{
    char *key;
    bool found = false;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &key)) {
        if (!strcmp(key, "group") && !p->group && jr_peek(s) == '"') {
            p->group = jr_string(s, NULL);
        } else if (!strcmp(key, "metrics") && !found) {
            if (!scan_report(a, s, p))
                return false;
            found = true;
        } else {
            return false;
        }
    }
    return found && p->group && is_plain_name(p->group) && !check_group(p->group, NULL);
}

static bool scan_steps(struct arena *a, struct json_reader *s, struct series_block *b)
{
    size_t cap = 0;
    int64_t *steps = NULL;
    size_t count = 0;
    if (!scan_enter(s, '['))
        return false;
    while (jr_element(s)) {
        if (count == cap) {
            int64_t *old = steps;
            cap = cap ? 2 * cap : 256;
            steps = arena_alloc(a, cap * sizeof *steps);
            if (count)
                memcpy(steps, old, count * sizeof *old);
        }
        if (jr_peek(s) == '"' || !jr_int(s, &steps[count]) || steps[count] < 0 ||
            steps[count++] > LIMIT_REPORTED_INTEGER || count > LIMIT_STEPS_PER_POST)
            return false;
    }
    if (s->err || !count)
        return false;
    block_alloc_axis(a, count, b);
    memcpy(b->steps, steps, count * sizeof *steps);
    return true;
}

static bool scan_times(struct json_reader *s, struct series_block *b)
{
    size_t count = 0;
    if (!scan_enter(s, '['))
        return false;
    while (jr_element(s)) {
        double seconds;
        bool whole;
        if (count == b->count)
            return false;
        if (jr_peek(s) == '"') {
            const char *time = jr_string(s, NULL);
            if (!time || clock_parse(time, &b->times[count++]))
                return false;
        } else if (!jr_number(s, &seconds, &whole) ||
                   !convert_seconds(seconds, &b->times[count++])) {
            return false;
        }
    }
    return !s->err && count == b->count;
}

static bool scan_column(struct arena *a, struct json_reader *s, size_t count,
                        struct series_column *c)
{
    size_t n = 0;
    c->end = count;
    c->kinds = arena_alloc(a, count);
    c->values = arena_alloc(a, count * sizeof *c->values);
    if (!scan_enter(s, '['))
        return false;
    for (; jr_element(s); n++) {
        if (n == count)
            return false;
        if (!jr_null(s) && !scan_value(s, &c->kinds[n], &c->values[n]))
            return false;
    }
    return !s->err && n == count;
}

static bool scan_columns(struct arena *a, struct json_reader *s, struct series_block *b)
{
    char *name;
    size_t cap = 0;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &name)) {
        struct series_column *c = block_add_column(a, b, &cap, name);
        if (!is_plain_name(name) || b->column_count > LIMIT_METRICS_PER_POST ||
            b->column_count * b->count > LIMIT_POINTS_PER_POST || !scan_column(a, s, b->count, c))
            return false;
    }
    return !s->err && names_are_unique(a, b);
}

// The steps must come before the lists that have one value for each step.
static bool scan_columns_body(struct arena *a, struct json_reader *s, struct metric_post *p)
{
    char *key;
    bool found = false;
    if (!scan_enter(s, '{'))
        return false;
    while (jr_member(s, &key)) {
        bool good = true;
        if (jr_null(s))
            continue;
        if (!strcmp(key, "group") && !p->group && jr_peek(s) == '"')
            p->group = jr_string(s, NULL);
        else if (is_key(key, "trialRunId", "trial_run_id"))
            good = jr_int(s, &p->run);
        else if (!strcmp(key, "steps") && !p->block.count)
            good = scan_steps(a, s, &p->block);
        else if (!strcmp(key, "times") && p->block.count && !p->timed)
            good = p->timed = scan_times(s, &p->block);
        else if (!strcmp(key, "metrics") && p->block.count && !found)
            good = found = scan_columns(a, s, &p->block);
        else
            good = false;
        if (!good)
            return false;
    }
    return found && p->group && is_plain_name(p->group) && !check_group(p->group, NULL);
}

// --- entry points --------------------------------------------------------------------------------

static int read_body(struct request *rq, char *text, size_t len,
                     bool (*scan)(struct arena *a, struct json_reader *s, struct metric_post *p),
                     int (*parse)(struct request *rq, const json_t *body, struct error *e),
                     struct error *e)
{
    struct metric_post p = {.run = -1};
    struct json_reader s;
    json_t *body = NULL;
    char *copy = arena_alloc(&rq->arena, len + 1); // the scan changes it
    memcpy(copy, text, len);
    jr_init(&s, copy, len, "the request body", NULL);
    if (scan(&rq->arena, &s, &p) && !jr_end(&s)) {
        request_set_post(rq, &p);
        return 0;
    }
    if (json_tree_bytes(text, len) > LIMIT_JSON_TREE / 4 + len)
        return error_set(e, ERR_TOO_LARGE, "the request body has too many small values");
    int err = json_parse(text, len, "the request body", &body, e);
    if (!err && !json_is_object(body) && !json_is_null(body))
        err = error_set(e, ERR_INVALID, "the request body is not a JSON object");
    if (!err)
        err = parse(rq, body, e);
    json_decref(body);
    return err;
}

int metric_report_read(struct request *rq, char *text, size_t len, struct error *e)
{
    return read_body(rq, text, len, scan_report_body, metric_report_parse, e);
}

int metric_columns_read(struct request *rq, char *text, size_t len, struct error *e)
{
    return read_body(rq, text, len, scan_columns_body, metric_columns_parse, e);
}
