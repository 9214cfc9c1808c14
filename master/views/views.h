// Handlers of routes.c, by the file they are in, and the writers of the wire's objects that several
// of them need. Reads run on an http thread; what is marked worker runs there.
#ifndef MUSTER_MASTER_VIEWS_VIEWS_H
#define MUSTER_MASTER_VIEWS_VIEWS_H

#include "master/http/stream.h"
#include "master/teams/roles.h"
#include "master/views/list.h"

// cluster.c
view_handler view_info, view_openapi, view_master;

// master.c
view_handler master_patch_config, master_set_message, master_delete_message; // worker
view_handler view_master_config, view_cluster_message, view_telemetry;
stream_handler stream_master_logs;
void write_cluster_message(struct view *v, bool also_later); // the key "clusterMessage"

// workspaces.c, projects.c, members.c; the renders take the id in rq->id
view_handler view_workspaces, view_workspace, view_workspace_projects, view_project, view_members;
view_handler render_workspace, render_project, render_project_notes;

// accounts.c
view_handler account_login, account_logout, account_create, account_patch; // worker
view_handler account_patch_many, account_set_password;                     // worker
int account_password_read(struct request *rq, char *text, size_t len, struct error *e);
view_handler account_me, account_list, account_get, account_get_by_name;

// experiment_list.c, trial_list.c
view_handler view_experiments, view_experiment_trials;
view_handler view_search_experiments; // worker

// resources.c
view_handler view_resources_raw, view_resources_aggregated, view_resources_aggregated_csv; // worker
stream_handler stream_resources_raw;

// simulate.c
view_handler view_simulate; // worker

// tokens.c, settings.c, audit.c
view_handler token_create, token_patch, settings_set, settings_reset; // worker
view_handler token_list, settings_get, audit_list;

// experiments.c; the renders take the id in rq->id
view_handler view_experiment, view_model_definition;
view_handler render_experiment_created, render_experiment;

// files.c (worker), asides.c
view_handler view_file_tree, view_file;
view_handler view_fields, view_labels, view_validation_history, view_run_metadata;

// trials.c, workloads.c, series.c
view_handler render_trial; // takes the id in rq->id
view_handler view_trial_by_external_id;
view_handler view_trial, view_trial_workloads, view_trial_series, view_context_directory;

// series.c: metrics of q->only as points, each into its own of as many that were begun.
struct reports_query;
struct thin;
int series_thin(struct db_reader *db, const struct reports_query *q, struct thin *thins,
                struct error *e);

// compare.c (worker)
view_handler view_compare_trials;
stream_handler stream_metric_names;

// search.c (worker)
view_handler view_experiment_search;

// starts.c, tasks.c
view_handler view_trial_starts, view_experiment_starts, view_task, view_allocation;
// Of a generic task: its state and the tasks it belongs to; no text: none.
void write_generic_members(struct json_writer *w, const char *state, const char *ancestors,
                           const char *forked_from, bool no_pause);

// commands.c; the renders take the experiment id in rq->id
view_handler view_commands, view_command, view_shells, view_shell, view_notebooks, view_notebook,
    view_tensorboards, view_tensorboard, view_generic_tasks, view_generic_task, view_task_config,
    view_task_count;
view_handler render_command_created, render_command, render_shell, render_notebook,
    render_tensorboard, render_generic_created;

// models.c
view_handler model_create, model_patch, model_archive, model_unarchive, model_move, model_delete,
    model_version_create, model_version_patch, model_version_delete,
    model_version_metrics; // worker
view_handler model_list, model_get, model_labels, model_version_list, model_version_get;

// webhooks.c
view_handler webhook_test; // worker

// templates.c
view_handler template_create, template_put, template_patch, template_delete; // worker
view_handler template_list, template_get;

// checkpoints.c
view_handler view_checkpoint, view_trial_checkpoints, view_experiment_checkpoints, view_preview_gc;

// logs.c, metrics.c, download.c
stream_handler stream_trial_logs, stream_task_logs, stream_trial_log_fields, stream_task_log_fields;
stream_handler stream_training_metrics, stream_validation_metrics, stream_trial_metrics;
view_handler view_checkpoint_metrics; // worker
// The reports of the trials in the first column, as {"metrics"}; closes rows. The sort of a
// trial's source that is asked for, "": any.
int write_source_metrics(struct view *v, struct db_rows *rows, struct error *e);
int read_source_type(struct view *v, const char **type, struct error *e);
stream_handler stream_checkpoint_archive, stream_backup;

stream_handler stream_events; // events.c

// experiments.c: the members that lists and descriptions share; the row EXPERIMENT_VIEW.
void write_experiment_members(struct json_writer *w, struct db_rows *rows);

// trials.c: the row TRIAL_VIEW.
list_writer write_trial_row;

// Key and value: an RFC 3339 time; a null where `wall_us` is 0.
void write_time(struct json_writer *w, const char *key, int64_t wall_us);

// A checkpoint: the row CHECKPOINT_VIEW.
void write_checkpoint_object(struct json_writer *w, struct db_rows *rows);

// An object of uuid, state, steps, time, resources, metadata: six columns from `first` on.
void write_checkpoint_workload(struct json_writer *w, struct db_rows *rows);

// Key `key` with the object of the row that `sql` finds by rq->id; ERR_NOT_FOUND: "there is no KEY
// ID".
int write_one(struct view *v, const char *key, struct db_rows *rows, list_writer *write,
              struct error *e);

// The way to write of a worker's handler: commits the batch with its row of the audit trail, and
// waits. Takes the batch.
int view_commit(struct view *v, struct db_batch *b, struct error *e);

int store_failed(struct error *e); // ERR_INTERNAL: the store could not be read
int no_trial(int64_t id, struct error *e);
int no_checkpoint(const char *uuid, struct error *e);

#endif
