// Reads the reports of one group of a trial: chunks and newest rows, merged by step, without the
// reports that restarts have hidden. One thread, inside a snapshot (db_snapshot_begin), so that a
// concurrent compaction neither hides nor doubles reports.
//
//   struct reports *r;
//   struct reports_span span;
//   int more = reports_open(db, &query, &r, &e);
//   while (!more && (more = reports_next(r, &span, &e)) == 1)
//       for (size_t i = span.first; i < span.end; i++)
//           ... span.block->steps[i] ...
//   reports_close(r);
#ifndef MUSTER_DB_METRICS_REPORTS_H
#define MUSTER_DB_METRICS_REPORTS_H

#include "db/db.h"
#include "db/metrics/series.h"

struct reports_query {
    int64_t trial;
    const char *group;
    int64_t from, to;                // steps, both included; a report without a step has -1
    int64_t after_steps, after_id;   // only reports after this one
    const struct series_names *only; // metrics to read, without duplicates; NULL: all
};

// A query for a whole group.
#define REPORTS_ALL(of_trial, of_group)                                                            \
    ((struct reports_query){.trial = (of_trial),                                                   \
                            .group = (of_group),                                                   \
                            .from = INT64_MIN,                                                     \
                            .to = INT64_MAX,                                                       \
                            .after_steps = INT64_MIN})

struct reports_span { // valid until the next call
    const struct series_block *block;
    size_t first, end;
};

struct reports; // opaque

// *out must be closed also after an error.
int reports_open(struct db_reader *db, const struct reports_query *q, struct reports **out,
                 struct error *e);
int reports_next(struct reports *r, struct reports_span *out,
                 struct error *e); // 1: a span, 0: no more, negative: an error
void reports_close(struct reports *r);

// A value that changes with every new report or restart, but not with a compaction.
struct reports_version {
    int64_t newest, cut;
};
int reports_version(struct db_reader *db, int64_t trial, const char *group,
                    struct reports_version *out, struct error *e);

// Copies the name of the next group after `group` ("": the first) to the arena; NULL: none.
int reports_next_group(struct db_reader *db, int64_t trial, const char *group, struct arena *a,
                       const char **out, struct error *e);

// Reads the restarts of a trial, sorted for series_join().
int reports_cuts(struct db_reader *db, int64_t trial, struct arena *a, struct series_cuts *out,
                 struct error *e);

#endif
