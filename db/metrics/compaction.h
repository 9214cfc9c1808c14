// Compaction packs the reports of a trial in table metrics into chunks. A reader's thread prepares
// a batch. The owner of the store's writes commits it if the trial still exists, before the next
// compaction of the trial.
#ifndef MUSTER_DB_METRICS_COMPACTION_H
#define MUSTER_DB_METRICS_COMPACTION_H

#include "db/db.h"
#include "db/metrics/series.h"

enum {
    COMPACTION_AT = 1536,          // reports of a group that start a compaction
    COMPACTION_AT_BYTES = 4 << 20, // bytes of their blocks that start one
    COMPACTION_KEEP = 512, // newest reports of an active trial that stay; minimum of a chunk
    COMPACTION_ROWS_MAX = 16 * 1024, // rows of a group in one compaction
    COMPACTION_BYTES_MAX = 64 << 20  // bytes of a group in one compaction
};

// Packs all groups of the trial. `ended`: no further reports will arrive. *more: call again after
// the commit. The batch stays empty if there is nothing to pack.
int compaction_run(struct db_reader *db, int64_t trial, bool ended, struct db_batch *batch,
                   bool *more, struct error *e);

// Adds reports of one group as a chunk. They are sorted by step, with one report per step.
void compaction_add_chunk(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count);
// Adds them as one row, in any order; returns the bytes of its block.
size_t compaction_add_row(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count);

#endif
