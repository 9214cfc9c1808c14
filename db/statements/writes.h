// What the store can write: X(NAME, SQL) is STMT_NAME for db_batch_add(). Kept by master/core.
//
// Add a row at the end of its table's group. Parameters are ?1 ?2 .. or ? in the order of the
// arguments: an insert takes its columns in the order written, an update the new values first and
// the key last. Constant text only. Every row is prepared against the schema by test_statements, so
// a slip in a name is a red test. What may be sent twice says ON CONFLICT (key), which passes over
// a repetition and nothing else (INSERT OR IGNORE would hide a missing value).
#ifndef MUSTER_DB_STATEMENTS_WRITES_H
#define MUSTER_DB_STATEMENTS_WRITES_H

#define DB_WRITES(X)                                                                               \
    X(META_SET, "INSERT INTO meta (key, value) VALUES (?, ?)"                                      \
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value")                         \
                                                                                                   \
    X(USER_INSERT, "INSERT INTO users (username, display_name, admin, active, password_hash,"      \
                   " modified_at) VALUES (?, ?, ?, ?, ?, ?)")                                      \
    X(USER_SET_NAME, "UPDATE users SET username = ?, modified_at = ? WHERE id = ?")                \
    X(USER_SET_DISPLAY_NAME, "UPDATE users SET display_name = ?, modified_at = ? WHERE id = ?")    \
    X(USER_SET_ADMIN, "UPDATE users SET admin = ?, modified_at = ? WHERE id = ?")                  \
    X(USER_SET_ACTIVE, "UPDATE users SET active = ?, modified_at = ? WHERE id = ?")                \
    X(USER_SET_PASSWORD, "UPDATE users SET password_hash = ?, modified_at = ? WHERE id = ?")       \
                                                                                                   \
    X(TOKEN_INSERT, "INSERT INTO tokens (hash, kind, user_id, allocation_id, created_at,"          \
                    " expires_at) VALUES (?, ?, ?, ?, ?, ?)")                                      \
    X(TOKEN_DELETE, "DELETE FROM tokens WHERE hash = ?")                                           \
    X(TOKENS_DELETE_ALLOCATION, "DELETE FROM tokens WHERE allocation_id = ?")                      \
    X(TOKENS_DELETE_EXPIRED, "DELETE FROM tokens WHERE expires_at > 0 AND expires_at <= ?")        \
    /* hash of the one that stays: there is one token for all agents */                            \
    X(TOKENS_DELETE_AGENTS, "DELETE FROM tokens WHERE kind = 'agent' AND hash <> ?")               \
    /* user id, hash of the one that stays */                                                      \
    X(TOKENS_DELETE_OTHERS, "DELETE FROM tokens WHERE kind = 'user' AND user_id = ?"               \
                            " AND hash <> ?")                                                      \
                                                                                                   \
    /* id null: the next free one */                                                               \
    X(WORKSPACE_INSERT, "INSERT INTO workspaces (id, name, user_id, created_at)"                   \
                        " VALUES (?, ?, ?, ?)")                                                    \
    X(WORKSPACE_SET_NAME, "UPDATE workspaces SET name = ? WHERE id = ?")                           \
    X(WORKSPACE_SET_ARCHIVED, "UPDATE workspaces SET archived = ? WHERE id = ?")                   \
    X(WORKSPACE_DELETE, "DELETE FROM workspaces WHERE id = ?")                                     \
    /* id null: the next free one */                                                               \
    X(PROJECT_INSERT, "INSERT INTO projects (id, name, workspace_id, description, user_id,"        \
                      " created_at) VALUES (?, ?, ?, ?, ?, ?)")                                    \
    X(PROJECT_SET_NAME, "UPDATE projects SET name = ? WHERE id = ?")                               \
    X(PROJECT_SET_DESCRIPTION, "UPDATE projects SET description = ? WHERE id = ?")                 \
    X(PROJECT_SET_ARCHIVED, "UPDATE projects SET archived = ? WHERE id = ?")                       \
    X(PROJECT_DELETE, "DELETE FROM projects WHERE id = ?")                                         \
                                                                                                   \
    X(EXPERIMENT_INSERT,                                                                           \
      "INSERT INTO experiments (id, state, name, description, notes, labels, user_id,"             \
      " project_id, job_id, parent_id, original_config, config, priority, searcher_type,"          \
      " searcher_state, unmanaged, seed, model_definition_hash, submitted_at)"                     \
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?)")              \
    X(EXPERIMENT_SET_STATE, "UPDATE experiments SET state = ? WHERE id = ?")                       \
    X(EXPERIMENT_END, "UPDATE experiments SET state = ?, ended_at = ? WHERE id = ?")               \
    X(EXPERIMENT_SET_PROGRESS, "UPDATE experiments SET progress = ? WHERE id = ?")                 \
    X(EXPERIMENT_SET_SEARCHER, "UPDATE experiments SET searcher_state = ? WHERE id = ?")           \
    X(EXPERIMENT_SET_BEST_METRIC, "UPDATE experiments SET best_metric = ? WHERE id = ?")           \
    X(EXPERIMENT_SET_ARCHIVED, "UPDATE experiments SET archived = ? WHERE id = ?")                 \
    X(EXPERIMENT_SET_PROJECT, "UPDATE experiments SET project_id = ? WHERE id = ?")                \
    /* null: as it was. name, description, notes, labels, priority (or -1), config, id */          \
    X(EXPERIMENT_PATCH,                                                                            \
      "UPDATE experiments SET name = coalesce(?, name), description = coalesce(?, description),"   \
      " notes = coalesce(?, notes), labels = coalesce(?, labels),"                                 \
      " priority = coalesce(nullif(?, -1), priority), config = coalesce(?, config) WHERE id = ?")  \
    /* an experiment goes by all of these, in this order, in one batch; each takes its id */       \
    X(EXPERIMENT_DELETE_LOGS, "DELETE FROM logs WHERE task_id IN"                                  \
                              " (SELECT task_id FROM trials WHERE experiment_id = ?)")             \
    X(EXPERIMENT_DELETE_METRICS, "DELETE FROM metrics WHERE trial_id IN"                           \
                                 " (SELECT id FROM trials WHERE experiment_id = ?)")               \
    X(EXPERIMENT_DELETE_CHECKPOINTS, "DELETE FROM checkpoints WHERE experiment_id = ?")            \
    X(EXPERIMENT_DELETE_TOKENS,                                                                    \
      "DELETE FROM tokens WHERE allocation_id IN (SELECT a.id FROM allocations a"                  \
      " JOIN trials t ON t.id = a.trial_id WHERE t.experiment_id = ?)")                            \
    X(EXPERIMENT_DELETE_ALLOCATIONS, "DELETE FROM allocations WHERE trial_id IN"                   \
                                     " (SELECT id FROM trials WHERE experiment_id = ?)")           \
    X(EXPERIMENT_DELETE_TRIALS, "DELETE FROM trials WHERE experiment_id = ?")                      \
    X(EXPERIMENT_DELETE, "DELETE FROM experiments WHERE id = ?")                                   \
                                                                                                   \
    X(MODEL_DEFINITION_INSERT, "INSERT INTO model_definitions (hash, archive) VALUES (?, ?)"       \
                               " ON CONFLICT (hash) DO NOTHING")                                   \
    /* nothing while an experiment has it */                                                       \
    X(MODEL_DEFINITION_DELETE_UNUSED,                                                              \
      "DELETE FROM model_definitions WHERE hash = ?1 AND NOT EXISTS"                               \
      " (SELECT 1 FROM experiments WHERE model_definition_hash = ?1)")                             \
                                                                                                   \
    X(TRIAL_INSERT, "INSERT INTO trials (id, experiment_id, request_id, task_id, state, hparams,"  \
                    " seed, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")                          \
    X(TRIAL_SET_STATE, "UPDATE trials SET state = ? WHERE id = ?")                                 \
    X(TRIAL_SET_RUN, "UPDATE trials SET run_id = ? WHERE id = ?")                                  \
    X(TRIAL_SET_RESTARTS, "UPDATE trials SET restarts = ? WHERE id = ?")                           \
    X(TRIAL_SET_PROGRESS, "UPDATE trials SET progress = ? WHERE id = ?")                           \
    X(TRIAL_SET_STEPS, "UPDATE trials SET steps_completed = ? WHERE id = ?")                       \
    X(TRIAL_SET_RUNNER_STATE, "UPDATE trials SET runner_state = ? WHERE id = ?")                   \
    X(TRIAL_SET_EXIT_REASON, "UPDATE trials SET exit_reason = ? WHERE id = ?")                     \
    X(TRIAL_SET_LATEST_CHECKPOINT, "UPDATE trials SET latest_checkpoint = ? WHERE id = ?")         \
    X(TRIAL_SET_LATEST_TRAINING, "UPDATE trials SET latest_training = ? WHERE id = ?")             \
    X(TRIAL_SET_LATEST_VALIDATION, "UPDATE trials SET latest_validation = ? WHERE id = ?")         \
    X(TRIAL_SET_BEST_VALIDATION, "UPDATE trials SET best_validation = ? WHERE id = ?")             \
    X(TRIAL_SET_SUMMARY, "UPDATE trials SET summary_metrics = ? WHERE id = ?")                     \
    /* state, reason, time, id */                                                                  \
    X(TRIAL_END, "UPDATE trials SET state = ?, exit_reason = ?, ended_at = ? WHERE id = ?")        \
                                                                                                   \
    X(ALLOCATION_INSERT, "INSERT INTO allocations (id, trial_id, epoch, state, slots, pool,"       \
                         " queued_at) VALUES (?, ?, ?, ?, ?, ?, ?)")                               \
    X(ALLOCATION_SET_STATE, "UPDATE allocations SET state = ? WHERE id = ?")                       \
    /* state, placement, time, id */                                                               \
    X(ALLOCATION_PLACE, "UPDATE allocations SET state = ?, placement = ?, started_at = ?"          \
                        " WHERE id = ?")                                                           \
    /* outcome, reason, id */                                                                      \
    X(ALLOCATION_SET_OUTCOME, "UPDATE allocations SET outcome = ?, exit_reason = ? WHERE id = ?")  \
    /* reason, time, id */                                                                         \
    X(ALLOCATION_END, "UPDATE allocations SET state = 'TERMINATED', exit_reason = ?,"              \
                      " ended_at = ? WHERE id = ?")                                                \
                                                                                                   \
    /* an agent that is known keeps its switches and the time it first came */                     \
    X(AGENT_UPSERT,                                                                                \
      "INSERT INTO agents (id, pool, slots, version, registered_at, last_seen_at)"                 \
      " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET pool = excluded.pool,"            \
      " slots = excluded.slots, version = excluded.version, last_seen_at = excluded.last_seen_at") \
    X(AGENT_SEEN, "UPDATE agents SET last_seen_at = ? WHERE id = ?")                               \
    X(AGENT_SET_ENABLED, "UPDATE agents SET enabled = ?, draining = ? WHERE id = ?")               \
    X(AGENT_SET_DISABLED_SLOTS, "UPDATE agents SET disabled_slots = ? WHERE id = ?")               \
    X(AGENT_DELETE, "DELETE FROM agents WHERE id = ?")                                             \
                                                                                                   \
    X(METRIC_INSERT,                                                                               \
      "INSERT INTO metrics (trial_id, run_id, grp, steps, end_time, metrics, batch_metrics)"       \
      " VALUES (?, ?, ?, ?, ?, ?, ?)"                                                              \
      " ON CONFLICT (trial_id, run_id, grp, steps) WHERE steps >= 0"                               \
      " DO UPDATE SET metrics = json_patch(metrics, excluded.metrics)")                            \
    /* trial, step it starts again from */                                                         \
    X(METRICS_ARCHIVE_BEYOND, "UPDATE metrics SET archived = 1 WHERE trial_id = ? AND steps > ?"   \
                              " AND archived = 0")                                                 \
    /* trial, group, steps, run: what earlier runs said of a step that this one tells anew */      \
    X(METRIC_ARCHIVE_EARLIER, "UPDATE metrics SET archived = 1 WHERE trial_id = ? AND grp = ?"     \
                              " AND steps = ? AND run_id < ? AND archived = 0")                    \
                                                                                                   \
    /* rank and sequence: null or -1 when there is none */                                         \
    X(LOG_INSERT,                                                                                  \
      "INSERT INTO logs (task_id, allocation_id, agent_id, container_id, rank, time, level,"       \
      " stdtype, source, log, sequence)"                                                           \
      " VALUES (?, ?, ?, ?, nullif(?, -1), ?, ?, ?, ?, ?, nullif(?, -1))"                          \
      " ON CONFLICT (allocation_id, agent_id, sequence) WHERE sequence IS NOT NULL DO NOTHING")    \
                                                                                                   \
    /* a repeated report replaces what is said of it, not whose it is */                           \
    X(CHECKPOINT_UPSERT,                                                                           \
      "INSERT INTO checkpoints (uuid, task_id, allocation_id, trial_id, experiment_id, state,"     \
      " steps, metadata, resources, storage, validation, reported_at)"                             \
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO UPDATE SET"              \
      " state = excluded.state, steps = excluded.steps, metadata = excluded.metadata,"             \
      " resources = excluded.resources, storage = excluded.storage,"                               \
      " validation = coalesce(excluded.validation, validation),"                                   \
      " reported_at = excluded.reported_at")                                                       \
    X(CHECKPOINT_SET_STATE, "UPDATE checkpoints SET state = ? WHERE uuid = ?")                     \
    /* resources, state, uuid */                                                                   \
    X(CHECKPOINT_SET_RESOURCES, "UPDATE checkpoints SET resources = ?, state = ? WHERE uuid = ?")  \
    /* of the same step: validation, trial, steps */                                               \
    X(CHECKPOINTS_SET_VALIDATION,                                                                  \
      "UPDATE checkpoints SET validation = ? WHERE trial_id = ? AND steps = ?")                    \
    X(CHECKPOINT_DELETE, "DELETE FROM checkpoints WHERE uuid = ?")

#endif
