// Shows what a search would do before anything runs: its trials, their hyperparameters, and for how
// long they train. The master simulates it by the searcher's own code.
#include <stdio.h>
#include <stdlib.h>

#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/values.h"
#include "cli/output/output.h"
#include "cli/output/search_table.h"

enum { SHOWN = 20 }; // trials without --limit

static json_t *preview_body(struct cli *c, const char *yaml)
{
    json_t *body = json_pack("{s:s}", "config", yaml);
    if (c->options.template)
        json_object_set_new(body, "template", json_string(c->options.template));
    if (c->options.project_id > 0)
        json_object_set_new(body, "projectId", json_integer(c->options.project_id));
    return body;
}

// A length of training with commas: "38,400".
static const char *length_text(struct cli *c, double length)
{
    char digits[40];
    const char *out = "";
    int n = snprintf(digits, sizeof digits, "%.0f", length);
    for (int i = 0; i < n; i++)
        out = arena_printf(&c->arena, "%s%s%c", out, i && (n - i) % 3 == 0 ? "," : "", digits[i]);
    return out;
}

static const char *hours_text(struct cli *c, double seconds)
{
    double hours = seconds / 3600;
    return arena_printf(&c->arena, hours >= 10 ? "%.0f" : hours >= 1 ? "%.1f" : "%.2g", hours);
}

// --- the summary ---------------------------------------------------------------------------------

static void print_time(struct cli *c, const json_t *p, double step_seconds)
{
    double slots = jget_double(p, "slotsPerTrial", 1), most = jget_double(p, "mostTime", 0);
    double typical = jget_double(p, "typicalTime", 0),
           elapsed = jget_double(p, "typicalElapsed", 0);
    const char *unit = jget_string(p, "unit", "");
    if (!jget(p, "length")) {
        printf("Training: the file does not say how long a trial trains (searcher.max_length)\n");
        return;
    }
    if (!jget(p, "mostTime")) {
        printf("Training: each trial at most %s %s\n", length_text(c, jget_double(p, "length", 0)),
               unit);
        return;
    }
    printf("Training: at most %zu x %s = %s %s", json_array_size(jget(p, "trials")),
           length_text(c, jget_double(p, "length", 0)), length_text(c, most), unit);
    if (typical < most)
        printf("; typically %s (%.0f %%)", length_text(c, typical), 100 * typical / most);
    printf("\nDuration: typically that of %s %s, if all trials get their slots at once\n",
           length_text(c, elapsed), unit);
    if (step_seconds > 0 && slots > 0)
        printf("Slot-hours: at most %s; typically %s, in %s hours on %.0f slots\n",
               hours_text(c, most * slots * step_seconds),
               hours_text(c, typical * slots * step_seconds), hours_text(c, elapsed * step_seconds),
               slots * jget_double(p, "concurrent", 1));
}

static void print_seed(const json_t *p)
{
    long long seed = jget_int(p, "seed", 0);
    if (jget_bool(p, "seedGiven", false))
        printf("Seed: %lld\n", seed);
    else
        printf("Seed: drawn at submission; to get the values below, add "
               "--config reproducibility.experiment_seed=%lld\n",
               seed);
}

static void print_summary(struct cli *c, const json_t *p, double step_seconds)
{
    size_t trials = json_array_size(jget(p, "trials"));
    long long slots = (long long)jget_int(p, "slotsPerTrial", 1);
    printf("Searcher: %s; %s %s is better\n", jget_string(p, "method", ""),
           jget_bool(p, "smallerIsBetter", true) ? "a smaller" : "a larger",
           jget_string(p, "metric", ""));
    printf("Trials: %s%zu, at most %lld at a time, %lld slot%s each\n",
           jget_bool(p, "complete", false) ? "" : "more than ", trials,
           (long long)jget_int(p, "concurrent", 1), slots, slots == 1 ? "" : "s");
    print_time(c, p, step_seconds);
    print_seed(p);
}

