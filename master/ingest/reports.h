// Reports of metrics on their way through the core, for its own sources: what a trial keeps of them
// (latest.c), when they are folded (folds.c). Core thread.
#ifndef MUSTER_MASTER_INGEST_REPORTS_H
#define MUSTER_MASTER_INGEST_REPORTS_H

#include "db/metrics/series.h"
#include "master/ingest/experiment_metrics.h"
#include "master/kernel/module.h"
#include "master/kernel/state.h"

// latest.c: the newest report of a group, the best validation, the summary. Validations and
// progress are in the store with the turn that brings them; steps completed, the newest training
// report and the summary follow within a second or so, at most METRICS_FLUSHES trials a second. A
// start reads what a kill had kept from them (metrics_known).
struct metric_ingest {
    struct trial *dirty; // whose rows are written at the end of this turn
    struct listing listing;
    double flushes;                      // that may be written at once ..
    int64_t flushes_at;                  // .. as of then
    int64_t next_report, reports_put_by; // ids
};

struct metric_ingest *metric_ingest_new(void);
void metric_ingest_free(struct metric_ingest *m);
int report_ids_load(struct core *c, struct error *e);

enum { METRICS_FLUSHES = 200, METRICS_FLUSH_US = 1000 * 1000 };

void latest_take(struct core *c, struct trial *t, const char *group, const struct series_block *b);
void latest_write(struct core *c, struct trial *t); // now, whatever the rate
void latest_mark_progress(struct core *c, struct trial *t);

// folds.c
void folds_reported(struct core *c, struct trial *t, size_t reports, size_t bytes);
void folds_trial_ended(struct core *c, struct trial *t);
int compaction_load(struct core *c, struct error *e); // what ended without having been folded
void folds_next(struct core *c);                      // at the end of a turn
void folds_free(struct core *c);

// metrics.c: a report of no step that a machine makes of a trial; values in the arena's time
void metrics_of_machine(struct core *c, struct trial *t, const char *group, const json_t *values,
                        int64_t time, struct arena *arena);

// trial_metrics.c: what is kept of a trial's metrics
void metrics_restart(struct core *c, struct trial *t, int64_t from); // steps; -1: the beginning
void metrics_load(struct trial *t, const struct stored_metrics *stored);
// Reads the reports beyond `known`, which its row does not know of.
int metrics_catch_up(struct core *c, struct trial *t, int64_t known, struct error *e);
void metrics_end(struct core *c, struct trial *t); // it ends
void metrics_forget(struct trial *t);              // frees what it keeps for a trial
void metrics_flush(struct core *c);                // at the end of a turn

#endif
