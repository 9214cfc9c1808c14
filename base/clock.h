// Clocks: wall time for records, monotonic time for intervals. All times are integers.
#ifndef MUSTER_BASE_CLOCK_H
#define MUSTER_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_us(void); // microseconds since 1970-01-01 UTC
int64_t clock_mono_us(void); // microseconds since an arbitrary start
int64_t clock_cpu_us(void);  // CPU time of this thread
void clock_sleep_us(int64_t us);

enum { CLOCK_RFC3339_MAX = 32 };
// "2026-11-21T09:00:00.123456Z"; returns out.
const char *clock_format(int64_t wall_us, char out[CLOCK_RFC3339_MAX]);
int clock_parse(const char *rfc3339, int64_t *wall_us); // with offset and fraction; ERR_INVALID
// A duration in Go's format ("90m", "1h30m", "2.5s", "-1h") to microseconds. ERR_INVALID.
int duration_parse(const char *text, int64_t *us);
// "1h 02m", "12.3 s", "45 ms": a duration for people. Returns out.
const char *duration_format(int64_t us, char *out, size_t cap);

#endif
