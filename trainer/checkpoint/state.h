// The state of training between two steps: everything that a checkpoint must restore. This is a
// view; the training loop owns the blocks and accesses them on the compute thread.
#ifndef MUSTER_TRAINER_CHECKPOINT_STATE_H
#define MUSTER_TRAINER_CHECKPOINT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/model/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/reduction/fixed_point.h"

enum { TRAIN_METRIC_MAX = 64 };

// The best validation so far, so that a restarted training stops when an undisturbed one would.
struct train_best {
    char metric[TRAIN_METRIC_MAX]; // ranks the validations
    bool smaller_is_better;
    double value;
    int64_t step; // 0: none yet
    // value that the next validations must improve by min_delta ("mark" in the manifest)
    double reference;
    int64_t validations_since; // validations since then ("waited")
    int64_t last_validated;    // step of the last validation ("judged")
};

// Contains no pointers, because rank 0 broadcasts it as bytes.
struct train_position {
    int64_t step;         // completed optimizer steps
    int64_t data_cursor;  // samples consumed
    uint64_t seed;        // of initial weights, sample order and dropout
    bool exponents_known; // only with exact reduction
    bool quantised_known; // likewise of quantised_exponents; only in FP8
    // Sums for the next report, so that a restart leaves no gap in a chart.
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
    struct optimizer *optimizer; // has the state blocks
    int32_t *exponents;          // [parameter_count]
    const struct fp8_tensor *quantised;
    int quantised_count;
    int32_t *quantised_exponents; // [quantised_count]
    struct train_position position;
};

#endif
