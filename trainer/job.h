// A job: one rank's part of training an experiment, from its configuration to the last checkpoint.
// The calling thread becomes the compute thread.
#ifndef MUSTER_TRAINER_JOB_H
#define MUSTER_TRAINER_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/link.h"
#include "trainer/ops/device.h"

// All borrowed.
struct job {
    const char *name;      // of the experiment
    const json_t *trainer; // its trainer section, complete
    const char *folder;    // where relative data paths start
    const char *metric;    // of validation, that ranks checkpoints; NULL: validation_loss
    bool larger_is_better; // of it
    int rank, world;
    uint64_t seed;
    struct link link;
    // Where checkpoints go: a checkpoint_storage object, or (NULL) a plain folder.
    const json_t *storage;
    const char *checkpoint_folder;
    char *const *restore; // folders to go on from, the best first; rank 0's count
    int restore_count;
    const char *address; // how other machines reach this one; NULL: 127.0.0.1
    int64_t timeout_us;  // patience with a silent peer; 0: the default
    bool only_steps;     // to be measured: nothing is validated or saved
};

enum ops_precision job_precision(const json_t *trainer); // of a trainer section

enum job_end { JOB_COMPLETED, JOB_DRAINED };

int job_train(const struct job *job, enum job_end *end, struct error *e);

#endif
