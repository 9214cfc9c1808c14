// What every search of many trials is: brackets of trials, each with a ladder of rungs, and how
// many of a bracket run at a time. Random search is one bracket without rungs, a grid the same with
// points that are counted instead of drawn, ASHA one bracket, adaptive ASHA several.
#ifndef MUSTER_MASTER_SEARCH_CROWD_H
#define MUSTER_MASTER_SEARCH_CROWD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { RUNGS_MAX = 100 };

struct mark {      // of a trial at a rung
    double metric; // the smaller the better
    int64_t trial;
};

struct rung {
    double needs;       // training time
    struct mark *marks; // the best first
    size_t count, cap;
};

struct bracket {
    int64_t most, concurrent; // trials in all, and at a time
    struct rung *rungs;       // the lowest first
    int rung_count;
    int64_t created, running; // those that refused their hyperparameters are not counted as created
};

struct runner {     // a trial that has not ended
    int64_t number; // its request id; trials are numbered from 1
    int bracket;
    int rung; // the next that it has not reached
    double fraction;
};

struct crowd {
    // From the configuration.
    struct bracket *brackets;
    int bracket_count;
    double divisor; // a rung keeps one of so many
    bool smaller_is_better;
    bool grid;
    // State.
    struct runner *runners; // by number
    size_t runner_count, runner_cap;
    int64_t numbered; // trials ever created
    int64_t completed, failed, canceled;
    int refused; // in a row: trials that refused their hyperparameters
    bool over;
};

// The brackets of a method, by its configuration: crowd_plan.c. ERR_INVALID, ERR_TOO_LARGE.
int crowd_plan(struct crowd *crowd, const json_t *config, struct error *e);
double crowd_lowest_rung(const json_t *config); // training time; 0: it has no rungs
void crowd_free(struct crowd *crowd);

#endif
