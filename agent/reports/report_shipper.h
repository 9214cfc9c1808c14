// Ships the reports of programs to the master (agent/spool/shipper.h): as calls of the task, with
// the token of the task. The agent reports the end of a task only after its reports have arrived,
// because the token ends with the allocation.
#ifndef MUSTER_AGENT_REPORTS_REPORT_SHIPPER_H
#define MUSTER_AGENT_REPORTS_REPORT_SHIPPER_H

#include "agent/spool/shipper.h"

extern const struct shipper_kind report_shipper;

#endif
