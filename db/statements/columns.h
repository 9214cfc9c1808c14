// Lists of columns that queries share, so that one writer of JSON, or one reader, serves every
// query of a table: append to a list, never insert. Constant text.
#ifndef MUSTER_DB_STATEMENTS_COLUMNS_H
#define MUSTER_DB_STATEMENTS_COLUMNS_H

#include "db/statements/columns_live.h"

#define DB_USER_COLUMNS                                                                            \
    "id, username, display_name, admin, active, modified_at, agent_user_group, last_auth_at"
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

// What the core reads beside them of what lives. Of experiments: 23 the owner's name,
// 24 queue_order, 25 weight, 26 service, 27 resource_pool, 28 external_id, 29 kind, 30 ancestors,
// 31 no_pause. Of trials: 20 the steps of the latest checkpoint, 21 how long it has waited for
// slots that it got, 22 external_id, 23 metrics_known, 24 restart_at, 25 failures, 26 failed_alike.
#define SQL_LIVE_EXPERIMENT                                                                        \
    ", (SELECT username FROM users WHERE users.id = user_id), queue_order, weight, service,"       \
    " resource_pool, external_id, kind, ancestors, no_pause"
#define SQL_LIVE_TRIAL                                                                             \
    ", (SELECT steps FROM checkpoints WHERE uuid = latest_checkpoint)"                             \
    ", (SELECT sum(a.started_at - a.queued_at) FROM allocations a WHERE a.trial_id = trials.id)"   \
    ", external_id, metrics_known, restart_at, failures, failed_alike"

// 0 id, 1 trial_id, 2 epoch, 3 state, 4 slots, 5 pool, 6 placement, 7 exit_reason, 8 queued_at,
// 9 started_at, 10 ended_at
#define DB_ALLOCATION_COLUMNS                                                                      \
    "id, trial_id, epoch, state, slots, pool, placement, exit_reason, queued_at, started_at,"      \
    " ended_at"

// 0 uuid, 1 task_id, 2 allocation_id, 3 trial_id, 4 experiment_id, 5 state, 6 steps, 7 metadata,
// 8 resources, 9 storage, 10 validation, 11 reported_at
#define DB_CHECKPOINT_COLUMNS                                                                      \
    "uuid, task_id, allocation_id, trial_id, experiment_id, state, steps, metadata, resources,"    \
    " storage, validation, reported_at"

// The workspaces that a user sees, by master/teams/roles.h, as a list of ids. One value to bind:
// the user.
#define SQL_SEEN_WORKSPACES                                                                        \
    "SELECT w.id FROM (SELECT ? AS me) JOIN workspaces w LEFT JOIN workspace_members m"            \
    " ON m.workspace_id = w.id AND m.user_id = me"                                                 \
    " WHERE w.user_id = me OR coalesce(nullif(m.role, ''), w.default_role) <> 'none'"

// What gives user ?2 a role in the workspace that row ?1 belongs to: 0 its creator, 1 its default
// role, 2 the user's own (null: no member), 3 the row's experiment.
#define SQL_STANDING(key, experiment, from)                                                        \
    "SELECT w.user_id, w.default_role, m.role, " experiment " FROM " from                          \
    " LEFT JOIN workspace_members m ON m.workspace_id = w.id AND m.user_id = ?2 WHERE " key        \
    " = ?1"
#define SQL_IN_WORKSPACE                                                                           \
    "JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_STANDING_OF(key, table)                                                                \
    SQL_STANDING(key, "e.id",                                                                      \
                 table " x JOIN experiments e ON e.id = x.experiment_id " SQL_IN_WORKSPACE)

// What the views of master/http select, with what they show of other tables. Each list is counted
// by an enum beside the writer of its JSON (experiments.c, trials.c, checkpoints.c).

// The searcher's metric as a quoted label of a JSON path.
#define SQL_METRIC_LABEL                                                                           \
    "'\"' || replace(json_extract(e.config, '$.searcher.metric'), '\"', '') || '\"'"

