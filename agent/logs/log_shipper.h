// Ships the output of tasks to the master (agent/spool/shipper.h).
#ifndef MUSTER_AGENT_LOGS_LOG_SHIPPER_H
#define MUSTER_AGENT_LOGS_LOG_SHIPPER_H

#include "agent/spool/shipper.h"

extern const struct shipper_kind log_shipper;

#endif
