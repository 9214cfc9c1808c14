// The module of the room calls, and its request handlers: the calls of people. core.h has their
// contract.
#ifndef MUSTER_MASTER_CALLS_MODULE_H
#define MUSTER_MASTER_CALLS_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module calls_module;

// Experiments. create: body as the wire's POST /experiments; sets rq->id, and rq->answer when only
// validating. The others take the experiment id as params[0] and set rq->id.
core_handler core_experiment_create, core_experiment_activate, core_experiment_pause,
    core_experiment_cancel, core_experiment_kill, core_experiment_archive,
    core_experiment_unarchive, core_experiment_delete, core_experiment_patch;
// PUT by-external-id/{x}: as create, made once. continue: {"id", "overrideConfig"}. Labels: the
// label is params[1], the answer is theirs.
core_handler core_experiment_put, core_experiment_continue, core_experiment_move,
    core_experiment_add_label, core_experiment_remove_label;
// Of many, by {"experimentIds"} or {"filters"}; params[0]: the project, or NULL.
core_handler core_experiments_activate, core_experiments_pause, core_experiments_cancel,
    core_experiments_kill, core_experiments_archive, core_experiments_unarchive,
    core_experiments_delete, core_experiments_move;
// The same by {"searchIds"}, {"runIds"}: searches are experiments, runs trials (bulk.c).
core_handler core_searches_activate, core_searches_pause, core_searches_cancel, core_searches_kill,
    core_searches_archive, core_searches_unarchive, core_searches_delete, core_searches_move;
core_handler core_runs_activate, core_runs_pause, core_runs_kill, core_runs_archive,
    core_runs_unarchive, core_runs_delete, core_runs_move;
core_handler core_experiment_why;         // ours: why it waits, from the live queue
core_handler core_experiment_best_metric; // searcher/best_searcher_validation_metric

// Commands and what is like them, generic tasks (task_submit.c, task_verbs.c): each is an
// experiment row of another kind, and its task id is params[0]. create sets rq->id, the others too.
core_handler core_command_create, core_command_kill, core_command_set_priority, core_shell_create,
    core_shell_kill, core_shell_set_priority, core_notebook_create, core_notebook_kill,
    core_notebook_set_priority, core_tensorboard_create, core_tensorboard_kill,
    core_tensorboard_set_priority;
core_handler core_generic_create, core_task_kill, core_task_pause, core_task_unpause,
    core_task_delete;

// Of many: PUT retain_logs.
core_handler core_experiments_retain_logs;

core_handler core_trial_kill, core_trial_early_exit; // params[0] is the trial id

// /runs/start, /runs/{t}/metadata, /trial-source-info.
core_handler core_run_start, core_run_metadata, core_trial_source;

core_handler core_experiment_history; // ours: when an imported experiment ran; import_history.c
core_handler core_tasks;              // GET /tasks: live allocations

core_handler core_available_pools, core_pool_bindings; // what a workspace may use

// Agents and slots; params[0] is the agent id, params[1] the slot.
core_handler core_agents, core_agent, core_agent_enable, core_agent_disable, core_agent_forget,
    core_slots, core_slot, core_slot_enable, core_slot_disable;
core_handler core_job_queue, core_job_queue_stats, core_job_queue_update, core_shares,
    core_resource_pools;

// In external_ids.c, code_archives.c and removal.c, for the record of the module.
void names_init(struct core *c);
int names_load(struct core *c, struct error *e); // after the experiments
void names_free(struct core *c);
void files_init(struct core *c);
int files_load(struct core *c, struct error *e);
void files_pass(struct core *c);
void files_end(struct core *c);
void removals_resume(struct core *c);

#endif
