// The request handlers of this folder, and the hooks that the kernel calls
// (master/kernel/module.h).
#ifndef MUSTER_MASTER_CALLS_MODULE_H
#define MUSTER_MASTER_CALLS_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module calls_module;

// Experiments. core_experiment_create takes the body of POST /experiments and sets rq->id, or a
// preview as result when it only validates. The others take the experiment id as params[0] and set
// rq->id.
core_handler core_experiment_create, core_experiment_activate, core_experiment_pause,
    core_experiment_cancel, core_experiment_kill, core_experiment_archive,
    core_experiment_unarchive, core_experiment_delete, core_experiment_patch;
// core_experiment_preview takes the same body; the result is JSON (preview.c).
// core_experiment_put: PUT by-external-id/{x}, creates once. core_experiment_continue takes {"id",
// "overrideConfig"}. Labels: the label is params[1], and the labels are the result.
core_handler core_experiment_preview, core_experiment_put, core_experiment_continue,
    core_experiment_move, core_experiment_add_label, core_experiment_remove_label;
// Verbs for many experiments, by {"experimentIds"} or {"filters"}; params[0]: the project, or NULL.
core_handler core_experiments_activate, core_experiments_pause, core_experiments_cancel,
    core_experiments_kill, core_experiments_archive, core_experiments_unarchive,
    core_experiments_delete, core_experiments_move;
// The same by {"searchIds"} and {"runIds"}: searches are experiments, runs are trials.
core_handler core_searches_activate, core_searches_pause, core_searches_cancel, core_searches_kill,
    core_searches_archive, core_searches_unarchive, core_searches_delete, core_searches_move;
core_handler core_runs_activate, core_runs_pause, core_runs_kill, core_runs_archive,
    core_runs_unarchive, core_runs_delete, core_runs_move;
core_handler core_experiment_why;         // GET /experiments/{id}/why
core_handler core_experiment_best_metric; // the best value of the searcher's metric

// Commands, shells, notebooks, TensorBoards and generic tasks. Each is an experiment row of another
// kind; params[0] is the task id. All set rq->id to the experiment.
core_handler core_command_create, core_command_kill, core_command_set_priority, core_shell_create,
    core_shell_kill, core_shell_set_priority, core_notebook_create, core_notebook_kill,
    core_notebook_set_priority, core_tensorboard_create, core_tensorboard_kill,
    core_tensorboard_set_priority;
core_handler core_generic_create, core_task_kill, core_task_pause, core_task_unpause,
    core_task_delete;

// PUT retain_logs for many experiments.
core_handler core_experiments_retain_logs;

core_handler core_trial_kill, core_trial_early_exit; // params[0] is the trial id

// POST /runs/start, /runs/{t}/metadata, /trial-source-info.
core_handler core_run_start, core_run_metadata, core_trial_source;

core_handler core_experiment_history; // when an imported experiment ran
core_handler core_tasks;              // GET /tasks: the live allocations

core_handler core_available_pools, core_pool_bindings; // of a workspace, of a pool

// Agents and slots; params[0] is the agent id, params[1] the slot.
core_handler core_agents, core_agent, core_agent_enable, core_agent_disable, core_agent_forget,
    core_slots, core_slot, core_slot_enable, core_slot_disable;
core_handler core_job_queue, core_visible_jobs, core_job_queue_stats, core_job_queue_update,
    core_shares, core_resource_pools;

// Hooks of the sources of this folder, which module.c lists.
void external_ids_init(struct core *c);
int external_ids_load(struct core *c, struct error *e); // after the experiments
void external_ids_free(struct core *c);
void code_archives_init(struct core *c);
int code_archives_load(struct core *c, struct error *e);
void code_archives_sweep(struct core *c);
void code_archives_free(struct core *c);
void removals_resume(struct core *c);

#endif
