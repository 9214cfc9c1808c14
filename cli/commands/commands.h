// The functions in the table of commands (command_table.c), by file, and functions that several of
// them share. Each returns 0 or a negative error.
#ifndef MUSTER_CLI_COMMANDS_H
#define MUSTER_CLI_COMMANDS_H

#include "base/text/yaml.h"
#include "cli/cli.h"
#include "cli/common/values.h"

cli_verb run_login, run_logout, run_whoami; // account.c
cli_verb run_trust;                         // cli/common/trust.c
cli_verb run_user_list, run_user_create, run_user_describe, run_user_set, run_user_rename,
    run_user_activate, run_user_password, run_token_list, run_token_create, run_token_set,
    run_token_revoke;                        // user.c
cli_verb run_help;                           // help.c
cli_verb run_completion, run_complete_words; // complete.c
cli_verb run_man;                            // man.c
cli_verb run_experiment_create, run_experiment_list, run_experiment_describe, run_experiment_config,
    run_experiment_logs, run_experiment_metrics; // experiment.c
cli_verb run_experiment_preview;                 // preview.c
cli_verb run_experiment_follow, run_experiment_wait, run_experiment_act,
    run_experiment_delete; // experiment_act.c
cli_verb run_experiment_set, run_experiment_resize, run_experiment_label, run_experiment_move,
    run_experiment_continue, run_experiment_fork, run_experiment_files, run_experiment_download,
    run_trial_set; // experiment_change.c
cli_verb run_trial_list, run_trial_describe, run_trial_metrics, run_trial_logs, run_trial_kill,
    run_trial_download, run_trial_log_fields; // trial.c
cli_verb run_trial_media;                     // media.c
cli_verb run_checkpoint_list, run_checkpoint_describe, run_checkpoint_digest,
    run_checkpoint_download;                                          // checkpoint.c
cli_verb run_checkpoint_save, run_checkpoint_latest;                  // cli/task/checkpoint_save.c
cli_verb run_should_stop;                                             // cli/task/should_stop.c
cli_verb run_checkpoint_set;                                          // metadata.c
cli_verb run_checkpoint_delete, run_checkpoint_rm, run_checkpoint_gc; // checkpoint_delete.c
cli_verb run_agent_list, run_agent_describe, run_agent_set, run_agent_forget, run_slot_list,
    run_slot_set, run_agent_enroll, run_agent_credentials, run_agent_revoke,
    run_master_info; // agent.c
cli_verb run_master_alerts, run_master_config, run_master_set, run_master_logs, run_master_message,
    run_audit_list, run_resources_raw, run_resources_aggregated, run_pool_list, run_api; // admin.c
cli_verb run_cluster_up, run_cluster_upgrade, run_cluster_down; // cli/cluster/up.c
cli_verb run_cluster_status, run_cluster_doctor;                // cli/cluster/look.c
cli_verb run_import_determined;                                 // cli/import/import.c
cli_verb run_master_backup, run_master_restore;                 // backup.c
cli_verb run_queue_list, run_queue_why, run_queue_move;         // queue.c
cli_verb run_command_run, run_task_run, run_task_list, run_task_describe, run_task_logs,
    run_task_act, run_task_set, run_task_delete; // task.c
cli_verb run_events;                             // watch.c
cli_verb run_experiment_export;                  // experiment_export.c
cli_verb run_experiment_import;                  // experiment_import.c
cli_verb run_simulate;                           // simulate.c
cli_verb run_team_list, run_team_create, run_team_describe, run_team_set, run_team_members,
    run_team_archive, run_team_delete, run_team_shares; // team.c
cli_verb run_project_list, run_project_create, run_project_describe, run_project_set,
    run_project_note, run_project_archive, run_project_move, run_project_delete; // project.c
cli_verb run_model_list, run_model_create, run_model_describe, run_model_versions,
    run_model_register, run_model_set, run_model_set_version, run_model_label, run_model_archive,
    run_model_move, run_model_delete, run_model_delete_version; // model.c
cli_verb run_template_list, run_template_describe, run_template_set,
    run_template_delete; // template.c
cli_verb run_webhook_list, run_webhook_create, run_webhook_describe, run_webhook_set,
    run_webhook_test, run_webhook_delete; // webhook.c

// account.c: signs in at the session's master, and keeps the token.
int sign_in(struct cli *c, const char *user, const char *password, struct error *e);
// logs.c: prints the log lines of a trial, or of an object in "trials" or "tasks", filtered by the
// options.
int print_logs(struct cli *c, const char *of, const char *id, struct error *e);
int print_trial_logs(struct cli *c, long long trial, struct error *e);
// logs.c: prints the lines of all `trials` in the order of time, each behind the id of its trial.
int print_logs_of_trials(struct cli *c, const json_t *trials, struct error *e);
// trial.c: fetches the trial object of the API.
int fetch_trial(struct cli *c, long long id, json_t **trial, struct error *e);
// trial.c: fetches the metric reports of a trial as rows, by --group and --metric, without those
// that a restart hid. The metrics of all its reports become keys of `names`.
int fetch_metrics(struct cli *c, const json_t *trial, json_t **rows, json_t *names,
                  struct error *e);
// trial.c: ERR_NOT_FOUND: --metric is none of the metrics in `names`, or `names` is empty and the
// trial has metrics of other groups than --group; the text lists and suggests.
int check_metric(struct cli *c, const json_t *trial, const json_t *names, struct error *e);
int print_metrics(struct cli *c, const json_t *rows, struct error *e);
// checkpoint.c: downloads the files of a checkpoint into a new folder.
int fetch_checkpoint_files(struct cli *c, const char *uuid, const char *folder, struct error *e);
// checkpoint_delete.c: sets those values of the checkpoint policy that the options name.
int set_gc_policy(struct cli *c, long long experiment, struct error *e);
// experiment.c: applies --config and --name to a configuration and checks it; `name` is for
// messages. *text (heap) is replaced if they change it. The caller frees `doc` (may be NULL) in any
// case.
int config_lay_over(struct cli *c, const char *name, char **text, struct yaml_doc *doc,
                    struct error *e);
// experiment.c: reads the file `path` and applies --config; *text (heap) is the YAML to send.
int config_load(struct cli *c, const char *path, char **text, struct yaml_doc *doc,
                struct error *e);
// experiment.c: prints the warnings of an answer.
void print_warnings(const json_t *answer);
// input_files.c: checks that the files which the trainer section reads are among `files`, the files
// in `folder` (NULL: not given). ERR_INVALID names the place in the experiment file `config`. Warns
// if the entrypoint names a file, and no folder is given.
int inputs_check(const struct yaml_doc *doc, const json_t *files, const char *folder,
                 const char *config, struct error *e);
// metadata.c: fetches a trial's metadata; applies --metadata to it.
int fetch_trial_metadata(struct cli *c, long long trial, json_t **metadata, struct error *e);
int set_trial_metadata(struct cli *c, long long trial, struct error *e);
// experiment.c: reports the created experiment from the answer, and follows it with --follow.
int experiment_created(struct cli *c, const json_t *answer, struct error *e);
// experiment.c: fetch an experiment, or the list of its trials, from the API.
int fetch_experiment(struct cli *c, long long id, json_t **experiment, struct error *e);
int fetch_trials(struct cli *c, long long experiment, json_t **trials, struct error *e);

#endif
