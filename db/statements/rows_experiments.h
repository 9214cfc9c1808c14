// Rows of experiments: a part of rows.h.
#ifndef MUSTER_DB_STATEMENTS_ROWS_EXPERIMENTS_H
#define MUSTER_DB_STATEMENTS_ROWS_EXPERIMENTS_H

#define EXPERIMENT_ROW(FIRST, NEXT)                                                                \
    FIRST(integer, id)                                                                             \
    NEXT(text, state)                                                                              \
    NEXT(text, name)                                                                               \
    NEXT(text, description)                                                                        \
    NEXT(text, notes)                                                                              \
    NEXT(text, labels)                                                                             \
    NEXT(integer, user_id)                                                                         \
    NEXT(integer, project_id)                                                                      \
    NEXT(text, job_id)                                                                             \
    NEXT(integer, parent_id)                                                                       \
    NEXT(text, original_config)                                                                    \
    NEXT(text, config)                                                                             \
    NEXT(integer, priority)                                                                        \
    NEXT(text, searcher_type)                                                                      \
    NEXT(text, searcher_state)                                                                     \
    NEXT(real, progress)                                                                           \
    NEXT(real, best_metric)                                                                        \
    NEXT(integer, archived)                                                                        \
    NEXT(integer, unmanaged)                                                                       \
    NEXT(integer, seed)                                                                            \
    NEXT(text, model_definition_hash)                                                              \
    NEXT(integer, submitted_at)                                                                    \
    NEXT(integer, ended_at)

#define ACTIVE_EXPERIMENT_ROW(FIRST, NEXT)                                                         \
    EXPERIMENT_ROW(FIRST, NEXT)                                                                    \
    NEXT(text, owner, "(SELECT username FROM users WHERE users.id = user_id)")                     \
    NEXT(integer, queue_order)                                                                     \
    NEXT(real, weight)                                                                             \
    NEXT(real, service)                                                                            \
    NEXT(text, resource_pool)                                                                      \
    NEXT(text, external_id)                                                                        \
    NEXT(text, kind)                                                                               \
    NEXT(text, ancestors)                                                                          \
    NEXT(integer, no_pause)

#define SQL_OF_BRIEF(column) "(SELECT " column " FROM experiment_briefs b WHERE b.id = e.id)"
// One experiment may be larger than those of a list, but sorting its allocations must stay fast.
#define SQL_IF_MEDIUM(expression) "iif(" SQL_OF_BRIEF("trials") " <= 10000, " expression ", NULL)"

#define EXPERIMENT_VIEW_ROW(FIRST, NEXT)                                                           \
    FIRST(integer, id, "e.id")                                                                     \
    NEXT(text, state, SQL_EXPERIMENT_STATE)                                                        \
    NEXT(text, name, "e.name")                                                                     \
    NEXT(text, description, "e.description")                                                       \
    NEXT(text, notes, "e.notes")                                                                   \
    NEXT(text, labels, "e.labels")                                                                 \
    NEXT(integer, user_id, "e.user_id")                                                            \
    NEXT(text, username, "u.username")                                                             \
    NEXT(text, display_name, "u.display_name")                                                     \
    NEXT(integer, project_id, "e.project_id")                                                      \
    NEXT(text, project_name, "p.name")                                                             \
    NEXT(integer, project_owner_id, "p.user_id")                                                   \
    NEXT(integer, workspace_id, "w.id")                                                            \
    NEXT(text, workspace_name, "w.name")                                                           \
    NEXT(integer, parent_archived, "p.archived OR w.archived")                                     \
    NEXT(text, job_id, "e.job_id")                                                                 \
    NEXT(integer, parent_id, "e.parent_id")                                                        \
    NEXT(text, config, "e.config")                                                                 \
    NEXT(text, searcher_type, "e.searcher_type")                                                   \
    NEXT(real, progress, "e.progress")                                                             \
    NEXT(real, best_metric, "e.best_metric")                                                       \
    NEXT(integer, archived, "e.archived")                                                          \
    NEXT(integer, unmanaged, "e.unmanaged")                                                        \
    NEXT(integer, submitted_at, "e.submitted_at")                                                  \
    NEXT(integer, ended_at, "e.ended_at")                                                          \
    NEXT(integer, trials, SQL_OF_BRIEF("trials"))                                                  \
    NEXT(text, pool, "json_extract(e.config, '$.resources.resource_pool')")                        \
    NEXT(integer, live_allocations, SQL_ACTIVE_COUNT(SQL_EXPERIMENT_RUNS))                         \
    NEXT(text, failure, SQL_FAILURE("e.id", "e.state", SQL_OF_BRIEF("trials")))                    \
    NEXT(text, external_id, "e.external_id")                                                       \
    NEXT(integer, checkpoints, SQL_OF_BRIEF("checkpoints"))                                        \
    NEXT(real, checkpoint_bytes, SQL_OF_BRIEF("checkpoint_bytes"))                                 \
    NEXT(real, ran_us, SQL_IF_MEDIUM(SQL_RAN(SQL_EXPERIMENT_RUNS)))                                \
    NEXT(real, present_us, SQL_IF_MEDIUM(SQL_PRESENT(SQL_EXPERIMENT_RUNS)))

