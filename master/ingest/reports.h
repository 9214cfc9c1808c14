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
    struct trial *unsaved; // trials whose rows are written at the end of this turn
    struct experiment_metrics_queue experiments;
    double flushes;                           // rows that may be written now
    int64_t flushes_at;                       // the time of `flushes`
    int64_t next_report, report_ids_reserved; // the next id; the end of the reserved range
};

struct metric_ingest *metric_ingest_new(void);
void metric_ingest_free(struct metric_ingest *m);
int64_t report_ids_take(struct core *c, size_t count); // the first of `count` new ids
int report_ids_load(struct core *c, struct error *e);

enum { METRICS_FLUSHES = 200, METRICS_FLUSH_US = 1000 * 1000 };

void trial_metrics_add(struct core *c, struct trial *t, const char *group,
                       const struct series_block *b);
void trial_metrics_write(struct core *c, struct trial *t); // now, whatever the rate
void trial_metrics_mark_progress(struct core *c, struct trial *t);

// compaction.c
void compaction_count_reports(struct core *c, struct trial *t, size_t reports, size_t bytes);
void compaction_trial_ended(struct core *c, struct trial *t);
// Queues ended trials that still have loose reports.
int compaction_load(struct core *c, struct error *e);
void compaction_start_next(struct core *c); // at the end of a turn
void compaction_free(struct core *c);

// metrics.c: stores a report without steps that an agent makes about a trial. The arena must live
// until the end of the call.
void metrics_report_from_agent(struct core *c, struct trial *t, const char *group,
                               const json_t *values, int64_t time, struct arena *arena);

// trial_metrics.c
// Stores the values of report `at`, a validation, beside the checkpoint of the same step.
void checkpoint_validation_store(struct core *c, int64_t trial, const struct series_block *b,
                                 size_t at);
// A run starts from the checkpoint after `from` steps; -1: from the beginning.
void trial_metrics_restart(struct core *c, struct trial *t, int64_t from);
void trial_metrics_load(struct trial *t, const struct stored_metrics *stored);
// Reads the reports after `known`, which the trial's row does not cover.
int trial_metrics_catch_up(struct core *c, struct trial *t, int64_t known, struct error *e);
void trial_metrics_end(struct core *c, struct trial *t); // the trial ends
void trial_metrics_forget(struct trial *t);              // frees the metrics of a trial
void trial_metrics_flush(struct core *c);                // at the end of a turn

#endif
