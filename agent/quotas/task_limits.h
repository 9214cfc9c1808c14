// The limits of each task on this machine, as the agent's flags give them. Any thread.
#ifndef MUSTER_AGENT_QUOTAS_TASK_LIMITS_H
#define MUSTER_AGENT_QUOTAS_TASK_LIMITS_H

#include <jansson.h>

#include "agent/quotas/disk_rules.h"
#include "base/error.h"

// As text: a number, or a size (base/text/size.h). NULL: the default.
struct task_limits_text {
    const char *memory, *disk, *floor;
};

struct task_limits {
    long long processes;     // and threads
    struct disk_size memory; // 0: no own limit
    struct disk_rules disk;
};

extern const struct task_limits task_limits_default;

// Replaces the limits that are given. ERR_INVALID names the flag.
int task_limits_parse(const struct task_limits_text *text, struct task_limits *out,
                      struct error *e);

// {"processes", "memory", "disk", "files", "diskFloor"}, for the master: sizes in bytes, on the
// machine with the folder `work_dir`; 0: no limit. The caller owns it.
json_t *task_limits_json(const struct task_limits *limits, const char *work_dir);

#endif
