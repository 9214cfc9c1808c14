// A dump of Determined's database as the source of an import. dump_source.c reads the tables of
// objects, dump_metrics.c the reports. One thread.
#ifndef MUSTER_CLI_IMPORT_DUMP_SOURCE_H
#define MUSTER_CLI_IMPORT_DUMP_SOURCE_H

#include "cli/import/dump_file.h"
#include "cli/import/id_table.h"
#include "cli/import/importer.h"

int import_dump(struct cli *c, const char *path, struct error *e);

// --- shared by dump_source.c and dump_metrics.c --------------------------------------------------

struct source_run {                        // a trial while the dump is read
    int64_t id, experiment, reports, seen; // reports: that the dump has of it and are valid
    uint64_t mark;                         // sum of hashes of these reports
    int64_t activity;                      // the newest time at which it did something; 0: none
    bool known;                            // its row was read
    int64_t steps, best, latest;           // ids of validations; 0: none
    char *request, *metadata, *summary;
    int64_t seed;
    json_t *best_report, *latest_report; // MetricsWorkload
    json_t *training;                    // values of the newest training report
    int64_t training_steps;
    char *training_time;
};

struct dump_source {
    struct cli *c;
    struct importer *importer;
    struct dump_file *file;
    struct progress_meter meter;
    char *cluster;
    int64_t last_experiment, last_trial;
    struct id_table runs;        // of struct source_run
    struct id_table experiments; // of struct source_search, dump_source.c
    struct id_table storages;    // of json_t: checkpoint_storage
    struct checkpoint_run *checkpoints;
    size_t checkpoint_count, checkpoint_cap;
    struct metric_columns { // where the first pass finds the fields of a report
        char table[COPY_NAME_MAX];
        int id, trial, archived, time;
    } columns;
};

struct source_run *dump_run(struct dump_source *s, int64_t id);    // creates it if necessary
void dump_note_activity(struct source_run *run, const char *time); // time: as in the dump, or NULL
void dump_progress(struct dump_source *s, const char *what, int64_t offset);
// Parses a column of JSON; *out NULL: null. ERR_CORRUPT names the column.
int dump_json(const struct dump_row *row, const char *column, json_t **out, struct error *e);

// dump_metrics.c
extern const char *const dump_metric_tables[]; // ends with NULL
int dump_count_report(struct dump_source *s, const struct copy_header *h, const char *row,
                      size_t len, struct error *e);
int dump_import_metrics(struct dump_source *s, struct error *e);

#endif
