// Rows of trials, their checkpoints and logs: a part of rows.h.
#ifndef MUSTER_DB_STATEMENTS_ROWS_TRIALS_H
#define MUSTER_DB_STATEMENTS_ROWS_TRIALS_H

#define TRIAL_ROW(FIRST, NEXT)                                                                     \
    FIRST(integer, id)                                                                             \
    NEXT(integer, experiment_id)                                                                   \
    NEXT(text, request_id)                                                                         \
    NEXT(text, task_id)                                                                            \
    NEXT(text, state)                                                                              \
    NEXT(text, hparams)                                                                            \
    NEXT(integer, seed)                                                                            \
    NEXT(integer, restarts)                                                                        \
    NEXT(integer, run_id)                                                                          \
    NEXT(real, progress)                                                                           \
    NEXT(integer, steps_completed)                                                                 \
    NEXT(text, runner_state)                                                                       \
    NEXT(text, exit_reason)                                                                        \
    NEXT(text, latest_checkpoint)                                                                  \
    NEXT(text, latest_training)                                                                    \
    NEXT(text, latest_validation)                                                                  \
    NEXT(text, best_validation)                                                                    \
    NEXT(text, summary_metrics)                                                                    \
    NEXT(integer, started_at)                                                                      \
    NEXT(integer, ended_at)

#define ACTIVE_TRIAL_ROW(FIRST, NEXT)                                                              \
    TRIAL_ROW(FIRST, NEXT)                                                                         \
    NEXT(integer, continued,                                                                       \
         "(SELECT count(*) FROM trial_continuations WHERE trial_id = trials.id)")                  \
    NEXT(integer, checkpoint_steps,                                                                \
         "(SELECT steps FROM checkpoints WHERE uuid = latest_checkpoint)")                         \
    NEXT(integer, source_trial)                                                                    \
    NEXT(text, source_checkpoint)                                                                  \
    NEXT(integer, source_steps)                                                                    \
    NEXT(integer, waited_us,                                                                       \
         "(SELECT sum(a.started_at - a.queued_at) FROM allocations a WHERE a.trial_id ="           \
         " trials.id)")                                                                            \
    NEXT(text, external_id)                                                                        \
    NEXT(integer, metrics_known)                                                                   \
    NEXT(integer, restart_at)                                                                      \
    NEXT(integer, failures)                                                                        \
    NEXT(integer, failed_alike)

// The tasks of trial t as a JSON list, the first one first.
#define SQL_TASK_IDS                                                                               \
    "(SELECT json_group_array(t.task_id || CASE number WHEN 0 THEN '' ELSE '-' || number END) "    \
    "FROM (SELECT 0 AS number UNION ALL SELECT number FROM trial_continuations "                   \
    "WHERE trial_id = t.id ORDER BY number))"

