// The command table: one row a command, grouped by noun.
#include <stddef.h>

#include "api/cli/cli.h"
#include "api/cli/verbs.h"

#define QUEUE_COLUMNS "place,id,name,state,priority,slots,waits,start,reason"
#define SIMULATE_FLAGS                                                                             \
    "trace from-store pool nodes slots-per-node add-nodes racks policy teams preempt-cost "        \
    "drain-time window plot timing"
#define LOG_FLAGS "follow rank level search tail"

// clang-format off
const struct command commands[] = {
    {"login", NULL, "USER", "password-file password-stdin", NULL,
     "Sign in and keep the token", "muster login determined --master http://gpu-master:8080", run_login, true},
    {"logout", NULL, "", NULL, NULL, "Sign out: the token is revoked and forgotten", NULL, run_logout, false},
    {"whoami", NULL, "", NULL, NULL, "Show who is signed in, and where", NULL, run_whoami, false},

    {"experiment", "create", "FILE [FOLDER]", "config name project-id paused follow validate-only id-file", NULL,
     "Submit an experiment file, with the files of FOLDER",
     "muster experiment create gpt.yaml data/ --config resources.slots_per_trial=4 --follow", run_experiment_create, true},
    {"experiment", "list", "", "all state user filter sort limit watch", "id,name,state,percent,duration,user,trials,started",
     "List experiments, newest first", "muster experiment list --filter 'state = RUNNING and validation.loss < 0.3' --sort -validation.loss",
     run_experiment_list, false},
    {"experiment", "describe", "ID", "watch", NULL,
     "Show one experiment: state, why it waits, progress, trials, checkpoints", NULL, run_experiment_describe, false},
    {"experiment", "follow", "ID", NULL, NULL, "Watch an experiment until it ends", NULL, run_experiment_follow, false},
    {"experiment", "wait", "ID", NULL, NULL, "Wait until it has ended; the exit code says how", NULL, run_experiment_wait, false},
    {"experiment", "logs", "ID", LOG_FLAGS, NULL, "Print the log of its first trial",
     "muster experiment logs 7 --follow --level warning", run_experiment_logs, false},
    {"experiment", "metrics", "ID", "group metric", "group,steps,metrics", "Print the metrics of its first trial",
     "muster experiment metrics 7 --group validation -o csv", run_experiment_metrics, false},
    {"experiment", "config", "ID", NULL, NULL, "Print its configuration as submitted (-o json: with all defaults)", NULL, run_experiment_config, false},
    {"experiment", "pause", "ID", "wait", NULL, "Checkpoint and give the slots back", NULL, run_experiment_act, false},
    {"experiment", "activate", "ID", "wait", NULL, "Let a paused experiment go on", NULL, run_experiment_act, false},
    {"experiment", "cancel", "ID", "wait", NULL, "Checkpoint, then end it", NULL, run_experiment_act, false},
    {"experiment", "kill", "ID", "wait", NULL, "End it at once", NULL, run_experiment_act, false},
    {"experiment", "archive", "ID", NULL, NULL, "Hide an ended experiment from lists", NULL, run_experiment_act, false},
    {"experiment", "unarchive", "ID", NULL, NULL, "Show it in lists again", NULL, run_experiment_act, false},
    {"experiment", "export", "ID FILE", "checkpoints force", NULL,
     "Write an experiment to a tar file: configuration, files, trials, metrics, logs, checkpoints",
     "muster experiment export 7 resnet.tar --checkpoints", run_experiment_export, false},
    {"experiment", "import", "FILE", "name project-id", NULL,
     "Make an experiment of an export, with new ids, to look at and compare; it does not run", "muster experiment import resnet.tar", run_experiment_import, false},
    {"experiment", "delete", "ID", "yes", NULL, "Delete an ended experiment with its metrics, logs and checkpoints", NULL, run_experiment_delete, false},

    {"trial", "list", "EXPERIMENT", "filter sort limit watch", "id,state,steps,latest,best,restarts,duration", "List the trials of an experiment", NULL, run_trial_list, false},
    {"trial", "describe", "ID", NULL, NULL, "Show one trial, with every start and its end", NULL, run_trial_describe, false},
    {"trial", "metrics", "ID", "group metric", "group,steps,metrics", "Print a trial's metrics",
     "muster trial metrics 3 --group training --metric loss -o csv", run_trial_metrics, false},
    {"trial", "logs", "ID", LOG_FLAGS, NULL, "Print a trial's log", "muster trial logs 3 --rank 1 --tail 50", run_trial_logs, false},
    {"trial", "kill", "ID", NULL, NULL, "End one trial at once", NULL, run_trial_kill, false},

    {"checkpoint", "list", "", "experiment trial latest best limit", "uuid,experiment,trial,steps,metric,size,state,reported",
     "List checkpoints of an experiment or a trial", "muster checkpoint list --experiment 7 --latest", run_checkpoint_list, false},
    {"checkpoint", "describe", "UUID", NULL, NULL, "Show one checkpoint and its files", NULL, run_checkpoint_describe, false},
    {"checkpoint", "digest", "UUID|FOLDER", NULL, "weights,state",
     "Verify a checkpoint and print SHA-256 of its weights and of all its state", NULL, run_checkpoint_digest, true},
    {"checkpoint", "download", "UUID", "to", NULL, "Fetch a checkpoint's files into a folder", NULL, run_checkpoint_download, false},

    {"checkpoint", "delete", "UUID...", "yes", NULL, "Delete checkpoints with their files",
     "muster checkpoint delete 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --yes", run_checkpoint_delete, false},
    {"checkpoint", "rm", "UUID...", "files yes", NULL, "Remove some files of checkpoints, such as the optimizer's, and keep the rest",
     "muster checkpoint rm 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --files 'optimizer*'", run_checkpoint_rm, false},
    {"checkpoint", "gc", "EXPERIMENT", "save-experiment-best save-trial-best save-trial-latest dry-run yes",
     "uuid,trial,steps,metric,reported", "Delete the checkpoints that an experiment's policy leaves out; with --save-.. set the policy",
     "muster checkpoint gc 7 --save-trial-latest 0 --save-experiment-best 1 --dry-run", run_checkpoint_gc, false},

    {"agent", "list", "", "watch", "id,slots,used,connected,enabled,draining,pool,version,registered", "List agents, and whether they are connected", NULL, run_agent_list, false},
    {"agent", "enable", "ID", NULL, NULL, "Let an agent take tasks again", NULL, run_agent_set, false},
    {"agent", "disable", "ID", "drain", NULL, "Take an agent out of service", NULL, run_agent_set, false},
    {"slot", "list", "", "agent", "agent,slot,type,device,enabled,allocation", "List slots and what they run", NULL, run_slot_list, false},
    {"slot", "enable", "AGENT SLOT", NULL, NULL, "Let a slot take tasks again", NULL, run_slot_set, false},
    {"slot", "disable", "AGENT SLOT", NULL, NULL, "Take a slot out of service", NULL, run_slot_set, false},

    {"queue", "list", "", "pool all watch", QUEUE_COLUMNS, "List the queue: what runs, what waits, and why", "muster queue list --pool default", run_queue_list, false},
    {"queue", "why", "EXPERIMENT", NULL, NULL, "Say why an experiment waits, about when it starts, and what can be done", "muster queue why 7", run_queue_why, false},
    {"queue", "move", "EXPERIMENT", "ahead-of behind priority weight max-slots pool", NULL,
     "Give an experiment another place: beside another one, or by its settings", "muster queue move 7 --ahead-of 5", run_queue_move, false},
    {"job", "list", "", "pool all watch", QUEUE_COLUMNS, "Another name of queue list", NULL, run_queue_list, false},

    {"events", NULL, "", "topics experiment trial since limit", NULL, "Print what changes, as it does, until Ctrl-C",
     "muster events --topics trials,metrics --experiment 7 -o jsonl", run_events, false},

    {"simulate", NULL, "", SIMULATE_FLAGS, NULL, "Show what a policy or a larger cluster would do with the jobs of a trace, or of a store",
     "muster simulate --trace philly.csv.gz --window 63d..77d --nodes 48 --policy fair_share,easy,fifo", run_simulate, true},

    {"team", "list", "", "all", "id,name,weight,guaranteed,max_slots,default_role,members,experiments",
     "List teams. A team is a workspace, and its part of the slots", "muster team list", run_team_list, false},
    {"team", "create", "NAME", "weight guaranteed max-slots default-role project", NULL,
     "Make a team, a workspace with a project in it", "muster team create vision --weight 2 --guaranteed 8", run_team_create, false},
    {"team", "set", "NAME", "user weight guaranteed max-slots role default-role name", NULL,
     "Change a team (a workspace), or a user's part of it", "muster team set vision --user ann --role editor --weight 2", run_team_set, false},
    {"team", "members", "NAME", NULL, "user,role,weight,max_slots", "List who has a role, a weight or a limit in a team",
     "muster team members vision", run_team_members, false},
    {"team", "delete", "NAME", "yes", NULL, "Delete a team, a workspace that holds no experiments", "muster team delete vision --yes", run_team_delete, false},
    {"team", "shares", "", "pool", "pool,team,entitled,used,wanted,waiting,running,usage,debt,weight,guaranteed,max_slots",
     "Show what each team may have, has, waits for, has had and is owed (slots, slot hours)", "muster team shares --pool default", run_team_shares, false},

    {"user", "list", "", NULL, "id,username,admin,active", "List users", NULL, run_user_list, false},
    {"user", "create", "NAME", "admin password-file password-stdin", NULL, "Create a user", NULL, run_user_create, false},
    {"master", "info", "", NULL, NULL, "Show the master's name, version and address", NULL, run_master_info, false},

    {"master", "backup", "FILE", "data-dir force", NULL,
     "Copy the master's store to FILE and verify it; the master may run meanwhile", "muster master backup muster-2026-11-21.db", run_master_backup, true},
    {"master", "restore", "FILE", "data-dir", NULL,
     "Put a backup in the place of a master's store; the master must not run, the old store is kept",
     "muster master restore muster-2026-11-21.db --data-dir /var/lib/muster", run_master_restore, true},

    {"help", NULL, "[TOPIC]", NULL, NULL, "Explain: config (the experiment file), filters (of lists), scheduling (who gets the slots), data (what is kept, backups, exports), exit-codes", "muster help config", run_help, true},
    {"completion", NULL, "SHELL", NULL, NULL, "Print completion for bash, zsh or fish", "eval \"$(muster completion bash)\"", run_completion, true},
    {0},
};
// clang-format on

const size_t command_count = sizeof(commands) / sizeof(commands[0]) - 1;
