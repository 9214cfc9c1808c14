// Columns that are named by a metric or a hyperparameter, as in --columns id,validation.loss,
// training.loss.min,hparams.learning_rate: what the master's lists of experiments and trials can be
// sorted by (api/filter/filter.h), asked for beside the rows.
#ifndef MUSTER_CLI_COLUMNS_H
#define MUSTER_CLI_COLUMNS_H

#include "cli/cli.h"

// "&show=validation.loss&show=.." for those that --columns names; "" when it names none.
const char *columns_query(struct cli *c);

// Puts them into `rows`, which were made of `list`, one by one. ERR_NOT_FOUND when no row has a
// value of one says which there are.
int columns_add(struct cli *c, const json_t *list, json_t *rows, struct error *e);

// All names there are, "validation.loss", "hparams.optimizer.name", of the master's answer to
// COLUMNS_FIELDS, as a list that is the caller's.
#define COLUMNS_FIELDS "/api/v1/experiment/fields"
json_t *columns_known(const json_t *fields);

#endif