#define TRIAL_VIEW_ROW(FIRST, NEXT)                                                                \
    FIRST(integer, id, "t.id")                                                                     \
    NEXT(integer, experiment_id, "t.experiment_id")                                                \
    NEXT(text, state, SQL_TRIAL_STATE)                                                             \
    NEXT(text, hparams, "t.hparams")                                                               \
    NEXT(integer, restarts, "t.restarts")                                                          \
    NEXT(integer, steps_completed, "t.steps_completed")                                            \
    NEXT(integer, started_at, "t.started_at")                                                      \
    NEXT(integer, ended_at, "t.ended_at")                                                          \
    NEXT(text, task_ids, SQL_TASK_IDS)                                                             \
    NEXT(text, task_id,                                                                            \
         "t.task_id || coalesce('-' || (SELECT max(number) FROM trial_continuations WHERE "        \
         "trial_id = t.id), '')")                                                                  \
    NEXT(text, runner_state, "t.runner_state")                                                     \
    NEXT(text, summary_metrics, "t.summary_metrics")                                               \
    NEXT(text, latest_training, "t.latest_training")                                               \
    NEXT(text, latest_validation, "t.latest_validation")                                           \
    NEXT(text, best_validation, "t.best_validation")                                               \
    NEXT(text, latest_checkpoint, "t.latest_checkpoint")                                           \
    NEXT(real, progress, "t.progress")                                                             \
    NEXT(text, exit_reason, "t.exit_reason")                                                       \
    NEXT(integer, run_id, "t.run_id")                                                              \
    NEXT(integer, seed, "t.seed")                                                                  \
    NEXT(integer, checkpoints, "t.checkpoints")                                                    \
    NEXT(real, checkpoint_bytes, "t.checkpoint_bytes")                                             \
    NEXT(text, warm_start,                                                                         \
         "coalesce(t.source_checkpoint, "                                                          \
         "json_extract(e.config, '$.searcher.source_checkpoint_uuid'))")                           \
    NEXT(integer, source_trial, "t.source_trial")                                                  \
    NEXT(real, searcher_metric,                                                                    \
         "json_extract(t.best_validation, '$.metrics.avgMetrics.' || " SQL_METRIC_LABEL ")")       \
    NEXT(integer, log_retention_days, SQL_TRIAL_LOG_DAYS)                                          \
    NEXT(integer, ran_us, SQL_TRIAL_RAN)                                                           \
    NEXT(real, waited_us, SQL_TRIAL_WAITED)                                                        \
    NEXT(text, last_words, "t.last_words")                                                         \
    NEXT(integer, restart_at, "t.restart_at")                                                      \
    NEXT(integer, failed_alike, "t.failed_alike")                                                  \
    NEXT(integer, live_allocations, SQL_ACTIVE_COUNT("allocations a WHERE a.trial_id = t.id"))

#define MEDIA_VIEW_ROW(FIRST, NEXT)                                                                \
    FIRST(text, name, "m.name")                                                                    \
    NEXT(integer, step, "m.step")                                                                  \
    NEXT(integer, run_id, "m.run_id")                                                              \
    NEXT(text, type, "m.type")                                                                     \
    NEXT(text, digest, "m.digest")                                                                 \
    NEXT(integer, size, "m.size")                                                                  \
    NEXT(integer, reported_at, "m.reported_at")

#define CHECKPOINT_VIEW_ROW(FIRST, NEXT)                                                           \
    FIRST(text, uuid, "c.uuid")                                                                    \
    NEXT(text, task_id, "c.task_id")                                                               \
    NEXT(text, allocation_id, "c.allocation_id")                                                   \
    NEXT(integer, trial_id, "c.trial_id")                                                          \
    NEXT(integer, experiment_id, "c.experiment_id")                                                \
    NEXT(text, state, SQL_CHECKPOINT_STATE)                                                        \
    NEXT(text, removal_error, "c.removal_error")                                                   \
    NEXT(integer, steps, "c.steps")                                                                \
    NEXT(text, metadata, "c.metadata")                                                             \
    NEXT(text, resources, "c.resources")                                                           \
    NEXT(text, storage, "c.storage")                                                               \
    NEXT(text, validation, "c.validation")                                                         \
    NEXT(integer, reported_at, "c.reported_at")                                                    \
    NEXT(text, config, "e.config")                                                                 \
    NEXT(text, hparams, "t.hparams")                                                               \
    NEXT(real, searcher_metric, SQL_CHECKPOINT_METRIC)                                             \
    NEXT(integer, storage_id,                                                                      \
         "(SELECT s.id FROM storages s WHERE s.storage = " SQL_STORAGE_PLACE("c.storage") ")")

#define WORKLOAD_CHECKPOINT_ROW(FIRST, NEXT)                                                       \
    FIRST(text, uuid)                                                                              \
    NEXT(text, state)                                                                              \
    NEXT(integer, steps)                                                                           \
    NEXT(integer, reported_at)                                                                     \
    NEXT(text, resources)                                                                          \
    NEXT(text, metadata)

#define LOG_CHUNK_ROW(FIRST, NEXT)                                                                 \
    FIRST(integer, rowid)                                                                          \
    NEXT(integer, last_id)                                                                         \
    NEXT(integer, lines)                                                                           \
    NEXT(integer, first_time)                                                                      \
    NEXT(integer, last_time)                                                                       \
    NEXT(blob, origins)

#endif
