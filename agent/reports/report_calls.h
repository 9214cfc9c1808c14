// The calls to the master that a batch of accepted reports makes. Pure; any thread.
//
// A program may report thousands of times a second, but a call takes milliseconds, so reports that
// wait go out together: the metrics of a group in one call with columns, the media in one, and of
// the progress only the newest. A checkpoint or an early exit goes out behind all earlier reports:
// the reports before a checkpoint are complete once the master knows the checkpoint.
#ifndef MUSTER_AGENT_REPORTS_REPORT_CALLS_H
#define MUSTER_AGENT_REPORTS_REPORT_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_call {
    char *path;
    json_t *body;
    bool merges;         // run metadata: the values are merged into those that the master has
    bool reads_storage;  // the master looks for the content in the checkpoint storage
    int64_t media_bytes; // of the contents of media
    json_t *lines;       // of the batch that the call carries
};

struct report_calls {
    struct report_call *items;
    size_t count, room;
};

struct reporting_trial { // the trial that reports
    int64_t trial, run;
    const char *task, *allocation;
};

// Makes the calls for `lines`, reports in their order. Skips lines that report_check() does not
// accept.
void report_calls_make(const struct reporting_trial *target, const json_t *lines,
                       struct report_calls *out);

void report_calls_free(struct report_calls *calls);

#endif
