// Prints the results: as a table with one column for each policy, or as one JSON object.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help/help.h"
#include "cli/output/output.h"
#include "cli/simulate/simulate.h"

enum { TEAMS_SHOWN = 24 };

static const double hour = 3600;

// Rounds to three decimals, which is more than the precision of these results.
static json_t *rounded(double value)
{
    return isnan(value) ? json_null() : json_real(round(value * 1000) / 1000);
}

// --- one policy as an object ---------------------------------------------------------------------

static json_t *spread_object(const struct simulate_spread *s, double unit)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)s->count, "mean",
                     rounded(s->mean / unit), "median", rounded(s->p50 / unit), "p99",
                     rounded(s->p99 / unit), "max", rounded(s->max / unit));
}

static json_t *team_object(const struct simulate_team_figures *t)
{
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "team", t->name, "jobs", (json_int_t)t->jobs,
                     "slotHours", rounded(t->slot_hours), "waitMeanHours",
                     rounded(t->mean_wait / hour), "share", rounded(t->share), "shareAtDays",
                     rounded(t->share_at / (24 * hour)));
}

static void set_member(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void set_timing(json_t *o, const struct simulate_result *r)
{
    const struct simulate_figures *f = &r->figures;
    set_member(o, "decisionMs", spread_object(&f->decision, 1e-3));
    set_member(o, "seconds", rounded(r->seconds));
    set_member(o, "eventsPerSecond", rounded((double)f->events / r->seconds));
}

static json_t *result_object(const struct simulate_result *r, bool timing)
{
    const struct simulate_figures *f = &r->figures;
    json_t *o = json_pack("{s:s, s:s, s:I, s:I}", "label", r->label, "policy",
                          sched_policy_names[r->policy], "nodes", (json_int_t)r->nodes, "slots",
                          (json_int_t)f->slots);
    set_member(o, "jobs", json_integer((json_int_t)f->jobs));
    set_member(o, "tooLarge", json_integer((json_int_t)f->too_large));
    set_member(o, "neverStarted", json_integer((json_int_t)f->stuck));
    set_member(o, "completionHours", spread_object(&f->completion, hour));
    set_member(o, "boundedSlowdown", rounded(f->slowdown));
    json_t *waits = json_object();
    for (int i = 0; i < SIMULATE_CLASSES; i++)
        set_member(waits, simulate_class_names[i], spread_object(&f->wait[i], hour));
    set_member(o, "waitHours", waits);
    set_member(o, "useWhileSubmitting", rounded(f->use_window));
    set_member(o, "use", rounded(f->use_makespan));
    set_member(o, "makespanHours", rounded(f->makespan / hour));
    set_member(o, "preemptions", json_integer((json_int_t)f->preemptions));
    set_member(o, "resizes", json_integer((json_int_t)f->resizes));
    set_member(o, "moves", json_integer((json_int_t)f->moves));
    set_member(o, "starts", json_integer((json_int_t)f->starts));
    set_member(o, "decisions", json_integer((json_int_t)f->decisions));
    set_member(o, "events", json_integer((json_int_t)f->events));
    set_member(o, "worstShare", rounded(f->share));
    json_t *teams = json_array();
    for (size_t i = 0; i < f->team_count; i++)
        json_array_append_new(teams, team_object(&f->teams[i]));
    set_member(o, "teams", teams);
    if (timing)
        set_timing(o, r);
    return o;
}

// --- the table -----------------------------------------------------------------------------------

// The rows of the table: name, and path of the value in the object of a policy.
static const struct measure {
    const char *name, *path;
    bool timing; // only with --timing
} measures[] = {
    {"jobs that ended", "jobs", false},
    {"too large, left out", "tooLarge", false},
    {"never started", "neverStarted", false},
    {"completion, mean (h)", "completionHours.mean", false},
    {"completion, median (h)", "completionHours.median", false},
    {"completion, 99 % (h)", "completionHours.p99", false},
    {"bounded slowdown", "boundedSlowdown", false},
    {"wait, 1 slot: mean (h)", "waitHours.1.mean", false},
    {"wait, 1 slot: 99 % (h)", "waitHours.1.p99", false},
    {"wait, 1 slot: longest (h)", "waitHours.1.max", false},
    {"wait, 2-4 slots: mean (h)", "waitHours.2-4.mean", false},
    {"wait, 2-4 slots: 99 % (h)", "waitHours.2-4.p99", false},
    {"wait, 2-4 slots: longest (h)", "waitHours.2-4.max", false},
    {"wait, 5-8 slots: mean (h)", "waitHours.5-8.mean", false},
    {"wait, 5-8 slots: 99 % (h)", "waitHours.5-8.p99", false},
    {"wait, 5-8 slots: longest (h)", "waitHours.5-8.max", false},
    {"wait, 9+ slots: mean (h)", "waitHours.9+.mean", false},
    {"wait, 9+ slots: 99 % (h)", "waitHours.9+.p99", false},
    {"wait, 9+ slots: longest (h)", "waitHours.9+.max", false},
    {"use during submission", "useWhileSubmitting", false},
    {"use to the end", "use", false},
    {"makespan (h)", "makespanHours", false},
    {"preemptions", "preemptions", false},
    {"resizes", "resizes", false},
    {"moves", "moves", false},
    {"worst share of a team", "worstShare", false},
    {"decisions", "decisions", true},
    {"decision, median (ms)", "decisionMs.median", true},
    {"decision, 99 % (ms)", "decisionMs.p99", true},
    {"decision, longest (ms)", "decisionMs.max", true},
    {"simulated in (s)", "seconds", true},
    {"events/s", "eventsPerSecond", true},
};

// Like jget_path(); no key here contains a dot.
static const json_t *value_at_path(const json_t *object, const char *path)
{
    while (object && *path) {
        size_t len = strcspn(path, ".");
        object = json_object_getn(object, path, len);
        path += len + (path[len] == '.');
    }
    return object;
}

static json_t *measure_rows(const json_t *results, bool timing)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        if (measures[i].timing && !timing)
            continue;
        json_t *row = json_pack("{s:s}", "measure", measures[i].name);
        size_t k;
        json_t *result;
        json_array_foreach(results, k, result)
        {
            const json_t *value = value_at_path(result, measures[i].path);
            set_member(row, json_string_value(json_object_get(result, "label")),
                       value ? json_incref((json_t *)value) : json_null());
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

static int compare_slot_hours(const void *a, const void *b)
{
    const struct simulate_team_figures *const *x = a, *const *y = b;
    return ((*x)->slot_hours < (*y)->slot_hours) - ((*x)->slot_hours > (*y)->slot_hours);
}

// The teams with the most work in the first result; the work is the same in all.
static json_t *team_rows(const struct simulate_result *results, size_t count)
{
    const struct simulate_figures *first = &results[0].figures;
    const struct simulate_team_figures **order = xcalloc(first->team_count + 1, sizeof *order);
    for (size_t i = 0; i < first->team_count; i++)
        order[i] = &first->teams[i];
    qsort(order, first->team_count, sizeof *order, compare_slot_hours);
    json_t *rows = json_array();
    for (size_t i = 0; i < first->team_count && i < TEAMS_SHOWN; i++) {
        size_t at = (size_t)(order[i] - first->teams);
        json_t *row =
            json_pack("{s:s, s:I, s:o}", "team", order[i]->name, "jobs", (json_int_t)order[i]->jobs,
                      "slot-hours", json_real(round(order[i]->slot_hours)));
        for (size_t k = 0; k < count; k++) {
            const struct simulate_team_figures *t = &results[k].figures.teams[at];
            char key[64];
            snprintf(key, sizeof key, "wait (h), %s", results[k].label);
            set_member(row, key, rounded(t->mean_wait / hour));
            snprintf(key, sizeof key, "share, %s", results[k].label);
            set_member(row, key, rounded(t->share));
        }
        json_array_append_new(rows, row);
    }
    free(order);
    return rows;
}

static void print_rows(json_t *rows, char **columns, size_t count)
{
    struct buf out;
    buf_init(&out, 1 << 24);
    output_table(rows, columns, count, &out);
    fputs(buf_str(&out), stdout);
    buf_free(&out);
    json_decref(rows);
}

static void print_teams(const struct simulate_result *results, size_t count)
{
    char *columns[3 + 2 * SIMULATE_RESULTS_MAX] = {"team", "jobs", "slot-hours"};
    size_t n = 3, all = results[0].figures.team_count;
    for (int what = 0; what < 2; what++)
        for (size_t k = 0; k < count; k++)
            columns[n++] = xasprintf("%s, %s", what ? "share" : "wait (h)", results[k].label);
    putchar('\n');
    print_rows(team_rows(results, count), columns, n);
    if (all > TEAMS_SHOWN)
        printf("and %zu teams with less work (-o json shows all)\n", all - TEAMS_SHOWN);
    for (size_t i = 3; i < n; i++)
        free(columns[i]);
}

// --- output -----------------------------------------------------------------------------------

static void print_count(size_t count, const char *noun, const char *what)
{
    if (count)
        printf("%zu %s%s %s\n", count, noun, count == 1 ? "" : "s", what);
}

static void print_head(const struct simulate_input *in, const struct simulate_result *first)
{
    const struct cluster_history *h = &in->history;
    printf("jobs %zu, nodes %zu, slots %lld; a preemption costs %g s", h->trace.job_count,
           h->node_count, (long long)first->figures.slots, in->preempt_cost);
    if (in->drain > 0)
        printf(" after a drain of %g s", in->drain);
    putchar('\n');
    print_count(h->trace.outside, "job", "outside the window");
    print_count(h->trace.no_slots, "job", "without slots left out");
    print_count(first->figures.too_large, "job",
                "left out: larger than the cluster or than a team's maximum");
    print_count(h->unfinished, "job", "still running, simulated with the duration so far");
    print_count(h->unstarted, "trial", "left out because it never ran");
    putchar('\n');
}

static void print_tables(const struct simulate_input *in, const struct simulate_result *results,
                         size_t count, const json_t *objects, bool timing)
{
    char *columns[1 + SIMULATE_RESULTS_MAX] = {"measure"};
    for (size_t i = 0; i < count; i++)
        columns[1 + i] = (char *)results[i].label;
    print_head(in, &results[0]);
    print_rows(measure_rows(objects, timing), columns, count + 1);
    print_teams(results, count);
}

static json_t *all_object(const struct simulate_input *in, json_t *objects)
{
    const struct cluster_history *h = &in->history;
    json_t *all =
        json_pack("{s:s, s:I}", "trace", in->name, "jobs", (json_int_t)h->trace.job_count);
    set_member(all, "outsideOfWindow", json_integer((json_int_t)h->trace.outside));
    set_member(all, "withoutSlots", json_integer((json_int_t)h->trace.no_slots));
    set_member(all, "unfinished", json_integer((json_int_t)h->unfinished));
    set_member(all, "unstarted", json_integer((json_int_t)h->unstarted));
    set_member(all, "preemptCostSeconds", json_real(in->preempt_cost));
    set_member(all, "drainSeconds", json_real(in->drain));
    set_member(all, "results", json_incref(objects));
    return all;
}

int simulate_print(struct cli *c, const struct simulate_input *in,
                   const struct simulate_result *results, size_t count, struct error *e)
{
    bool timing = c->options.timing;
    json_t *objects = json_array();
    int err = 0;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(objects, result_object(&results[i], timing));
    if (c->format == OUTPUT_TABLE) {
        print_tables(in, results, count, objects, timing);
    } else if (c->format == OUTPUT_JSON) {
        json_t *all = all_object(in, objects);
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
        putchar('\n');
        json_decref(all);
    } else if (c->format == OUTPUT_JSONL) {
        err = output_rows(c, objects, "label", e);
    } else {
        struct buf columns;
        buf_init(&columns, 4096);
        buf_puts(&columns, "measure");
        for (size_t i = 0; i < count; i++)
            buf_printf(&columns, ",%s", results[i].label);
        json_t *rows = measure_rows(objects, timing);
        err = output_rows(c, rows, buf_str(&columns), e);
        json_decref(rows);
        buf_free(&columns);
    }
    json_decref(objects);
    return err;
}

void help_figures(FILE *out)
{
    fputs(
        "\nMeaning of the results:\n"
        "  completion        time from a job's submission to its end\n"
        "  bounded slowdown  mean of max(1, completion / max(duration, 10 s))\n"
        "  wait              completion minus duration; includes the cost of preemptions and of "
        "running\n"
        "                    on fewer slots than requested\n"
        "  use               slots that do work / all slots; the cost of preemptions is no work\n"
        "  share             of a team in its worst 24 hours in which it always had jobs "
        "waiting:\n"
        "                    slots held / slots entitled to (guarantees first, the rest by\n"
        "                    weight, no team more than it wants); empty: there were no such hours\n"
        "  preemptions       preempted trials; resizes and moves are counted separately\n"
        "  priority, fair_share, fifo: the master's schedulers, which do not know durations;\n"
        "  easy: FIFO with EASY backfill, with exact durations, for comparison\n",
        out);
}
