// Core handlers by the calls they serve (master/http/routes.c is the table that names them). All
// run on the core thread; see core.h for the contract and wire.md sections 1c and 2 for the bodies.
#ifndef MUSTER_MASTER_KERNEL_HANDLERS_H
#define MUSTER_MASTER_KERNEL_HANDLERS_H

#include "master/kernel/core.h"

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

// Workspaces (params[0]), their projects and members (params[1]: the user): teams.h.
core_handler core_workspace_create, core_workspace_patch, core_workspace_delete,
    core_workspace_archive, core_workspace_unarchive, core_project_create, core_project_patch,
    core_project_delete, core_project_archive, core_project_unarchive, core_project_move,
    core_project_note_add, core_project_notes_set, core_member_set, core_member_remove;

// Trials and what running tasks report; params[0] is the trial id, and the caller's allocation must
// be the live one of that trial (else ERR_FORBIDDEN "allocation has ended").
//
// What the views send as it stands in the store: a trial's latest_training, latest_validation and
// best_validation hold the wire's MetricsWorkload ({"endTime", "metrics": {"avgMetrics": {..}},
// "numInputs": 0, "totalBatches"}), a checkpoint's validation the wire's Metrics ({"avgMetrics":
// {..}}), summary_metrics {"avg_metrics": {name: {"count", "last", "max", "min", "sum", "type"}},
// "validation_metrics": {..}}. A token that is not in the store is, as an allocation's, answered
// with 403 "allocation has ended".
core_handler core_trial_kill, core_trial_metrics, core_trial_metric_columns, core_trial_progress,
    core_trial_early_exit, core_trial_runner_metadata, core_run_start;

// Unmanaged trials (detached.h): POST and PUT /trials (rq->id: the trial), /trials/{t}/start,
// PATCH /trials/{t}.
core_handler core_trial_create, core_trial_put, core_trial_start, core_trial_patch;

// What is known of a run beside its metrics: /runs/{t}/metadata, /trial-source-info.
core_handler core_run_metadata, core_trial_source;

// Allocations; params[0] is the allocation id.
core_handler core_allocation_preemption, core_allocation_ack_preemption, core_allocation_all_gather,
    core_allocation_rendezvous, core_allocation_accelerator_data, core_allocation_container_running,
    core_allocation_pending_preemption, core_allocation_proxy_address, core_allocation_daemon;
core_handler core_task_logs; // POST /task/logs; rq->input: logpost.h
// PUT retain_logs; of many as above.
core_handler core_experiment_retain_logs, core_experiments_retain_logs, core_trial_retain_logs;
core_handler core_checkpoint_report; // POST /checkpoints
// DELETE /checkpoints, POST /checkpoints/rm, PATCH /checkpoints; params[0] of the metadata: the
// uuid, of gc (ours: chooses by the policy now): the experiment.
core_handler core_checkpoints_delete, core_checkpoints_remove_files, core_checkpoints_patch,
    core_checkpoint_metadata, core_experiment_gc;
core_handler core_experiment_history; // ours: when an imported experiment ran; history.c
core_handler core_tasks;              // GET /tasks: live allocations

// Webhooks (webhooks.h); params[0] is the id. custom: what a program alerts of.
core_handler core_available_pools, core_pool_bindings; // what a workspace may use
core_handler core_webhooks, core_webhook, core_webhook_create, core_webhook_patch,
    core_webhook_delete, core_webhook_custom;

// Agents and slots; params[0] is the agent id, params[1] the slot.
core_handler core_agent_sync, core_agents, core_agent, core_agent_enable, core_agent_disable,
    core_agent_forget, core_slots, core_slot, core_slot_enable, core_slot_disable;
core_handler core_job_queue, core_job_queue_stats, core_job_queue_update, core_shares,
    core_resource_pools;

#endif
