// The folder of a task on this machine, WORK-DIR/tasks/<allocation id>: what agent and supervisor
// know about the task, so that either may be killed at any instruction and start again. Functions
// of files; any thread.
//
//   spec.json    what to run; put before anything is started, never changed
//   status.json  what came of it; by the supervisor while it lives, else by the agent. The first is
//                on disk before anything is started, and is enough after the end of the machine
//   supervisor.log  what the supervisor says about itself, and the lock that it holds for life. The
//                agent takes it and hands it over at the start, so at no instant can a task with
//                processes be without it
//   sock         where the supervisor talks with the agent
//   log.spool    output to be sent (spool.h); log.cursor: how far the master has it
//   work/        the task's working folder: the experiment's files
//
// No status.json and no held lock: no process was ever started. A status that is not EXITED, or no
// JSON, without a held lock: the supervisor was killed, or the machine was.
//
// They are few because what costs most in a short task is the making and removing of files.
#ifndef MUSTER_AGENT_TASKDIR_H
#define MUSTER_AGENT_TASKDIR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

#define TASKDIR_SPEC   "spec.json"
#define TASKDIR_STATUS "status.json"
#define TASKDIR_SPOOL  "log.spool"
#define TASKDIR_CURSOR "log.cursor"
#define TASKDIR_WORK   "work"
#define TASKDIR_LOCK   "supervisor.log"

#define TASK_STARTING "STARTING"
#define TASK_RUNNING  "RUNNING"
#define TASK_EXITED   "EXITED"

// Allocation ids become names of folders: letters, digits, "." "_" "-", not "." or "..".
bool taskdir_id_valid(const char *id);

int taskdir_read(const char *dir, const char *name, json_t **out, struct error *e);
// taskdir_write(): whole or not at all, and on disk when it returns. taskdir_put(): an instant's
// work; after the end of the machine, or of this process meanwhile, what is there may be no JSON.
int taskdir_write(const char *dir, const char *name, const json_t *value, struct error *e);
int taskdir_put(const char *dir, const char *name, const json_t *value, struct error *e);

// The observed state as the master reads it: {allocationId, state, ranks, reason}. Takes `ranks`
// over: [{rank, pid, exitCode, signal}], NULL for none.
json_t *taskdir_status(const char *id, const char *state, json_t *ranks, const char *reason);
bool taskdir_status_is(const json_t *status, const char *state);

// ERR_CONFLICT: a supervisor holds it. The lock goes with the descriptor and its copies.
int taskdir_lock(const char *dir, int *fd, struct error *e);
bool taskdir_supervised(const char *dir);

// The socket of the task; close-on-exec, non-blocking. taskdir_listen() removes a stale one.
int taskdir_listen(const char *dir, int *fd, struct error *e);
int taskdir_connect(const char *dir, int *fd, struct error *e);

// "MUSTER_RUN_DIR=DIR": in the environment of every process of the task and of no other. Heap.
char *taskdir_marker(const char *dir);

#endif
