// Counters of the master for GET /metrics: requests by route, scheduling passes, and events of the
// cluster. Any thread may count; a count is at most three atomic additions, without a lock. Each
// function accepts NULL: then nothing is counted.
#ifndef MUSTER_MASTER_COMMON_METERS_H
#define MUSTER_MASTER_COMMON_METERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"

struct meters; // opaque

enum meter {
    METER_TRIAL_RESTARTS, // of trials after a failure
    METER_AGENTS_LOST,    // agents whose tasks were given up
    METER_METRIC_REPORTS, // steps of trials
    METER_LOG_LINES,
    METER_SLOW_REQUESTS, // that the log names
    METERS
};

// Classes of HTTP statuses: class 0 is "1xx", class 4 "5xx".
enum { METER_CLASSES = 5, METER_STATUSES = 600 };

struct meters *meters_new(size_t routes); // the number of routes
void meters_free(struct meters *m);

void meters_count(struct meters *m, enum meter which, int64_t n);
void meters_decision(struct meters *m, int64_t us); // a scheduling pass took so long
// A request was answered. `route`: its index in the route table; the number of routes: none
// matched.
void meters_request(struct meters *m, size_t route, int status, int64_t us);

int64_t meters_counted(const struct meters *m, enum meter which);
int64_t meters_answered(const struct meters *m, int status); // requests with exactly this status
const struct histogram *meters_decisions(const struct meters *m);
// NULL: no request of the route was answered with this class.
const struct histogram *meters_of_route(const struct meters *m, size_t route, int status_class);

#endif
