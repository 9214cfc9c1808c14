// SQL expressions of lists and of objects beside experiments: a part of fragments.h.
#ifndef MUSTER_DB_STATEMENTS_FRAGMENTS_LISTS_H
#define MUSTER_DB_STATEMENTS_FRAGMENTS_LISTS_H

#define SQL_WEBHOOK_OUTBOX                                                                         \
    "INSERT INTO webhook_outbox (webhook_id, event_id, payload, created_at, due_at)"
#define SQL_CHUNKS_OF_EXPERIMENT                                                                   \
    "(SELECT c.id FROM trials t JOIN metric_chunks c ON c.trial_id = t.id"                         \
    " WHERE t.experiment_id = ?)"
#define SQL_TRIALS_OF_EXPERIMENT "(SELECT id FROM trials WHERE experiment_id = ?)"
#define SQL_LOG_CHUNKS                                                                             \
    "SELECT " SQL_LIST(LOG_CHUNK_ROW) " FROM log_chunks WHERE task_id = ?1 AND last_id "
#define SQL_PROJECT_FROM "FROM projects p"
#define SQL_PROJECT_JOINED                                                                         \
    "JOIN users u ON u.id = p.user_id JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_WORKSPACE_FROM     "FROM workspaces w"
#define SQL_WORKSPACE_JOINED   "JOIN users u ON u.id = w.user_id"
#define SQL_MEDIA_FROM         "FROM media m"
#define SQL_TOKEN_FROM         "FROM tokens k"
#define SQL_TEMPLATE_FROM      "FROM templates t"
#define SQL_MODEL_FROM         "FROM models m"
#define SQL_MODEL_JOINED       "JOIN users mu ON mu.id = m.user_id"
#define SQL_MODEL_VERSION_FROM "FROM model_versions v"
#define SQL_MODEL_VERSION_COLUMNS                                                                  \
    SQL_LIST(CHECKPOINT_VIEW_ROW)                                                                  \
    VERSION_VIEW_ROW(SQL_NEXT, SQL_NEXT) MODEL_VIEW_ROW(SQL_NEXT, SQL_NEXT)
#define SQL_SELECT_MODEL_VERSION "SELECT " SQL_MODEL_VERSION_COLUMNS
#define SQL_MODEL_VERSION_JOINED                                                                   \
    "JOIN models m ON m.id = v.model_id " SQL_MODEL_JOINED " JOIN users vu ON vu.id = v.user_id "  \
    "LEFT JOIN checkpoints c ON c.uuid = v.checkpoint_uuid " SQL_CHECKPOINT_JOINED
#define SQL_TASK_FROM                                                                              \
    "FROM experiments e JOIN trials t ON t.experiment_id = e.id "                                  \
    "JOIN projects p ON p.id = e.project_id JOIN users u ON u.id = e.user_id"
#define SQL_TASK_JOINED "LEFT JOIN allocations a ON a.trial_id = t.id AND a.epoch = t.run_id"
#define SQL_SLOT_USE                                                                               \
    "SELECT rowid AS row, id, trial_id, slots, started_at, ended_at, pool FROM allocations"
#define SQL_SLOT_USE_JOINED                                                                        \
    "JOIN trials t ON t.id = a.trial_id JOIN experiments e ON e.id = t.experiment_id "             \
    "JOIN users u ON u.id = e.user_id JOIN projects p ON p.id = e.project_id "                     \
    "JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_TASK_ENDED "t.state IN ('COMPLETED', 'CANCELED', 'ERROR')"
#define SQL_PROJECT_LAST_SUBMITTED                                                                 \
    "(SELECT b.submitted_at FROM experiment_briefs b WHERE b.project_id = p.id AND b.kind"         \
    " = 'EXPERIMENT' ORDER BY b.id DESC LIMIT 1)"
// Counted in the table of counts: a project may hold a hundred thousand experiments.
#define SQL_PROJECT_COUNT(column, condition)                                                       \
    "(SELECT coalesce(sum(c." column                                                               \
    "), 0) FROM experiment_counts c WHERE c.project_id = p.id AND c.kind = 'EXPERIMENT'" condition \
    ")"

#endif
