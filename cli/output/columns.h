// Columns named after a metric or a hyperparameter, as in --columns
// id,validation.loss,training.loss.min,hparams.learning_rate. The names are those by which lists
// can be sorted (api/filter/filter.h); the master sends their values with the rows.
#ifndef MUSTER_CLI_COLUMNS_H
#define MUSTER_CLI_COLUMNS_H

#include "cli/cli.h"

// Returns "&show=validation.loss&show=.." for such names in --columns; "" if there are none.
const char *columns_query(struct cli *c);

// Adds the values from `list` to `rows`, which were made from it. ERR_NOT_FOUND if no row has a
// value of a column; the error lists the available names.
int columns_add(struct cli *c, const json_t *list, json_t *rows, struct error *e);

// Returns all available names ("validation.loss", "hparams.optimizer.name") in the master's answer
// to COLUMNS_FIELDS. The caller owns the list.
#define COLUMNS_FIELDS "/api/v1/experiment/fields"
json_t *columns_known(const json_t *fields);

#endif
