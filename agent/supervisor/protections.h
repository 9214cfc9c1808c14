// The protections of this machine and of other tasks against a task: which ones the agent can apply
// to its tasks, and why not the others. Each is tried once, at the agent's start
// (protection_probe.h). The agent logs the result, sends it to the master with each request, and
// writes the active ones to the specification of a task; its supervisor applies exactly these, and
// a task for which one of them fails does not start (one without its limits starts with a warning
// in its log). No function is for more than one thread.
#ifndef MUSTER_AGENT_SUPERVISOR_PROTECTIONS_H
#define MUSTER_AGENT_SUPERVISOR_PROTECTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

// In the order of the table in protections.c; a new one needs a row there.
enum protection_id {
    PROTECTION_ACCOUNT,         // processes run under the account of the task's user
    PROTECTION_FILES,           // the agent's folder, its token and other tasks' folders are hidden
    PROTECTION_PROCESSES,       // a task sees only its own processes, and all of them end with it
    PROTECTION_TEMPORARY,       // /tmp, /var/tmp, /dev/shm and System V memory of its own
    PROTECTION_DEVICES,         // no devices but its own GPUs and those that every program needs
    PROTECTION_PRIVILEGES,      // no capabilities, and set-user-id programs give none
    PROTECTION_SYSTEM_CALLS,    // system calls that administer a machine are refused
    PROTECTION_PROCESS_LIMIT,   // it may have --task-processes, as a whole
    PROTECTION_MEMORY_LIMIT,    // the kernel kills it for lack of memory, and nothing else
    PROTECTION_PROCESSOR_SHARE, // it gets processor time by its slots
    PROTECTION_COUNT,
};

struct protection {
    bool active;
    char reason[ERROR_TEXT_MAX]; // why it is not active, and what to do; "" if it is active
};

struct protections {
    struct protection list[PROTECTION_COUNT];
};

// "files", "system_calls": the name for the master and in messages.
const char *protection_name(enum protection_id id);

// Records the result for a protection that another module has tried. `reason` NULL: it is active.
void protections_set(struct protections *p, enum protection_id id, const char *reason);

// One message of the agent's log: the active and the missing ones with their reasons.
void protections_log(const struct protections *p, const char *agent_id);

// [{"name", "active", "reason"}] of all protections, for the key "protections" of the agent's
// requests to the master. The caller owns it.
json_t *protections_json(const struct protections *p);

#endif
