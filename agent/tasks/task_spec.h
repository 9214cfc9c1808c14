// The specification of a task on this machine, stored in task.json: the entry of the desired state,
// completed with the facts of this machine. Pure functions; any thread.
//
//   {allocationId, taskId, agentId, containerId, contextUrl, native, graceSeconds, tokenFile, argv,
//    env: {NAME: VALUE for all ranks}, ranks: [{rank, env: {NAME: VALUE}}],
//    mounts: (isolation/mounts.h), hang: {warnAfter, killAfter}, rendezvous: {addresses: [..],
//    rank, slots: [..]} of all machines,
//    protections: (supervisor/protections.h), account: {uid, gid, user, group} of a linked user,
//    taskAccount, taskGroup, tasksAsRoot: the agent's flags, programs: [PATH of a folder],
//    userHome: whether the user has set HOME, gpus: [{busId, instance}] of its slots,
//    limits: {processes, memory: bytes, slots: their number; 0: no limit, cgroup: the folder of the
//    tasks' groups (supervisor/cgroup.h), absent where there is none}}
//
// The environment of a rank is `env` with its own `env` on top; ranks inherit nothing else. Later
// values override earlier ones: HOME, PATH and LANG of the agent; the values of the master; the
// values of this machine (slots, devices, ranks). The folder of Muster's programs is appended to
// PATH and that of its Python package to PYTHONPATH, behind all entries of the user.
#ifndef MUSTER_AGENT_TASKS_TASK_SPEC_H
#define MUSTER_AGENT_TASKS_TASK_SPEC_H

#include <jansson.h>

#include <stdbool.h>

#include "agent/slots.h"
#include "agent/tasks/desired_state.h"
#include "base/error.h"

struct task_host {
    const char *agent_id;
    const struct slots *slots;
    const char *dir;         // the folder of the task
    const char *program_dir; // the folder of Muster's programs
    const char *command_dir; // the folder of the command muster for tasks; NULL: not installed
    const char *python_dir;  // the folder of the package muster; NULL: it is not installed
    const char *home, *path, *lang;
    const char *token_file;    // hidden from the task; NULL: unknown
    const json_t *protections; // protections_json(); NULL: none
    const char *task_account;  // of tasks whose user has no account of his own; NULL: none
    const char *task_group;    // of all tasks with an account, besides its own; NULL: none
    bool tasks_as_root;        // tasks without an account run as root if the agent does
    const json_t *limits;      // {processes, memory, cgroup}; NULL: none
    const char *ca_file;       // the task has a copy of it, TASKDIR_AUTHORITY; NULL: none
};

// ERR_PEER: the entry names a slot that this machine does not have.
int task_spec_build(const struct desired_task *task, const struct task_host *host, json_t **out,
                    struct error *e);

// Whether the task's program can report through its supervisor: it is a trial of a user program.
// The native trainer reports by itself.
bool task_spec_reports(const json_t *spec);

// The complete environment of a rank of `spec`: {NAME: VALUE}. The caller owns it.
json_t *task_spec_environment(const json_t *spec, const json_t *rank);

#endif
