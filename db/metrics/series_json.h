// Converts reports between the JSON of the REST API and columns. Pure; any thread.
#ifndef MUSTER_DB_METRICS_SERIES_JSON_H
#define MUSTER_DB_METRICS_SERIES_JSON_H

#include <jansson.h>

#include "base/text/json.h"
#include "db/metrics/series.h"

// Makes a block of one report in the arena. `batches` may be NULL. ERR_INVALID: a name begins with
// a control character; ERR_TOO_LARGE: a name has more than LIMIT_METRIC_NAME bytes.
int series_from_json(struct arena *a, const json_t *values, const json_t *batches,
                     struct series_block *out, struct error *e);

int series_check_name(const char *name,
                      struct error *e); // checks the name of a metric; errors as above

// Reads a number, or one of the words "NaN", "Infinity", "-Infinity"; false: neither.
bool series_number(const json_t *value, uint8_t *kind, double *out);

// Writes the values of one report as an object, in the order of its columns, without its batches.
void series_write_values(struct json_writer *w, const struct series_block *b, size_t at);
const char *series_batches(const struct series_block *b, size_t at); // JSON text; NULL: none

#endif
