// The ids of tasks and allocations. A trial's task is EXPERIMENT.UUID, for example
// "7.5d0c8f3e-91ab-8c42-a7f0-000000000012"; the last twelve digits of the UUID are the trial's
// number, so that a trial is found without a search. The UUID has version 8 of RFC 9562, a command
// or generic task has EXPERIMENT.JOB with a UUID of version 4. Trials of older stores keep
// EXPERIMENT.TRIAL ("7.12"), and every trial is found by this short id, too. A trial that was
// continued after its end has further tasks, FIRST-1, FIRST-2 and so on; their logs are parts of
// one log, which has the name of the first task. An allocation is TASK.EPOCH. Functions are pure
// unless they take a reader.
#ifndef MUSTER_MASTER_COMMON_TASK_ID_H
#define MUSTER_MASTER_COMMON_TASK_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "db/db.h"

enum { TASK_ID = 64, ALLOCATION_ID = 88 }; // sizes of their texts

struct task_id { // as read from a text
    int64_t experiment, trial;
    bool is_short;  // EXPERIMENT.TRIAL
    int64_t number; // of the continuation; 0: the first task
    int64_t epoch;  // of an allocation; 0: the text is the id of a task
};

// The id of a new trial: the same for the same cluster, experiment and trial.
void task_id_make(char out[TASK_ID], const char *cluster, int64_t experiment, int64_t trial);

// Reads the id of a trial's task or allocation. False: it is something else.
bool task_id_read(const char *text, struct task_id *out);

// Whether `text` names the task `id` of a trial, by the id itself or by its short id.
bool task_id_names(const char *text, const char *id);

// The number of the continuation that the task id names; 0: the first task, or another text.
int64_t task_id_number(const char *text);

// The id of the first task of a continued trial. Any other text is returned as it is.
const char *task_id_first(const char *text, char out[TASK_ID]);

// The stored ids of a task and an allocation that a short id names; they lie in the arena. Any
// other text is returned as it is.
const char *task_id_resolve(struct db_reader *db, struct arena *arena, const char *text);
const char *allocation_id_resolve(struct db_reader *db, struct arena *arena, const char *text);

#endif