// --- rungs and trials ----------------------------------------------------------------------------

// Prints the rungs of all brackets, with the number of trials that typically reach each.
static int print_rungs(struct cli *c, const json_t *p, struct error *e)
{
    json_t *rows = json_array(), *bracket, *rung;
    size_t i, r;
    json_array_foreach(jget(p, "brackets"), i, bracket)
    {
        json_array_foreach(jget(bracket, "rungs"), r, rung)
        {
            json_array_append_new(
                rows, json_pack("{s:I, s:I, s:I, s:I, s:f, s:I}", "bracket", (json_int_t)i + 1,
                                "trials", (json_int_t)jget_int(bracket, "trials", 0), "concurrent",
                                (json_int_t)jget_int(bracket, "concurrent", 0), "rung",
                                (json_int_t)r + 1, "at", jget_double(rung, "time", 0), "reached",
                                (json_int_t)jget_int(rung, "reached", 0)));
        }
    }
    int err = 0;
    if (json_array_size(rows)) {
        printf("\nRungs (at: %s; reached: by that many trials, typically)\n",
               jget_string(p, "unit", ""));
        err = output_rows(c, rows, "bracket,trials,concurrent,rung,at,reached", e);
    }
    json_decref(rows);
    return err;
}

// The number of trials whose values are certain; they come first.
static size_t count_certain(const json_t *trials)
{
    size_t count = 0;
    while (jget_bool(json_array_get(trials, count), "certain", false))
        count++;
    return count;
}

// The rows of the first trials.
static json_t *trial_rows(const json_t *trials, size_t count)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        const json_t *trial = json_array_get(trials, i);
        json_array_append_new(rows, json_pack("{s:O?, s:O?, s:O?}", "trial", jget(trial, "number"),
                                              "hparams", jget(trial, "hparams"), "seed",
                                              jget(trial, "seed")));
    }
    return rows;
}

static int print_trials(struct cli *c, const json_t *p, struct error *e)
{
    size_t most = c->options.limit > 0 ? (size_t)c->options.limit : SHOWN;
    size_t all = json_array_size(jget(p, "trials")), certain = count_certain(jget(p, "trials"));
    size_t shown = certain < most ? certain : most;
    json_t *rows = trial_rows(jget(p, "trials"), shown);
    if (certain < all)
        printf("\nTrials 1 to %zu are drawn at random; the values of the other %zu depend on "
               "results\n",
               certain, all - certain);
    else
        printf("\nTrials\n");
    int err = output_rows(c, rows, search_hparam_columns(rows, "trial", &c->arena), e);
    if (!err && shown < certain)
        printf("(%zu more; show them with --limit %zu)\n", certain - shown, certain);
    json_decref(rows);
    return err;
}

static int read_step_time(struct cli *c, double *out, struct error *e)
{
    *out = 0;
    return c->options.step_time ? cli_number("--step-time", c->options.step_time, out, e) : 0;
}

int run_experiment_preview(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    char *yaml = NULL;
    double step_seconds;
    json_t *answer = NULL;
    int err = read_step_time(c, &step_seconds, e);
    err = err ? err : config_load(c, c->args[0], &yaml, NULL, e);
    if (!err) {
        json_t *body = preview_body(c, yaml);
        err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments/preview");
        json_decref(body);
    }
    if (!err && c->format != OUTPUT_TABLE)
        err = c->options.columns || c->format != OUTPUT_JSON
                  ? output_rows(c, jget(answer, "trials"),
                                "number,seed,certain,typicalTime,hparams", e)
                  : output_object(c, answer, "method", e);
    if (!err && c->format == OUTPUT_TABLE) {
        print_warnings(answer);
        print_summary(c, answer, step_seconds);
        err = print_rungs(c, answer, e);
        err = err ? err : print_trials(c, answer, e);
    }
    json_decref(answer);
    free(yaml);
    return err;
}
