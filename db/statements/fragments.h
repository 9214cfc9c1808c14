// SQL expressions that several statements share. Constant text.
#ifndef MUSTER_DB_STATEMENTS_FRAGMENTS_H
#define MUSTER_DB_STATEMENTS_FRAGMENTS_H

// --- states --------------------------------------------------------------------------------------

// The state of an active experiment or trial in answers, from its active allocations.
#define SQL_ACTIVE_STATE(live_allocations)                                                         \
    "CASE (SELECT max(CASE a.state WHEN 'RUNNING' THEN 3 WHEN 'TERMINATING' THEN 3 "               \
    "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 0 END) FROM " live_allocations              \
    " AND a.state <> 'TERMINATED') "                                                               \
    "WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'STARTING' WHEN 1 THEN 'PULLING' ELSE 'QUEUED' END"

// The number of active allocations. Those of a paused experiment still hold their slots.
#define SQL_ACTIVE_COUNT(allocations)                                                              \
    "(SELECT count(*) FROM " allocations " AND a.state <> 'TERMINATED')"

// The reason for an experiment's failure: the reason of its newest failed trial, and how many have
// failed if there are several. A large search does not count: its failed trials may be many.
#define SQL_FAILURE(experiment, state, trials)                                                     \
    "CASE " state " WHEN 'ERROR' THEN iif(" trials " BETWEEN 2 AND 1000, (SELECT count(*) FROM "   \
    "trials t WHERE t.experiment_id = " experiment " AND t.state = 'ERROR') || ' of ' || " trials  \
    " || ' trials failed: ', '') || (SELECT t.exit_reason FROM trials t WHERE t.experiment_id "    \
    "= " experiment                                                                                \
    " AND t.state = 'ERROR' AND t.exit_reason <> '' ORDER BY t.id DESC LIMIT 1) END"

// Days for which the log of a trial is kept; NULL: by the master's rule.
#define SQL_TRIAL_LOG_DAYS                                                                         \
    "coalesce(t.log_retention_days, e.log_retention_days, json_extract(e.config, "                 \
    "'$.retention_policy.log_retention_days'))"

#define SQL_EXPERIMENT_RUNS                                                                        \
    "trials t JOIN allocations a ON a.trial_id = t.id WHERE t.experiment_id = e.id"

#define SQL_EXPERIMENT_STATE                                                                       \
    "CASE e.state WHEN 'ACTIVE' THEN " SQL_ACTIVE_STATE(SQL_EXPERIMENT_RUNS) " ELSE e.state END"

#define SQL_TRIAL_STATE                                                                            \
    "CASE t.state WHEN 'ACTIVE' THEN " SQL_ACTIVE_STATE(                                           \
        "allocations a WHERE a.trial_id = t.id") " ELSE t.state END"
#define SQL_BRIEF_RUNS                                                                             \
    "trials t JOIN allocations a ON a.trial_id = t.id WHERE t.experiment_id = r.id"

// --- authorization -------------------------------------------------------------------------------

// The workspaces that a user may see, by the rules of master/teams/roles.h, as a list of ids. One
// parameter: the user.
#define SQL_SEEN_WORKSPACES                                                                        \
    "SELECT w.id FROM (SELECT ? AS me) JOIN workspaces w LEFT JOIN workspace_members m"            \
    " ON m.workspace_id = w.id AND m.user_id = me"                                                 \
    " WHERE w.user_id = me OR coalesce(nullif(m.role, ''), w.default_role) <> 'none'"

// The sources of a role for user ?2 in the workspace of row ?1; see AUTHZ_ROW.
#define SQL_AUTHZ(key, experiment, from)                                                           \
    "SELECT w.user_id AS creator_id, w.default_role, m.role, " experiment                          \
    " AS experiment_id FROM " from                                                                 \
    " LEFT JOIN workspace_members m ON m.workspace_id = w.id AND m.user_id = ?2 WHERE " key        \
    " = ?1"
#define SQL_IN_WORKSPACE                                                                           \
    "JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_AUTHZ_OF(key, table)                                                                   \
    SQL_AUTHZ(key, "e.id",                                                                         \
              table " x JOIN experiments e ON e.id = x.experiment_id " SQL_IN_WORKSPACE)

// The storage without how many checkpoints are kept: what table storages numbers.
#define SQL_STORAGE_PLACE(storage)                                                                 \
    "json_remove(" storage ", '$.save_experiment_best', '$.save_trial_best', "                     \
    "'$.save_trial_latest')"

// --- trials and experiments ----------------------------------------------------------------------

// The searcher's metric as a quoted label of a JSON path.
#define SQL_METRIC_LABEL                                                                           \
    "'\"' || replace(json_extract(e.config, '$.searcher.metric'), '\"', '') || '\"'"

#define SQL_EXPERIMENT_FROM "FROM experiments e"
#define SQL_EXPERIMENT_JOINED                                                                      \
    "JOIN users u ON u.id = e.user_id JOIN projects p ON p.id = e.project_id "                     \
    "JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_EXPERIMENT_TABLES SQL_EXPERIMENT_FROM " " SQL_EXPERIMENT_JOINED
