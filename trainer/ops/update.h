// The arithmetic of the optimizers. The rules of ops.h hold.
//
// A block of parameters is updated in units, each a part of one tensor; bits depend on the units
// alone, so a unit is always worked on as a whole. A rank has a table of those that it updates.
#ifndef MUSTER_TRAINER_OPS_UPDATE_H
#define MUSTER_TRAINER_OPS_UPDATE_H

#include "trainer/ops/device.h"

enum { OPS_UNIT_MAX = 4096 }; // floats

struct ops_unit {
    size_t at, count; // [at, at + count) of the block
    int tensor;
};

// p: parameters, g: gradients, m and v: state, as far as the rule has it. g is first multiplied by
// `scale` (of clipping); decay is the tensor's weight decay.
enum ops_rule {
    OPS_SGD,      // p -= rate (g + decay p)
    OPS_MOMENTUM, // m = momentum m + g + decay p; p -= rate m
    OPS_NESTEROV, // the same m; p -= rate (g + decay p + momentum m), which is Nesterov's momentum
                  // in Sutskever et al. 2013's form
    OPS_LARS,     // m = momentum m + rate (g + decay p); p -= m, where rate holds the trust ratio
                  // (You, Gitman & Ginsburg 2017, algorithm 1)
    OPS_ADAM,     // m, v: the moments of g + decay p; p -= rate m' / (sqrt(v') + epsilon), m' and
                  // v' being corrected for their start at zero (Kingma & Ba 2015, algorithm 1)
    OPS_ADAMW,    // the moments of g alone; p -= rate (decay p + m' / (sqrt(v') + epsilon))
                  // (Loshchilov & Hutter 2019, algorithm 2)
    OPS_LAMB,     // the moments of g, and the direction d = m' / (sqrt(v') + epsilon) + decay p,
                  // whose norm must be known before p -= rate d (You et al. 2019, algorithm 2)
};

struct ops_update { // a step's numbers
    enum ops_rule rule;
    float scale, momentum;
    float beta1, beta2, epsilon;
    float correction1, correction2; // 1 / (1 - beta^t), for the moments
};

struct ops_tensor { // and of each tensor
    float rate, decay;
    float statistic; // > 0: p += statistic (g - p), and nothing else
};

struct ops_blocks {
    float *p;
    const float *g;
    float *m, *v; // NULL: the rule has none
};

// Sums of squares, one of each unit of a table, in double: element i in the sum i % 32 of 32, those
// added up in order (a GPU: in a fixed order of its own). There after ops_synchronize(); NULL: not
// wanted.
struct ops_squares {
    double *gradients, *weights, *directions; // [count]
};

struct ops_units; // a table of units
int ops_units_new(const struct ops_unit *units, size_t count, int tensors, struct ops_units **out,
                  struct error *e);
void ops_units_free(struct ops_units *u); // NULL is fine

// Only measures gradients and weights, as they are.
void ops_units_measure(struct ops_units *u, const struct ops_blocks *b,
                       const struct ops_squares *sums);
// Measures gradients, as they were given, and updates. OPS_LAMB ends at the moments, and measures
// weights and directions; `tensors` is the caller's again on return.
void ops_units_update(struct ops_units *u, const struct ops_update *step,
                      const struct ops_tensor *tensors, const struct ops_blocks *b,
                      const struct ops_squares *sums);
// OPS_LAMB goes on: p -= rate d.
void ops_units_apply(struct ops_units *u, const struct ops_update *step,
                     const struct ops_tensor *tensors, const struct ops_blocks *b);

#endif
