// A Parzen estimator of one hyperparameter: the density of values that were seen, mixed with a wide
// prior over the whole range (Bergstra et al., NIPS 2011, section 4.2). Pure.
#ifndef MUSTER_MASTER_SEARCH_PARZEN_H
#define MUSTER_MASTER_SEARCH_PARZEN_H

#include <stddef.h>

#include "base/rng.h"

enum parzen_kind { PARZEN_REAL, PARZEN_INTEGER, PARZEN_CATEGORY };

struct parzen_range {
    enum parzen_kind kind;
    double low, high; // both belong to it; of categories: 0 and their number - 1
};

struct parzen {
    struct parzen_range range;
    size_t count;   // kernels, the prior included; of categories: their number
    double *centre; // of a kernel; integers reach half a unit beyond their range
    double *width;  // standard deviation of a kernel
    double *weight; // of a kernel, divided by its mass within the range; of a category: probability
};

// Estimates the density of `count` values, which it sorts. parzen_free() releases it.
void parzen_fit(struct parzen *p, const struct parzen_range *range, double *values, size_t count);
void parzen_free(struct parzen *p);

double parzen_draw(const struct parzen *p, struct rng *rng);
double parzen_log_density(const struct parzen *p, double value); // of an integer: log probability

#endif
