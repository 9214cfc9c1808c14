// A training job: one rank's part of the training of one experiment, from its configuration to its
// last checkpoint. The calling thread becomes the compute thread.
#ifndef MUSTER_TRAINER_LOOP_JOB_H
#define MUSTER_TRAINER_LOOP_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/launcher/launcher.h"
#include "trainer/ops/device.h"

// All pointers are borrowed.
struct training_job {
    const char *name;      // the experiment's name
    const json_t *trainer; // the `trainer` section with all defaults
    const char *folder;    // base of relative data paths
    const char *metric;    // the validation metric that ranks checkpoints; NULL: validation_loss
    bool larger_is_better; // whether a larger metric is better
    int rank, world;
    uint64_t seed;
    struct launcher launcher;
    // The destination of checkpoints: a `checkpoint_storage` object, or a plain folder if that is
    // NULL.
    const json_t *storage;
    const char *checkpoint_folder;
    // checkpoint folders to resume from, in order of preference; read on rank 0 only
    char *const *restore;
    int restore_count;
    const char *address;    // the address of this machine for other machines; NULL: 127.0.0.1
    const char *allocation; // the start of the trial in a cluster; NULL: there is no cluster
    int64_t timeout_us;     // how long a peer may stay silent; 0: the default
    bool only_steps;        // for benchmarks: nothing is validated or saved
};

enum ops_precision training_job_precision(const json_t *trainer); // of a `trainer` section

enum training_end { TRAINING_COMPLETED, TRAINING_DRAINED };

int training_job_run(const struct training_job *job, enum training_end *end, struct error *e);

#endif
