// Converts objects of the API to flat rows for people and scripts: plain state names, seconds,
// percents. Pure; each function returns a new object owned by the caller.
#ifndef MUSTER_CLI_ROWS_H
#define MUSTER_CLI_ROWS_H

#include <jansson.h>
#include <stddef.h>

#include "api/wire.h"

// The state of an experiment or a trial as a word. PAUSING: paused, but it still holds slots.
const char *row_state(enum wire_names table, const json_t *object);

json_t *row_experiment(const json_t *experiment);
json_t *row_trial(const json_t *trial, const json_t *experiment_config);
json_t *row_checkpoint(const json_t *checkpoint, const char *metric);
json_t *row_start(const json_t *start); // one allocation of a trial
json_t *row_task(const json_t *task);   // a command or a generic task
json_t *row_agent(const json_t *agent);
json_t *row_job(const json_t *job); // a job of the queue
json_t *row_slot(const json_t *agent, const json_t *slot);
json_t *row_team(const json_t *workspace);
json_t *row_member(const json_t *member);
json_t *row_share(const json_t *share); // the share of a team in a pool, or of a user in a team
json_t *row_metrics(const json_t *report, const char *group);

// Converts each element of `list` by `row`.
json_t *rows_of(const json_t *list, json_t *(*row)(const json_t *));

// The name of the searcher's metric in an experiment's configuration; "" if there is none.
const char *searcher_metric(const json_t *config);

#endif
