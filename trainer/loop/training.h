// What the files of the training loop share: job.c builds it, loop.c trains, report.c tells about
// it. Internal to the trainer; compute thread only.
#ifndef MUSTER_TRAINER_LOOP_TRAINING_H
#define MUSTER_TRAINER_LOOP_TRAINING_H

#include "trainer/checkpoint/snapshot_writer.h"
#include "trainer/checkpoint/state.h"
#include "trainer/comm/comm.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prefetch.h"
#include "trainer/loop/job.h"
#include "trainer/ops/ops.h"
#include "trainer/reduction/reducer.h"
#include "trainer/reduction/sampler.h"

struct training_plan { // of the trainer section
    int64_t steps, global_batch, micro_batch, micro_batches;
    int64_t validate_every, checkpoint_every, report_every, verify_every;
    bool checkpoint_best; // each validation that is the best so far is followed by a checkpoint
    int64_t patience;     // validations without an improvement of min_delta; 0: without end
    double min_delta;
};

// The time since the last report. What it went to is counted by the device (ops_phase()).
struct training_times {
    int64_t began;    // microseconds
    int64_t aside_us; // of the sync, then
    int64_t steps;    // counted here: the state's window may have begun before a restart
};

struct training {
    const struct training_job *job;
    struct training_plan plan;
    struct dataset *train, *validation;
    struct prefetch *prefetch; // of the training part
    struct batch **batches;    // exchanged with the prefetch's
    int64_t batch_count;       // one, or this rank's of a step where they go together
    struct model *model;
    struct optimizer *optimizer;
    struct comm *comm;
    struct reducer *sync;
    struct snapshot_writer *snapshot_writer; // rank 0
    int64_t *totals;                         // [TRAINING_TOTALS] of the communicator
    int64_t *indices;                        // [micro_batch]
    float *losses;    // [micro_batch] of each of this rank's micro-batches of a step
    int32_t *correct; // [micro_batch]
    float *weights;   // [block_size] of the sync
    struct train_state state;
    struct training_times times;
    double gradient_norm;       // of the last step
    double peak_flops;          // of this core (rank 0)
    json_t *validation_metrics; // metrics of the last validation
    int64_t validated_step;
    int64_t last_saved_step; // step of the last checkpoint; -1: none
    char fingerprint[OPS_FINGERPRINT_MAX + 128];
};

enum { TRAINING_TOTALS = 4 };

int training_loop(struct training *t, bool *drained, struct error *e);

// This rank's micro-batches of the step through the model, their gradients into `sink` (pass.c).
int training_compute_gradients(struct training *t, struct sampler_share share,
                               const struct gradient_sink *sink, struct loss_sum *loss,
                               struct error *e);

// Validation (evaluate.c). The answers are the same on every rank.
int training_validate(struct training *t, struct error *e);
bool training_at_best(const struct training *t);         // the validation of this step
bool training_out_of_patience(const struct training *t); // patience is at its end
bool training_is_over(const struct training *t);         // all steps are done, or it gives up
enum { TRAINING_STOP_REASON_MAX = 256 };
const char *training_stop_reason(const struct training *t,
                                 char out[TRAINING_STOP_REASON_MAX]); // given up

// Unless this step has one. Not `due`: it is only for being the best.
int training_checkpoint(struct training *t, bool due, struct error *e);
void training_report(struct training *t); // rank 0: the window; it starts anew
void training_begin_window(struct training *t);

#endif
