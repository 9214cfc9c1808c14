// The table of commands: one row for each command, grouped by noun.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands/commands.h"
#include "cli/suggestions.h"
#include "cli/task/report.h"

#define TASK_COLUMNS  "id,name,state,exit,user,pool,duration,started"
#define QUEUE_COLUMNS "place,id,name,state,priority,slots,waits,start,reason"
#define SIMULATE_FLAGS                                                                             \
    "trace from-store pool nodes slots-per-node add-nodes racks policy teams preempt-cost "        \
    "drain-time window plot timing"
#define LOG_FLAGS                                                                                  \
    "follow tail rank level search regex agent:log source stdtype allocation container "           \
    "since:time "                                                                                  \
    "until"
#define SET_FLAGS                                                                                  \
    "name:new description notes priority weight max-slots save-experiment-best save-trial-best "   \
    "save-trial-latest log-retention"
#define MODEL_WORDS "notes label metadata"

// clang-format off
const struct command commands[] = {
    {"login", NULL, "USER", "password-file password-stdin fingerprint", NULL,
     "Sign in and keep the token", "muster login determined --master https://gpu-master:8080", run_login, true},
    {"trust", NULL, "[URL]", "fingerprint", NULL,
     "Trust the authority of a master with https from now on; without --fingerprint it shows the fingerprint and asks", "muster trust https://gpu-master:8080", run_trust, true},
    {"logout", NULL, "", NULL, NULL, "Sign out: revoke the token and delete the saved one", "muster logout", run_logout, false},
    {"whoami", NULL, "", NULL, NULL, "Show the signed-in user and the master", "muster whoami", run_whoami, false},

    {"experiment", "create", "FILE [FOLDER]", "config name template project-id paused follow validate-only id-file", NULL,
     "Submit an experiment file, with the files of FOLDER",
     "muster experiment create gpt.yaml data/ --config resources.slots_per_trial=4 --follow", run_experiment_create, true},
    {"experiment", "preview", "FILE", "config template project-id step-time limit:preview", NULL,
     "Show what a search would do, without creating anything: its trials, their hyperparameters, and how long they train",
     "muster experiment preview search.yaml --step-time 0.25", run_experiment_preview, false},
    {"experiment", "list", "", "all state user filter sort limit watch", "id,name,state,percent,ran,waited,user,trials,started",
     "List experiments, newest first", "muster experiment list --filter 'state = RUNNING and validation.loss < 0.3' --sort -validation.loss",
     run_experiment_list, false},
    {"experiment", "describe", "ID", "watch", NULL,
     "Show one experiment: state, why it waits, progress, trials, checkpoints", "muster experiment describe 7", run_experiment_describe, false},
    {"experiment", "follow", "ID", NULL, NULL, "Watch an experiment until it ends", "muster experiment follow 7", run_experiment_follow, false},
    {"experiment", "wait", "ID", "timeout", NULL, "Wait until an experiment ends; exit code 8: it did not complete, 6: --timeout has passed",
     "muster experiment wait 7 --timeout 3600 && ./publish", run_experiment_wait, false},
    {"experiment", "logs", "ID", LOG_FLAGS " trial all:trials", NULL, "Print the log of an experiment's trial (of several trials: the best one, --trial, or --all)",
     "muster experiment logs 7 --follow --level warning", run_experiment_logs, false},
    {"experiment", "metrics", "ID", "group metric trial all:trials", "group,steps,metrics", "Print the metrics of an experiment's trial (of several trials: the best one, --trial, or --all)",
     "muster experiment metrics 7 --group validation -o csv", run_experiment_metrics, false},
    {"experiment", "config", "ID", NULL, NULL, "Print an experiment's configuration as submitted (-o json: with all defaults)",
     "muster experiment config 7 > again.yaml", run_experiment_config, false},
    {"experiment", "files", "ID [PATH]", NULL, "path,size,modified", "List the files that an experiment was submitted with, or print one",
     "muster experiment files 7 train.py", run_experiment_files, false},
    {"experiment", "download-model-def", "ID", "to", NULL, "Download the files that an experiment was submitted with into a folder",
     "muster experiment download-model-def 7 --to resnet/", run_experiment_download, false},
    {"experiment", "set", "ID...", SET_FLAGS, NULL,
     "Change name, description, notes, priority, weight, maximum of slots, checkpoint policy, log retention",
     "muster experiment set 7 --name resnet-b --priority 30 --log-retention 90", run_experiment_set, false},
    {"experiment", "label", "add|remove ID LABEL...", NULL, NULL, "Add labels to an experiment, or remove them",
     "muster experiment label add 7 baseline paper", run_experiment_label, false},
    {"experiment", "move", "ID TEAM PROJECT", NULL, NULL, "Move an experiment into another project",
     "muster experiment move 7 vision default", run_experiment_move, false},
    {"experiment", "continue", "ID", "config follow", NULL, "Continue an ended experiment from its newest checkpoint, for example for more steps; of a search, the trials that did not complete",
     "muster experiment continue 7 --config trainer.steps=20000 --follow", run_experiment_continue, false},
    {"experiment", "fork", "ID", "config name project-id paused follow validate-only id-file", NULL,
     "Submit an experiment again as a new one, with the same files and a changed configuration",
     "muster experiment fork 7 --config hyperparameters.lr=0.01 --name slower", run_experiment_fork, false},
    {"experiment", "resize", "ID...", "slots:trial min-slots", NULL,
     "Change the number of slots of experiments; trials that run save a checkpoint and continue with the new number",
     "muster experiment resize 7 --slots 2", run_experiment_resize, false},
    {"experiment", "pause", "ID...", "wait timeout", NULL, "Pause experiments: each trial writes a checkpoint and releases its slots", "muster experiment pause 7 8 --wait", run_experiment_act, false},
    {"experiment", "activate", "ID...", "wait timeout", NULL, "Resume paused experiments", "muster experiment activate 7", run_experiment_act, false},
    {"experiment", "cancel", "ID...", "wait timeout", NULL, "End experiments after each trial has written a checkpoint", "muster experiment cancel 7", run_experiment_act, false},
    {"experiment", "kill", "ID...", "wait timeout", NULL, "End experiments at once, without a checkpoint", "muster experiment kill 7 8 9", run_experiment_act, false},
    {"experiment", "archive", "ID...", NULL, NULL, "Hide ended experiments from lists", "muster experiment archive 7", run_experiment_act, false},
    {"experiment", "unarchive", "ID...", NULL, NULL, "Show archived experiments in lists again", "muster experiment unarchive 7", run_experiment_act, false},
    {"experiment", "export", "ID FILE", "checkpoints force", NULL,
     "Write an experiment to a tar file: configuration, files, trials, metrics, logs, media, checkpoints",
     "muster experiment export 7 resnet.tar --checkpoints", run_experiment_export, false},
    {"experiment", "import", "FILE", "name:export project-id", NULL,
     "Create an experiment from an export, with new ids, for viewing and comparing; it does not run", "muster experiment import resnet.tar", run_experiment_import, false},
    {"experiment", "delete", "ID...", "yes", NULL, "Delete ended experiments with their metrics, logs and checkpoints", "muster experiment delete 7", run_experiment_delete, false},

    {"trial", "list", "EXPERIMENT", "filter sort limit watch", "id,state,steps,latest,best,restarts,ran,waited", "List the trials of an experiment", "muster trial list 7 --sort -validation.accuracy --limit 5", run_trial_list, false},
    {"trial", "describe", "ID", NULL, NULL, "Show one trial, with each start and the reason why it ended", "muster trial describe 3", run_trial_describe, false},
    {"trial", "metrics", "ID", "group metric", "group,steps,metrics", "Print a trial's metrics",
     "muster trial metrics 3 --group training --metric loss -o csv", run_trial_metrics, false},
    {"trial", "logs", "ID", LOG_FLAGS, NULL, "Print a trial's log", "muster trial logs 3 --rank 1 --tail 50", run_trial_logs, false},
    {"trial", "log-fields", "ID", NULL, NULL, "List the values that a trial's log can be filtered by: agents, ranks, sources", "muster trial log-fields 3", run_trial_log_fields, false},
    {"trial", "media", "ID", "name:media type step:media to:media limit", "name,step,type,size,reported", "List or download the images, histograms, tables and texts of a trial", "muster trial media 3 --type image --to images", run_trial_media, false},
    {"trial", "kill", "ID", NULL, NULL, "End one trial at once", "muster trial kill 3", run_trial_kill, false},
    {"trial", "download", "ID", "best:trial to", NULL, "Download the files of a trial's newest or best checkpoint into a folder",
     "muster trial download 3 --best --to weights/", run_trial_download, false},
    {"trial", "set", "ID", "log-retention metadata:key", NULL, "Change how long a trial's log is kept, or its metadata",
     "muster trial set 3 --log-retention forever --metadata reviewed=true", run_trial_set, false},

    {"checkpoint", "list", "", "experiment trial latest best limit", "uuid,experiment,trial,steps,metric,size,state,reported",
     "List checkpoints of an experiment or a trial", "muster checkpoint list --experiment 7 --latest", run_checkpoint_list, false},
    {"checkpoint", "describe", "UUID", NULL, NULL, "Show one checkpoint and its files",
     "muster checkpoint describe 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21", run_checkpoint_describe, false},
    {"checkpoint", "digest", "UUID|FOLDER", NULL, "weights,state",
     "Verify a checkpoint and print the SHA-256 of its weights and of its whole state; of a program's checkpoint, of its files", "muster checkpoint digest ./weights", run_checkpoint_digest, true},
    {"checkpoint", "save", "FOLDER", "step:report metadata", NULL,
     "In the program of a trial: save a folder as a checkpoint, and print its UUID",
     "muster checkpoint save state/ --step 500 --metadata epoch=3", run_checkpoint_save, true},
    {"checkpoint", "latest", "", NULL, NULL,
     "In the program of a trial: print the folder of the newest checkpoint; exit code 3: there is none",
     "folder=$(muster checkpoint latest) && cp \"$folder/state\" .", run_checkpoint_latest, true},
    {"checkpoint", "set", "UUID", "metadata:key", NULL, "Change the metadata of a checkpoint",
     "muster checkpoint set 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --metadata 'note=\"the one in use\"'", run_checkpoint_set, false},
    {"checkpoint", "download", "UUID", "to", NULL, "Download the files of a checkpoint into a folder",
     "muster checkpoint download 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --to weights/", run_checkpoint_download, false},
    {"checkpoint", "delete", "UUID...", "yes", NULL, "Delete checkpoints with their files",
     "muster checkpoint delete 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --yes", run_checkpoint_delete, false},
    {"checkpoint", "rm", "UUID...", "files yes", NULL, "Remove some files of checkpoints, such as the optimizer's, and keep the rest",
     "muster checkpoint rm 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --files 'optimizer*'", run_checkpoint_rm, false},
    {"checkpoint", "gc", "EXPERIMENT", "save-experiment-best save-trial-best save-trial-latest dry-run yes",
     "uuid,trial,steps,metric,reported", "Delete the checkpoints that an experiment's policy does not keep; --save-.. changes the policy first",
     "muster checkpoint gc 7 --save-trial-latest 0 --save-experiment-best 1 --dry-run", run_checkpoint_gc, false},

    {"model", "list", "", "all search:model user team label:only limit", "id,name,versions,labels,description,user,updated", "List the models in the registry",
     "muster model list --label production", run_model_list, false},
    {"model", "create", "NAME", "description team:in " MODEL_WORDS, NULL, "Create a model; its versions are checkpoints",
     "muster model create digits --description 'reads digits' --team vision", run_model_create, false},
    {"model", "describe", "NAME", NULL, NULL, "Show one model and its versions", "muster model describe digits", run_model_describe, false},
    {"model", "versions", "NAME", NULL, "version,name,checkpoint,experiment,trial,steps,comment,user,registered", "List the versions of a model",
     "muster model versions digits", run_model_versions, false},
    {"model", "register-version", "NAME UUID", "name:version comment " MODEL_WORDS, NULL, "Register a checkpoint as the next version of a model",
     "muster model register-version digits 1f0c3e58-0d0b-4a3c-9d3b-6c7f8e5d4a21 --comment 'more data'", run_model_register, false},
    {"model", "set", "NAME", "name:new description " MODEL_WORDS, NULL, "Change name, description, notes, labels or metadata of a model",
     "muster model set digits --description 'reads digits and letters'", run_model_set, false},
    {"model", "set-version", "NAME VERSION", "name:version comment " MODEL_WORDS, NULL, "Change name, comment, notes, labels or metadata of a version",
     "muster model set-version digits 2 --comment 'the one in use'", run_model_set_version, false},
    {"model", "label", "add|remove NAME LABEL...", NULL, NULL, "Add labels to a model, or remove them", "muster model label add digits production", run_model_label, false},
    {"model", "archive", "NAME", NULL, NULL, "Hide a model from lists and refuse new versions", "muster model archive digits", run_model_archive, false},
    {"model", "unarchive", "NAME", NULL, NULL, "Show an archived model in lists again and accept new versions", "muster model unarchive digits", run_model_archive, false},
    {"model", "move", "NAME TEAM", NULL, NULL, "Move a model to another team", "muster model move digits vision", run_model_move, false},
    {"model", "delete", "NAME", "yes", NULL, "Delete a model with its versions; their checkpoints stay", "muster model delete digits", run_model_delete, false},
    {"model", "delete-version", "NAME VERSION", "yes", NULL, "Delete a version of a model; its checkpoint stays", "muster model delete-version digits 1", run_model_delete_version, false},

    {"template", "list", "", NULL, "name,team", "List templates: configurations whose values experiments use unless they set their own", "muster template list", run_template_list, false},
    {"template", "describe", "NAME", NULL, NULL, "Print the configuration of a template", "muster template describe large", run_template_describe, false},
    {"template", "create", "NAME FILE", "team:in", NULL, "Create a template from a YAML file", "muster template create large large.yaml", run_template_set, false},
    {"template", "set", "NAME FILE", "team:in", NULL, "Create a template, or replace its configuration", "muster template set large large.yaml", run_template_set, false},
    {"template", "delete", "NAME", "yes", NULL, "Delete a template; experiments that used it stay as they are", "muster template delete large", run_template_delete, false},

    {"report", NULL, "[NAME=VALUE...]", REPORT_FLAGS, NULL,
     "In the program of a trial: report metrics of a training step, and the progress",
     "muster report loss=0.3 accuracy=0.9 --step 10 --progress 0.4", run_report, true},
    {"should-stop", NULL, "", NULL, NULL,
     "In the program of a trial: exit code 0 if it shall save a checkpoint and end now, 1 if it goes on",
     "if muster should-stop; then ./save; exit 0; fi", run_should_stop, true},

    {"webhook", "list", "", NULL, "id,name,url,on,type,of,team", "List webhooks: URLs to which the master posts a message when something happens", "muster webhook list", run_webhook_list, false},
    {"webhook", "create", "URL", "on name:hook team:in slack specific", NULL, "Post to a URL when an experiment completes or fails, or on the events given by --on",
     "muster webhook create https://example.com/hook --team vision --on error --on 'val_loss<0.1'", run_webhook_create, false},
    {"webhook", "describe", "WEBHOOK", NULL, NULL, "Show one webhook, by name or id", "muster webhook describe pager", run_webhook_describe, false},
    {"webhook", "set", "WEBHOOK URL", NULL, NULL, "Change the URL of a webhook", "muster webhook set pager https://example.com/other", run_webhook_set, false},
    {"webhook", "test", "WEBHOOK", NULL, NULL, "Send a test message now", "muster webhook test pager", run_webhook_test, false},
    {"webhook", "delete", "WEBHOOK", "yes", NULL, "Delete a webhook and its undelivered messages", "muster webhook delete pager", run_webhook_delete, false},

    {"command", "run", "PROGRAM...", "slots pool env files:run work-dir name:run priority template detach", NULL,
     "Run a program once on the cluster, show its output, and exit with its exit code",
     "muster command run --slots 1 --files src/ --env LR=0.1 -- python3 train.py --epochs 3", run_command_run, false},
    {"command", "list", "", "user limit watch", TASK_COLUMNS, "List commands, newest first", "muster command list --user ann", run_task_list, false},
    {"command", "describe", "ID", "watch", NULL, "Show one command: state, exit code, configuration", "muster command describe 7", run_task_describe, false},
    {"command", "logs", "ID", LOG_FLAGS, NULL, "Print the output of a command", "muster command logs 7 --follow", run_task_logs, false},
    {"command", "kill", "ID...", NULL, NULL, "Kill commands", "muster command kill 7", run_task_act, false},
    {"command", "set", "ID", "priority", NULL, "Change the priority of a command", "muster command set 7 --priority 60", run_task_set, false},
    {"command", "delete", "ID...", "yes", NULL, "Delete commands that have ended, with their logs", "muster command delete 7", run_task_delete, false},

    {"task", "run", "FILE [FOLDER]", "project-id parent fork no-pause detach", NULL,
     "Run a task file with the files of FOLDER; unlike a command, a task can be paused and have child tasks",
     "muster task run evaluate.yaml src/", run_task_run, false},
    {"task", "list", "", "user limit watch", TASK_COLUMNS, "List tasks, newest first", "muster task list", run_task_list, false},
    {"task", "describe", "ID", "watch", NULL, "Show one task: state, exit code, parent task, configuration", "muster task describe 7", run_task_describe, false},
    {"task", "logs", "ID", LOG_FLAGS, NULL, "Print the output of a task", "muster task logs 7 --tail 50", run_task_logs, false},
    {"task", "kill", "ID...", "tree", NULL, "Kill tasks and their child tasks", "muster task kill 7 --tree", run_task_act, false},
    {"task", "pause", "ID...", NULL, NULL, "Pause tasks and their child tasks: their programs end, and start again when unpaused", "muster task pause 7", run_task_act, false},
    {"task", "unpause", "ID...", NULL, NULL, "Start paused tasks and their child tasks again", "muster task unpause 7", run_task_act, false},
    {"task", "delete", "ID...", "yes", NULL, "Delete tasks that have ended, with their logs", "muster task delete 7", run_task_delete, false},

    {"agent", "list", "", "watch", "id,slots,used,faults,connected,enabled,draining,pool,version,registered", "List agents: their slots, pool and connection", "muster agent list --watch", run_agent_list, false},
    {"agent", "describe", "AGENT", NULL, NULL, "Show one agent: its slots, the limits of its tasks, and what protects the machine against them", "muster agent describe gpu-1", run_agent_describe, false},
    {"agent", "enable", "AGENT", NULL, NULL, "Let an agent receive new tasks again", "muster agent enable gpu-1", run_agent_set, false},
    {"agent", "disable", "AGENT", "drain", NULL, "Give an agent no new tasks; running tasks are ended and start again elsewhere (with --drain they finish there)", "muster agent disable gpu-1 --drain", run_agent_set, false},
    {"agent", "forget", "AGENT", NULL, NULL, "Remove a lost agent from the list", "muster agent forget gpu-1", run_agent_forget, false},
    {"agent", "enroll", "", "name:enrol pool:enrol ttl count url", NULL,
     "Let a machine join the cluster: print the line for muster-agent --enroll", "muster agent enroll --ttl 30m", run_agent_enroll, false},
    {"agent", "credentials", "", NULL, "agent,enrolled,seen,enrolment", "List the agents that have credentials of their own", "muster agent credentials", run_agent_credentials, false},
    {"agent", "revoke", "AGENT", NULL, NULL, "End the credential of an agent at once; it then ends, and its tasks start again elsewhere", "muster agent revoke gpu-1", run_agent_revoke, false},
    {"slot", "list", "", "agent", "agent,slot,type,device,near,load,enabled,health,allocation", "List slots, their health and their allocations", "muster slot list --agent gpu-1", run_slot_list, false},
    {"slot", "enable", "AGENT SLOT", NULL, NULL, "Let a slot receive new tasks again", "muster slot enable gpu-1 3", run_slot_set, false},
    {"slot", "disable", "AGENT SLOT", "drain", NULL, "Give a slot no new tasks; its running task is ended and starts again elsewhere (with --drain it finishes there)", "muster slot disable gpu-1 3 --drain", run_slot_set, false},
    {"pool", "list", "", NULL, "name,agents,slots,used,scheduler,default", "List resource pools: groups of agents with one scheduling policy (muster help scheduling)", "muster pool list", run_pool_list, false},

    {"queue", "list", "", "pool all watch", QUEUE_COLUMNS, "List the jobs that run and wait, and the reasons for waiting", "muster queue list --pool default", run_queue_list, false},
    {"queue", "why", "EXPERIMENT", NULL, NULL, "Explain why an experiment waits, estimate its start, and suggest actions", "muster queue why 7", run_queue_why, false},
    {"queue", "move", "EXPERIMENT", "ahead-of behind priority weight max-slots pool", NULL,
     "Change an experiment's place in the queue: next to another one (with that one's priority), or by its settings", "muster queue move 7 --ahead-of 5", run_queue_move, false},
    {"job", "list", "", "pool all watch", QUEUE_COLUMNS, "Same as queue list", "muster job list", run_queue_list, false},

    {"events", NULL, "", "topics experiment trial since limit", NULL, "Print each change at the master as it happens, until Ctrl-C",
     "muster events --topics trials,metrics --experiment 7 -o jsonl", run_events, false},

    {"simulate", NULL, "", SIMULATE_FLAGS, NULL, "Simulate the scheduler: how another policy or a larger cluster would run the jobs of a trace or of a store",
     "muster simulate --trace philly.csv.gz --window 63d..77d --nodes 48 --policy fair_share,easy,fifo", run_simulate, true},

    {"team", "list", "", "all", "id,name,weight,guaranteed,max_slots,default_role,members,experiments",
     "List teams. A team is a workspace together with its share of the slots", "muster team list", run_team_list, false},
    {"team", "create", "NAME", "weight guaranteed max-slots default-role project", NULL,
     "Create a team: a workspace with one project", "muster team create vision --weight 2 --guaranteed 8", run_team_create, false},
    {"team", "describe", "TEAM", NULL, NULL, "Show one team: its share of the slots, its members and projects", "muster team describe vision", run_team_describe, false},
    {"team", "set", "TEAM", "user:member weight guaranteed max-slots role default-role name:new", NULL,
     "Change a team (workspace), or the settings of one of its users; muster help teams explains roles", "muster team set vision --user ann --role editor --weight 2", run_team_set, false},
    {"team", "members", "TEAM", NULL, "user,role,weight,max_slots", "List the users with a role, a weight or a limit in a team",
     "muster team members vision", run_team_members, false},
    {"team", "archive", "TEAM", NULL, NULL, "Archive a team: no one can submit into it", "muster team archive vision", run_team_archive, false},
    {"team", "unarchive", "TEAM", NULL, NULL, "Allow submissions into an archived team again", "muster team unarchive vision", run_team_archive, false},
    {"team", "delete", "TEAM", "yes", NULL, "Delete a team (workspace) with its projects and experiments", "muster team delete vision --yes", run_team_delete, false},
    {"team", "shares", "", "pool", "pool,team,entitled,used,wanted,waiting,running,usage,debt,weight,guaranteed,max_slots",
     "Show each team's entitlement, use, demand, past use and debt (in slots and slot hours)", "muster team shares --pool default", run_team_shares, false},

    {"project", "list", "[TEAM]", "all", "id,team,name,description,experiments,active,owner", "List projects: each holds experiments of a team", "muster project list vision", run_project_list, false},
    {"project", "create", "TEAM NAME", "description", NULL, "Create a project in a team", "muster project create vision cats --description 'cats and dogs'", run_project_create, false},
    {"project", "describe", "TEAM PROJECT", NULL, NULL, "Show one project and its notes", "muster project describe vision cats", run_project_describe, false},
    {"project", "set", "TEAM PROJECT", "name:new description", NULL, "Change the name or description of a project", "muster project set vision cats --name felines", run_project_set, false},
    {"project", "note", "TEAM PROJECT TEXT", "name:title", NULL, "Add a note to a project", "muster project note vision cats 'the data moved' --name Data", run_project_note, false},
    {"project", "archive", "TEAM PROJECT", NULL, NULL, "Archive a project: no one can submit into it", "muster project archive vision cats", run_project_archive, false},
    {"project", "unarchive", "TEAM PROJECT", NULL, NULL, "Allow submissions into an archived project again", "muster project unarchive vision cats", run_project_archive, false},
    {"project", "move", "TEAM PROJECT NEW-TEAM", NULL, NULL, "Move a project with all its experiments to another team", "muster project move vision cats animals", run_project_move, false},
    {"project", "delete", "TEAM PROJECT", "yes", NULL, "Delete a project with its experiments", "muster project delete vision cats", run_project_delete, false},

    {"user", "list", "", NULL, "id,username,display_name,admin,active,last_login", "List users", "muster user list", run_user_list, false},
    {"user", "create", "NAME", "admin display-name password-file password-stdin", NULL, "Create a user; the command asks for the password", "muster user create ann --display-name 'Ann Smith'", run_user_create, false},
    {"user", "describe", "USER", NULL, NULL, "Show one user", "muster user describe ann", run_user_describe, false},
    {"user", "set", "USER", "name:new display-name admin no-admin", NULL, "Change the name, display name or rights of a user", "muster user set ann --admin", run_user_set, false},
    {"user", "rename", "USER NEW", NULL, NULL, "Change the name with which a user signs in", "muster user rename ann anna", run_user_rename, false},
    {"user", "change-password", "[USER]", "password-file password-stdin", NULL, "Change your password; an administrator can change any user's", "muster user change-password", run_user_password, false},
    {"user", "activate", "USER", NULL, NULL, "Let a user sign in again", "muster user activate ann", run_user_activate, false},
    {"user", "deactivate", "USER", NULL, NULL, "Stop a user from signing in; the user's experiments stay", "muster user deactivate ann", run_user_activate, false},

    {"token", "list", "", "all:tokens user limit", "id,user,description,state,type,created,expires", "List your access tokens for programs; an administrator sees everybody's", "muster token list", run_token_list, false},
    {"token", "create", "", "expires description user:for", NULL, "Create an access token for a program; it is shown only once", "export MUSTER_TOKEN=$(muster token create --expires 90d --description nightly)", run_token_create, false},
    {"token", "set", "ID", "description", NULL, "Change the description of a token", "muster token set 3 --description 'the nightly job'", run_token_set, false},
    {"token", "revoke", "ID", NULL, NULL, "Revoke a token at once", "muster token revoke 3", run_token_revoke, false},

    {"master", "info", "", NULL, NULL, "Show the master's name, version and address", "muster master info", run_master_info, false},
    {"master", "config", "", NULL, NULL, "Print the configuration that the master was started with (administrators)", "muster master config", run_master_config, false},
    {"master", "set", "", "log-level", NULL, "Change the level of the master's log (administrators)", "muster master set --log-level debug", run_master_set, false},
    {"master", "logs", "", "follow tail", NULL, "Print the newest lines of the master's log", "muster master logs --follow --tail 20", run_master_logs, false},
    {"master", "message", "get|set|clear [TEXT]", "for since:begin until", NULL, "Read, set or clear the notice to all users", "muster master message set 'down at noon' --for 4h", run_master_message, false},
    {"master", "alerts", "", "limit", "kind,subject,began,ended,text", "List trouble of the cluster: what lasts, then what is over (administrators)", "muster master alerts", run_master_alerts, false},
    {"master", "backup", "FILE", "data-dir force", NULL,
     "Copy the master's store to FILE and verify it; the master may be running", "muster master backup muster-2026-11-21.db", run_master_backup, true},
    {"master", "restore", "FILE", "data-dir", NULL,
     "Replace a master's store by a backup; stop the master first; the old store is kept",
     "muster master restore muster-2026-11-21.db --data-dir /var/lib/muster", run_master_restore, true},

    {"cluster", "up", "HOSTS.yaml", "accept-new parallel", "host,roles,result,step",
     "Make machines a cluster by SSH: check them, install Muster, start the master and the agents. A repetition does only what is left (docs/first-cluster.md describes the file)",
     "muster cluster up hosts.yaml --accept-new", run_cluster_up, true},
    {"cluster", "status", "HOSTS.yaml", "accept-new parallel", "host,daemon,state,version,agent,slots,used,since",
     "Show the daemons of a cluster's machines; exit code 6: one does not run", "muster cluster status hosts.yaml", run_cluster_status, true},
    {"cluster", "doctor", "HOSTS.yaml", "accept-new parallel", "host,level,problem,fix",
     "Examine the machines of a cluster: what is wrong, and how to repair it; exit code 6: something is", "muster cluster doctor hosts.yaml", run_cluster_doctor, true},
    {"cluster", "upgrade", "HOSTS.yaml", "to:release accept-new parallel:agents", "host,roles,result,step",
     "Install another release: on the master, then on one agent after the other; tasks go on meanwhile",
     "muster cluster upgrade hosts.yaml --to muster-0.2.0-linux-x86_64.tar.xz", run_cluster_upgrade, true},
    {"cluster", "down", "HOSTS.yaml", "purge yes accept-new parallel", "host,roles,result,step",
     "Stop the agents with all tasks, then the master; data is kept, and trials continue from their checkpoints after the next up",
     "muster cluster down hosts.yaml", run_cluster_down, true},

    {"import", "determined", "FILE|URL", "user:determined password-file password-stdin", NULL,
     "Take over a Determined 0.38 cluster: users, workspaces, projects, experiments, trials, metrics, checkpoints (where they are), models. FILE is a plain dump of its database (pg_dump determined > dump.sql), URL its running master. It may be repeated and interrupted (administrators)",
     "muster import determined dump.sql", run_import_determined, false},

    {"audit", "list", "", "user method path status since:time until limit", "time,user,method,path,status,address,detail",
     "List changes and refused calls with their users (administrators); the newest 100", "muster audit list --user ann --since 2d", run_audit_list, false},
    {"resources", "raw", "", "since:time until", "experiment,user,slots,started,ended,seconds", "List the slots that each experiment and user held, in the last 30 days",
     "muster resources raw --since 2026-11-01 -o csv", run_resources_raw, false},
    {"resources", "aggregated", "", "period since:time until", "period,slot_hours,users", "Sum slot hours by day or month, and by user, label and pool",
     "muster resources aggregated --period monthly -o json", run_resources_aggregated, false},
    {"api", NULL, "METHOD PATH", "body", NULL, "Make any call of the API and print the answer (GET openapi.json lists the calls)",
     "muster api get experiments/7/why", run_api, false},

    {"help", NULL, "[TOPIC] [VERB]", NULL, NULL, "Explain a command or a topic: config (the experiment file; config KEY explains a key of it), filters (of lists), scheduling (order of jobs), data (retention, backups, exports), teams (roles), exit-codes", "muster help config resources.min_slots", run_help, true},
    {"completion", NULL, "SHELL", NULL, NULL, "Print the completion script for bash, zsh or fish", "eval \"$(muster completion bash)\"", run_completion, true},
    {"complete-words", NULL, "[WORD...]", NULL, NULL, NULL, NULL, run_complete_words, true},
    {"man", NULL, "[COMMAND] [VERB]", "to:man", NULL, "Print the manual page of a command, or write all pages into a folder", "muster man experiment | man -l -", run_man, true},
    {0},
};
// clang-format on

