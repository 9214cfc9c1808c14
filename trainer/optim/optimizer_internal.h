// Shared by the sources of optim/; no other folder includes it.
#ifndef MUSTER_TRAINER_OPTIM_OPTIMIZER_INTERNAL_H
#define MUSTER_TRAINER_OPTIM_OPTIMIZER_INTERNAL_H

#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

// The ratio that scales the learning rate of each tensor that has weight decay.
enum trust {
    TRUST_NONE,
    TRUST_LARS, // of weights and gradient; known before the update
    TRUST_LAMB, // of weights and direction; the update stops at the moments until it is known
};

struct optimizer_kind {
    const char *name;
    int states;
    const char *state_names[OPTIMIZER_STATES_MAX];
    enum trust trust;
    double weight_decay, epsilon; // defaults
    enum ops_rule rule;
};

// Sums of squares: one column for each measured quantity.
enum squares { SQUARES_GRADIENT, SQUARES_WEIGHTS, SQUARES_DIRECTION, COLUMNS };

struct optimizer {
    const struct optimizer_kind *kind;
    struct schedule schedule;
    double momentum, beta1, beta2, epsilon, weight_decay, trust_coefficient, clip_norm;
    struct parameter *parameters;
    int parameter_count;
    size_t block_size;
    float *states[OPTIMIZER_STATES_MAX];
    struct ops_unit *units; // the part of each parameter in each cell, in the order of the block
    size_t unit_count;
    size_t *cell_units;      // [cells + 1] first unit of each cell
    size_t *parameter_units; // [parameter_count + 1] first unit of each parameter
    double *sums;            // [COLUMNS, unit_count]
    double *totals;          // [COLUMNS, parameter_count]

    // This rank's units: those in the ranges of the previous step.
    struct ops_units *own;
    size_t *own_index; // [own_count] index in `units`
    size_t own_count;
    double *own_sums; // [COLUMNS, own_count]
    struct optimizer_range *ranges;
    int range_count;
    struct ops_tensor *tensors; // [parameter_count]
};

#endif
