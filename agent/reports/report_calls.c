#include "agent/reports/report_calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/reports/report_check.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

struct call_batch { // calls that are still being filled
    const struct reporting_trial *target;
    struct report_calls *out;
    size_t first; // of the calls since the last checkpoint
};

static struct report_call *add_call(struct call_batch *b, char *path, json_t *body)
{
    struct report_calls *out = b->out;
    must(body);
    if (out->count == out->room) {
        out->room = out->room ? 2 * out->room : 16;
        out->items = xrealloc(out->items, out->room * sizeof *out->items);
    }
    out->items[out->count] =
        (struct report_call){.path = path, .body = body, .lines = json_array()};
    return &out->items[out->count++];
}

static void carry_line(struct report_call *call, const json_t *line)
{
    must(json_array_append(call->lines, (json_t *)line) == 0);
}

static char *trial_path(const struct call_batch *b, const char *rest)
{
    return xasprintf("/api/v1/trials/%" PRId64 "/%s", b->target->trial, rest);
}

// Finds the unfinished call whose path ends in `rest` and whose group is `group` (NULL: any).
static struct report_call *find_call(struct call_batch *b, const char *rest, const char *group)
{
    for (size_t i = b->out->count; i-- > b->first;) {
        struct report_call *call = &b->out->items[i];
        const char *end = strrchr(call->path, '/');
        if (strcmp(end + 1, rest) == 0 &&
            (!group || strcmp(group, jget_string(call->body, "group", "")) == 0))
            return call;
    }
    return NULL;
}

// --- metrics -------------------------------------------------------------------------------------

static void append_all(json_t *list, const json_t *more)
{
    must(json_array_extend(list, (json_t *)more) == 0);
}

// Fills up with null: these steps lack the metric.
static void pad_column(json_t *column, size_t steps)
{
    while (json_array_size(column) < steps)
        must(json_array_append_new(column, json_null()) == 0);
}

// Returns whether the limits of one call permit to add the columns of `line`.
static bool columns_fit(const json_t *body, const json_t *line)
{
    const json_t *columns = jget(body, "metrics");
    size_t steps = json_array_size(jget(body, "steps")) + json_array_size(jget(line, "steps"));
    size_t names = json_object_size(columns);
    const char *name;
    json_t *values;
    json_object_foreach(jget(line, "metrics"), name, values) names +=
        json_object_get(columns, name) == NULL;
    return steps <= LIMIT_STEPS_PER_POST && names <= LIMIT_METRICS_PER_POST &&
           steps * names <= LIMIT_POINTS_PER_POST;
}

static json_t *empty_columns(const struct call_batch *b, const json_t *line)
{
    return json_pack("{s:O, s:I, s:[], s:[], s:{}}", "group", jget(line, "group"), "trialRunId",
                     (json_int_t)b->target->run, "steps", "times", "metrics");
}

// Programs give microseconds; the master takes seconds.
static void append_times(json_t *list, const json_t *times)
{
    size_t i;
    json_t *time;
    json_array_foreach(times, i, time)
        must(json_array_append_new(list, json_real((double)json_integer_value(time) / 1e6)) == 0);
}

static void add_metrics(struct call_batch *b, const json_t *line)
{
    struct report_call *call = find_call(b, "columns", jget_string(line, "group", ""));
    if (!call || !columns_fit(call->body, line))
        call = add_call(b, trial_path(b, "metrics/columns"), empty_columns(b, line));
    json_t *steps = jget(call->body, "steps"), *columns = jget(call->body, "metrics"), *values;
    size_t before = json_array_size(steps);
    const char *name;
    append_all(steps, jget(line, "steps"));
    append_times(jget(call->body, "times"), jget(line, "times"));
    json_object_foreach(jget(line, "metrics"), name, values)
    {
        json_t *column = json_object_get(columns, name);
        if (!column) {
            column = json_array();
            must(json_object_set_new(columns, name, column) == 0);
        }
        pad_column(column, before);
        append_all(column, values);
    }
    json_object_foreach(columns, name, values) pad_column(values, json_array_size(steps));
    carry_line(call, line);
}

// --- the other kinds -----------------------------------------------------------------------------

// The master reads the contents within one call, so their bytes are limited, too.
static bool media_fit(const struct report_call *call, int64_t bytes)
{
    return json_array_size(jget(call->body, "items")) < LIMIT_MEDIA_PER_POST &&
           call->media_bytes + bytes <= LIMIT_MEDIA_BYTES_PER_CALL;
}

