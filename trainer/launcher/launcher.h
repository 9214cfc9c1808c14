// Link: how a rank speaks with whoever started it, a cluster (cluster_launcher.c) or the parent
// process of `muster-trainer run` (local_launcher.c). Rank 0 reports; every rank meets the others
// through it.
//
// Called by the compute thread, `checkpoint` by the thread that wrote it too. Reports are queued
// and arrive in their order.
#ifndef MUSTER_TRAINER_LAUNCHER_LAUNCHER_H
#define MUSTER_TRAINER_LAUNCHER_LAUNCHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/checkpoint/snapshot_writer.h"

struct launcher_ops {
    int (*all_gather)(void *ctx, const json_t *mine, json_t **all, struct error *e);
    // After every step: a sign of life, with the step's mean loss. May be dropped.
    void (*step)(void *ctx, int64_t step, double loss);
    // A report of group "training" or "validation"; metrics are borrowed.
    void (*metrics)(void *ctx, const char *group, int64_t step, int64_t steps,
                    const json_t *metrics);
    void (*checkpoint)(void *ctx, const struct snapshot_info *place);
    // A line for people, of rank 0.
    void (*note)(void *ctx, const char *text);
    // Does somebody want training to drain? An error when nobody can be reported to any more.
    int (*poll)(void *ctx, bool *drain, struct error *e);
    // No restart can help: the configuration or the data are at fault. Any rank, at most once.
    void (*permanent_failure)(void *ctx, const char *why);
    // All reports have arrived; if `drained`, that is acknowledged last.
    int (*finish)(void *ctx, bool drained, struct error *e);
};

struct launcher {
    const struct launcher_ops *ops;
    void *ctx;
};

// A metric as JSON; numbers that JSON lacks as "NaN", "Infinity", "-Infinity".
json_t *metric_number(double x);

// "step 100/2000  loss 2.3112  learning rate 0.00095  1234 samples/s" of a report: what it has of
// these. Returns out.
enum { METRICS_LINE_MAX = 256 };
const char *metrics_line(char *out, size_t cap, int64_t step, int64_t steps, const json_t *metrics);

#endif
