// The launcher of a rank: whoever started it and now receives its reports. That is a cluster
// (cluster_launcher.c) or the parent process of `muster-trainer run` (local_launcher.c). Rank 0
// reports; all ranks find each other through all_gather.
//
// The compute thread calls all operations; the snapshot writer's thread calls `checkpoint`, too.
// Reports are queued and arrive in order.
#ifndef MUSTER_TRAINER_LAUNCHER_LAUNCHER_H
#define MUSTER_TRAINER_LAUNCHER_LAUNCHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/checkpoint/snapshot_writer.h"

struct launcher_ops {
    int (*all_gather)(void *ctx, const json_t *mine, json_t **all, struct error *e);
    // Called after every step with the step's mean loss. It may be dropped.
    void (*step)(void *ctx, int64_t step, double loss);
    // A report of group "training" or "validation". `metrics` is borrowed.
    void (*metrics)(void *ctx, const char *group, int64_t step, int64_t steps,
                    const json_t *metrics);
    void (*checkpoint)(void *ctx, const struct snapshot_info *info);
    // A line of text for the user, from rank 0.
    void (*note)(void *ctx, const char *text);
    // Sets *drain if training is to drain. An error means that reports can no longer be delivered.
    int (*poll)(void *ctx, bool *drain, struct error *e);
    // A failure that no restart can repair: the configuration or the data are at fault. Any rank
    // may call it, once.
    void (*permanent_failure)(void *ctx, const char *why);
    // Returns when all reports have been delivered. If `drained`, the drain is acknowledged last.
    int (*finish)(void *ctx, bool drained, struct error *e);
};

struct launcher {
    const struct launcher_ops *ops;
    void *ctx;
};

// A metric as JSON. Numbers that JSON cannot express become "NaN", "Infinity", "-Infinity".
json_t *metric_number(double x);

// "step 100/2000  loss 2.3112  learning rate 0.00095  1234 samples/s": those of these metrics that
// the report contains. Returns `out`.
enum { METRICS_LINE_MAX = 256 };
const char *metrics_line(char *out, size_t cap, int64_t step, int64_t steps, const json_t *metrics);

#endif
