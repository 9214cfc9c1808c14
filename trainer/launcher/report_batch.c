#include "trainer/launcher/report_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void queued_report_free(struct queued_report *r)
{
    json_decref(r->body);
    json_decref(r->metrics);
    free(r->path);
    free(r);
}

size_t report_batch_size(struct queued_report *const *reports, size_t n)
{
    size_t run = 1;
    if (reports[0]->path)
        return 1;
    while (run < n && !reports[run]->path && strcmp(reports[run]->group, reports[0]->group) == 0)
        run++;
    return run;
}

// The values of a metric so far, with null for each step that lacks it.
static json_t *metric_column(json_t *columns, const char *name, size_t steps)
{
    json_t *values = json_object_get(columns, name);
    if (!values) {
        values = json_array();
        must(json_object_set_new(columns, name, values) == 0);
    }
    while (json_array_size(values) < steps)
        must(json_array_append_new(values, json_null()) == 0);
    return values;
}

static void append_values(json_t *columns, const json_t *metrics, size_t steps)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)metrics, name, value) must(
        json_array_append_new(metric_column(columns, name, steps), json_deep_copy(value)) == 0);
}

json_t *report_batch_json(struct queued_report *const *reports, size_t n, int64_t run)
{
    json_t *steps = json_array(), *times = json_array(), *columns = json_object(), *values;
    const char *name;
    for (size_t i = 0; i < n; i++) {
        char time[CLOCK_RFC3339_MAX];
        must(json_array_append_new(steps, json_integer(reports[i]->step)) == 0);
        must(json_array_append_new(times, json_string(clock_format(reports[i]->wall_us, time))) ==
             0);
        append_values(columns, reports[i]->metrics, i);
    }
    json_object_foreach(columns, name, values) metric_column(columns, name, n);
    json_t *body = json_pack("{s:s, s:I, s:o, s:o, s:o}", "group", reports[0]->group, "trialRunId",
                             (json_int_t)run, "steps", steps, "times", times, "metrics", columns);
    must(body);
    return body;
}
