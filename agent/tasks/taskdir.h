// The folder of a task on this machine, WORK-DIR/tasks/<allocation id>: what agent and supervisor
// know about the task, so that either may be killed at any instruction and start again. Functions
// of files; any thread.
//
//   task.json    a line for what to run, written before anything is started and never changed; then
//                what came of it, by the supervisor while it lives, else by the agent. A lock on
//                the file is held by the supervisor for life: the agent takes it and hands it over
//                at the start, so at no instant can a task with processes be without it
//   sock         where the supervisor talks with the agent
//   log.spool    output to be sent (spool.h); log.cursor: how far the master has it
//   work/        the task's working folder: the experiment's files
//
// No status and no held lock: no process was ever started. A status that is not EXITED, or cannot
// be read, without a held lock: the supervisor was killed, or the machine was. The first status is
// on disk before anything is started, and is enough after the end of the machine.
//
// So few, and written in place, because what costs most in a short task is making and removing
// files.
#ifndef MUSTER_AGENT_TASKS_TASKDIR_H
#define MUSTER_AGENT_TASKS_TASKDIR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

#define TASKDIR_TASK   "task.json"
#define TASKDIR_SPOOL  "log.spool"
#define TASKDIR_CURSOR "log.cursor"
#define TASKDIR_WORK   "work"

#define TASK_STARTING "STARTING"
#define TASK_RUNNING  "RUNNING"
#define TASK_EXITED   "EXITED"

// Allocation ids become names of folders: letters, digits, "." "_" "-", not "." or "..".
bool taskdir_id_valid(const char *id);

// Makes the folder and the file in it; NULL: nothing is known of what was to run.
int taskdir_make(const char *dir, const json_t *spec, struct error *e);

// ERR_NOT_FOUND: there is none; other errors: it cannot be read, torn perhaps.
int taskdir_read_spec(const char *dir, json_t **out, struct error *e);
int taskdir_read_status(const char *dir, json_t **out, struct error *e);

// `durable`: it is on disk on return. Who is killed within may leave one that cannot be read.
int taskdir_write_status(const char *dir, const json_t *status, bool durable, struct error *e);

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