static struct report_call *add_media_call(struct call_batch *b)
{
    struct report_call *call =
        add_call(b, trial_path(b, "media"),
                 json_pack("{s:I, s:[]}", "trialRunId", (json_int_t)b->target->run, "items"));
    call->reads_storage = true;
    return call;
}

static bool carries_line(const struct report_call *call, const json_t *line)
{
    size_t count = json_array_size(call->lines);
    return count > 0 && json_array_get(call->lines, count - 1) == line;
}

// The items of a line may go out in several calls, each of which carries the line.
static void add_media(struct call_batch *b, const json_t *line)
{
    struct report_call *call = find_call(b, "media", NULL);
    size_t i;
    json_t *item;
    json_array_foreach(jget(line, "items"), i, item)
    {
        int64_t bytes = jget_int(item, "size", 0);
        if (!call || !media_fit(call, bytes))
            call = add_media_call(b);
        call->media_bytes += bytes;
        must(json_array_append(jget(call->body, "items"), item) == 0);
        if (!carries_line(call, line))
            carry_line(call, line);
    }
}

static void add_metadata(struct call_batch *b, const json_t *line)
{
    struct report_call *call = find_call(b, "metadata", NULL);
    if (!call) {
        call = add_call(b, xasprintf("/api/v1/runs/%" PRId64 "/metadata", b->target->trial),
                        json_pack("{s:{}}", "metadata"));
        call->merges = true;
    }
    json_deep_merge(jget(call->body, "metadata"), jget(line, "metadata"));
    carry_line(call, line);
}

static void add_progress(struct call_batch *b, const json_t *line)
{
    struct report_call *call = find_call(b, "progress", NULL);
    if (!call)
        call = add_call(b, trial_path(b, "progress"), json_pack("{s:b}", "isRaw", 1));
    must(json_object_set(call->body, "progress", jget(line, "progress")) == 0);
    carry_line(call, line);
}

// The master takes sizes as strings of digits.
static json_t *resource_texts(const json_t *resources)
{
    json_t *texts = json_object(), *bytes;
    const char *path;
    json_object_foreach((json_t *)resources, path, bytes)
    {
        char digits[24];
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(bytes));
        must(json_object_set_new(texts, path, json_string(digits)) == 0);
    }
    return texts;
}

static void add_checkpoint(struct call_batch *b, const json_t *line)
{
    char time[CLOCK_RFC3339_MAX];
    json_t *metadata = jget(line, "metadata") ? json_copy(jget(line, "metadata")) : json_object();
    must(json_object_set(metadata, "steps_completed", jget(line, "steps")) == 0);
    json_t *body =
        json_pack("{s:O, s:s, s:s, s:o, s:o, s:s, s:s, s:{}}", "uuid", jget(line, "uuid"), "taskId",
                  b->target->task, "allocationId", b->target->allocation, "metadata", metadata,
                  "resources", resource_texts(jget(line, "resources")), "state", "STATE_COMPLETED",
                  "reportTime", clock_format(jget_int(line, "time", 0), time), "training");
    carry_line(add_call(b, xstrdup("/api/v1/checkpoints"), body), line);
}

static void add_exit(struct call_batch *b, const json_t *line)
{
    char *reason = xasprintf("EXITED_REASON_%s", jget_string(line, "reason", ""));
    json_t *body = json_pack("{s:s, s:O*}", "reason", reason, "text", jget(line, "text"));
    carry_line(add_call(b, trial_path(b, "early_exit"), body), line);
    free(reason);
}

static void add_line(struct call_batch *b, const json_t *line)
{
    enum report_kind kind;
    if (report_check(line, &kind, NULL) != 0)
        return;
    switch (kind) {
    case REPORT_METRICS:
        add_metrics(b, line);
        break;
    case REPORT_PROGRESS:
        add_progress(b, line);
        break;
    case REPORT_MEDIA:
        add_media(b, line);
        break;
    case REPORT_METADATA:
        add_metadata(b, line);
        break;
    case REPORT_CHECKPOINT:
        add_checkpoint(b, line);
        b->first = b->out->count;
        break;
    case REPORT_EXITED:
        add_exit(b, line);
        b->first = b->out->count;
        break;
    case REPORT_FAILURE:
    case REPORT_KINDS:
        break;
    }
}

void report_calls_make(const struct reporting_trial *target, const json_t *lines,
                       struct report_calls *out)
{
    struct call_batch b = {.target = target, .out = out};
    size_t i;
    json_t *line;
    *out = (struct report_calls){0};
    json_array_foreach(lines, i, line) add_line(&b, line);
}

void report_calls_free(struct report_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        free(calls->items[i].path);
        json_decref(calls->items[i].body);
        json_decref(calls->items[i].lines);
    }
    free(calls->items);
}
