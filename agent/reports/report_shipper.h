// Ships the reports of programs to the master (agent/spool/shipper.h): as calls of the task, with
// the token of the task. The agent reports the end of a task only after its reports have arrived,
// because the token ends with the allocation.
#ifndef MUSTER_AGENT_REPORTS_REPORT_SHIPPER_H
#define MUSTER_AGENT_REPORTS_REPORT_SHIPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/spool/shipper.h"

extern const struct shipper_kind report_shipper;

// Notes the outcome of a call that reads the storage. Returns whether such calls have failed for
// REPORT_PATIENCE_US: then the master gets no more time. *since: the first failure (monotonic; 0:
// they do not fail), kept between calls; `failed`: the master has just answered a call with a
// failure of its own.
bool report_patience_over(int64_t *since, bool failed, int64_t now);
enum { REPORT_PATIENCE_US = 120 * 1000 * 1000 };

#endif
