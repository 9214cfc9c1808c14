// The snapshot writer copies the state between two steps and writes it as a checkpoint in the
// background while training continues. Owned and called by the compute thread of rank 0; one write
// at a time.
#ifndef MUSTER_TRAINER_CHECKPOINT_SNAPSHOT_WRITER_H
#define MUSTER_TRAINER_CHECKPOINT_SNAPSHOT_WRITER_H

#include <jansson.h>

#include "base/error.h"
#include "trainer/checkpoint/state.h"

enum { SNAPSHOT_ID_MAX = 64 };

struct snapshot_info {
    char id[SNAPSHOT_ID_MAX]; // UUID, or without a cluster the last part of the folder
    const char *folder;
    int64_t step;
    bool best;      // the validation is the best so far
    bool only_best; // saved only because it is the best
};

struct snapshot_writer; // opaque

// `written` is called on the writing thread after each durable checkpoint.
struct snapshot_writer *
snapshot_writer_new(const struct train_state *state,
                    void (*written)(void *ctx, const struct snapshot_info *info), void *ctx);
void snapshot_writer_free(struct snapshot_writer *s); // waits; NULL is fine

// Waits for the previous write (a failure is logged), copies the state and starts to write.
// `metadata` (borrowed) is added to the manifest.
int snapshot_writer_save(struct snapshot_writer *s, const struct train_state *state,
                         const struct snapshot_info *info, const json_t *metadata, struct error *e);

// Waits for the last write and returns its error, once.
int snapshot_writer_wait(struct snapshot_writer *s, struct error *e);

#endif
