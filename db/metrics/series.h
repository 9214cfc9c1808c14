// Metric reports as columns, and the blobs in which the store keeps them. Pure; any thread; memory
// is the caller's arena.
//
// A report is made by one run of a trial at one step: its id (order of arrival), run, steps, time,
// and values by name. A block is a list of reports of one group of one trial; a column is one
// metric. The store keeps few reports as one blob (series_put_block: a row of table metrics), and
// many as an axis and one blob per metric (metric_chunks, metric_columns), so that a chart reads
// few blobs.
//
// Version 1. Numbers are varints (7 bits a byte, lowest first); signed ones are zigzag; doubles are
// eight bytes, lowest first. Every blob begins with its letter and version and ends with the CRC32C
// of all bytes before it.
//   integers: 0, first, stride (signed); or 1, first, differences (signed)
//   axis:     'A' 1, count, then ids, runs, steps, times as integers
//   values:   runs of equal kind, each length * 4 + kind, until count; then the numbers; then the
//             texts, each length and bytes
//   column:   'C' 1, values
//   block:    'B' 1, the axis's count and integers, count of columns, each length of name, name,
//             values
#ifndef MUSTER_DB_METRICS_SERIES_H
#define MUSTER_DB_METRICS_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    SERIES_CHUNK = 1024,          // reports of a chunk, approximately
    SERIES_REPORTS_MAX = 1 << 17, // of a block or chunk; more is damage
    SERIES_BLOB_MAX = 1 << 30,
};

// The name under which a report keeps its batches (JSON text) beside its metrics; no metric may
// have it.
#define SERIES_BATCHES "\x01"

enum series_kind { SERIES_ABSENT, SERIES_REAL, SERIES_INTEGER, SERIES_JSON };

// Only reports first .. end - 1 may have the metric, so that a metric of a single report takes
// little memory. The arrays have one element for each of these reports.
struct series_column {
    const char *name;
    size_t first, end;  // equal: no report has the metric
    uint8_t *kinds;     // enum series_kind
    double *values;     // of reals and integers; integers have at most 53 bits
    const char **texts; // texts of JSON values; NULL: there are none
};

static inline enum series_kind series_kind_at(const struct series_column *c, size_t at)
{
    bool inside = at >= c->first && at < c->end;
    return inside ? (enum series_kind)c->kinds[at - c->first] : SERIES_ABSENT;
}

struct series_block {
    size_t count;
    int64_t *ids, *runs, *steps, *times;
    size_t column_count;
    struct series_column *columns;
};

struct series_names { // a NULL pointer to it means: all
    const char *const *names;
    size_t count;
};

// --- blobs ---------------------------------------------------------------------------------------

// Append `count` reports from `first` on. A block omits metrics that none of them has.
bool series_has(const struct series_column *c, size_t first, size_t count);
void series_put_axis(struct buf *out, const struct series_block *b, size_t first, size_t count);
void series_put_column(struct buf *out, const struct series_column *c, size_t first, size_t count);
void series_put_block(struct buf *out, const struct series_block *b, size_t first, size_t count);

// Check the whole blob; ERR_CORRUPT describes the fault. A block gets the columns that `only`
// names, in that order, or all. The result does not point into `data`.
int series_get_axis(struct arena *a, const void *data, size_t len, struct series_block *out,
                    struct error *e);
int series_get_column(struct arena *a, const void *data, size_t len, size_t count,
                      struct series_column *out, struct error *e);
int series_get_block(struct arena *a, const void *data, size_t len, const struct series_names *only,
                     struct series_block *out, struct error *e);

// Returns the number of a column, or of metric `name`, in report `at`; false: there is none.
bool series_number_at(const struct series_column *c, size_t at, double *out);
bool series_value(const struct series_block *b, size_t at, const char *name, double *out);

// --- restarts ------------------------------------------------------------------------------------

// A run that started from a step hides the reports of earlier runs beyond that step.
struct series_cut {
    int64_t run, from;
};

struct series_cuts { // by run; series_cuts_sort() sorts them
    struct series_cut *list;
    size_t count;
};

void series_cuts_sort(struct series_cuts *c);
int64_t series_cuts_limit(const struct series_cuts *c,
                          int64_t run); // the last step that is not hidden

// --- joining -------------------------------------------------------------------------------------

// Joins the visible reports of all blocks: by step, then by arrival, without hidden ones. A step
// has one report, that of the latest run, with the last value of each metric. Reports without a
// step (-1) all remain. Texts stay in the blocks.
void series_join(struct arena *a, const struct series_block *blocks, size_t count,
                 const struct series_cuts *cuts, struct series_block *out);

#endif
