// Reports that wait to be sent to the master, and their combination. The queue owns its
// reports.
//
// Training may take a thousand steps a second, while one call to the master takes a few
// milliseconds. So the reports that gathered meanwhile travel together: the metrics of consecutive
// steps in one call, and only the latest progress. Other calls keep their place in the order.
#ifndef MUSTER_TRAINER_LAUNCHER_REPORT_BATCH_H
#define MUSTER_TRAINER_LAUNCHER_REPORT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queued_report {
    char *path; // path of a call; NULL: a report of metrics
    json_t *body;
    const char *group; // "training" or "validation", static
    int64_t step;
    double progress; // of the training at that step, 0 to 1
    int64_t wall_us;
    json_t *metrics; // {name: value}
};
void queued_report_free(struct queued_report *r);

// Returns how many of n reports, from the first on, go into one call: at least one, and only
// consecutive metrics of one group.
size_t report_batch_size(struct queued_report *const *reports, size_t n);

// The body of that call: {"group", "trialRunId", "steps", "times", "metrics": {name: [values]}},
// null where a step lacks the metric. Returns a new reference that shares nothing with the reports.
json_t *report_batch_json(struct queued_report *const *reports, size_t n, int64_t run);

#endif
