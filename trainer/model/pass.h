// Inside trainer/model: one run over the layers of a model, and what layers ask of it.
#ifndef MUSTER_TRAINER_MODEL_PASS_H
#define MUSTER_TRAINER_MODEL_PASS_H

#include "trainer/model/layer.h"

struct model_pass {
    const struct model *model;
    const float *floats; // the parameters
    const real *reals;
    const struct batch *batch; // count == micro_batch; what layers see of it is staged
    bool training;
    struct draw_key key;
    int64_t together; // micro-batches that layers in sync take statistics of
};
void *pass_value(const struct model_pass *p, int tensor); // in the device's memory; NULL for NONE
int64_t pass_count(const struct model_pass *p, const struct layer *l); // floats of x
double *pass_sums(const struct model_pass *p, const struct layer *l);  // in front of `saved`
const real *pass_parameter(const struct model_pass *p, const struct layer *l, int slot); // or NULL
const float *pass_statistic(const struct model_pass *p, const struct layer *l, int slot);
float *pass_gradient(const struct model_pass *p, const struct layer *l, int slot); // or NULL
struct ops_dropout pass_draw(const struct model_pass *p, const struct layer *l);

// Brings the batch, and what draws are made from, into the device's memory; comes first.
void pass_stage(const struct model_pass *p);
// Layers from .. to - 1 in this order.
void pass_forward(const struct model_pass *p, int from, int to);
// The same layers, last first; each gradient of a parameter goes to the sink.
void pass_backward(const struct model_pass *p, int from, int to, const struct gradient_sink *sink);
// One layer whose sums (if it has any) are there.
void pass_backward_layer(const struct model_pass *p, const struct layer *l,
                         const struct gradient_sink *sink);

// ERR_CORRUPT: a label or a token is out of range.
int pass_check_batch(const struct model *m, const struct batch *b, struct error *e);
// Losses of the first `count` samples; in training the gradient of their sum, else how many
// predictions were right.
void pass_loss(const struct model_pass *p, int64_t count);
// Brings them to the host (correct NULL: not wanted), there after ops_synchronize().
void pass_results(const struct model_pass *p, int64_t count, float *losses, int32_t *correct);

#endif
