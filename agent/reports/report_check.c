#include "agent/reports/report_check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/media.h"
#include "api/run_metadata.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= LIMIT_REPORTED_INTEGER;
}

static int check_integer(const json_t *value, const char *field, struct error *e)
{
    return is_count(value) ? 0
                           : error_set(e, ERR_INVALID, "%s: expected an integer from 0 to %lld",
                                       field, LIMIT_REPORTED_INTEGER);
}

static int check_text(const json_t *value, const char *field, size_t max, struct error *e)
{
    size_t len = json_string_length(value);
    if (json_is_string(value) && len > 0 && len <= max)
        return 0;
    return error_set(e, ERR_INVALID, "%s: expected a text of 1 to %zu bytes", field, max);
}

static int check_word(const json_t *value, const char *field, const char *const *words,
                      struct error *e)
{
    const char *text = json_string_value(value);
    char list[128] = "";
    for (const char *const *word = words; *word; word++) {
        if (text && strcmp(text, *word) == 0)
            return 0;
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", *word);
    }
    return error_set(e, ERR_INVALID, "%s: expected one of %s", field, list);
}

// --- metrics -------------------------------------------------------------------------------------

static bool is_metric_value(const json_t *value)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    const char *text = json_string_value(value);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return json_is_number(value) || json_is_null(value);
}

static int check_column(const char *name, const json_t *values, size_t steps, struct error *e)
{
    size_t i, len = strlen(name);
    json_t *value;
    if (len == 0 || len > LIMIT_METRIC_NAME || (unsigned char)*name < ' ')
        return error_set(e, ERR_INVALID,
                         "metrics: a name has 1 to %d bytes and begins with no control character; "
                         "found \"%.32s\"",
                         LIMIT_METRIC_NAME, name);
    if (!json_is_array(values) || json_array_size(values) != steps)
        return error_set(e, ERR_INVALID,
                         "metrics.%.64s: expected a list of %zu values, one for each step", name,
                         steps);
    json_array_foreach(values, i, value)
    {
        if (!is_metric_value(value))
            return error_set(e, ERR_INVALID,
                             "metrics.%.64s[%zu]: expected a number, null, \"NaN\", \"Infinity\" "
                             "or \"-Infinity\"",
                             name, i);
    }
    return 0;
}

static int check_columns(const json_t *metrics, size_t steps, struct error *e)
{
    size_t names = json_object_size(metrics);
    const char *name;
    json_t *values;
    if (names == 0)
        return error_set(e, ERR_INVALID,
                         "metrics: expected an object with a list of values for each name");
    if (names > LIMIT_METRICS_PER_POST || names * steps > LIMIT_POINTS_PER_POST)
        return error_set(e, ERR_INVALID,
                         "metrics: more than %d names or %d values in one line; use several lines",
                         LIMIT_METRICS_PER_POST, LIMIT_POINTS_PER_POST);
    json_object_foreach((json_t *)metrics, name, values)
    {
        int err = check_column(name, values, steps, e);
        if (err)
            return err;
    }
    return 0;
}

static int check_axis(const json_t *list, const char *field, size_t count, struct error *e)
{
    char place[32];
    size_t i;
    json_t *value;
    int err = 0;
    if (json_array_size(list) != count || count == 0 || count > LIMIT_STEPS_PER_POST)
        return error_set(e, ERR_INVALID,
                         "%s: expected a list of 1 to %d integers, as many as there are steps",
                         field, LIMIT_STEPS_PER_POST);
    json_array_foreach(list, i, value)
    {
        if (!is_count(value)) {
            snprintf(place, sizeof place, "%s[%zu]", field, i);
            err = err ? err : check_integer(value, place, e);
        }
    }
    return err;
}

static int check_metrics(const json_t *line, struct error *e)
{
    size_t count = json_array_size(jget(line, "steps"));
    int err = check_text(jget(line, "group"), "group", LIMIT_NAME, e);
    err = err ? err : check_axis(jget(line, "steps"), "steps", count, e);
    err = err ? err : check_axis(jget(line, "times"), "times", count, e);
    return err ? err : check_columns(jget(line, "metrics"), count, e);
}

// --- the other kinds -----------------------------------------------------------------------------

static int check_progress(const json_t *line, struct error *e)
{
    const json_t *progress = jget(line, "progress");
    double value = json_number_value(progress);
    if (json_is_number(progress) && value >= 0 && value <= 1)
        return 0;
    return error_set(e, ERR_INVALID, "progress: expected a number from 0 to 1");
}

static bool is_inside(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return false;
    return *path && *path != '/';
}

