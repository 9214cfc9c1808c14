// Shared by the sources of reduction/: reducer.c sums gradients, buckets.c divides blocks among the
// ranks, bucket_size.c chooses the size of buckets, verify.c compares the ranks' weights.
#ifndef MUSTER_TRAINER_REDUCTION_REDUCER_INTERNAL_H
#define MUSTER_TRAINER_REDUCTION_REDUCER_INTERNAL_H

#include "trainer/ops/device.h"
#include "trainer/ops/exact.h"
#include "trainer/reduction/reducer.h"

struct bucket {
    size_t first, count; // elements of the block
    int missing;         // parameters whose gradients are incomplete in the last micro-batch
    uint32_t ticket;     // of the reduce-scatter of gradients, later of the all-gather of weights
};

struct reducer {
    struct reducer_config config;
    struct comm *comm;
    struct bucket *buckets; // in the order in which they start, from the end of the block
    size_t bucket_count, complete, started, fusion_bytes;
    struct optimizer_range *ranges; // this rank's parts, in the order of the block
    size_t range_count;
    struct ops_recording *conversion; // recorded conversion of the sums in the ranges
    bool weights_started;

    // In the communicator's memory on the device.
    int32_t *gradients; // [reducer_padded_size()] sums, int32 or float; converted in place
    float *weights;     // [reducer_padded_size()]
    int64_t *sums;      // [config.sums] doubles
    // Of the step, as bits of floats: [parameter_count], [quantised_count]; then the flag.
    int32_t *amaxes;
    float *scales;         // [parameter_count] float to fixed point, later fixed point to gradient
    int32_t *checksums;    // [world][parameter_count]
    struct loss_sum *loss; // [1]
    uint32_t amax_ticket, loss_ticket;

    int32_t *global_exponents;   // amaxes of all ranks, as exponents; then the flag
    int32_t *exponents;          // [parameter_count], [quantised_count]
    bool exponents_known;        // `exponents` of the parameters are valid
    bool quantised_known;        // and those of the quantised tensors
    int precision;               // p in the number format (reducer.c)
    bool first, last;            // position of the current micro-batch among the local ones
    int kind;                    // the same as a number, for gradient_sink.kind
    int queued[OPS_EXACT_PARTS]; // parameters whose gradients are queued
    const float *queued_gradients[OPS_EXACT_PARTS]; // their gradients
    int queued_count;
    int err; // of the first bucket that could not start
    struct error error;
};

// Size of the padded block: whole cells, the same number for each rank.
size_t reducer_padded_size(const struct reducer_config *c);
// Cuts the block into buckets of about fusion_bytes, at least one cell for each rank.
void reducer_cut_buckets(struct reducer *s, size_t fusion_bytes);

// Adds `change` to `missing` of the buckets that contain elements of the parameter.
void reducer_add_missing(struct reducer *s, int parameter, int change);

// Calls of the communicator whose time counts as OPS_COMMUNICATION. reducer_start_bucket() works on
// the bucket's elements of `block`, which is in the communicator's memory.
int reducer_start(struct reducer *s, const struct comm_work *work, uint32_t *ticket,
                  struct error *e);
int reducer_start_bucket(struct reducer *s, struct bucket *b, enum comm_kind kind,
                         enum comm_type type, void *block, struct error *e);
int reducer_wait(struct reducer *s, uint32_t ticket, struct error *e);
int reducer_wait_buckets(struct reducer *s, struct error *e); // waits for all buckets
int reducer_all_reduce(struct reducer *s, void *data, size_t count, enum comm_type type,
                       enum comm_op op, struct error *e);

#endif
