// What the store can be asked: X(NAME, SQL) is STMT_NAME for db_query(). Kept by master/http; the
// core reads its live state at start with the rows of the last group.
//
// Add a row at the end of its table's group. Parameters are ?1 ?2 .. or ? in the order of the
// arguments. Columns are counted from 0 in the order written. Constant text only. Every row is
// prepared against the schema by test_statements.
#ifndef MUSTER_DB_STATEMENTS_READS_H
#define MUSTER_DB_STATEMENTS_READS_H

#include "db/statements/columns.h"

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
    X(LOGS_NEWEST, "SELECT max(id) FROM logs WHERE task_id = ?")                                   \
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
    /* the last ids that were ever given: 0 of an experiment, 1 of a trial */                      \
    X(LAST_IDS, "SELECT coalesce(max(seq) FILTER (WHERE name = 'experiments'), 0),"                \
                " coalesce(max(seq) FILTER (WHERE name = 'trials'), 0) FROM sqlite_sequence")

#endif