// A list would be slow if it read the allocations of large searches.
#define SQL_IF_SMALL(expression) "iif(r.trials <= 1000, " expression ", NULL)"

#define EXPERIMENT_LIST_ROW(FIRST, NEXT, description_, notes_, config_)                            \
    FIRST(integer, id, "r.id")                                                                     \
    NEXT(text, state,                                                                              \
         "CASE r.state WHEN 'ACTIVE' THEN " SQL_ACTIVE_STATE(SQL_BRIEF_RUNS) " ELSE r.state END")  \
    NEXT(text, name, "r.name")                                                                     \
    NEXT(text, description, description_)                                                          \
    NEXT(text, notes, notes_)                                                                      \
    NEXT(text, labels, "r.labels")                                                                 \
    NEXT(integer, user_id, "r.user_id")                                                            \
    NEXT(text, username, "u.username")                                                             \
    NEXT(text, display_name, "u.display_name")                                                     \
    NEXT(integer, project_id, "r.project_id")                                                      \
    NEXT(text, project_name, "p.name")                                                             \
    NEXT(integer, project_owner_id, "p.user_id")                                                   \
    NEXT(integer, workspace_id, "w.id")                                                            \
    NEXT(text, workspace_name, "w.name")                                                           \
    NEXT(integer, parent_archived, "p.archived OR w.archived")                                     \
    NEXT(text, job_id, "r.job_id")                                                                 \
    NEXT(integer, parent_id, "r.parent_id")                                                        \
    NEXT(text, config, config_)                                                                    \
    NEXT(text, searcher_type, "r.searcher")                                                        \
    NEXT(real, progress, "r.progress")                                                             \
    NEXT(real, best_metric, "r.best")                                                              \
    NEXT(integer, archived, "r.archived")                                                          \
    NEXT(integer, unmanaged, "r.unmanaged")                                                        \
    NEXT(integer, submitted_at, "r.submitted_at")                                                  \
    NEXT(integer, ended_at, "r.ended_at")                                                          \
    NEXT(integer, trials, "r.trials")                                                              \
    NEXT(text, pool, "r.pool")                                                                     \
    NEXT(integer, live_allocations, SQL_ACTIVE_COUNT(SQL_BRIEF_RUNS))                              \
    NEXT(text, failure, SQL_FAILURE("r.id", "r.state", "r.trials"))                                \
    NEXT(text, external_id, "r.external_id")                                                       \
    NEXT(integer, checkpoints, "r.checkpoints")                                                    \
    NEXT(real, checkpoint_bytes, "r.checkpoint_bytes")                                             \
    NEXT(real, ran_us, SQL_IF_SMALL(SQL_RAN(SQL_BRIEF_RUNS)))                                      \
    NEXT(real, present_us, SQL_IF_SMALL(SQL_PRESENT(SQL_BRIEF_RUNS)))

#define VALUE_COUNT_ROW(FIRST, NEXT)                                                               \
    FIRST(text, name)                                                                              \
    NEXT(integer, id)                                                                              \
    NEXT(text, workspace)                                                                          \
    NEXT(integer, workspace_id)                                                                    \
    NEXT(integer, count)

#endif
