#include "cli/import/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"

// --- fields --------------------------------------------------------------------------------------

json_t *record_new(const char *kind, const char *old)
{
    return json_pack("{s:s, s:s}", "kind", kind, "old", old ? old : "");
}

void record_text(json_t *record, const char *key, const char *text)
{
    if (text && *text != '\0' && json_is_utf8(text))
        json_object_set_new(record, key, json_string(text));
}

const char *source_time(const char *time, char out[SOURCE_TIME_MAX])
{
    out[0] = '\0';
    if (!time || strlen(time) > SOURCE_TIME_MAX - 8)
        return out;
    const char *zone = strpbrk(time + strcspn(time, "T "), "+-Z");
    const char *more = !zone               ? "Z"   // a column without a zone holds UTC
                       : strlen(zone) == 3 ? ":00" // PostgreSQL leaves out the minutes of the zone
                                           : "";
    snprintf(out, SOURCE_TIME_MAX, "%s%s", time, more);
    char *blank = strchr(out, ' ');
    if (blank)
        *blank = 'T';
    return out;
}

void record_time(json_t *record, const char *key, const char *time)
{
    char text[SOURCE_TIME_MAX];
    record_text(record, key, source_time(time, text));
}

int64_t source_time_us(const char *time)
{
    char text[SOURCE_TIME_MAX];
    int64_t us;
    return clock_parse(source_time(time, text), &us) ? 0 : us;
}

void record_end(json_t *record, const char *end, int64_t activity)
{
    char text[CLOCK_RFC3339_MAX];
    if (end)
        record_time(record, "endTime", end);
    else if (activity)
        record_text(record, "endTime", clock_format(activity, text));
}

void record_json(json_t *record, const char *key, const json_t *value)
{
    if (value && !json_is_null(value))
        json_object_set(record, key, (json_t *)value);
}

bool record_state(json_t *record, const char *state)
{
    static const char *const ended[] = {"COMPLETED", "CANCELED", "ERROR"};
    if (!state)
        state = "";
    if (strncmp(state, "STATE_", 6) == 0)
        state += 6;
    if (strncmp(state, "DELET", 5) == 0)
        return false;
    const char *word = NULL;
    for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++)
        if (strcmp(ended[i], state) == 0)
            word = ended[i];
    json_object_set_new(record, "state", json_string(word ? word : "CANCELED"));
    json_object_set_new(record, "open", json_boolean(!word));
    return true;
}

// --- experiments ---------------------------------------------------------------------------------

// Determined's complete configuration, checked and completed here; if that fails, it stays as it is
// and can only be looked at.
static json_t *convert_config(struct importer *m, const json_t *config, bool unmanaged,
                              const char *old)
{
    struct yaml_doc doc = {0};
    struct error e;
    char *text = json_text(config);
    int err = yaml_parse(text, strlen(text), "config", &doc, &e);
    err = err ? err : unmanaged ? expconf_finish_detached(&doc, &e) : expconf_finish(&doc, &e);
    json_t *out = json_incref(err ? (json_t *)config : doc.root);
    if (err) {
        importer_note(m, "experiments came with a configuration that Muster does not accept: to "
                         "be looked at, not to be continued");
        importer_remark(m, "configuration of experiment %s: %.200s", old, e.text);
    }
    yaml_doc_free(&doc);
    free(text);
    return out;
}

static void set_notes(struct importer *m, json_t *record, const struct source_experiment *from)
{
    char *text = xstrdup(from->notes ? from->notes : "");
    const char *old = jget_string(record, "old", "");
    if (!importer_keeps_id(m, strtoll(old, NULL, 10))) {
        importer_note(m, "experiments got a new id; the notes of each name the old one");
        char *more = xasprintf("%s%sImported: it was experiment %s of the Determined cluster %s.",
                               text, *text ? "\n\n" : "", old, from->cluster);
        free(text);
        text = more;
    }
    if (jget_bool(record, "open", false)) {
        char *more = xasprintf("%s%sIt had not ended in Determined when it was imported.", text,
                               *text ? "\n\n" : "");
        free(text);
        text = more;
        importer_note(m, "experiments had not ended in Determined: imported as canceled with the "
                         "last known activity as the end; a later import brings the real end");
    }
    record_text(record, "notes", text);
    free(text);
}

void record_experiment(struct importer *m, json_t *record, const struct source_experiment *from)
{
    json_t *config =
        convert_config(m, from->config, from->unmanaged, jget_string(record, "old", ""));
    record_text(record, "name", jget_string(config, "name", ""));
    record_text(record, "description", jget_string(config, "description", ""));
    if (json_is_array(jget(config, "labels")))
        record_json(record, "labels", jget(config, "labels"));
    json_object_set_new(
        record, "seed",
        json_integer(jget_int(jget(config, "reproducibility"), "experiment_seed", 0)));
    json_object_set_new(record, "unmanaged", json_boolean(from->unmanaged));
    json_object_set_new(record, "config", config);
    if (from->original_config) {
        record_text(record, "originalConfig", from->original_config);
    } else {
        char *text = json_text(from->config);
        record_text(record, "originalConfig", text);
        free(text);
    }
    set_notes(m, record, from);
}

bool config_is_single(const json_t *config)
{
    return strcmp(jget_string(jget(config, "searcher"), "name", ""), "single") == 0;
}

// --- metrics -------------------------------------------------------------------------------------

const json_t *report_values(const json_t *metrics)
{
    const json_t *values = json_object_get(metrics, "avg_metrics");
    if (!json_is_object(values))
        values = json_object_get(metrics, "validation_metrics");
    return json_is_object(values) ? values : NULL;
}

json_t *report_workload(const json_t *values, int64_t steps, const char *time)
{
    json_t *workload =
        json_pack("{s:{s:O}, s:i, s:I}", "metrics", "avgMetrics", (json_t *)values, "numInputs", 0,
                  "totalBatches", (json_int_t)(steps < 0 ? 0 : steps));
    record_time(workload, "endTime", time);
    return workload;
}

json_t *summary_of(const json_t *summary_metrics)
{
    json_t *out = json_object(), *group, *metric;
    const char *key, *name;
    json_object_foreach((json_t *)summary_metrics, key, group)
    {
        json_object_foreach(group, name, metric)
        {
            if (!json_is_number(json_object_get(metric, "last")) ||
                jget_int(metric, "count", 0) < 1)
                continue;
            if (!json_object_get(out, key))
                json_object_set_new(out, key, json_object());
            json_object_set(json_object_get(out, key), name, metric);
        }
    }
    return out;
}
