// Sends records and reports of metrics to a Muster master, in batches, and counts the results.
// Every source (a dump, a running master) gives it the same records, which master/imports reads. A
// source adds an object before the objects that refer to it. One thread.
#ifndef MUSTER_CLI_IMPORT_IMPORTER_H
#define MUSTER_CLI_IMPORT_IMPORTER_H

#include "cli/cli.h"
#include "cli/output/meter.h"

struct importer; // opaque

// `cluster`: the id of the cluster that is imported. The last ids are those of its experiments and
// trials.
int importer_open(struct cli *c, const char *cluster, int64_t last_experiment, int64_t last_trial,
                  struct importer **out, struct error *e);
void importer_close(struct importer *m); // accepts NULL; drops what was not sent
bool importer_keeps_id(const struct importer *m, int64_t experiment);

// Adds a record with "kind" and "old"; takes it. A record of another kind than the last one sends
// those before it.
int importer_add(struct importer *m, json_t *record, struct error *e);
// Sends everything; now the objects can be referred to.
int importer_flush(struct importer *m, struct error *e);

// A trial's metrics begin: importer_flush(), then importer_wants_metrics() says whether the master
// needs the reports. `mark` changes when there are more of them.
int importer_begin_metrics(struct importer *m, int64_t trial, const char *mark, struct error *e);
bool importer_wants_metrics(const struct importer *m, int64_t trial);

struct import_report {        // one report of a trial's metrics
    int64_t trial, steps;     // steps -1: none
    const char *group, *time; // time: RFC 3339
    const json_t *values;     // {name: value}
};
int importer_add_report(struct importer *m, const struct import_report *report, struct error *e);
// `last` is the record "metrics_end"; takes it. All reports of the trial were added.
int importer_end_metrics(struct importer *m, int64_t trial, json_t *last, struct error *e);

// Sentences of the source for the summary. Notes are counted by their text and printed after their
// number, so a note begins with a noun in the plural: "experiments had not ended ..". A remark is
// about one object.
void importer_note(struct importer *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void importer_remark(struct importer *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Counts an object that the source itself leaves out.
void importer_skip(struct importer *m, const char *kind, const char *old, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Prints what was new, changed, there already, and skipped with the reasons.
int importer_print_summary(struct importer *m, struct error *e);

#endif
