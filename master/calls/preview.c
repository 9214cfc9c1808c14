// Previews of searches: the answer of POST /experiments/preview, which stores nothing. A worker
// simulates the search by the searcher's own code.
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/submit.h"
#include "master/search/preview.h"

static json_t *describe_trials(const struct search_preview *preview)
{
    json_t *trials = json_array();
    for (size_t i = 0; i < preview->count; i++) {
        const struct preview_trial *t = &preview->trials[i];
        json_t *row =
            json_pack("{s:I, s:b}", "number", (json_int_t)t->number, "certain", t->certain);
        must(row);
        if (t->certain) { // others have example values, which would mislead
            json_object_set(row, "hparams", t->hparams);
            json_object_set_new(row, "seed", json_integer((json_int_t)t->seed));
        }
        if (preview->length > 0)
            json_object_set_new(row, "typicalTime", json_real(t->time));
        if (t->source)
            json_object_set_new(row, "sourceNumber", json_integer(t->source));
        must(!json_array_append_new(trials, row));
    }
    return trials;
}

// The rungs with the number of trials that reach each.
static json_t *describe_brackets(const struct search_preview *preview)
{
    json_t *brackets = json_array(), *bracket, *rung;
    size_t i, r;
    json_array_foreach(preview->brackets, i, bracket)
    {
        json_t *rungs = json_array();
        json_array_foreach(jget(bracket, "rungs"), r, rung)
        {
            size_t reached = json_array_size(jget(rung, "marks"));
            must(!json_array_append_new(rungs, json_pack("{s:f, s:I}", "time",
                                                         jget_double(rung, "time", 0), "reached",
                                                         (json_int_t)reached)));
        }
        must(!json_array_append_new(
            brackets, json_pack("{s:I, s:I, s:o}", "trials", jget_int(bracket, "trials", 0),
                                "concurrent", jget_int(bracket, "concurrent", 0), "rungs", rungs)));
    }
    return brackets;
}

// Describes the search as the configuration has it.
static json_t *describe_search(const struct submission *s)
{
    const json_t *searcher = jget(s->config, "searcher"), *resources = jget(s->config, "resources");
    const char *unit = search_time_metric(s->config);
    json_t *all =
        json_pack("{s:s, s:s, s:b, s:s, s:I, s:b, s:I}", "method",
                  jget_string(searcher, "name", ""), "metric", jget_string(searcher, "metric", ""),
                  "smallerIsBetter", jget_bool(searcher, "smaller_is_better", true), "unit",
                  unit ? unit : "steps", "seed", (json_int_t)s->seed, "seedGiven", s->seed_given,
                  "slotsPerTrial", (json_int_t)jget_int(resources, "slots_per_trial", 1));
    must(all);
    return all;
}

int submission_preview(struct submission *s)
{
    struct search_preview preview;
    int err = search_preview(s->config, s->seed, LIMIT_PREVIEW_TRIALS, &preview, &s->e);
    if (err)
        return err;
    json_t *all = s->preview = describe_search(s);
    json_object_set_new(all, "trials", describe_trials(&preview));
    json_object_set_new(all, "complete", json_boolean(preview.whole));
    json_object_set_new(all, "concurrent", json_integer((json_int_t)preview.most_at_once));
    json_object_set_new(all, "brackets", describe_brackets(&preview));
    if (preview.length > 0)
        json_object_set_new(all, "length", json_real(preview.length));
    if (preview.length > 0 && preview.whole) {
        json_object_set_new(all, "typicalTime", json_real(preview.time));
        json_object_set_new(all, "mostTime", json_real(preview.most_time));
        json_object_set_new(all, "typicalElapsed", json_real(preview.elapsed));
    }
    search_preview_free(&preview);
    return 0;
}