#define SQL_EXPERIMENT_STATE                                                                       \
    "CASE e.state WHEN 'ACTIVE' THEN " SQL_LIVE_STATE(SQL_EXPERIMENT_RUNS) " ELSE e.state END"

#define SQL_EXPERIMENT_COLUMNS                                                                     \
    "SELECT e.id, " SQL_EXPERIMENT_STATE ", e.name, e.description, e.notes, e.labels, e.user_id, " \
    "u.username, u.display_name, e.project_id, p.name, p.user_id, w.id, w.name, "                  \
    "p.archived OR w.archived, e.job_id, e.parent_id, e.config, e.searcher_type, e.progress, "     \
    "e.best_metric, e.archived, e.unmanaged, e.submitted_at, e.ended_at, "                         \
    "(SELECT count(*) FROM trials t WHERE t.experiment_id = e.id), "                               \
    "json_extract(e.config, '$.resources.resource_pool'), " SQL_LIVE_COUNT(                        \
        SQL_EXPERIMENT_RUNS) ", " SQL_FAILURE("e.id", "e.state")
#define SQL_EXPERIMENT_FROM "FROM experiments e"
#define SQL_EXPERIMENT_JOINED                                                                      \
    "JOIN users u ON u.id = e.user_id JOIN projects p ON p.id = e.project_id "                     \
    "JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_EXPERIMENT_TABLES SQL_EXPERIMENT_FROM " " SQL_EXPERIMENT_JOINED

#define SQL_TRIAL_STATE                                                                            \
    "CASE t.state WHEN 'ACTIVE' THEN " SQL_LIVE_STATE(                                             \
        "allocations a WHERE a.trial_id = t.id") " ELSE t.state END"

// Microseconds that its starts ran, those that run until now: what it waited does not count.
#define SQL_TRIAL_RAN                                                                              \
    "(SELECT ifnull(sum(ifnull(a.ended_at, (julianday('now') - 2440587.5) * 86400e6) - "           \
    "a.started_at), 0) FROM allocations a WHERE a.trial_id = t.id AND a.started_at IS NOT NULL)"
#define SQL_TRIAL_COLUMNS                                                                          \
    "SELECT t.id, t.experiment_id, " SQL_TRIAL_STATE ", t.hparams, t.restarts, "                   \
    "t.steps_completed, t.started_at, t.ended_at, t.task_id, t.runner_state, t.summary_metrics, "  \
    "t.latest_training, t.latest_validation, t.best_validation, t.latest_checkpoint, "             \
    "t.progress, t.exit_reason, t.run_id, t.seed, "                                                \
    "(SELECT count(*) FROM checkpoints c WHERE c.trial_id = t.id AND c.state <> 'DELETED'), "      \
    "json_extract(t.best_validation, '$.metrics.avgMetrics.' || " SQL_METRIC_LABEL "), "           \
    "coalesce(t.log_retention_days, e.log_retention_days, "                                        \
    "json_extract(e.config, '$.retention_policy.log_retention_days')), " SQL_TRIAL_RAN             \
    ", t.last_words, t.restart_at, t.failed_alike, " SQL_LIVE_COUNT(                               \
        "allocations a WHERE a.trial_id = t.id")
#define SQL_TRIAL_FROM   "FROM trials t"
#define SQL_TRIAL_JOINED "JOIN experiments e ON e.id = t.experiment_id"
#define SQL_TRIAL_TABLES SQL_TRIAL_FROM " " SQL_TRIAL_JOINED

// What is kept of each metric of group ?2: m.key, m.value.
#define SQL_SUMMARY_OF_GROUP                                                                       \
    "json_each(t.summary_metrics) g JOIN json_each(g.value) m ON g.key = ?2"
#define SQL_TRIAL_WORKSPACE SQL_TRIAL_JOINED " JOIN projects p ON p.id = e.project_id"

#include "db/statements/checkpoints.h"

#endif
