// How the store works, in numbers. Any thread.
#ifndef MUSTER_DB_FIGURES_H
#define MUSTER_DB_FIGURES_H

#include "base/histogram.h"
#include "db/db.h"

struct db_figures {
    const struct histogram *commits; // transactions; lives as long as the store
    int64_t committing_since;        // monotonic: the running transaction; 0: there is none
    size_t queued;                   // batches that wait for the writer
    int64_t bytes, log_bytes;        // sizes of the file and of the write-ahead log
};

void db_read_figures(const struct db *db, struct db_figures *out);

#endif
