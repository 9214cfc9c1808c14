// The settings of the master: the flags of its command line and the keys of its configuration file.
// Main thread, at the start.
#ifndef MUSTER_MASTER_OPTIONS_H
#define MUSTER_MASTER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/flags.h"
#include "master/kernel/core.h"

struct master_options {
    const char *config_file, *data_dir, *bind, *cluster_name, *api_version, *checkpoint_dir,
        *master_url, *external_url;
    const char *webhook_key_file, *webui_dir, *disk_floor, *metrics;
    const char *smtp_url, *smtp_from, *smtp_user, *smtp_password_file;
    const char *password_file, *tls_cert, *tls_key, *log_level, *scheduler;
    long long port, agent_silence, agent_reconnect, kill_grace, preemption_timeout, preempt_after,
        restart_backoff, log_retention_days, grow_after, backup_every, backup_keep, connections,
        connections_per_address, max_user_priority, slow_request, store_slow, alert_calm;
    struct flag_list storage_allow, alert_mail, host_names;
    bool help, version, init, insecure, no_shared_agent_token;
};

struct master_arguments { // of the command line, preceded by those of the configuration file
    char **list;          // owned, like the first `owned` arguments after the program's name
    int count, owned;
    struct core_pool_option *pools; // from the file; owned with their names
    size_t pool_count;
};

// Reads the flags, and the file that --config names; flags take precedence. The texts of `o` live
// as long as `all`, which options_free() frees. ERR_INVALID names the flag, or file and line.
int options_parse(struct master_options *o, int argc, char **argv, struct master_arguments *all,
                  struct error *e);
void options_free(struct master_arguments *all);
void options_help(void); // on standard output

// Whether browsers and Slack can follow links to it. ERR_INVALID says what is wrong.
int options_check_url(const char *url, struct error *e);

// The policy with that name, among those that users may choose. ERR_INVALID lists them.
int options_policy(const char *word, enum sched_policy *out, struct error *e);

#endif
