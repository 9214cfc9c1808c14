// Restoring: from a checkpoint's folder back into the state of training. Compute thread of rank 0;
// the other ranks receive the state by broadcast.
#ifndef MUSTER_TRAINER_CHECKPOINT_RESTORE_H
#define MUSTER_TRAINER_CHECKPOINT_RESTORE_H

#include "api/checkpoint.h"
#include "base/error.h"
#include "trainer/checkpoint/state.h"

// Fills weights, optimizer, exponents and position from the first of `folders` that is whole; one
// that is damaged or missing is passed over with a warning that names the file. `fingerprint` is
// this process's; a checkpoint of another one is told of in the log. ERR_CORRUPT, ERR_NOT_FOUND:
// none is whole (the first's error). ERR_INVALID: a checkpoint of another model or optimizer.
int restore_first_intact(char *const *folders, int count, const char *fingerprint,
                         struct train_state *state, struct error *e);

// Samples of a step of the training that the first of `folders` with a manifest is of; 0: unknown.
// The checkpoint is not verified.
int64_t restore_global_batch(char *const *folders, int count);

// Weights alone, of an open checkpoint (`folder` is for messages), into state->weights.
int restore_weights(const struct checkpoint *ck, const char *folder,
                    const struct train_state *state, struct error *e);

#endif
