// The element-wise updates of the optimizers, over one parameter tensor of n floats. Pure.
#ifndef MUSTER_TRAINER_OPTIM_UPDATE_H
#define MUSTER_TRAINER_OPTIM_UPDATE_H

#include <stddef.h>

// Every step's numbers that do not depend on the element. g is first multiplied by `scale` (of
// clipping); decay is the tensor's weight decay, 0 where it has none.
struct update {
    float rate, scale, decay;
    float momentum;                 // momentum
    float beta1, beta2, epsilon;    // adamw
    float correction1, correction2; // adamw: 1 / (1 - beta^t), for the moments
};

// p -= rate (g + decay p)
void update_sgd(const struct update *u, size_t n, float *p, const float *g);
// v = momentum v + g + decay p; p -= rate v
void update_momentum(const struct update *u, size_t n, float *p, const float *g, float *v);
// the same v; p -= rate (g + decay p + momentum v)   (Nesterov, in Sutskever et al. 2013's form)
void update_nesterov(const struct update *u, size_t n, float *p, const float *g, float *v);
// p -= rate decay p; m, v the moments; p -= rate m' / (sqrt(v') + epsilon)
void update_adamw(const struct update *u, size_t n, float *p, const float *g, float *m, float *v);

// Sum of squares in double: blocks of 4,096 elements, each in eight interleaved sums, so that the
// order is a function of n alone.
double update_sum_of_squares(size_t n, const float *g);

#endif
