// Checks the lines that programs write to the report socket (docs/wire.md, Reports of programs), so
// that a program learns at once what is wrong, and the master does not refuse later what was
// accepted here. Pure; any thread.
#ifndef MUSTER_AGENT_REPORTS_REPORT_CHECK_H
#define MUSTER_AGENT_REPORTS_REPORT_CHECK_H

#include <jansson.h>

#include "base/error.h"

enum report_kind {
    REPORT_METRICS,
    REPORT_PROGRESS,
    REPORT_CHECKPOINT,
    REPORT_METADATA,
    REPORT_MEDIA,
    REPORT_EXITED,
    REPORT_FAILURE, // for the supervisor; it is not sent to the master
    REPORT_KINDS
};

// ERR_INVALID names the field and the remedy.
int report_check(const json_t *line, enum report_kind *kind, struct error *e);

#endif
