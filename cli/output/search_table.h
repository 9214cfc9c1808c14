// The trials of a search as a table: best first, with the hyperparameters in which they differ.
// Pure.
#ifndef MUSTER_CLI_SEARCH_TABLE_H
#define MUSTER_CLI_SEARCH_TABLE_H

#include <jansson.h>

#include "base/arena.h"

// Returns a new list of the rows (from row_trial()), sorted by "best"; rows without it come last.
json_t *search_table(json_t *rows, const json_t *config, long long best_trial);
// Adds to each row the hyperparameters in which the rows differ; returns the columns with these, in
// the arena; `first` comes before them.
const char *search_hparam_columns(const json_t *rows, const char *first, struct arena *a);
// The same with the columns of trials that run.
const char *search_columns(const json_t *rows, struct arena *a);

#endif
