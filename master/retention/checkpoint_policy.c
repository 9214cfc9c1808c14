#include "master/retention/checkpoint_policy.h"

#include <stdlib.h>
#include <string.h>

// Orders for qsort(): the latest first.
static int by_age(const struct checkpoint_candidate *a, const struct checkpoint_candidate *b)
{
    if (a->steps != b->steps)
        return a->steps > b->steps ? -1 : 1;
    if (a->reported_at != b->reported_at)
        return a->reported_at > b->reported_at ? -1 : 1;
    return strcmp(a->uuid, b->uuid);
}

// The order of SQL_CHECKPOINT_BEST_FIRST: with equal metrics the best trial comes first, then the
// checkpoint that was reported first.
static int by_metric(const struct checkpoint_candidate *a, const struct checkpoint_candidate *b,
                     bool smaller)
{
    if (a->has_metric != b->has_metric)
        return a->has_metric ? -1 : 1;
    if (a->has_metric && (a->metric < b->metric || a->metric > b->metric))
        return (a->metric < b->metric) == smaller ? -1 : 1;
    if (!a->has_metric)
        return by_age(a, b);
    if (a->leads != b->leads)
        return a->leads ? -1 : 1;
    if (a->reported_at != b->reported_at)
        return a->reported_at < b->reported_at ? -1 : 1;
    if (a->steps != b->steps)
        return a->steps < b->steps ? -1 : 1;
    return strcmp(a->uuid, b->uuid);
}

static int by_trial(const struct checkpoint_candidate *a, const struct checkpoint_candidate *b)
{
    return a->trial_id < b->trial_id ? -1 : a->trial_id > b->trial_id;
}

static int best_smallest(const void *a, const void *b)
{
    return by_metric(a, b, true);
}

static int best_largest(const void *a, const void *b)
{
    return by_metric(a, b, false);
}

static int trial_smallest(const void *a, const void *b)
{
    int order = by_trial(a, b);
    return order ? order : by_metric(a, b, true);
}

static int trial_largest(const void *a, const void *b)
{
    int order = by_trial(a, b);
    return order ? order : by_metric(a, b, false);
}

static int trial_latest(const void *a, const void *b)
{
    int order = by_trial(a, b);
    return order ? order : by_age(a, b);
}

// Marks the first `most` rows of each trial; where `best`, only those with a metric.
static void mark_of_trials(struct checkpoint_candidate *rows, size_t count, int64_t most, bool best,
                           enum keep_reason why)
{
    int64_t place = 0;
    for (size_t i = 0; i < count; i++) {
        place = i && rows[i].trial_id == rows[i - 1].trial_id ? place + 1 : 0;
        if (place < most && (rows[i].has_metric || !best))
            rows[i].reasons |= why;
    }
}

void checkpoint_policy_apply(struct checkpoint_candidate *rows, size_t count,
                             const struct checkpoint_policy *policy)
{
    bool smaller = policy->smaller_is_better;
    if (!count)
        return;
    qsort(rows, count, sizeof *rows, smaller ? best_smallest : best_largest);
    for (size_t i = 0; i < count && (int64_t)i < policy->experiment_best; i++)
        if (rows[i].has_metric)
            rows[i].reasons |= KEEP_EXPERIMENT_BEST;
    qsort(rows, count, sizeof *rows, smaller ? trial_smallest : trial_largest);
    mark_of_trials(rows, count, policy->trial_best, true, KEEP_TRIAL_BEST);
    qsort(rows, count, sizeof *rows, trial_latest);
    mark_of_trials(rows, count, policy->trial_latest, false, KEEP_TRIAL_LATEST);
}
