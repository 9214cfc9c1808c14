// Types of `muster simulate`: its input and its results. One thread.
#ifndef MUSTER_CLI_SIMULATE_H
#define MUSTER_CLI_SIMULATE_H

#include <jansson.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "simulate/history.h"

enum { SIMULATE_TEXT_MAX = 512 << 20 }; // bytes of a trace, unpacked
enum { SIMULATE_RESULTS_MAX = 2 * SCHED_POLICIES };

struct simulate_input {
    const char *name;               // name of the trace
    struct cluster_history history; // jobs, teams and nodes, also of a trace file
    size_t added;                   // nodes that --add-nodes appends to history.nodes; 0: none
    int64_t from, to;               // window of submission
    double preempt_cost, drain;     // seconds
    enum sched_policy policies[SCHED_POLICIES];
    size_t policy_count;
};

struct simulate_result {
    char label[32]; // "fair_share", "fair_share +4 nodes"
    enum sched_policy policy;
    size_t nodes;
    double seconds; // run time of the simulation
    struct simulate_figures figures;
};

// simulate_input.c: reads and checks everything that the options name.
int simulate_input_read(const struct cli_options *options, struct simulate_input *in,
                        struct error *e);
void simulate_input_free(struct simulate_input *in);
int simulate_window_parse(const char *text, int64_t *from, int64_t *to, struct error *e);
int simulate_file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e);

// simulate_table.c
int simulate_print(struct cli *c, const struct simulate_input *in,
                   const struct simulate_result *results, size_t count, struct error *e);

// simulate_plot.c: draws slots in use and waiting jobs over time as SVG.
void simulate_plot(const char *title, const struct simulate_result *results, size_t count,
                   struct buf *out);

#endif
