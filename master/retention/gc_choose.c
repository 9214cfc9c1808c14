// Applies the checkpoint policy of an experiment to its rows in the store. Any thread with a
// reader.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/text/json.h"
#include "master/retention/gc.h"

static int read_policy(struct db_reader *db, int64_t experiment, struct checkpoint_policy *out,
                       struct error *e)
{
    json_t *config = NULL;
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_BY_ID, experiment);
    int found = db_next(rows), err = 0;
    if (found < 0)
        err = error_set(e, ERR_INTERNAL, "the store cannot be read");
    else if (!found)
        err = error_not_found(e, "experiment", "%lld", (long long)experiment);
    else
        err = json_parse(DB_GET(rows, EXPERIMENT_BY_ID, config),
                         strlen(DB_GET(rows, EXPERIMENT_BY_ID, config)), "config", &config, e);
    db_rows_close(rows);
    const json_t *storage = jget(config, "checkpoint_storage");
    *out = (struct checkpoint_policy){
        .experiment_best = jget_int(storage, "save_experiment_best", 0),
        .trial_best = jget_int(storage, "save_trial_best", 1),
        .trial_latest = jget_int(storage, "save_trial_latest", 1),
        .smaller_is_better = jget_bool(jget(config, "searcher"), "smaller_is_better", true)};
    json_decref(config);
    return err;
}

static bool is_reachable(const struct storage *storage, const char *text)
{
    json_t *at = NULL;
    bool fine =
        !json_parse(text, strlen(text), "storage", &at, NULL) && !storage_check(storage, at, NULL);
    json_decref(at);
    return fine;
}

static void read_row(const struct storage *storage, struct db_rows *from,
                     struct checkpoint_candidate *row)
{
    *row = (struct checkpoint_candidate){.trial_id = DB_GET(from, CHECKPOINTS_TO_CHOOSE, trial_id),
                                         .steps = DB_GET(from, CHECKPOINTS_TO_CHOOSE, steps),
                                         .reported_at =
                                             DB_GET(from, CHECKPOINTS_TO_CHOOSE, reported_at),
                                         .metric = DB_GET(from, CHECKPOINTS_TO_CHOOSE, metric)};
    snprintf(row->uuid, sizeof row->uuid, "%s", DB_GET(from, CHECKPOINTS_TO_CHOOSE, uuid));
    row->leads = DB_GET(from, CHECKPOINTS_TO_CHOOSE, leads);
    row->has_metric = !DB_IS_NULL(from, CHECKPOINTS_TO_CHOOSE, metric) && isfinite(row->metric);
    if (!DB_IS_NULL(from, CHECKPOINTS_TO_CHOOSE, needed_by_version) ||
        !DB_IS_NULL(from, CHECKPOINTS_TO_CHOOSE, needed_by_experiment) ||
        !DB_IS_NULL(from, CHECKPOINTS_TO_CHOOSE, needed_by_trial) ||
        !DB_IS_NULL(from, CHECKPOINTS_TO_CHOOSE, needed_by_clone))
        row->reasons |= KEEP_NEEDED;
    if (!is_reachable(storage, DB_GET(from, CHECKPOINTS_TO_CHOOSE, storage)))
        row->reasons |= KEEP_OUT_OF_REACH;
}

int gc_choose(struct db_reader *db, const struct storage *storage, int64_t experiment,
              const struct checkpoint_policy *given, struct checkpoint_candidate **out,
              size_t *count, struct error *e)
{
    struct checkpoint_policy policy;
    size_t cap = 0;
    int more = 0;
    *out = NULL;
    *count = 0;
    int err = read_policy(db, experiment, &policy, e);
    if (err)
        return err;
    if (given && given->experiment_best >= 0)
        policy.experiment_best = given->experiment_best;
    if (given && given->trial_best >= 0)
        policy.trial_best = given->trial_best;
    if (given && given->trial_latest >= 0)
        policy.trial_latest = given->trial_latest;
    struct db_rows *rows = DB_QUERY(db, CHECKPOINTS_TO_CHOOSE, experiment);
    while ((more = db_next(rows)) > 0) {
        if (*count == cap) {
            cap = cap ? 2 * cap : 64;
            *out = xrealloc(*out, cap * sizeof **out);
        }
        read_row(storage, rows, &(*out)[(*count)++]);
    }
    db_rows_close(rows);
    if (more < 0) {
        *count = 0; // a verdict needs all rows
        return error_set(e, ERR_INTERNAL, "the store cannot be read");
    }
    checkpoint_policy_apply(*out, *count, &policy);
    return 0;
}
