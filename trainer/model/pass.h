// Private to trainer/model: one forward or backward pass over the layers of a model, and the
// functions with which layers get their tensors.
#ifndef MUSTER_TRAINER_MODEL_PASS_H
#define MUSTER_TRAINER_MODEL_PASS_H

#include "trainer/model/layer_kind.h"

struct model_pass {
    const struct compiled_model *model;
    const float *floats; // the parameters
    const real *reals;
    const struct batch *batch; // count == micro_batch; layers read its staged copy
    bool training;
    struct draw_key key;
    int64_t step_micro_batches;  // micro-batches over which sync layers take statistics
    const struct model_fp8 *fp8; // of the step; NULL: nothing is quantised
};
void *pass_value(const struct model_pass *p, int tensor); // in the device's memory; NULL for NONE
int64_t pass_count(const struct model_pass *p, const struct layer *l); // numbers in x
double *pass_sums(const struct model_pass *p, const struct layer *l);  // at the start of `saved`
const real *pass_parameter(const struct model_pass *p, const struct layer *l, int slot); // or NULL
const float *pass_statistic(const struct model_pass *p, const struct layer *l, int slot);
float *pass_gradient(const struct model_pass *p, const struct layer *l, int slot); // or NULL
struct ops_dropout pass_draw(const struct model_pass *p, const struct layer *l);
struct ops_fp8 pass_fp8(const struct model_pass *p, const struct layer *l); // p->fp8 is not NULL

// Copies the batch and the dropout keys to the device. Call it first.
void pass_stage(const struct model_pass *p);
// Runs layers from .. to - 1 forward.
void pass_forward(const struct model_pass *p, int from, int to);
// Runs the same layers backward, last first; each gradient of a parameter goes to the sink.
void pass_backward(const struct model_pass *p, int from, int to, const struct gradient_sink *sink);
// Runs one layer backward, whose sums (if it has any) are known.
void pass_backward_layer(const struct model_pass *p, const struct layer *l,
                         const struct gradient_sink *sink);

// ERR_CORRUPT: a label or a token is out of range.
int pass_check_batch(const struct compiled_model *m, const struct batch *b, struct error *e);
// Computes the losses of the first `count` samples and, in training, the gradient of their sum,
// otherwise the number of correct predictions.
void pass_loss(const struct model_pass *p, int64_t count);
// Copies the results to the host, available after ops_synchronize(). `correct` may be NULL.
void pass_results(const struct model_pass *p, int64_t count, float *losses, int32_t *correct);

#endif
