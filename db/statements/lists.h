// The sources, conditions and orders of lists.
#ifndef MUSTER_DB_STATEMENTS_LISTS_H
#define MUSTER_DB_STATEMENTS_LISTS_H

#include "db/statements/rows.h"

#define SQL_USER_FROM            "FROM users"
#define SQL_MODEL_HAS_LABEL      "EXISTS (SELECT 1 FROM json_each(m.labels) WHERE value = ?)"
#define SQL_MODEL_VERSION_COUNT  "(SELECT count(*) FROM model_versions x WHERE x.model_id = m.id)"
#define SQL_MODEL_WORKSPACE_SORT "(SELECT name FROM workspaces WHERE id = m.workspace_id)"
#define SQL_MODEL_WORKSPACE      "SELECT name FROM workspaces WHERE id = m.workspace_id"
#define SQL_MODEL_USERNAME       "SELECT username FROM users WHERE id = m.user_id"
#define SQL_TOKEN_WORKS          "k.revoked = 0 AND (k.expires_at = 0 OR k.expires_at > ?)"
#define SQL_TOKEN_USERNAME       "SELECT username FROM users WHERE id = k.user_id"
#define SQL_WORKSPACE_USERNAME   "SELECT username FROM users WHERE id = w.user_id"
#define SQL_PROJECT_USERNAME     "SELECT username FROM users WHERE id = p.user_id"

// The workspace of a row that names a project.
#define SQL_COUNTED_WORKSPACE    "SELECT workspace_id FROM projects WHERE id = c.project_id"
#define SQL_BRIEF_WORKSPACE      "SELECT workspace_id FROM projects WHERE id = b.project_id"
#define SQL_EXPERIMENT_WORKSPACE "SELECT workspace_id FROM projects WHERE id = e.project_id"

// Formats: the conditions of a list (" AND ..").
#define SQL_LABELS_IN_USE                                                                          \
    "SELECT c.label FROM label_counts c WHERE c.experiments > 0%s"                                 \
    " GROUP BY c.label ORDER BY sum(c.experiments) DESC, c.label"
#define SQL_COUNT_ACTIVE                                                                           \
    "SELECT count(*) FROM experiments e INDEXED BY experiments_live WHERE e.state NOT "            \
    "IN ('COMPLETED', 'CANCELED', 'ERROR')%s"

// A format: the table of names, the limit, the conditions. The query jumps through the index from
// name to name, so that its cost does not depend on the number of experiments.
#define SQL_NAMES_IN_USE                                                                           \
    "WITH RECURSIVE n(name) AS (SELECT min(name) FROM %1$s UNION ALL "                             \
    "SELECT (SELECT min(name) FROM %1$s WHERE name > n.name) FROM n "                              \
    "WHERE n.name IS NOT NULL LIMIT %2$d) SELECT name FROM n WHERE name IS NOT NULL "              \
    "AND EXISTS (SELECT 1 FROM %1$s m JOIN experiment_briefs b ON b.id = "                         \
    "m.experiment_id WHERE m.name = n.name%3$s)"

// A format: columns, joins, conditions, GROUP BY. Row VALUE_COUNT.
#define SQL_COUNT_VALUES                                                                           \
    "SELECT %s, sum(c.experiments) AS total FROM experiment_counts c %s "                          \
    "WHERE c.kind = 'EXPERIMENT'%s GROUP BY %s HAVING total > 0 ORDER BY total DESC"
#define SQL_COUNTED_USERS "JOIN users u ON u.id = c.user_id"
#define SQL_COUNTED_PROJECTS                                                                       \
    "JOIN projects p ON p.id = c.project_id JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_AUDIT_FROM           "FROM audit a"
#define SQL_ALLOCATION_FROM      "FROM allocations"
#define SQL_STARTS_OF_EXPERIMENT "trial_id IN (SELECT t.id FROM trials t WHERE t.experiment_id = ?)"
#define SQL_STARTS_NEWEST_FIRST  " ORDER BY queued_at DESC, id"
#define SQL_NAMES_MATCH          "SELECT rowid FROM experiments_names WHERE experiments_names MATCH ?"

// --- experiments and trials ----------------------------------------------------------------------

#define SQL_BRIEFS       "experiment_briefs r NOT INDEXED"
#define SQL_BRIEF_MAX_ID "SELECT max(id) FROM experiment_briefs"
#define SQL_BRIEF_COUNT  "SELECT coalesce(sum(experiments), 0) FROM experiment_counts r"
// The + prevents the use of an index; each row is tested.
#define SQL_BRIEF_VISIBLE                                                                          \
    "+r.project_id IN (SELECT id FROM projects WHERE workspace_id IN (" SQL_SEEN_WORKSPACES "))"

#define SQL_BRIEF_PARENTS_IN_USE                                                                   \
    "+r.project_id NOT IN (SELECT p.id FROM projects p JOIN workspaces w ON w.id = "               \
    "p.workspace_id WHERE p.archived OR w.archived)"

// Large columns are in the wide rows. A list that omits all of them is light and does not read
// those rows.
#define SQL_LISTED(description, notes, config)                                                     \
    "SELECT " EXPERIMENT_LIST_ROW(SQL_FIRST, SQL_NEXT, description, notes, config)
#define SQL_LIGHT_JOINED                                                                           \
    "CROSS JOIN experiment_briefs r ON r.id = k.id CROSS JOIN users u ON u.id = r.user_id "        \
    "CROSS JOIN projects p ON p.id = r.project_id CROSS JOIN workspaces w ON w.id = "              \
    "p.workspace_id"
#define SQL_LISTED_JOINED SQL_LIGHT_JOINED " CROSS JOIN experiments e ON e.id = r.id"

// The trial with the best validation, with the fields that the REST API requires; NULL: none.
#define SQL_BEST_TRIAL                                                                             \
    "(SELECT json_object('id', t.id, 'experimentId', t.experiment_id, 'state', 'STATE_' || "       \
    "t.state, 'hparams', json(t.hparams), 'restarts', t.restarts, 'totalBatchesProcessed', "       \
    "t.steps_completed, 'checkpointCount', t.checkpoints, 'totalCheckpointSize', "                 \
    "printf('%.0f', max(t.checkpoint_bytes, 0)), 'searcherMetricValue', r.best, "                  \
    "'taskIds', " SQL_TASK_IDS ", 'startTime', "                                                   \
    "strftime('%Y-%m-%dT%H:%M:%fZ', t.started_at / 1e6, "                                          \
    "'unixepoch'), 'summaryMetrics', json(t.summary_metrics), 'bestValidation', "                  \
    "json(t.best_validation)) FROM trials t WHERE t.id = (SELECT h.trial_id FROM "                 \
    "validation_history h WHERE h.experiment_id = r.id ORDER BY h.id DESC LIMIT 1))"
#define SQL_SEARCHED_EXPERIMENT                                                                    \
    SQL_LISTED("e.description", "e.notes", "e.config") ", " SQL_BEST_TRIAL

#define SQL_TRIALS "trials t CROSS JOIN experiments e ON e.id = t.experiment_id"
#define SQL_TRIALS_JOINED                                                                          \
    "CROSS JOIN trials t ON t.id = k.id CROSS JOIN experiments e ON e.id = t.experiment_id"

#endif
