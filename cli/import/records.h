// Objects of Determined as records of an import. Both sources, a dump and a running master, use
// these functions, so the same object becomes the same record. Pure, except for notes.
#ifndef MUSTER_CLI_IMPORT_RECORDS_H
#define MUSTER_CLI_IMPORT_RECORDS_H

#include "cli/import/importer.h"

json_t *record_new(const char *kind, const char *old);
// Sets a text unless it is NULL or empty.
void record_text(json_t *record, const char *key, const char *text);
// A time as RFC 3339; PostgreSQL writes "2024-05-01 12:00:00.5+00". Returns out; "" for NULL.
enum { SOURCE_TIME_MAX = 72 };
const char *source_time(const char *time, char out[SOURCE_TIME_MAX]);
void record_time(json_t *record, const char *key, const char *time);
int64_t source_time_us(const char *time); // microseconds since 1970; 0: NULL or not a time
// Sets "endTime". An object without an end ended with its last known activity (microseconds; 0:
// none is known).
void record_end(json_t *record, const char *end, int64_t activity);
void record_json(json_t *record, const char *key, const json_t *value); // NULL or null: none

// Sets "state" and "open" from a state of an experiment or trial there, with or without "STATE_".
// An object that had not ended becomes CANCELED. False: it is being deleted and has no record.
bool record_state(json_t *record, const char *state);

struct source_experiment {
    const json_t *config;        // complete, as Determined keeps it
    const char *original_config; // YAML as submitted; NULL: none
    const char *notes, *cluster;
    bool unmanaged;
};
// Sets what comes from the configuration: name, description, labels, searcher, seed, config, notes.
void record_experiment(struct importer *m, json_t *record, const struct source_experiment *from);
// Whether the configuration's search has one trial.
bool config_is_single(const json_t *config);

// The values of a report as Determined stores it ({"avg_metrics"} or {"validation_metrics"}); NULL:
// none. Borrowed.
const json_t *report_values(const json_t *metrics);
// The MetricsWorkload of a report, for latestTraining, latestValidation, bestValidation.
json_t *report_workload(const json_t *values, int64_t steps, const char *time);
// The summary without values that are not numbers.
json_t *summary_of(const json_t *summary_metrics);

#endif
