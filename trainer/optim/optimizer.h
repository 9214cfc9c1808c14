// Optimizers and schedules: pure element-wise updates over parameter blocks, the same bits on every
// rank. sgd, momentum (Nesterov by flag), adamw (Loshchilov & Hutter 2019); constant and
// warm-up-cosine learning rates. Gradients arrive already divided by the global batch.
#ifndef MUSTER_TRAINER_OPTIM_OPTIMIZER_H
#define MUSTER_TRAINER_OPTIM_OPTIMIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/model/model.h"

enum { OPTIMIZER_STATES_MAX = 2 };

struct optimizer; // opaque

// `spec` is trainer.optimizer, `schedule` trainer.schedule, `steps` the length of training.
int optimizer_new(const json_t *spec, const json_t *schedule, int64_t steps, double clip_norm,
                  const struct parameter *parameters, int parameter_count, size_t block_size,
                  struct optimizer **out, struct error *e);
void optimizer_free(struct optimizer *o);

// State blocks (momentum; first and second moment), each laid out like the parameter block.
int optimizer_state_count(const struct optimizer *o);
const char *optimizer_state_name(const struct optimizer *o, int i); // "momentum", "moment1", ..
float *optimizer_state(struct optimizer *o, int i);

double optimizer_learning_rate(const struct optimizer *o, int64_t step); // of step 0..steps-1

// One step: updates `parameters` by the gradients, scaled down to the global norm clip_norm where
// it is above (summed per parameter in a fixed block order, in double). `gradient_norm` (before
// clipping) may be NULL. ERR_CORRUPT when the norm is not finite, naming the first such tensor;
// parameters are untouched then.
int optimizer_step(struct optimizer *o, int64_t step, float *parameters, float *gradients,
                   double *gradient_norm, struct error *e);

#endif
