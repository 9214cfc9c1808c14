// The figures as rows, one policy a column, for people; as one object for programs.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help/help.h"
#include "cli/output/output.h"
#include "cli/simulate/simulate.h"

enum { TEAMS_SHOWN = 24 };

static const double hour = 3600;

// Three decimals are more than these figures mean, and steady to compare.
static json_t *number(double value)
{
    return isnan(value) ? json_null() : json_real(round(value * 1000) / 1000);
}

// --- one policy as an object ---------------------------------------------------------------------

static json_t *spread_object(const struct simulate_spread *s, double unit)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)s->count, "mean",
                     number(s->mean / unit), "median", number(s->p50 / unit), "p99",
                     number(s->p99 / unit), "max", number(s->max / unit));
}

static json_t *team_object(const struct simulate_team_figures *t)
{
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "team", t->name, "jobs", (json_int_t)t->jobs,
                     "slotHours", number(t->slot_hours), "waitMeanHours",
                     number(t->mean_wait / hour), "share", number(t->share), "shareAtDays",
                     number(t->share_at / (24 * hour)));
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void put_timing(json_t *o, const struct simulate_result *r)
{
    const struct simulate_figures *f = &r->figures;
    put(o, "decisionMs", spread_object(&f->decision, 1e-3));
    put(o, "seconds", number(r->seconds));
    put(o, "eventsPerSecond", number((double)f->events / r->seconds));
}

static json_t *result_object(const struct simulate_result *r, bool timing)
{
    const struct simulate_figures *f = &r->figures;
    json_t *o = json_pack("{s:s, s:s, s:I, s:I}", "label", r->label, "policy",
                          sched_policy_names[r->policy], "nodes", (json_int_t)r->nodes, "slots",
                          (json_int_t)f->slots);
    put(o, "jobs", json_integer((json_int_t)f->jobs));
    put(o, "tooLarge", json_integer((json_int_t)f->too_large));
    put(o, "neverStarted", json_integer((json_int_t)f->stuck));
    put(o, "completionHours", spread_object(&f->completion, hour));
    put(o, "boundedSlowdown", number(f->slowdown));
    json_t *waits = json_object();
    for (int i = 0; i < SIMULATE_CLASSES; i++)
        put(waits, simulate_class_names[i], spread_object(&f->wait[i], hour));
    put(o, "waitHours", waits);
    put(o, "useWhileSubmitting", number(f->use_window));
    put(o, "use", number(f->use_makespan));
    put(o, "makespanHours", number(f->makespan / hour));
    put(o, "preemptions", json_integer((json_int_t)f->preemptions));
    put(o, "resizes", json_integer((json_int_t)f->resizes));
    put(o, "moves", json_integer((json_int_t)f->moves));
    put(o, "starts", json_integer((json_int_t)f->starts));
    put(o, "decisions", json_integer((json_int_t)f->decisions));
    put(o, "events", json_integer((json_int_t)f->events));
    put(o, "worstShare", number(f->share));
    json_t *teams = json_array();
    for (size_t i = 0; i < f->team_count; i++)
        json_array_append_new(teams, team_object(&f->teams[i]));
    put(o, "teams", teams);
    if (timing)
        put_timing(o, r);
    return o;
}

// --- the table -----------------------------------------------------------------------------------

// What a row is made of; "{}" in its name stands for the class of jobs.
static const struct measure {
    const char *name, *path;
    bool timing; // only with --timing
} measures[] = {
    {"jobs that ended", "jobs", false},
    {"left out, too large", "tooLarge", false},
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
    {"use while jobs came", "useWhileSubmitting", false},
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

// jget_path would take the dot of "1.5" apart, but no key here has one.
static const json_t *at_path(const json_t *object, const char *path)
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
            const json_t *value = at_path(result, measures[i].path);
            put(row, json_string_value(json_object_get(result, "label")),
                value ? json_incref((json_t *)value) : json_null());
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

static int by_slot_hours(const void *a, const void *b)
{
    const struct simulate_team_figures *const *x = a, *const *y = b;
    return ((*x)->slot_hours < (*y)->slot_hours) - ((*x)->slot_hours > (*y)->slot_hours);
}

// The teams with the most work, by the first policy's figures (the work is the same in all).
static json_t *team_rows(const struct simulate_result *results, size_t count)
{
    const struct simulate_figures *first = &results[0].figures;
    const struct simulate_team_figures **order = xcalloc(first->team_count + 1, sizeof *order);
    for (size_t i = 0; i < first->team_count; i++)
        order[i] = &first->teams[i];
    qsort(order, first->team_count, sizeof *order, by_slot_hours);
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
            put(row, key, number(t->mean_wait / hour));
            snprintf(key, sizeof key, "share, %s", results[k].label);
            put(row, key, number(t->share));
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
        printf("and %zu teams with less work (-o json has all)\n", all - TEAMS_SHOWN);
    for (size_t i = 3; i < n; i++)
        free(columns[i]);
}

// --- all of it -----------------------------------------------------------------------------------

static void print_count(size_t count, const char *noun, const char *what)
{
    if (count)
        printf("%zu %s%s %s\n", count, noun, count == 1 ? "" : "s", what);
}

static void print_head(const struct simulate_input *in, const struct simulate_result *first)
{
    const struct history *h = &in->history;
    printf("jobs %zu, nodes %zu, slots %lld; a preemption costs %g s", h->trace.job_count,
           h->node_count, (long long)first->figures.slots, in->preempt_cost);
    if (in->drain > 0)
        printf(" after a drain of %g s", in->drain);
    putchar('\n');
    print_count(h->trace.outside, "job", "more outside of the window");
    print_count(h->trace.no_slots, "job", "of no slots left out");
    print_count(first->figures.too_large, "job",
                "left out: larger than the cluster, or than a team may hold");
    print_count(h->unfinished, "job", "still running, taken as long as so far");
    print_count(h->unstarted, "trial", "left out that never ran");
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
    const struct history *h = &in->history;
    json_t *all =
        json_pack("{s:s, s:I}", "trace", in->name, "jobs", (json_int_t)h->trace.job_count);
    put(all, "outsideOfWindow", json_integer((json_int_t)h->trace.outside));
    put(all, "withoutSlots", json_integer((json_int_t)h->trace.no_slots));
    put(all, "unfinished", json_integer((json_int_t)h->unfinished));
    put(all, "unstarted", json_integer((json_int_t)h->unstarted));
    put(all, "preemptCostSeconds", json_real(in->preempt_cost));
    put(all, "drainSeconds", json_real(in->drain));
    put(all, "results", json_incref(objects));
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
        "\nWhat the figures mean:\n"
        "  completion        from a job's submission to its end\n"
        "  bounded slowdown  mean of max(1, completion / max(duration, 10 s))\n"
        "  wait              completion less duration: also what preemptions cost, and running\n"
        "                    on fewer slots than it asked for\n"
        "  use               slots that do work / all slots; paying for a preemption is no work\n"
        "  share             of a team in the worst 24 hours throughout which it had jobs "
        "waiting:\n"
        "                    slots held / slots entitled to (guarantees first, the rest by\n"
        "                    weight, nobody more than it wants); empty: there were no such hours\n"
        "  preemptions       departures for another job; resizes and moves are counted apart\n"
        "  priority, fair_share, fifo: the master's schedulers, which know no durations;\n"
        "  easy: FIFO with EASY backfill, told every duration exactly, to compare with\n",
        out);
}
