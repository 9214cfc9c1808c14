// A rank of a task, or its startup hook, as a child process of the supervisor, with the pipes of
// its output. It splits the output into lines, appends them to the log spool and keeps the last
// ones. Belongs to the supervisor's thread.
#ifndef MUSTER_AGENT_SUPERVISOR_RANK_PROCESS_H
#define MUSTER_AGENT_SUPERVISOR_RANK_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/failures/failure.h"
#include "agent/isolation/confine.h"
#include "agent/logs/line_splitter.h"
#include "agent/logs/log_spool.h"
#include "agent/logs/log_tail.h"
#include "base/error.h"

struct rank_output {
    int fd; // -1: closed
    int rank;
    const char *name; // "stdout", "stderr"
    struct line_splitter lines;
    struct log_tail tail;
    struct log_spool *spool;
};

struct rank_process {
    int number;
    const struct confinement *confinement; // of its process; NULL: none
    pid_t pid;                             // 0: not started
    bool ended;
    bool asked_to_end; // by the supervisor, before it ended
    int wait_status;
    int64_t peak_bytes;           // of its largest process, once it has ended
    int64_t memory_limit;         // of the task, in bytes; 0: none
    char *told_text, *told_place; // the exception that the program has reported; NULL: none
    struct log_tail told_traceback;
    struct rank_output outputs[2]; // stdout, stderr
};

void rank_process_init(struct rank_process *r, int number, struct log_spool *spool);
void rank_process_free(struct rank_process *r);

// Starts the rank `entry` of the specification of the task in DIR.
int rank_process_start(struct rank_process *r, const char *dir, const json_t *spec,
                       const json_t *entry, struct error *e);

// Starts the program `argv` with the environment `env` in the working folder of the task in DIR.
// `fd_in` becomes its standard input; -1: /dev/null.
int rank_process_spawn(struct rank_process *r, const char *dir, const json_t *argv,
                       const json_t *env, int fd_in, struct error *e);

bool rank_output_read(struct rank_output *o); // false: there is no output now
// Reads the output of a rank that has ended, so that the log has it before the report of its end.
// The children of the rank may go on writing, so this reads at most the contents of a pipe.
void rank_output_read_rest(struct rank_output *o);
void rank_output_drain(struct rank_output *o); // reads all and closes the pipe

// The last lines of the rank's stderr, or of its stdout if its stderr is empty.
const struct log_tail *rank_process_tail(const struct rank_process *r);

// Keeps the exception that the program reports before it fails, {text, place, traceback}; the first
// one counts, because it is the cause of the others.
void rank_process_tell(struct rank_process *r, const json_t *failure);

// Explains the failure of a rank that has ended. `work_dir`: its folder; `memory`: whether the
// kernel has killed meanwhile for lack of memory.
void rank_process_explain(const struct rank_process *r, const char *work_dir,
                          enum memory_verdict memory, struct failure *out);
// The end of the traceback that the program has reported, else the last lines of its output up to
// the error, as a JSON string, without `work_dir` in paths.
json_t *rank_process_last_lines(const struct rank_process *r, const char *work_dir,
                                const struct failure *f);

// {rank, pid, exitCode, signal} for the task's status.
json_t *rank_process_json(const struct rank_process *r);

#endif
