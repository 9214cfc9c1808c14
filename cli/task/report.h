// `muster report`, the one command that programs call thousands of times. Two programs have it:
// `muster`, and a small one that tasks find under that name (main.c).
#ifndef MUSTER_CLI_TASK_REPORT_H
#define MUSTER_CLI_TASK_REPORT_H

#include "cli/cli.h"

#define REPORT_FLAGS "step:report group:report progress" // as in flagset.h

cli_verb run_report;

#endif
