// Learning rates over the steps of training: pure functions of (schedule, step).
//
// Both schedules rise linearly over the first warmup_steps, step 0 getting 1 / (warmup_steps + 1)
// of the learning rate. `constant` stays there; `warmup_cosine` falls to min_learning_rate at the
// end of training along half a cosine (Loshchilov & Hutter 2017).
#ifndef MUSTER_TRAINER_OPTIM_SCHEDULE_H
#define MUSTER_TRAINER_OPTIM_SCHEDULE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct schedule {
    bool cosine;
    double learning_rate, min_learning_rate;
    int64_t warmup_steps, steps;
};

// `spec` (NULL: constant) is trainer.schedule. ERR_INVALID.
int schedule_read(const json_t *spec, double learning_rate, int64_t steps, struct schedule *out,
                  struct error *e);
double schedule_rate(const struct schedule *s, int64_t step);

#endif
