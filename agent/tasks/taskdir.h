// The folder of a task on this machine, WORK-DIR/tasks/<allocation id>. It holds the complete state
// of the task, so that agent and supervisor may be killed at any instruction and start again. All
// functions work on files; any thread.
//
//   task.json    The first line is the specification (task_spec.h). It is written before anything
//                starts and never changes. The rest is the status, which the supervisor writes
//                while it lives, and the agent otherwise. The supervisor holds a lock on the file
//                for its whole life: the agent takes the lock and hands it over at the start, so a
//                task with processes is never without it.
//   sock         The socket between the supervisor and the agent.
//   log.spool    Output for the master (spool.h).
//   log.cursor   The position in the spool up to which the master has the output.
//   report.sock  The socket to which programs report (agent/reports/report_server.h).
//   report.spool Reports for the master. It exists from the first report on.
//   report.cursor The position in it up to which the master has the reports.
//   ca.pem       The authority of the master, if the agent has one to trust.
//   work/        The working folder of the task, with the experiment's files.
//   tmp/         What the task sees as /tmp and /var/tmp (agent/isolation/task_view.h).
//   home/        The home folder of a task whose account has none of its own.
//   own/         What the task sees as this folder: small files of its own, such as
//                checkpoint.latest, and places for the mounts of work/, home/, report.sock and
//                ca.pem.
//
// The folder and all other files belong to the agent, and the task does not see them.
//
// No status and a free lock: no process was ever started. A status that is not EXITED or cannot be
// read, and a free lock: the supervisor or the machine died. The first status is on disk before
// anything starts, which is sufficient after a crash of the machine.
//
// There are few files, and they are overwritten in place, because creating and removing files is
// the largest cost of a short task.
#ifndef MUSTER_AGENT_TASKS_TASKDIR_H
#define MUSTER_AGENT_TASKS_TASKDIR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

#define TASKDIR_TASK          "task.json"
#define TASKDIR_SPOOL         "log.spool"
#define TASKDIR_CURSOR        "log.cursor"
#define TASKDIR_REPORT_SOCKET "report.sock"
#define TASKDIR_REPORT_SPOOL  "report.spool"
#define TASKDIR_REPORT_CURSOR "report.cursor"
#define TASKDIR_WORK          "work"
#define TASKDIR_TMP           "tmp"
#define TASKDIR_HOME          "home"
#define TASKDIR_AUTHORITY     "ca.pem"
#define TASKDIR_OWN           "own"

#define TASK_STARTING "STARTING"
#define TASK_RUNNING  "RUNNING"
#define TASK_EXITED   "EXITED"

// Returns whether an allocation id is a safe folder name: letters, digits, ".", "_", "-", not "."
// or "..".
bool taskdir_id_valid(const char *id);

// The work folder of the agent, WORK-DIR, of the folder of a task. Heap string.
char *taskdir_work_dir(const char *dir);

// Creates the folder and task.json. `spec` NULL: there is no specification.
int taskdir_make(const char *dir, const json_t *spec, struct error *e);

// Makes the folder and copies the master's authority into it, where the task's programs read it.
int taskdir_copy_authority(const char *dir, const char *ca_file, struct error *e);

// ERR_NOT_FOUND: there is none. Other errors: it cannot be read, or is incomplete.
int taskdir_read_spec(const char *dir, json_t **out, struct error *e);
int taskdir_read_status(const char *dir, json_t **out, struct error *e);

// `durable`: the status is on disk on return. A caller that is killed meanwhile may leave an
// unreadable status.
int taskdir_write_status(const char *dir, const json_t *status, bool durable, struct error *e);

// The status for the master: {allocationId, state, ranks, reason}. Takes ownership of `ranks`:
// [{rank, pid, exitCode, signal}], NULL for none.
json_t *taskdir_status(const char *id, const char *state, json_t *ranks, const char *reason);
bool taskdir_status_is(const json_t *status, const char *state);

// ERR_CONFLICT: a supervisor holds the lock. Closing the descriptor and its copies releases it.
int taskdir_lock(const char *dir, int *fd, struct error *e);
bool taskdir_supervised(const char *dir);

// The task's socket, close-on-exec and non-blocking. taskdir_listen() replaces an old one.
int taskdir_listen(const char *dir, int *fd, struct error *e);
int taskdir_connect(const char *dir, int *fd, struct error *e);

// "MUSTER_RUN_DIR=DIR", which marks the environment of all processes of the task. Heap string.
char *taskdir_marker(const char *dir);

#endif
