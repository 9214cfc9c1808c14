// muster simulate: reads the input, runs the scheduler over it for each policy, prints the results.
#include "cli/simulate/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/file.h"
#include "cli/commands/commands.h"
#include "cli/output/terminal.h"

enum { PLOT_MAX = 16 << 20, BAR_CELLS = 32 };

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct simulate_bar {
    const char *label;
    int64_t shown; // time of the last drawing, microseconds
};

static bool show_progress(void *ctx, double share)
{
    struct simulate_bar *bar = ctx;
    int64_t now = clock_mono_us();
    if (now - bar->shown < 100000)
        return true;
    bar->shown = now;
    int full = (int)(share * BAR_CELLS);
    char cells[BAR_CELLS + 1];
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)full);
    cells[BAR_CELLS] = '\0';
    terminal_control(stderr, "\r");
    fprintf(stderr, "%-20s [%s] %3.0f %%", bar->label, cells, share * 100);
    return true;
}

static int run_simulation(struct cli *c, const struct simulate_input *in,
                          struct simulate_result *result, struct error *e)
{
    bool has_bar = isatty(STDERR_FILENO) && !c->options.quiet;
    struct simulate_bar bar = {.label = result->label, .shown = clock_mono_us()};
    struct simulate_options options = {.policy = result->policy,
                                       .preempt_cost = llround(in->preempt_cost * SIMULATE_SECOND),
                                       .drain = llround(in->drain * SIMULATE_SECOND),
                                       .clock_ns = c->options.timing ? clock_ns : NULL,
                                       .progress = has_bar ? show_progress : NULL,
                                       .ctx = &bar};
    struct simulate_trace trace = trace_view(&in->history.trace);
    int64_t began = clock_ns();
    int err = simulate(&trace, in->history.nodes, result->nodes, &options, &result->figures, e);
    result->seconds = (double)(clock_ns() - began) / 1e9;
    if (has_bar)
        terminal_control(stderr, "\r\033[K");
    return err;
}

// Fills in one result for each policy, and with --add-nodes a second one for each.
static size_t make_results(const struct simulate_input *in, struct simulate_result *results)
{
    size_t count = 0, nodes = in->history.node_count;
    for (size_t i = 0; i < in->policy_count; i++) {
        const char *name = sched_policy_names[in->policies[i]];
        for (int more = 0; more <= (in->added > 0); more++) {
            struct simulate_result *r = &results[count++];
            *r = (struct simulate_result){.policy = in->policies[i],
                                          .nodes = nodes + (more ? in->added : 0)};
            if (more)
                snprintf(r->label, sizeof r->label, "%s +%zu nodes", name, in->added);
            else
                snprintf(r->label, sizeof r->label, "%s", name);
        }
    }
    return count;
}

static int write_plot(const char *path, const struct simulate_input *in,
                      const struct simulate_result *results, size_t count, struct error *e)
{
    struct buf svg;
    buf_init(&svg, PLOT_MAX);
    simulate_plot(in->name, results, count, &svg);
    int err = svg.err ? error_set(e, ERR_TOO_LARGE, "%s: the plot is too large", path)
                      : file_write_durable(path, svg.data, svg.len, 0644, e);
    buf_free(&svg);
    return err;
}

// Checks --plot first, so that no long simulation is lost.
static int check_plot(struct cli *c, struct error *e)
{
    const char *path = c->options.plot, *slash = path ? strrchr(path, '/') : NULL;
    const char *folder = !slash ? "." : arena_printf(&c->arena, "%.*s/", (int)(slash - path), path);
    if (!path || access(folder, W_OK) == 0)
        return 0;
    int code = errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID;
    return error_set_errno(e, code, errno, "--plot: cannot write to %s", folder);
}

int run_simulate(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct simulate_input in;
    int err = check_plot(c, e);
    err = err ? err : simulate_input_read(&c->options, &in, e);
    if (err)
        return err;
    struct simulate_result *results = xcalloc(SIMULATE_RESULTS_MAX, sizeof *results);
    size_t count = make_results(&in, results);
    for (size_t i = 0; !err && i < count; i++)
        err = run_simulation(c, &in, &results[i], e);
    if (!err)
        err = simulate_print(c, &in, results, count, e);
    if (!err && c->options.plot)
        err = write_plot(c->options.plot, &in, results, count, e);
    for (size_t i = 0; i < count; i++)
        simulate_figures_free(&results[i].figures);
    free(results);
    simulate_input_free(&in);
    return err;
}
