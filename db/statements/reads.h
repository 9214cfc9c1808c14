// What the store can be asked: X(NAME, SQL) is STMT_NAME for db_query(). Kept by master/http; the
// core reads its live state at start with the rows of the last group.
//
// Add a row at the end of its table's group. Parameters are ?1 ?2 .. or ? in the order of the
// arguments. Columns are counted from 0 in the order written; the lists below are shared, so that
// one writer of JSON serves every query of a table: append to a list, never insert. Constant text
// only. Every row is prepared against the schema by test_statements.
#ifndef MUSTER_DB_STATEMENTS_READS_H
#define MUSTER_DB_STATEMENTS_READS_H

#include "db/statements/views.h"

#define DB_USER_COLUMNS    "id, username, display_name, admin, active, modified_at"
#define DB_PROJECT_COLUMNS "id, name, workspace_id, description, user_id, archived, created_at"

// 0 id, 1 state, 2 name, 3 description, 4 notes, 5 labels, 6 user_id, 7 project_id, 8 job_id,
// 9 parent_id, 10 original_config, 11 config, 12 priority, 13 searcher_type, 14 searcher_state,
// 15 progress, 16 best_metric, 17 archived, 18 unmanaged, 19 seed, 20 model_definition_hash,
// 21 submitted_at, 22 ended_at
#define DB_EXPERIMENT_COLUMNS                                                                      \
    "id, state, name, description, notes, labels, user_id, project_id, job_id, parent_id,"         \
    " original_config, config, priority, searcher_type, searcher_state, progress, best_metric,"    \
    " archived, unmanaged, seed, model_definition_hash, submitted_at, ended_at"

// 0 id, 1 experiment_id, 2 request_id, 3 task_id, 4 state, 5 hparams, 6 seed, 7 restarts, 8 run_id,
// 9 progress, 10 steps_completed, 11 runner_state, 12 exit_reason, 13 latest_checkpoint,
// 14 latest_training, 15 latest_validation, 16 best_validation, 17 summary_metrics, 18 started_at,
// 19 ended_at
#define DB_TRIAL_COLUMNS                                                                           \
    "id, experiment_id, request_id, task_id, state, hparams, seed, restarts, run_id, progress,"    \
    " steps_completed, runner_state, exit_reason, latest_checkpoint, latest_training,"             \
    " latest_validation, best_validation, summary_metrics, started_at, ended_at"

// 0 id, 1 trial_id, 2 epoch, 3 state, 4 slots, 5 pool, 6 placement, 7 exit_reason, 8 queued_at,
// 9 started_at, 10 ended_at
#define DB_ALLOCATION_COLUMNS                                                                      \
    "id, trial_id, epoch, state, slots, pool, placement, exit_reason, queued_at, started_at,"      \
    " ended_at"

// 0 id, 1 run_id, 2 grp, 3 steps, 4 end_time, 5 metrics, 6 batch_metrics
#define DB_METRIC_COLUMNS "id, run_id, grp, steps, end_time, metrics, batch_metrics"

// 0 id, 1 task_id, 2 allocation_id, 3 agent_id, 4 container_id, 5 rank, 6 time, 7 level, 8 stdtype,
// 9 source, 10 log
#define DB_LOG_COLUMNS                                                                             \
    "id, task_id, allocation_id, agent_id, container_id, rank, time, level, stdtype, source, log"

// 0 uuid, 1 task_id, 2 allocation_id, 3 trial_id, 4 experiment_id, 5 state, 6 steps, 7 metadata,
// 8 resources, 9 storage, 10 validation, 11 reported_at
#define DB_CHECKPOINT_COLUMNS                                                                      \
    "uuid, task_id, allocation_id, trial_id, experiment_id, state, steps, metadata, resources,"    \
    " storage, validation, reported_at"

