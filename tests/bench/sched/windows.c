// One run of the simulator with chosen rules, for `crossvalidate`: the jobs of a trace (CSV on
// standard input) that were submitted in a span of days, on nodes with 8 slots. Prints one JSON
// object. The same input gives the same output.
//
//   bench_sched_windows POLICY FROM_DAY TO_DAY NODES [RULE=VALUE ...] < trace.csv
//
// A rule is a member of struct sched_rules: times in hours, levels in slot-hours.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "simulate/simulate.h"
#include "simulate/trace.h"

enum { NODE_SLOTS = 8, NODES_MAX = 1024, TEXT_MAX = 64 << 20 };
static const int64_t preempt_cost = 60 * SIMULATE_SECOND;
static const double hour_s = 3600;

static _Noreturn void fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench_sched_windows: %s: %s\n", what, detail);
    exit(2);
}

static char *read_all(size_t *len)
{
    char *text = xcalloc(1, TEXT_MAX);
    *len = fread(text, 1, TEXT_MAX, stdin);
    if (*len == TEXT_MAX)
        fail("standard input", "more than 64 MiB");
    return text;
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0)
        fail("not a number", text);
    return value;
}

static int64_t hours(double value)
{
    return (int64_t)llround(value * hour_s * SIMULATE_SECOND);
}

static void set_rule(struct sched_rules *rules, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : 0;
    struct {
        const char *name;
        int64_t *time;
        int *percent;
    } known[] = {
        {"level1", &rules->levels[0], NULL},
        {"level2", &rules->levels[1], NULL},
        {"level3", &rules->levels[2], NULL},
        {"shortest", &rules->min_runtime, NULL},
        {"overdue_large", &rules->overdue_large, NULL},
        {"overdue", &rules->overdue, NULL},
        {"overdue_percent", NULL, &rules->overdue_percent},
        {"fast_percent", NULL, &rules->fast_percent},
        {"debt_quantum", &rules->debt_quantum, NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!len || strlen(known[i].name) != len || strncmp(known[i].name, word, len) != 0)
            continue;
        if (known[i].time)
            *known[i].time = hours(number(equals + 1));
        else
            *known[i].percent = (int)number(equals + 1);
        return;
    }
    fail("no such rule", word);
}

static enum sched_policy policy_of(const char *name)
{
    for (int i = 0; i < SCHED_POLICIES; i++)
        if (strcmp(sched_policy_names[i], name) == 0)
            return (enum sched_policy)i;
    fail("no policy", name);
}

static void print(const struct simulate_figures *f)
{
    const struct simulate_spread *large = &f->wait[SIMULATE_CLASSES - 1];
    printf("{\"jobs\": %zu, \"stuck\": %zu, \"completion_h\": %.6g, \"slowdown\": %.6g, ", f->jobs,
           f->stuck, f->completion.mean / hour_s, f->slowdown);
    printf("\"wait9_p99_h\": %.6g, \"wait9_jobs\": %zu, \"use\": %.6g, ", large->p99 / hour_s,
           large->count, f->use_window);
    if (isnan(f->share))
        printf("\"worst_share\": null, ");
    else
        printf("\"worst_share\": %.6g, ", f->share);
    printf("\"preemptions\": %zu, \"starts\": %zu, \"decisions\": %zu, \"teams\": [",
           f->preemptions, f->starts, f->decisions);
    for (size_t i = 0; i < f->team_count; i++) {
        const struct simulate_team_figures *t = &f->teams[i];
        printf("%s{\"name\": \"%s\", \"jobs\": %zu, \"slot_h\": %.6g, \"wait_h\": %.6g, ",
               i ? ", " : "", t->name, t->jobs, t->slot_hours, t->mean_wait / hour_s);
        if (isnan(t->share))
            printf("\"share\": null}");
        else
            printf("\"share\": %.6g, \"share_at_h\": %.6g}", t->share, t->share_at / hour_s);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    if (argc < 5)
        fail("usage", "POLICY FROM_DAY TO_DAY NODES [RULE=VALUE ...] < trace.csv");
    struct simulate_options options = {.policy = policy_of(argv[1]), .preempt_cost = preempt_cost};
    struct sched_rules rules = sched_default_rules;
    struct simulate_node nodes[NODES_MAX];
    double count = number(argv[4]);
    if (count < 1 || count > NODES_MAX)
        fail("nodes", argv[4]);
    for (int i = 0; i < (int)count; i++)
        nodes[i] = (struct simulate_node){NODE_SLOTS, SCHED_NONE};
    for (int i = 5; i < argc; i++)
        set_rule(&rules, argv[i]);
    options.rules = &rules;
    struct trace trace = {0};
    struct simulate_figures figures = {0};
    struct error e = {0};
    size_t len;
    char *text = read_all(&len);
    int err = trace_read_jobs(&trace, text, len, "standard input", 24 * hours(number(argv[2])),
                              24 * hours(number(argv[3])), &e);
    struct simulate_trace view = trace_view(&trace);
    err = err ? err : simulate(&view, nodes, (size_t)count, &options, &figures, &e);
    if (err)
        fail("failed", e.text);
    print(&figures);
    simulate_figures_free(&figures);
    trace_free(&trace);
    free(text);
    return 0;
}