const size_t command_count = sizeof(commands) / sizeof(commands[0]) - 1;

// --- lookup --------------------------------------------------------------------------------------

const struct command *command_find(const char *noun, const char *verb, struct error *e)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        if (strcmp(command->noun, noun) == 0 &&
            (!command->verb || (verb && strcmp(command->verb, verb) == 0)))
            return command;
    }
    suggest_command(noun, verb, e);
    return NULL;
}

// --- aliases -------------------------------------------------------------------------------------

static const char *full_word(const char *word, const char *const (*aliases)[2], size_t count)
{
    for (size_t i = 0; word && i < count; i++)
        if (strcmp(word, aliases[i][0]) == 0)
            return aliases[i][1];
    return word;
}

const char *command_noun(const char *noun)
{
    static const char *const aliases[][2] = {{"exp", "experiment"},
                                             {"e", "experiment"},
                                             {"t", "trial"},
                                             {"ckpt", "checkpoint"},
                                             {"checkpoints", "checkpoint"},
                                             {"c", "checkpoint"},
                                             {"m", "model"},
                                             {"workspace", "team"},
                                             {"w", "team"},
                                             {"p", "project"},
                                             {"u", "user"},
                                             {"a", "agent"},
                                             {"s", "slot"},
                                             {"tpl", "template"},
                                             {"j", "job"},
                                             {"res", "resources"},
                                             {"resource-pool", "pool"},
                                             {"rp", "pool"}};
    return full_word(noun, aliases, sizeof(aliases) / sizeof(aliases[0]));
}

// Words that users of Determined's command det are used to.
const char *command_verb(const char *verb)
{
    static const char *const aliases[][2] = {{"ls", "list"},
                                             {"show", "describe"},
                                             {"edit", "set"},
                                             {"download-model-definition", "download-model-def"},
                                             {"list-versions", "versions"},
                                             {"set-password", "change-password"},
                                             {"logs-fields", "log-fields"}};
    return full_word(verb, aliases, sizeof(aliases) / sizeof(aliases[0]));
}