#define DB_READS(X)                                                                                \
    X(META_GET, "SELECT value FROM meta WHERE key = ?")                                            \
                                                                                                   \
    X(USERS, "SELECT " DB_USER_COLUMNS " FROM users ORDER BY id")                                  \
    X(USER_BY_ID, "SELECT " DB_USER_COLUMNS " FROM users WHERE id = ?")                            \
    X(USER_BY_NAME, "SELECT " DB_USER_COLUMNS " FROM users WHERE username = ?")                    \
    X(USER_PASSWORD, "SELECT id, active, password_hash FROM users WHERE username = ?")             \
    /* how many active administrators there are beside this id */                                  \
    X(USER_OTHER_ADMINS, "SELECT count(*) FROM users WHERE admin = 1 AND active = 1 AND id <> ?")  \
    /* by hash: 0 kind, 1 expires_at, 2 allocation_id, 3 user id (of a task: the owner of the      \
       experiment), 4 username, 5 admin, 6 active, 7 state of the allocation */                    \
    X(TOKEN_PRINCIPAL,                                                                             \
      "SELECT k.kind, k.expires_at, k.allocation_id, u.id, u.username, u.admin, u.active, a.state" \
      " FROM tokens k LEFT JOIN allocations a ON a.id = k.allocation_id"                           \
      " LEFT JOIN trials t ON t.id = a.trial_id"                                                   \
      " LEFT JOIN experiments e ON e.id = t.experiment_id"                                         \
      " LEFT JOIN users u ON u.id = coalesce(k.user_id, e.user_id) WHERE k.hash = ?")              \
                                                                                                   \
    X(PROJECT_BY_ID, "SELECT " DB_PROJECT_COLUMNS " FROM projects WHERE id = ?")                   \
                                                                                                   \
    X(EXPERIMENT_BY_ID, "SELECT " DB_EXPERIMENT_COLUMNS " FROM experiments WHERE id = ?")          \
    X(MODEL_DEFINITION, "SELECT archive FROM model_definitions WHERE hash = ?")                    \
    X(EXPERIMENT_EXISTS, "SELECT 1 FROM experiments WHERE id = ?")                                 \
    X(EXPERIMENT_VIEW, SQL_EXPERIMENT_COLUMNS                                                      \
      ", e.original_config, e.seed, "                                                              \
      "(SELECT count(*) FROM checkpoints c WHERE c.experiment_id = e.id AND "                      \
      "c.state = 'COMPLETED'), "                                                                   \
      "json_extract(e.config, '$.searcher.metric'), e.priority " SQL_EXPERIMENT_TABLES             \
      " WHERE e.id = ?")                                                                           \
    X(EXPERIMENT_TRIAL_IDS, "SELECT id FROM trials WHERE experiment_id = ? ORDER BY id")           \
    /* the archive is null when it was submitted without files */                                  \
    X(EXPERIMENT_ARCHIVE, "SELECT d.archive FROM experiments e LEFT JOIN model_definitions d ON "  \
                          "d.hash = e.model_definition_hash WHERE e.id = ?")                       \
    X(TASK_ARCHIVE, "SELECT d.archive FROM trials t JOIN experiments e ON e.id = t.experiment_id " \
                    "LEFT JOIN model_definitions d ON d.hash = e.model_definition_hash "           \
                    "WHERE t.task_id = ?")                                                         \
                                                                                                   \
    X(TRIAL_EXISTS, "SELECT 1 FROM trials WHERE id = ?")                                           \
    X(TRIAL_VIEW, SQL_TRIAL_COLUMNS                                                                \
      ", (SELECT sum(coalesce(a.ended_at, ?1) - a.started_at) FROM "                               \
      "allocations a WHERE a.trial_id = t.id AND a.started_at IS NOT NULL) " SQL_TRIAL_TABLES      \
      " WHERE t.id = ?2")                                                                          \
    X(TRIAL_BEST_CHECKPOINT,                                                                       \
      "SELECT c.uuid, c.state, c.steps, c.reported_at, c.resources, c.metadata FROM checkpoints c" \
      " JOIN trials t ON t.id = c.trial_id WHERE c.trial_id = ? AND c.state = 'COMPLETED'"         \
      " ORDER BY c.steps = coalesce(json_extract(t.best_validation, '$.totalBatches'), -1) DESC,"  \
      " c.steps DESC LIMIT 1")                                                                     \
    X(TRIAL_TASK, "SELECT task_id FROM trials WHERE id = ?")                                       \
    /* how far a task is: 0 trial, 1 state of the trial, 2 its end */                              \
    X(TASK_END, "SELECT id, state, ended_at FROM trials WHERE task_id = ?")                        \
                                                                                                   \
    X(ALLOCATIONS_OF_TRIAL,                                                                        \
      "SELECT " DB_ALLOCATION_COLUMNS " FROM allocations WHERE trial_id = ? ORDER BY epoch")       \
                                                                                                   \
    /* trial, group, after (steps, id), limit: a page of a series; start with (-2, 0) */           \
    X(METRICS_OF_GROUP, "SELECT " DB_METRIC_COLUMNS " FROM metrics"                                \
                        " WHERE trial_id = ? AND grp = ? AND (steps, id) > (?, ?)"                 \
                        " AND archived = 0 ORDER BY steps, id LIMIT ?")                            \
    /* trial, after (group, steps, id), limit: start with ('', -2, 0) */                           \
    X(METRICS_OF_TRIAL, "SELECT " DB_METRIC_COLUMNS " FROM metrics"                                \
                        " WHERE trial_id = ? AND (grp, steps, id) > (?, ?, ?)"                     \
                        " AND archived = 0 ORDER BY grp, steps, id LIMIT ?")                       \
    /* trial, group, JSON path of the metric; 2 value, 3 its JSON type */                          \
    X(METRIC_SERIES, "SELECT steps, end_time, json_extract(metrics, ?3), json_type(metrics, ?3)"   \
                     " FROM metrics WHERE trial_id = ?1 AND grp = ?2 AND archived = 0"             \
                     " ORDER BY steps, id")                                                        \
                                                                                                   \
    X(CHECKPOINTS_OF_EXPERIMENT, "SELECT " DB_CHECKPOINT_COLUMNS                                   \
                                 " FROM checkpoints WHERE experiment_id = ? ORDER BY steps, uuid") \
    X(CHECKPOINT_VIEW, SQL_CHECKPOINT_COLUMNS " " SQL_CHECKPOINT_TABLES " WHERE c.uuid = ?")       \
    X(CHECKPOINT_STORAGE, "SELECT storage, state FROM checkpoints WHERE uuid = ?")                 \
                                                                                                   \
    /* for the core at start; INDEXED BY: ended ones are the many, and are not looked at. Each has \
       its table's columns, then: the owner's name; the steps of the latest checkpoint; outcome */ \
    X(EXPERIMENTS_LIVE,                                                                            \
      "SELECT " DB_EXPERIMENT_COLUMNS ", (SELECT username FROM users WHERE users.id = user_id)"    \
      " FROM experiments INDEXED BY experiments_live"                                              \
      " WHERE state NOT IN ('COMPLETED', 'CANCELED', 'ERROR') ORDER BY id")                        \
    X(TRIALS_LIVE, "SELECT " DB_TRIAL_COLUMNS                                                      \
                   ", (SELECT steps FROM checkpoints WHERE uuid = latest_checkpoint)"              \
                   " FROM trials WHERE experiment_id IN (SELECT id FROM experiments"               \
                   " WHERE state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')) ORDER BY id")          \
    X(ALLOCATIONS_LIVE, "SELECT " DB_ALLOCATION_COLUMNS ", outcome FROM allocations"               \
                        " INDEXED BY allocations_live WHERE state <> 'TERMINATED'"                 \
                        " ORDER BY trial_id, epoch")                                               \
    /* 0 id, 1 pool, 2 enabled, 3 draining, 4 slots, 5 disabled_slots, 6 version,                  \
       7 registered_at, 8 last_seen_at */                                                          \
    X(AGENTS, "SELECT id, pool, enabled, draining, slots, disabled_slots, version, registered_at," \
              " last_seen_at FROM agents ORDER BY id")                                             \
    /* every experiment: 0 id, 1 state, 2 user_id, 3 archived, 4 best_metric */                    \
    X(EXPERIMENTS_ALL,                                                                             \
      "SELECT id, state, user_id, archived, best_metric FROM experiments ORDER BY id")             \
    X(PROJECT_OF_NAMES, "SELECT p.id FROM projects p JOIN workspaces w ON w.id = p.workspace_id"   \
                        " WHERE w.name = ? AND p.name = ?")                                        \
    X(TRIAL_CHECKPOINT, "SELECT latest_checkpoint FROM trials WHERE id = ?")                       \
    /* the greatest id of 0 experiments, 1 trials, 2 users, 3 workspaces, 4 projects; 0: none */   \
    X(MAX_IDS, "SELECT (SELECT coalesce(max(id), 0) FROM experiments),"                            \
               " (SELECT coalesce(max(id), 0) FROM trials),"                                       \
               " (SELECT coalesce(max(id), 0) FROM users),"                                        \
               " (SELECT coalesce(max(id), 0) FROM workspaces),"                                   \
               " (SELECT coalesce(max(id), 0) FROM projects)")

#endif
