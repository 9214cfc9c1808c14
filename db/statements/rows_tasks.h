// Rows of tasks and allocations: a part of rows.h.
#ifndef MUSTER_DB_STATEMENTS_ROWS_TASKS_H
#define MUSTER_DB_STATEMENTS_ROWS_TASKS_H

#define ALLOCATION_ROW(FIRST, NEXT)                                                                \
    FIRST(text, id)                                                                                \
    NEXT(integer, trial_id)                                                                        \
    NEXT(integer, epoch)                                                                           \
    NEXT(text, state)                                                                              \
    NEXT(integer, slots)                                                                           \
    NEXT(text, pool)                                                                               \
    NEXT(text, placement)                                                                          \
    NEXT(text, exit_reason)                                                                        \
    NEXT(integer, queued_at)                                                                       \
    NEXT(integer, started_at)                                                                      \
    NEXT(integer, ended_at)

#define START_ROW(FIRST, NEXT)                                                                     \
    ALLOCATION_ROW(FIRST, NEXT)                                                                    \
    NEXT(text, cause)                                                                              \
    NEXT(integer, preempted_for)

// The id of an allocation is TASK.EPOCH.
#define SQL_TASK_OF_ALLOCATION "substr(a.id, 1, length(rtrim(a.id, '0123456789')) - 1)"

#define ALLOCATION_VIEW_ROW(FIRST, NEXT)                                                           \
    FIRST(text, id, "a.id")                                                                        \
    NEXT(text, task_id, SQL_TASK_OF_ALLOCATION)                                                    \
    NEXT(text, state, "a.state")                                                                   \
    NEXT(integer, slots, "a.slots")                                                                \
    NEXT(integer, started_at, "a.started_at")                                                      \
    NEXT(integer, ended_at, "a.ended_at")                                                          \
    NEXT(text, exit_reason, "a.exit_reason")                                                       \
    NEXT(integer, trial_id, "a.trial_id")                                                          \
    NEXT(integer, exit_code, "a.exit_code")

#define TASK_VIEW_ROW(FIRST, NEXT)                                                                 \
    FIRST(text, task_id, "t.task_id")                                                              \
    NEXT(text, name, "e.name")                                                                     \
    NEXT(text, state,                                                                              \
         "CASE WHEN " SQL_TASK_ENDED " THEN 'TERMINATED' WHEN coalesce(a.state, 'TERMINATED') ="   \
         " 'TERMINATED' THEN 'QUEUED' ELSE a.state END")                                           \
    NEXT(integer, submitted_at, "e.submitted_at")                                                  \
    NEXT(integer, ended_at, "t.ended_at")                                                          \
    NEXT(integer, user_id, "e.user_id")                                                            \
    NEXT(text, username, "u.username")                                                             \
    NEXT(text, display_name, "u.display_name")                                                     \
    NEXT(text, pool, "coalesce(a.pool, '')")                                                       \
    NEXT(integer, exit_code, "a.exit_code")                                                        \
    NEXT(text, exit_status,                                                                        \
         "CASE WHEN NOT " SQL_TASK_ENDED " THEN '' WHEN a.exit_code IS NULL OR a.outcome IN"       \
         " ('KILLED', 'LOST') THEN coalesce(nullif(t.exit_reason, ''), 'killed') WHEN"             \
         " a.exit_code = 0 THEN 'the program exited successfully' ELSE"                            \
         " 'the program failed with exit code ' || a.exit_code END")                               \
    NEXT(text, job_id, "e.job_id")                                                                 \
    NEXT(integer, workspace_id, "p.workspace_id")                                                  \
    NEXT(text, trial_state, "t.state")                                                             \
    NEXT(text, ancestors, "e.ancestors")                                                           \
    NEXT(text, forked_from, "(SELECT task_id FROM trials WHERE experiment_id = e.parent_id)")      \
    NEXT(integer, no_pause, "e.no_pause")                                                          \
    NEXT(text, config, "e.original_config")

#define SLOT_USE_ROW(FIRST, NEXT)                                                                  \
    FIRST(integer, ended_at, "coalesce(a.ended_at, 0)")                                            \
    NEXT(integer, allocation_row, "a.row")                                                         \
    NEXT(integer, experiment_id, "e.id")                                                           \
    NEXT(text, username, "u.username")                                                             \
    NEXT(text, labels, "e.labels")                                                                 \
    NEXT(integer, slots, "a.slots")                                                                \
    NEXT(integer, started_at, "a.started_at")                                                      \
    NEXT(text, pool, "a.pool")                                                                     \
    NEXT(integer, visible, "? OR p.workspace_id IN (" SQL_SEEN_WORKSPACES ")")                     \
    NEXT(text, kind, "CASE e.kind WHEN 'EXPERIMENT' THEN 'training' ELSE lower(e.kind) END")       \
    NEXT(text, task_kind, "e.kind")                                                                \
    NEXT(text, allocation_id, "a.id")                                                              \
    NEXT(text, workspace, "w.name")

#endif
