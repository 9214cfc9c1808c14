// The functions behind the command table, by file. Each returns 0 or a negative error.
#ifndef MUSTER_CLI_VERBS_H
#define MUSTER_CLI_VERBS_H

#include "api/cli/cli.h"

cli_verb run_login, run_logout, run_whoami, run_user_list, run_user_create; // account.c
cli_verb run_help;                                                          // help.c
cli_verb run_completion;                                                    // complete.c
cli_verb run_experiment_create, run_experiment_list, run_experiment_describe, run_experiment_config,
    run_experiment_logs, run_experiment_metrics, run_experiment_follow, run_experiment_wait,
    run_experiment_act, run_experiment_delete; // experiment.c
cli_verb run_trial_list, run_trial_describe, run_trial_metrics, run_trial_logs,
    run_trial_kill; // trial.c
cli_verb run_checkpoint_list, run_checkpoint_describe, run_checkpoint_digest,
    run_checkpoint_download; // checkpoint.c
cli_verb run_agent_list, run_agent_set, run_slot_list, run_slot_set, run_master_info; // cluster.c
cli_verb run_queue_list, run_queue_why, run_queue_move;                               // queue.c
cli_verb run_events;                                                                  // watch.c
cli_verb run_experiment_export;                                                       // export.c
cli_verb run_experiment_import;                                                       // import.c
cli_verb run_master_backup, run_master_restore;                                       // backup.c
cli_verb run_checkpoint_delete, run_checkpoint_rm, run_checkpoint_gc;                 // collect.c
cli_verb run_simulate;                                                                // simulate.c

cli_verb run_team_list, run_team_create, run_team_set, run_team_members, run_team_delete,
    run_team_shares; // team.c

// trial.c: log lines of a trial to standard output by the options' filters.
int print_trial_logs(struct cli *c, long long trial, struct error *e);
// trial.c: metric reports of a trial as rows, overtaken ones left out.
int fetch_metrics(struct cli *c, long long trial, const char *group, json_t **rows,
                  struct error *e);
int print_metrics(struct cli *c, const json_t *rows, struct error *e);
// checkpoint.c: its files into a folder that is not there yet.
int fetch_checkpoint_files(struct cli *c, const char *uuid, const char *folder, struct error *e);
// experiment.c: the experiment object of the API.
int fetch_experiment(struct cli *c, long long id, json_t **experiment, struct error *e);
int fetch_trials(struct cli *c, long long experiment, json_t **trials, struct error *e);

#endif
