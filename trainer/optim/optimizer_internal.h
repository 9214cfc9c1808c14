// What the sources of optim share among themselves; nobody else includes it.
#ifndef MUSTER_TRAINER_OPTIM_OPTIMIZER_INTERNAL_H
#define MUSTER_TRAINER_OPTIM_OPTIMIZER_INTERNAL_H

#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

// Which ratio scales the learning rate of each tensor (with decay: biases and norms have none).
enum trust {
    TRUST_NONE,
    TRUST_LARS, // of weights and gradient, so it is known before the update
    TRUST_LAMB, // of weights and direction: the update stops at the moments, and goes on from there
};

struct kind {
    const char *name;
    int states;
    const char *state_names[OPTIMIZER_STATES_MAX];
    enum trust trust;
    double weight_decay, epsilon; // unless told otherwise
    enum ops_rule rule;
};

// Sums of squares: a column of them for each thing that is measured.
enum column { OF_GRADIENT, OF_WEIGHTS, OF_DIRECTION, COLUMNS };

struct optimizer {
    const struct kind *kind;
    struct schedule schedule;
    double momentum, beta1, beta2, epsilon, weight_decay, trust_coefficient, clip_norm;
    struct parameter *parameters;
    int parameter_count;
    size_t block_size;
    float *states[OPTIMIZER_STATES_MAX];
    struct ops_unit *units; // the part of each parameter in each cell, in the order of the block
    size_t unit_count;
    size_t *of_cell;      // [cells + 1] first unit of each cell
    size_t *of_parameter; // [parameter_count + 1] first unit of each parameter
    double *sums;         // [COLUMNS, unit_count]
    double *totals;       // [COLUMNS, parameter_count]

    // This rank's units: those of the ranges it was last given.
    struct ops_units *own;
    size_t *own_index; // [own_count] among all units
    size_t own_count;
    double *own_sums; // [COLUMNS, own_count]
    struct optimizer_range *ranges;
    int range_count;
    struct ops_tensor *tensors; // [parameter_count]
};

#endif
