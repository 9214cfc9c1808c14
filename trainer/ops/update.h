// The arithmetic of the optimizers. The rules of ops.h apply.
//
// A parameter block is updated in units, each a part of one tensor. The bits depend only on the
// units, so an op always works on a whole unit. Every rank has a table of the units that it
// updates.
#ifndef MUSTER_TRAINER_OPS_UPDATE_H
#define MUSTER_TRAINER_OPS_UPDATE_H

#include "trainer/ops/device.h"

enum { OPS_UNIT_MAX = 4096 }; // floats

struct ops_unit {
    size_t at, count; // [at, at + count) in the block
    int tensor;
};

// p: parameters, g: gradients, m and v: state, if the rule has them. g is first multiplied by
// `scale` (for clipping); decay is the tensor's weight decay.
enum ops_rule {
    OPS_SGD,      // p -= rate (g + decay p)
    OPS_MOMENTUM, // m = momentum m + g + decay p; p -= rate m
    OPS_NESTEROV, // the same m; p -= rate (g + decay p + momentum m): Nesterov's momentum in the
                  // form of Sutskever et al. 2013
    OPS_LARS,     // m = momentum m + rate (g + decay p); p -= m, where rate includes the trust
                  // ratio (You, Gitman & Ginsburg 2017, algorithm 1)
    OPS_ADAM,     // m, v: the moments of g + decay p; p -= rate m' / (sqrt(v') + epsilon), where m'
                  // and v' are corrected for their start at zero (Kingma & Ba 2015, algorithm 1)
    OPS_ADAMW,    // the moments of g alone; p -= rate (decay p + m' / (sqrt(v') + epsilon))
                  // (Loshchilov & Hutter 2019, algorithm 2)
    OPS_LAMB,     // the moments of g, and the direction d = m' / (sqrt(v') + epsilon) + decay p,
                  // whose norm must be known before p -= rate d (You et al. 2019, algorithm 2)
};

struct ops_update { // the constants of a step
    enum ops_rule rule;
    float scale, momentum;
    float beta1, beta2, epsilon;
    float correction1, correction2; // 1 / (1 - beta^t), for the moments
};

struct ops_tensor { // the constants of a tensor in a step
    float rate, decay;
    float statistic; // > 0: the tensor is a statistic, p += statistic (g - p) replaces the rule
};

struct ops_blocks {
    float *p;
    const float *g;
    float *m, *v; // NULL if the rule has none
};

// Sums of squares in double, one for each unit of a table. Element i is added to partial sum i %
// 32, then these are added in order (a GPU uses a fixed order of its own). Valid after
// ops_synchronize(); NULL: not computed.
struct ops_squares {
    double *gradients, *weights, *directions; // [count]
};

struct ops_units; // a table of units
int ops_units_new(const struct ops_unit *units, size_t count, int tensors, struct ops_units **out,
                  struct error *e);
void ops_units_free(struct ops_units *u); // NULL is fine

// Computes the sums for gradients and weights and changes nothing.
void ops_units_measure(struct ops_units *u, const struct ops_blocks *b,
                       const struct ops_squares *sums);
// Computes the sums of the gradients before the update, and updates. OPS_LAMB stops at the moments
// and computes the sums of weights and directions. `tensors` is free on return.
void ops_units_update(struct ops_units *u, const struct ops_update *step,
                      const struct ops_tensor *tensors, const struct ops_blocks *b,
                      const struct ops_squares *sums);
// The second part of OPS_LAMB: p -= rate d.
void ops_units_apply(struct ops_units *u, const struct ops_update *step,
                     const struct ops_tensor *tensors, const struct ops_blocks *b);

#endif
