// Restores the state of training from a checkpoint's folder. Compute thread of rank 0; the other
// ranks receive the state by broadcast.
#ifndef MUSTER_TRAINER_CHECKPOINT_RESTORE_H
#define MUSTER_TRAINER_CHECKPOINT_RESTORE_H

#include "api/checkpoint/checkpoint.h"
#include "base/error.h"
#include "trainer/checkpoint/state.h"

// Fills weights, optimizer state, exponents and position from the first intact checkpoint of
// `folders`. Damaged and missing ones are skipped with a warning that names the file. `fingerprint`
// is that of this process; if the checkpoint has another one, a warning is logged. ERR_CORRUPT,
// ERR_NOT_FOUND: none is intact (the error of the first one). ERR_INVALID: a checkpoint of another
// model or optimizer.
int restore_first_intact(char *const *folders, int count, const char *fingerprint,
                         struct train_state *state, struct error *e);

// The batch size of this name ("global_batch_size", "micro_batch_size") in the first manifest of
// `folders`; 0: unknown. Does not verify the checkpoint.
int64_t restore_batch_size(char *const *folders, int count, const char *name);

// Loads only the weights of an open checkpoint into state->weights. `folder` is for messages.
int restore_weights(const struct checkpoint *ck, const char *folder,
                    const struct train_state *state, struct error *e);

#endif
