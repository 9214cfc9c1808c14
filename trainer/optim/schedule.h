// Learning rate schedules: pure functions of (schedule, step).
//
// Every schedule rises linearly during the first warmup_steps: step s has gone (s + 1) /
// (warmup_steps + 1) of the way from the start value to the learning rate. After warm-up the rate
// is, with t the share of training after warm-up that is done,
//   constant    the learning rate
//   step        the learning rate times `factor` for each milestone that has passed
//   cosine      half a cosine from the learning rate to min_learning_rate at the end (Loshchilov &
//               Hutter 2017); warmup_cosine is a second name for it
//   polynomial  min_learning_rate + (1 - t)^power * (learning_rate - min_learning_rate)
#ifndef MUSTER_TRAINER_OPTIM_SCHEDULE_H
#define MUSTER_TRAINER_OPTIM_SCHEDULE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"

struct schedule {
    double (*rate)(const struct schedule *s, int64_t step); // after warm-up
    double start, learning_rate, min_learning_rate;         // start: at the first warm-up step
    double factor, power;
    int64_t warmup_steps, steps;
    int64_t milestones[LIMIT_MILESTONES];
    int milestone_count;
};

// `spec` (NULL: constant) is trainer.schedule of the experiment configuration. ERR_INVALID.
int schedule_read(const json_t *spec, double start, double learning_rate, int64_t steps,
                  struct schedule *out, struct error *e);
double schedule_rate(const struct schedule *s, int64_t step);

#endif
