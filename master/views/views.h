// The views of the routes, grouped by source, and the writers of JSON objects that several views
// share. Views run on an http thread; views marked "worker" run on a worker thread. A render_ view
// writes the answer of a call that the core handled: it takes the object's id from rq->id.
#ifndef MUSTER_MASTER_VIEWS_VIEWS_H
#define MUSTER_MASTER_VIEWS_VIEWS_H

#include "master/http/stream.h"
#include "master/teams/roles.h"
#include "master/views/lists/list.h"

// master.c, master_log.c
view_handler view_info, view_health, view_openapi, view_master;
view_handler view_master_config, view_cluster_message, view_telemetry;
stream_handler stream_master_logs;

// workspaces.c, projects.c, members.c
view_handler view_workspaces, view_workspace, view_workspace_projects, view_members;
view_handler view_project, view_project_of_key, render_project, render_project_notes;
view_handler render_workspace, render_import;

// audit.c
view_handler audit_list;

// resources.c
view_handler view_resources_raw, view_resources_aggregated, view_resources_aggregated_csv; // worker
stream_handler stream_resources_raw, stream_allocations_csv;

// simulate.c
view_handler view_simulate; // worker

// events.c
stream_handler stream_events;

// downloads.c
stream_handler stream_checkpoint_archive, stream_backup, stream_media;

// --- experiments ---------------------------------------------------------------------------------

// lists/experiment_list.c, lists/experiment_fields.c, lists/trial_list.c
view_handler view_experiments, view_experiment_trials, view_fields, view_labels;
view_handler view_search_experiments; // worker

// experiments.c, experiment_files.c, search_progress.c
view_handler view_experiment, view_model_definition, view_context_directory;
view_handler render_experiment_created, render_experiment;
view_handler view_file_tree, view_file; // worker
view_handler view_experiment_search;    // worker
view_handler view_validation_history;

// trials.c, trial_starts.c
view_handler view_trial, view_trial_by_external_id, view_run_metadata, render_trial;
view_handler view_trial_starts, view_experiment_starts, view_trial_log_days;

// media.c, checkpoints.c
view_handler view_trial_media, view_trial_media_names, render_run_start, view_checkpoint,
    view_trial_checkpoints, view_experiment_checkpoints, view_preview_gc;

// --- tasks ---------------------------------------------------------------------------------------

// tasks.c
view_handler view_task, view_allocation;

// commands.c
view_handler view_commands, view_command, view_shells, view_shell, view_notebooks, view_notebook,
    view_tensorboards, view_tensorboard, view_generic_tasks, view_generic_task, view_task_config,
    view_task_count;
view_handler render_command_created, render_command, render_shell, render_notebook,
    render_tensorboard, render_generic_created;

// logs/log_stream.c, logs/log_fields.c
stream_handler stream_trial_logs, stream_task_logs, stream_trial_log_fields, stream_task_log_fields;

// --- metrics -------------------------------------------------------------------------------------

// metrics/report_stream.c
stream_handler stream_training_metrics, stream_validation_metrics, stream_trial_metrics;
view_handler view_checkpoint_metrics; // worker

// metrics/trial_series.c, metrics/trial_workloads.c
view_handler view_trial_series, view_trial_workloads;

// metrics/compare_trials.c, metrics/metric_names.c
view_handler view_compare_trials; // worker
stream_handler stream_metric_names;

// metrics/metric_charts.c
stream_handler stream_metric_batches, stream_trials_snapshot, stream_trials_sample;

// metrics/profiler_series.c
stream_handler stream_profiler_series, stream_profiler_metrics;

// lists/project_columns.c
view_handler view_project_columns, view_project_metric_ranges; // worker

// --- shared writers ------------------------------------------------------------------------------

// experiments.c: writes the members that lists and descriptions share, from a row EXPERIMENT_VIEW.
void write_experiment_members(struct json_writer *w, struct db_rows *rows);

// workspaces.c: writes whether a workspace or project is being deleted (master/teams/teams.h).
void write_deletion_state(struct json_writer *w, const char *state, const char *why);

// trials.c: writes a trial from a row TRIAL_VIEW.
list_writer write_trial_row;

// tasks.c: writes the members that only generic tasks have. `state`: of the task's trial;
// `ancestors`: ids with a slash before each, "" for a root task; `forked_from`: may be NULL.
void write_generic_task_members(struct json_writer *w, const char *state, const char *ancestors,
                                const char *forked_from, bool no_pause);

// checkpoints.c: writes a checkpoint from a row CHECKPOINT_VIEW, or in the shorter form of a
// trial's workloads from a row WORKLOAD_CHECKPOINT.
void write_checkpoint_object(struct json_writer *w, struct db_rows *rows);
void write_checkpoint_workload(struct json_writer *w, struct db_rows *rows);

// metrics/report_stream.c: writes {"metrics": [..]} with the reports of the trials in the first
// column that the caller may see; closes rows.
int write_source_metrics(struct view *v, struct db_rows *rows, struct error *e);
// Reads the query parameter trialSourceInfoType; "": any type.
int read_source_type(struct view *v, const char **type, struct error *e);

// trials.c: reads the trial id of params[0] and finds the trial's task; *task lies in the arena of
// the request. ERR_NOT_FOUND.
int find_task_of_trial(struct view *v, int64_t *trial, const char **task, struct error *e);

// --- webhooks.c: results of master/notify/webhooks.h ---------------------------------------------

view_handler render_webhook, render_webhooks;

// --- common.c, trials.c, checkpoints.c -----------------------------------------------------------

// Writes a key and an RFC 3339 time; the value is null if wall_us is 0.
void write_time(struct json_writer *w, const char *key, int64_t wall_us);

// Writes a key and a size, as digits: as in Determined, 64-bit numbers are JSON strings.
void write_bytes(struct json_writer *w, const char *key, double bytes);

// Writes the name of the resource pool; NULL and "": the default pool.
void write_pool_name(struct json_writer *w, const char *name);

// Writes `key` with the object of the only row, which was looked up by rq->id; closes rows.
// ERR_NOT_FOUND: "KEY 'ID' not found".
int write_object_of_row(struct view *v, const char *key, struct db_rows *rows, list_writer *write,
                        struct error *e);

int store_failed(struct error *e);                    // ERR_INTERNAL
int no_trial(int64_t id, struct error *e);            // ERR_NOT_FOUND
int no_checkpoint(const char *uuid, struct error *e); // ERR_NOT_FOUND

#endif
