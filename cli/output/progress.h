// The progress line of a followed experiment, as text. Pure.
#ifndef MUSTER_CLI_PROGRESS_H
#define MUSTER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

struct progress {
    const char *state;      // "RUNNING"
    const char *reason;     // wait reason; NULL or "": it does not wait
    double fraction;        // 0..1
    long long steps, total; // total 0: unknown
    double loss, validation, samples_per_second, step_ms; // NaN: not reported
    int restarts;
    bool search; // a search: shows the next six fields instead of steps and metrics
    long long trials_ended, trials_total; // total 0: unknown
    long long trials_failed;              // of those that have ended
    long long trials_running;             // with slots
    long long trials_waiting;             // without slots
    double best;                          // NaN: none yet
};

// Writes at most `width` columns: while it runs a bar with step, loss, validation, samples/s and
// ETA, or with the trials of a search and the best metric; while it waits the state and the reason.
// Returns out.
const char *progress_line(const struct progress *p, int width, char *out, size_t cap);

#endif