static int check_resources(const json_t *resources, struct error *e)
{
    const char *path;
    json_t *bytes;
    json_int_t total = 0;
    if (!json_is_object(resources) || json_object_size(resources) > LIMIT_CHECKPOINT_FILES)
        return error_set(e, ERR_INVALID,
                         "resources: expected an object of at most %d files, {\"path\": bytes}",
                         LIMIT_CHECKPOINT_FILES);
    json_object_foreach((json_t *)resources, path, bytes)
    {
        // A folder has the size 0 and a slash at its end, as in Determined.
        if (!is_inside(path) || !is_count(bytes))
            return error_set(e, ERR_INVALID,
                             "resources: \"%.64s\": expected a path inside the checkpoint's folder "
                             "and its size in bytes",
                             path);
        total += json_integer_value(bytes);
        if (total > LIMIT_REPORTED_INTEGER)
            return error_set(e, ERR_INVALID, "resources: expected sizes of at most %lld together",
                             LIMIT_REPORTED_INTEGER);
    }
    return 0;
}

// Digits of 8, 4, 4, 4 and 12, separated by "-".
static bool is_uuid(const char *text)
{
    size_t i = 0;
    for (; text[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return i == UUID_TEXT - 1;
}

static int check_checkpoint(const json_t *line, struct error *e)
{
    const json_t *metadata = jget(line, "metadata");
    if (!is_uuid(jget_string(line, "uuid", "")))
        return error_set(e, ERR_INVALID,
                         "uuid: expected a new UUID, which is also the name of the checkpoint's "
                         "folder in the storage");
    int err = check_integer(jget(line, "steps"), "steps", e);
    if (!err && metadata && !json_is_object(metadata))
        err = error_set(e, ERR_INVALID, "metadata: expected an object");
    if (!err && metadata && json_is_deeper_than(metadata, LIMIT_JSON_DEPTH - 1))
        err = error_set(e, ERR_INVALID, "metadata: more than %d levels of objects and lists",
                        LIMIT_JSON_DEPTH - 1);
    err = err ? err : check_resources(jget(line, "resources"), e);
    return err ? err : check_integer(jget(line, "time"), "time", e);
}

static int check_metadata(const json_t *line, struct error *e)
{
    return run_metadata_check(jget(line, "metadata"), e);
}

static int check_media(const json_t *line, struct error *e)
{
    const json_t *items = jget(line, "items");
    size_t i;
    json_t *item;
    if (json_array_size(items) == 0 || json_array_size(items) > LIMIT_MEDIA_PER_LINE)
        return error_set(e, ERR_INVALID, "items: expected a list of 1 to %d objects",
                         LIMIT_MEDIA_PER_LINE);
    json_array_foreach(items, i, item)
    {
        struct media_item unused;
        struct error why = {0};
        if (media_item_read(item, 0, &unused, &why) != 0)
            return error_set(e, ERR_INVALID, "items[%zu]: %s", i, why.text);
    }
    return 0;
}

static int check_exited(const json_t *line, struct error *e)
{
    static const char *const reasons[] = {"INVALID_HP", "USER_REQUESTED_STOP", NULL};
    int err = check_word(jget(line, "reason"), "reason", reasons, e);
    if (!err && jget(line, "text"))
        err = check_text(jget(line, "text"), "text", LIMIT_EXIT_TEXT, e);
    return err;
}

static int check_failure(const json_t *line, struct error *e)
{
    static const char *const texts[] = {"place", "traceback"};
    int err = check_integer(jget(line, "rank"), "rank", e);
    err = err ? err : check_text(jget(line, "text"), "text", LIMIT_REPORT_LINE, e);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !err; i++)
        if (jget(line, texts[i]) && !json_is_string(jget(line, texts[i])))
            err = error_set(e, ERR_INVALID, "%s: expected a text", texts[i]);
    return err;
}

static const struct {
    const char *name;
    int (*check)(const json_t *line, struct error *e);
} kinds[REPORT_KINDS + 1] = {
    [REPORT_METRICS] = {"metrics", check_metrics},
    [REPORT_PROGRESS] = {"progress", check_progress},
    [REPORT_CHECKPOINT] = {"checkpoint", check_checkpoint},
    [REPORT_METADATA] = {"metadata", check_metadata},
    [REPORT_MEDIA] = {"media", check_media},
    [REPORT_EXITED] = {"exited", check_exited},
    [REPORT_FAILURE] = {"failure", check_failure},
};

static enum report_kind kind_of(const json_t *line)
{
    const char *name = jget_string(line, "kind", "");
    size_t kind = 0;
    while (kind < REPORT_KINDS && strcmp(kinds[kind].name, name) != 0)
        kind++;
    return kind;
}

int report_check(const json_t *line, enum report_kind *kind, struct error *e)
{
    if (!json_is_object(line))
        return error_set(e, ERR_INVALID, "expected a JSON object on each line");
    *kind = kind_of(line);
    if (*kind == REPORT_KINDS)
        return error_set(e, ERR_INVALID,
                         "kind: expected metrics, progress, checkpoint, metadata, media, exited or "
                         "failure");
    return kinds[*kind].check(line, e);
}
