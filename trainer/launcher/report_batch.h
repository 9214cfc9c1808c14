// Reports to a master that wait to be sent: a queue of what a training says of its steps, and of
// calls that may not overtake that. Whoever puts something in hands it over.
//
// A training may take a thousand steps a second, and a call of the master a few milliseconds. So
// what has gathered meanwhile goes out together: the metrics of steps that follow each other as one
// call, the progress of the last one alone.
#ifndef MUSTER_TRAINER_LAUNCHER_REPORT_BATCH_H
#define MUSTER_TRAINER_LAUNCHER_REPORT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queued_report {
    char *path; // of a call; NULL: metrics
    json_t *body;
    const char *group; // "training"; static
    int64_t step;
    double progress; // of the training at that step, 0 to 1
    int64_t wall_us;
    json_t *metrics; // {name: value}
};
void queued_report_free(struct queued_report *r);

// How many of the n reports (at least one) go out in one call: metrics of one group.
size_t report_batch_size(struct queued_report *const *reports, size_t n);

// The body of that call: {"group", "trialRunId", "steps", "times", "metrics": {name: [values]}},
// null where a step has no such metric. A new reference; the reports share nothing with it.
json_t *report_batch_columns(struct queued_report *const *reports, size_t n, int64_t run);

#endif
