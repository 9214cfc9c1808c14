// Folding: the reports of a trial that have gathered in table metrics become chunks. The thread of
// the reader prepares a batch; whoever owns the store's writes commits it, if the trial is still
// there, before anything else is folded of it.
#ifndef MUSTER_DB_FOLD_H
#define MUSTER_DB_FOLD_H

#include "db/db.h"
#include "db/metrics/series.h"

enum {
    COMPACTION_AT = 1536,            // reports of a group: worth folding
    COMPACTION_AT_BYTES = 4 << 20,   // of their blocks
    COMPACTION_KEEP = 512,           // newest reports of a live trial that stay; least of a chunk
    COMPACTION_ROWS_MAX = 16 * 1024, // rows of a group that are taken at once
    COMPACTION_BYTES_MAX = 64 << 20  // .. and bytes
};

// All groups of the trial; `ended`: nothing more will be reported. *more: there is more to fold
// than was taken at once. The batch stays empty when there is nothing to do.
int compaction_run(struct db_reader *db, int64_t trial, bool ended, struct db_batch *batch,
                   bool *more, struct error *e);

// Reports of one group as a chunk: sorted, each step once.
void compaction_add_chunk(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count);
// .. or as one row; the bytes of its block. In any order.
size_t compaction_add_row(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count);

#endif
