// What the sources of sync share among themselves: sync.c sums up gradients, parts.c divides blocks
// among the ranks, tune.c chooses the size of buckets, verify.c compares replicas.
#ifndef MUSTER_TRAINER_REDUCTION_REDUCER_INTERNAL_H
#define MUSTER_TRAINER_REDUCTION_REDUCER_INTERNAL_H

#include "trainer/ops/device.h"
#include "trainer/ops/exact.h"
#include "trainer/reduction/reducer.h"

struct bucket {
    size_t first, count; // elements of the block
    int missing;         // parameters that are not complete in a pass over the last micro-batch
    uint32_t ticket;     // of its gradients, later of its weights
};

struct reducer {
    struct reducer_config config;
    struct comm *comm;
    struct bucket *buckets; // in the order in which they are sent, from the end of the block
    size_t bucket_count, complete, sent, fusion_bytes;
    struct optimizer_range *ranges; // this rank's parts, in the order of the block
    size_t range_count;
    struct ops_recording *finish; // of sums in the ranges
    bool weights_sent;

    // Of the communicator, in the device's memory.
    int32_t *gradients; // [reducer_padded_size()] sums of int32 or float; the ranges become float
    float *weights;     // [reducer_padded_size()]
    int64_t *sums;      // [config.sums] doubles
    int32_t *peaks;     // [parameter_count + 1] the step's, as bits of floats, and the flag
    float *scales;      // [parameter_count] of gradients, then of sums that become gradients
    int32_t *checksums; // [world][parameter_count]
    struct loss_sum *loss; // [1]
    uint32_t peaks_ticket, loss_ticket;

    int32_t *heard;     // [parameter_count + 1] peaks of all ranks, as exponents, and the flag
    int32_t *exponents; // [parameter_count]
    bool known;         // exponents are
    int precision;      // p
    bool first, last;   // which local micro-batch it is
    int kind;           // that as a number, for the sink
    int waiting[OPS_EXACT_PARTS];               // parameters whose gradients are to be added
    const float *gradients_of[OPS_EXACT_PARTS]; // .. together with those of their layer
    int waiting_count;
    int err; // of a bucket that could not be sent
    struct error error;
};

// Elements of the block as it is cut: whole cells, as many for each rank.
size_t reducer_padded_size(const struct reducer_config *c);
// Cuts it into buckets of about so many bytes, and at least a cell for each rank.
void reducer_cut_buckets(struct reducer *s, size_t fusion_bytes);

// Changes `missing` of the buckets that hold elements of the parameter.
void reducer_add_missing(struct reducer *s, int parameter, int change);

// The communicator's calls, in their own phase of time. A bucket's part of a block in the
// communicator's memory is reduced into, or gathered from, the ranks' parts.
int reducer_start(struct reducer *s, const struct comm_work *work, uint32_t *ticket,
                  struct error *e);
int reducer_start_bucket(struct reducer *s, struct bucket *b, enum comm_kind kind,
                         enum comm_type type, void *block, struct error *e);
int reducer_wait(struct reducer *s, uint32_t ticket, struct error *e);
int reducer_wait_buckets(struct reducer *s, struct error *e); // of all buckets
int reducer_all_reduce(struct reducer *s, void *data, size_t count, enum comm_type type,
                       enum comm_op op, struct error *e);

#endif
