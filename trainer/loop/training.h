// State shared by the files of the training loop: job.c builds it, loop.c runs the steps,
// gradients.c, validate.c, report.c and checkpoint.c are their parts. Private to trainer/loop;
// compute thread only.
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

struct training_plan { // the `trainer` section as numbers
    int64_t steps, global_batch, micro_batch, micro_batches;
    int64_t validate_every, checkpoint_every, report_every, verify_every;
    bool checkpoint_best; // save after each validation that is the best so far
    // stop after so many validations without an improvement of min_delta; 0: never
    int64_t patience;
    double min_delta;
};

// The report window: the time since the last report. The device counts the time of each phase
// (ops_phase()).
struct training_times {
    int64_t began;         // monotonic microseconds
    int64_t background_us; // reducer_background_us() at that time
    int64_t steps; // steps of this process; the window in the state may have begun before a restart
};

struct training {
    const struct training_job *job;
    struct training_plan plan;
    struct dataset *train, *validation;
    struct prefetch *prefetch; // fetches training samples ahead
    struct batch **batches;    // [batch_count], exchanged with those of the prefetch
    int64_t batch_count;       // 1, or all micro-batches of this rank where they run in lockstep
    struct compiled_model *model;
    struct optimizer *optimizer;
    struct comm *comm;
    struct reducer *reducer;
    struct snapshot_writer *snapshot_writer; // rank 0 only
    int64_t *totals;                         // [TRAINING_TOTALS], allocated by the communicator
    int64_t *indices;                        // [micro_batch]
    float *losses;    // [micro_batch] for each micro-batch of this rank in a step
    int32_t *correct; // [micro_batch]
    float *weights;   // [block_size], owned by the reducer
    struct train_state state;
    struct training_times times;
    double gradient_norm;       // gradient norm of the last step
    double peak_flops;          // peak FLOP/s of this slot (rank 0)
    json_t *validation_metrics; // of the last validation
    int64_t validated_step;
    int64_t last_saved_step; // step of the last checkpoint; -1: none
    char fingerprint[OPS_FINGERPRINT_MAX + 128];
};

enum { TRAINING_TOTALS = 4 };

int training_loop(struct training *t, bool *drained, struct error *e);

// Runs this rank's micro-batches of the step forward and backward; their gradients go to `sink`,
// their losses are added to `loss` (gradients.c).
int training_compute_gradients(struct training *t, struct sampler_share share,
                               const struct gradient_sink *sink, struct loss_sum *loss,
                               struct error *e);

// Validation and early stopping (validate.c). All ranks get the same results.
int training_validate(struct training *t, struct error *e);
bool training_at_best(const struct training *t); // this step's validation is the best so far
bool training_out_of_patience(const struct training *t); // stop early
bool training_is_over(const struct training *t);         // all steps are done, or it stops early
enum { TRAINING_STOP_REASON_MAX = 256 };
const char *training_stop_reason(const struct training *t,
                                 char out[TRAINING_STOP_REASON_MAX]); // why it stopped early

// Saves a checkpoint unless this step already has one. `due` is false if the only reason is that
// the validation is the best so far.
int training_checkpoint(struct training *t, bool due, struct error *e);
void training_report(struct training *t); // rank 0 reports the window; a new window begins
void training_begin_window(struct training *t);

#endif