#define SQL_NOW               "(julianday('now') - 2440587.5) * 86400e6"
// Microseconds that the allocations `runs` cover together: from column `start` to the end, up to
// now for those that have not ended. An interval counts once, however many of them overlap in it.
// NULL: there is none.
#define SQL_COVERED(runs, start)                                                                   \
    "(SELECT sum(max(0, ends - max(begins, ifnull(before, begins)))) FROM (SELECT begins, ends, "  \
    "max(ends) OVER (ORDER BY begins ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before " \
    "FROM (SELECT " start " AS begins, ifnull(a.ended_at, " SQL_NOW ") AS ends FROM " runs         \
    " AND " start " IS NOT NULL)))"
// The time in which a trial of an experiment ran, and in which one ran or waited.
#define SQL_RAN(runs)     SQL_COVERED(runs, "a.started_at")
#define SQL_PRESENT(runs) SQL_COVERED(runs, "a.queued_at")
// Microseconds that the starts of a trial have waited for their slots.
#define SQL_TRIAL_WAITED                                                                           \
    "(SELECT sum(coalesce(a.started_at, a.ended_at, " SQL_NOW ") - a.queued_at) FROM "             \
    "allocations a WHERE a.trial_id = t.id)"
// Microseconds that the starts of a trial have run, up to now for a running one, without waiting.
#define SQL_TRIAL_RAN                                                                              \
    "(SELECT ifnull(sum(ifnull(a.ended_at, " SQL_NOW ") - "                                        \
    "a.started_at), 0) FROM allocations a WHERE a.trial_id = t.id AND a.started_at IS NOT NULL)"
#define SQL_TRIAL_FROM   "FROM trials t"
#define SQL_TRIAL_JOINED "JOIN experiments e ON e.id = t.experiment_id"
#define SQL_TRIAL_TABLES SQL_TRIAL_FROM " " SQL_TRIAL_JOINED

// The summary of each metric of group ?2: m.key, m.value.
#define SQL_SUMMARY_OF_GROUP                                                                       \
    "json_each(t.summary_metrics) g JOIN json_each(g.value) m ON g.key = ?2"
#define SQL_TRIAL_WORKSPACE SQL_TRIAL_JOINED " JOIN projects p ON p.id = e.project_id"

// --- checkpoints ---------------------------------------------------------------------------------

// A deletion that could not remove the files is an error until it can.
#define SQL_CHECKPOINT_STATE "iif(c.removal_error IS NULL, c.state, 'ERROR')"
// The searcher's metric of checkpoint c, of trial t and experiment e. Null if it is not a number:
// JSON holds NaN and infinities as strings.
#define SQL_CHECKPOINT_METRIC                                                                      \
    "iif(json_type(c.validation, '$.avgMetrics.' || " SQL_METRIC_LABEL                             \
    ") IN ('integer', 'real'), json_extract(c.validation, '$.avgMetrics.' || " SQL_METRIC_LABEL    \
    "), NULL)"
// Whether the checkpoint's trial is the best of the experiment: the first with the best value.
#define SQL_CHECKPOINT_LEADS                                                                       \
    "c.trial_id IS (SELECT h.trial_id FROM validation_history h WHERE h.experiment_id = "          \
    "c.experiment_id ORDER BY h.id DESC LIMIT 1)"
// The order of checkpoints from the best one on, here and in master/retention/checkpoint_policy.c:
// by the searcher's metric; on a tie the checkpoint of the best trial, then the earlier one.
// Checkpoints without the metric follow, newest first.
#define SQL_CHECKPOINT_BEST_FIRST                                                                  \
    SQL_CHECKPOINT_METRIC                                                                          \
    " IS NULL, " SQL_CHECKPOINT_METRIC " * iif(coalesce(json_extract(e.config, "                   \
    "'$.searcher.smaller_is_better'), 1), 1, -1), " SQL_CHECKPOINT_LEADS                           \
    " DESC, iif(" SQL_CHECKPOINT_METRIC " IS NULL, -c.steps, c.reported_at), c.steps, c.uuid"
// Objects that protect a checkpoint from every policy; each null if absent: a model version, an
// experiment that starts from it, a trial that would continue from it.
#define SQL_CHECKPOINT_NEEDS                                                                       \
    "(SELECT m.name || ' version ' || v.version FROM model_versions v JOIN models m"               \
    " ON m.id = v.model_id WHERE v.checkpoint_uuid = c.uuid LIMIT 1) AS needed_by_version,"        \
    " (SELECT s.experiment_id FROM experiment_sources s WHERE s.checkpoint_uuid = c.uuid LIMIT 1)" \
    " AS needed_by_experiment,"                                                                    \
    " (SELECT l.id FROM trials l WHERE l.id = c.trial_id AND l.latest_checkpoint = c.uuid"         \
    " AND l.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')) AS needed_by_trial,"                  \
    " (SELECT k.id FROM trials k WHERE k.source_checkpoint = c.uuid AND k.latest_checkpoint IS"    \
    " NULL AND k.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR') LIMIT 1) AS needed_by_clone"
#define SQL_CHECKPOINT_FROM "FROM checkpoints c"
#define SQL_CHECKPOINT_JOINED                                                                      \
    "LEFT JOIN trials t ON t.id = c.trial_id LEFT JOIN experiments e ON e.id = c.experiment_id"
#define SQL_CHECKPOINT_TABLES SQL_CHECKPOINT_FROM " " SQL_CHECKPOINT_JOINED

#include "db/statements/fragments_lists.h"

#endif
