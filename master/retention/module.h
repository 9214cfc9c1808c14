// The retention module and its request handlers.
#ifndef MUSTER_MASTER_RETENTION_MODULE_H
#define MUSTER_MASTER_RETENTION_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module retention_module;

// PUT retain_logs; params[0]: the experiment or trial.
core_handler core_experiment_retain_logs, core_trial_retain_logs;
// DELETE /checkpoints, POST /checkpoints/rm, PATCH /checkpoints; core_checkpoint_metadata:
// params[0] is the uuid; core_experiment_gc (an extension that applies the policy now): params[0]
// is the experiment.
core_handler core_checkpoints_delete, core_checkpoints_remove_files, core_checkpoints_patch,
    core_checkpoint_metadata, core_experiment_gc;

// Hooks in gc.c and log_expiry.c.
void gc_init(struct core *c);
void gc_free(struct core *c);
void gc_start_sweep(struct core *c);
void gc_request_experiment(struct core *c, struct experiment *x);
void log_expiry_init(struct core *c);
void log_expiry_free(struct core *c);

#endif
