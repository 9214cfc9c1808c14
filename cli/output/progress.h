// The progress line of a followed experiment, as pure text.
#ifndef MUSTER_CLI_PROGRESS_H
#define MUSTER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

struct progress {
    const char *state;                                    // "RUNNING"
    const char *reason;                                   // why it waits; NULL or ""
    double fraction;                                      // 0..1
    long long steps, total;                               // total 0: unknown
    double loss, validation, samples_per_second, step_ms; // NaN: not reported
    int restarts;
    bool search; // of several trials; then the next four, and nothing of a single one
    long long trials_ended, trials_total, trials_live; // total 0: unknown
    double best;                                       // NaN: none yet
};

// At most `width` columns: a bar with step, loss, validation, samples/s and ETA while it runs, or
// with the trials of a search and the best so far; the state and the reason while it waits. Returns
// out.
const char *progress_line(const struct progress *p, int width, char *out, size_t cap);

#endif
