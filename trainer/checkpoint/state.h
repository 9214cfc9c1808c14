// The state of training between two steps: all that a checkpoint must bring back. A view: the
// blocks belong to the training loop, which fills and reads them on the compute thread.
#ifndef MUSTER_TRAINER_CHECKPOINT_STATE_H
#define MUSTER_TRAINER_CHECKPOINT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/model/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/reduction/fixed_point.h"

enum { TRAIN_METRIC_MAX = 64 };

// The best validation so far, so that a restart stops where an undisturbed training would.
struct train_best {
    char metric[TRAIN_METRIC_MAX]; // that ranks them
    bool smaller_is_better;        // is better
    double value;
    int64_t step;              // 0: none yet
    double reference;          // that the next has to improve on by min_delta ...
    int64_t validations_since; // ... and validations since that did not
    int64_t last_validated;    // step of the last validation that was compared
};

// Plain bytes: rank 0 broadcasts it.
struct train_position {
    int64_t step;         // optimizer steps done
    int64_t data_cursor;  // samples consumed
    uint64_t seed;        // of weights, order and dropout
    bool exponents_known; // (exact reduction)
    // The report that is being gathered, so that a restart leaves no dent in a chart.
    int64_t window_steps;
    struct loss_sum window_loss;
    double window_norm; // sum of gradient norms
    struct train_best best;
};

struct train_state {
    const struct parameter *parameters;
    int parameter_count;
    size_t block_size;           // floats
    float *weights;              // in the device's memory
    struct optimizer *optimizer; // its state blocks
    int32_t *exponents;          // [parameter_count]
    struct train_position position;
};

#endif
