// The module of the room retention, and its request handlers.
#ifndef MUSTER_MASTER_RETENTION_MODULE_H
#define MUSTER_MASTER_RETENTION_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module retention_module;

// PUT retain_logs.
core_handler core_experiment_retain_logs, core_trial_retain_logs;
// DELETE /checkpoints, POST /checkpoints/rm, PATCH /checkpoints; params[0] of the metadata: the
// uuid, of gc (ours: chooses by the policy now): the experiment.
core_handler core_checkpoints_delete, core_checkpoints_remove_files, core_checkpoints_patch,
    core_checkpoint_metadata, core_experiment_gc;

// In gc.c and log_expiry.c, for the record of the module.
void gc_init(struct core *c);
void gc_free(struct core *c);
void gc_pass(struct core *c);
void gc_ended_trials(struct core *c, struct experiment *x);
void log_expiry_init(struct core *c);
void log_expiry_free(struct core *c);

#endif
