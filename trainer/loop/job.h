// A job: one rank's part of training an experiment, from its configuration to the last checkpoint.
// The calling thread becomes the compute thread.
#ifndef MUSTER_TRAINER_LOOP_JOB_H
#define MUSTER_TRAINER_LOOP_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/launcher/launcher.h"
#include "trainer/ops/device.h"

// All borrowed.
struct training_job {
    const char *name;      // of the experiment
    const json_t *trainer; // its trainer section, complete
    const char *folder;    // where relative data paths start
    const char *metric;    // of validation, that ranks checkpoints; NULL: validation_loss
    bool larger_is_better; // of it
    int rank, world;
    uint64_t seed;
    struct launcher launcher;
    // Where checkpoints go: a checkpoint_storage object, or (NULL) a plain folder.
    const json_t *storage;
    const char *checkpoint_folder;
    char *const *restore; // folders to go on from, the best first; rank 0's count
    int restore_count;
    const char *address; // how other machines reach this one; NULL: 127.0.0.1
    int64_t timeout_us;  // patience with a silent peer; 0: the default
    bool only_steps;     // to be measured: nothing is validated or saved
};

enum ops_precision training_job_precision(const json_t *trainer); // of a trainer section

enum training_end { TRAINING_COMPLETED, TRAINING_DRAINED };

int training_job_run(const struct training_job *job, enum training_end *end, struct error *e);

#endif
