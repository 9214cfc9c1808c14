// The functions behind the command table, by file. All have the signature of struct command.run.
#ifndef MUSTER_CLI_VERBS_H
#define MUSTER_CLI_VERBS_H

#include "api/cli/cli.h"

#define CLI_VERBS(X)                                                                               \
    X(login)                                                                                       \
    X(logout)                                                                                      \
    X(whoami)                                                                                      \
    X(help)                                                                                        \
    X(completion)                                                                                  \
    X(experiment_create)                                                                           \
    X(experiment_list) X(experiment_describe) X(experiment_config) X(experiment_logs)              \
        X(experiment_metrics) X(experiment_follow) X(experiment_wait) X(experiment_act)            \
            X(experiment_delete) X(trial_list) X(trial_describe) X(trial_metrics) X(trial_logs)    \
                X(trial_kill) X(checkpoint_list) X(checkpoint_describe) X(checkpoint_digest)       \
                    X(checkpoint_download) X(agent_list) X(agent_set) X(slot_list) X(slot_set)     \
                        X(user_list) X(user_create) X(master_info) X(job_list)

#define CLI_DECLARE(name)                                                                          \
    int run_##name(struct cli *c, const struct command *self, struct error *e);
CLI_VERBS(CLI_DECLARE)
#undef CLI_DECLARE

// trial.c: log lines of a trial to standard output by the options' filters.
int print_trial_logs(struct cli *c, long long trial, struct error *e);
// trial.c: metric reports of a trial as rows, overtaken ones left out.
int fetch_metrics(struct cli *c, long long trial, const char *group, json_t **rows,
                  struct error *e);
int print_metrics(struct cli *c, const json_t *rows, struct error *e);
// experiment.c: the experiment object of the API.
int fetch_experiment(struct cli *c, long long id, json_t **experiment, struct error *e);
int fetch_trials(struct cli *c, long long experiment, json_t **trials, struct error *e);

#endif
