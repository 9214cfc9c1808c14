// Reports of metrics, for the sources of this folder. Core thread.
#ifndef MUSTER_MASTER_INGEST_REPORTS_H
#define MUSTER_MASTER_INGEST_REPORTS_H

#include "db/metrics/series.h"
#include "master/ingest/experiment_metrics.h"
#include "master/kernel/module.h"
#include "master/kernel/state.h"

// The newest report of a group, the best validation and the summary of each trial
// (trial_metrics.c). Validations and progress are stored with the turn that brings them; steps
// completed, the newest training report and the summary follow within about a second, at most
// METRICS_FLUSHES trials a second. A start of the master reads the reports that a trial's row does
// not cover yet (metrics_known).
struct metric_ingest {
    struct trial *dirty; // whose rows are written at the end of this turn
    struct experiment_metrics_queue listing;
    double flushes;                      // that may be written at once ..
    int64_t flushes_at;                  // .. as of then
    int64_t next_report, reports_put_by; // ids
};

struct metric_ingest *metric_ingest_new(void);
void metric_ingest_free(struct metric_ingest *m);
int report_ids_load(struct core *c, struct error *e);

enum { METRICS_FLUSHES = 200, METRICS_FLUSH_US = 1000 * 1000 };

void trial_metrics_add(struct core *c, struct trial *t, const char *group,
                       const struct series_block *b);
void trial_metrics_write(struct core *c, struct trial *t); // now, whatever the rate
void trial_metrics_mark_progress(struct core *c, struct trial *t);

// folds.c
void compaction_count_reports(struct core *c, struct trial *t, size_t reports, size_t bytes);
void compaction_trial_ended(struct core *c, struct trial *t);
int compaction_load(struct core *c, struct error *e); // what ended without having been folded
void compaction_start_next(struct core *c);           // at the end of a turn
void compaction_free(struct core *c);

// metrics.c: a report of no step that a machine makes of a trial; values in the arena's time
void metrics_report_from_agent(struct core *c, struct trial *t, const char *group,
                               const json_t *values, int64_t time, struct arena *arena);

// trial_metrics.c: what is kept of a trial's metrics
void trial_metrics_restart(struct core *c, struct trial *t,
                           int64_t from); // steps; -1: the beginning
void trial_metrics_load(struct trial *t, const struct stored_metrics *stored);
// Reads the reports beyond `known`, which its row does not know of.
int trial_metrics_catch_up(struct core *c, struct trial *t, int64_t known, struct error *e);
void trial_metrics_end(struct core *c, struct trial *t); // it ends
void trial_metrics_forget(struct trial *t);              // frees what it keeps for a trial
void trial_metrics_flush(struct core *c);                // at the end of a turn

#endif
