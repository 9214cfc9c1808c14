// The state of population based training (pbt.c).
#ifndef MUSTER_MASTER_SEARCH_PBT_H
#define MUSTER_MASTER_SEARCH_PBT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pbt_state {
    PBT_WAITING,  // its next trial is not created yet
    PBT_RUNNING,  // its trial runs
    PBT_REPLACED, // its trial is stopped; a copy of a better member follows
    PBT_STOPPING, // its trial is stopped at the end of its training
    PBT_DONE,
};

struct pbt_member {
    enum pbt_state state;
    int64_t number; // its newest trial; 0: none so far
    bool copies;    // its next trial is a copy of another member
    int64_t rounds; // how many rounds its training has, those before a copy included
    int64_t spent;  // how many rounds this member has trained, or lost by failures
    double *scores; // after each round of its training; smaller is better
    json_t *hparams;
};

struct pbt_search {
    // From the configuration.
    int64_t size, num_rounds, concurrent;
    double length; // training time of a round
    double truncate_fraction, resample_probability, perturb_factor;
    bool smaller_is_better;
    // State.
    struct pbt_member *members;
    int64_t numbered, completed, failed, canceled;
    int refused; // consecutive trials that rejected their hyperparameters
    bool over;
};

#endif
