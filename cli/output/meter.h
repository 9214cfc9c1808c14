// A progress bar for long operations, on standard error if it is a terminal and -q was not given.
// One thread.
#ifndef MUSTER_CLI_METER_H
#define MUSTER_CLI_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress_meter {
    bool shown; // standard error is a terminal
    bool drawn; // a line must be cleared at the end
    int64_t last_us;
};

void meter_begin(struct progress_meter *m, bool quiet);
// Shows `done` of `total` bytes (0: unknown) for the operation `what` ("copying"), at most ten
// times a second.
void meter_show(struct progress_meter *m, const char *what, int64_t done, int64_t total);
void meter_say(struct progress_meter *m, const char *line); // a line without numbers of bytes
void meter_end(struct progress_meter *m);                   // clears the line

// Writes "12.3 MB"; returns out.
const char *meter_bytes(int64_t bytes, char *out, size_t cap);
// Writes the line "copying [######......]  45 %  12.3 MB of 27.1 MB"; returns out.
const char *meter_line(const char *what, int64_t done, int64_t total, char *out, size_t cap);

#endif
