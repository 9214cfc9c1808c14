// The trials of a search as a table: the best first, with the hyperparameters in which they differ.
// Pure.
#ifndef MUSTER_CLI_SEARCH_TABLE_H
#define MUSTER_CLI_SEARCH_TABLE_H

#include <jansson.h>

#include "base/arena.h"

// A new list of the rows (of row_trial), best first: by "best", those without one last.
json_t *search_table(json_t *rows, const json_t *config, long long best_trial);
// Gives each row a member for every hyperparameter that is not the same in all of them; the columns
// with these, in the arena.
const char *search_columns(const json_t *rows, struct arena *a);

#endif
