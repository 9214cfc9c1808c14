// A search before it runs: a simulation with trials that report random metrics, by the code that
// will run it. Pure, like search.h; any thread. The owner of the struct frees it.
#ifndef MUSTER_MASTER_SEARCH_PREVIEW_H
#define MUSTER_MASTER_SEARCH_PREVIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct preview_trial {
    int64_t number; // its request id
    json_t *hparams;
    int64_t seed;
    int64_t source; // the trial from whose checkpoint it starts; 0: none
    double time;    // for which it trains
    bool certain;   // the results of other trials change neither its values nor its seed
};

// Times are in units of search_time_metric(). A trial trains one unit in one unit of time, and
// every trial has its slots at once.
struct search_preview {
    double length;                // of a complete training; 0: the configuration does not say it
    struct preview_trial *trials; // in the order of their creation
    size_t count;
    bool whole; // the simulation reached the end of the search; else the rest is not known
    size_t most_at_once;
    double time;      // of all trials together
    double most_time; // if each trial ran for the complete length
    double elapsed;   // from the first start to the last end
    json_t *brackets; // search_rungs() at the end
};

// Simulates the search several times and chooses the simulation with the median training time. At
// most `most_trials` trials are created. ERR_INVALID, ERR_TOO_LARGE: as search_new().
int search_preview(const json_t *config, int64_t seed, size_t most_trials,
                   struct search_preview *out, struct error *e);
void search_preview_free(struct search_preview *preview);

#endif
