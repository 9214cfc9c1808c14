// Snapshots: copies the state between two steps and writes it as a checkpoint in the background,
// while training goes on. Owned and called by the compute thread of rank 0; one write at a time.
#ifndef MUSTER_TRAINER_CHECKPOINT_SNAPSHOT_WRITER_H
#define MUSTER_TRAINER_CHECKPOINT_SNAPSHOT_WRITER_H

#include <jansson.h>

#include "base/error.h"
#include "trainer/checkpoint/state.h"

enum { SNAPSHOT_ID_MAX = 64 };

struct snapshot_info {
    char id[SNAPSHOT_ID_MAX]; // uuid, or the folder's last part where there is no cluster
    const char *folder;
    int64_t step;
    bool best;      // of the training's validations so far
    bool only_best; // no checkpoint was due but for that
};

struct snapshot_writer; // opaque

// `written` is called on the writing thread for each checkpoint that is durable.
struct snapshot_writer *
snapshot_writer_new(const struct train_state *state,
                    void (*written)(void *ctx, const struct snapshot_info *info), void *ctx);
void snapshot_writer_free(struct snapshot_writer *s); // waits; NULL is fine

// Waits for the write before this one (whose failure is logged), copies the state, starts to write.
// `metadata` (borrowed) are put into the manifest beside the state.
int snapshot_writer_save(struct snapshot_writer *s, const struct train_state *state,
                         const struct snapshot_info *info, const json_t *metadata, struct error *e);

// Waits until all is written. The error of the last write, told once.
int snapshot_writer_wait(struct snapshot_writer *s, struct error *e);

#endif
