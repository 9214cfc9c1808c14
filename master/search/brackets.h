// The common form of all searches with many trials: brackets, each with its rungs, its number of
// trials and a limit for the trials that run at the same time. Random search is one bracket without
// rungs; grid search is the same with enumerated instead of drawn points; ASHA has one bracket with
// rungs; adaptive ASHA has several. Hyperband has several synchronous brackets: a rung decides when
// all of its trials have arrived. TPE is random search whose points come from a model.
#ifndef MUSTER_MASTER_SEARCH_BRACKETS_H
#define MUSTER_MASTER_SEARCH_BRACKETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { RUNGS_MAX = 100 };

struct rung_entry { // of a trial that has reached the rung
    double metric;  // smaller is better
    int64_t trial;
};

struct search_rung {
    double needs;               // training time of this rung
    int64_t size;               // synchronous: the number of trials that it admits
    struct rung_entry *entries; // best first
    size_t count, cap;
};

struct search_bracket {
    int64_t max_trials, concurrent; // in total; at the same time
    struct search_rung *rungs;      // lowest first
    int rung_count;
    int level;                // synchronous: the rung at which all trials of the bracket are
    int64_t created, running; // trials that rejected their hyperparameters are not counted
};

struct active_search_trial { // a trial that has not ended
    int64_t number;          // its request id, counted from 1
    int bracket;
    int rung; // the next rung that it has not reached
    double fraction;
};

struct bracket_search {
    // From the configuration.
    struct search_bracket *brackets;
    int bracket_count;
    double divisor; // a rung promotes one of this many trials
    bool smaller_is_better;
    bool grid;
    bool synchronous; // .. and the limit of concurrent trials is that of all brackets together
    // State.
    struct active_search_trial *runners; // by number
    size_t runner_count, runner_cap;
    struct active_search_trial *again; // ended trials that are to run again, in this order
    size_t again_count;
    struct active_search_trial *lost; // trials that failed or were canceled, as they ended
    size_t lost_count;
    struct tpe *tpe;  // NULL: points are drawn at random
    int64_t numbered; // trials created so far
    int64_t completed, failed, canceled;
    int refused; // consecutive trials that rejected their hyperparameters
    bool over;
};

// Makes the brackets of a method from its configuration (bracket_plan.c). ERR_INVALID,
// ERR_TOO_LARGE.
int bracket_search_plan(struct bracket_search *bs, const json_t *config, struct error *e);
double bracket_search_lowest_rung(const json_t *config); // training time; 0: no rungs
void bracket_search_free(struct bracket_search *bs);

#endif
