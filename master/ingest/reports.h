// Reports of metrics on their way through the core, for its own sources: what a trial keeps of them
// (latest.c), when they are folded (folds.c). Core thread.
#ifndef MUSTER_MASTER_INGEST_REPORTS_H
#define MUSTER_MASTER_INGEST_REPORTS_H

#include "db/series.h"
#include "master/kernel/state.h"

// latest.c: the newest report of a group, the best validation, the summary. Validations and
// progress are in the store with the turn that brings them; steps completed, the newest training
// report and the summary follow within a second or so, at most METRICS_FLUSHES trials a second. A
// start reads what a kill had kept from them (metrics_known).
enum { METRICS_FLUSHES = 200, METRICS_FLUSH_US = 1000 * 1000 };

void latest_take(struct core *c, struct trial *t, const char *group, const struct series_block *b);
void latest_write(struct core *c, struct trial *t); // now, whatever the rate
void latest_mark_progress(struct core *c, struct trial *t);

// folds.c
void folds_reported(struct core *c, struct trial *t, size_t reports, size_t bytes);
void folds_trial_ended(struct core *c, struct trial *t);
int folds_load(struct core *c, struct error *e); // what ended without having been folded
void folds_next(struct core *c);                 // at the end of a turn
void folds_free(struct core *c);

#endif
