// Columns that are named by a metric or a hyperparameter, as in --columns id,validation.loss,
// training.loss.min,hparams.learning_rate: of trials, and of experiments by their best trial (else
// the first). What is returned is the caller's.
#ifndef MUSTER_CLI_COLUMNS_H
#define MUSTER_CLI_COLUMNS_H

#include "api/cli/cli.h"

// Puts those that --columns names into the rows; trials[i], as the API has it, is that of rows[i].
// Null where it has none; ERR_NOT_FOUND when no row has one says which there are.
int columns_add(struct cli *c, json_t *rows, const json_t *trials, struct error *e);
// .. into rows of experiments, with a look at a trial of each if there are such columns.
int columns_add_experiments(struct cli *c, json_t *rows, struct error *e);

// The names that a trial has, as keys of an object: "validation.loss", "hparams.optimizer.name".
json_t *columns_of(const json_t *trial);

// The groups of metrics that a trial has reported, as --group takes them: "training, validation".
const char *columns_groups(const json_t *trial, struct arena *a);

// A trial of the API: the best of an experiment by the searcher's metric, else its first. NULL: it
// has none yet.
int columns_best_trial(struct cli *c, long long experiment, json_t **trial, struct error *e);

#endif
