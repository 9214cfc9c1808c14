// Searchers: which trials an experiment runs, with which hyperparameters, and when it is done.
// Pure: (state, event) to commands; the generator is part of the state, so a search that is saved
// and taken up again goes on as if nothing had happened. One thread at a time; the owner of `struct
// search` frees it.
#ifndef MUSTER_MASTER_SEARCH_SEARCH_H
#define MUSTER_MASTER_SEARCH_SEARCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct search; // opaque

enum search_event_kind {
    SEARCH_BEGIN,       // once, when the experiment is created
    SEARCH_VALIDATED,   // a trial reported the searcher's metric
    SEARCH_PROGRESS,    // a trial is this far
    SEARCH_TRIAL_ENDED, // for good
};

enum search_end {
    SEARCH_END_COMPLETED,
    SEARCH_END_ERROR,
    SEARCH_END_INVALID_HP, // the trial refused its hyperparameters
    SEARCH_END_CANCELED,   // by a person
};

struct search_event {
    enum search_event_kind kind;
    const char *request_id; // of the trial; not for SEARCH_BEGIN
    double metric;          // SEARCH_VALIDATED; NaN or infinite: worse than any other
    double time;            // SEARCH_VALIDATED: of training; grows from report to report
    double fraction;        // SEARCH_PROGRESS: 0..1
    enum search_end end;    // SEARCH_TRIAL_ENDED
};

enum search_command_kind {
    SEARCH_CREATE,   // a trial
    SEARCH_STOP,     // a trial that has been trained enough; it counts as completed
    SEARCH_SHUTDOWN, // the search is over; the last command
};

enum { SEARCH_REQUEST_ID = 40 };

struct search_command {
    enum search_command_kind kind;
    char request_id[SEARCH_REQUEST_ID]; // unique in the experiment; not for SEARCH_SHUTDOWN
    json_t *hparams;                    // SEARCH_CREATE: plain values, nested as written
    int64_t seed;                       // SEARCH_CREATE
    enum search_end outcome;            // SEARCH_SHUTDOWN: of the experiment; not INVALID_HP
};

struct search_commands {
    struct search_command *items;
    size_t count;
};

// `config` is the experiment's complete configuration, read during the call alone. ERR_INVALID: a
// method that this master does not have; the text names those it has.
int search_new(const json_t *config, int64_t seed, struct search **out, struct error *e);
// Takes a saved search up. ERR_CORRUPT: the snapshot does not read.
int search_restore(const json_t *config, int64_t seed, const char *snapshot, struct search **out,
                   struct error *e);
void search_free(struct search *s);

// Tells an event; the commands that follow from it come in *out (search_commands_free).
void search_tell(struct search *s, const struct search_event *event, struct search_commands *out);
void search_commands_free(struct search_commands *commands);

bool search_changed(const struct search *s); // the last event has: it is to be saved
// The metric that counts training time; NULL: steps completed. Borrowed from the configuration.
const char *search_time_metric(const json_t *config);

// A sentence about a search that is valid and probably not what was meant; heap, NULL: it is well.
char *search_warning(const json_t *config);

char *search_snapshot(const struct search *s);  // JSON, heap string: all of the state but progress
double search_progress(const struct search *s); // of the whole search, 0..1

// Where its trials stand, for people: [{"trials", "concurrent", "created", "rungs": [{"time",
// "goOn", "marks": [{"trial", "metric"}]}]}], the best mark first; no metric: it is no number, or
// the trial failed. goOn: so many marks are kept for now. Empty without rungs; the caller's.
json_t *search_ladder(const struct search *s);

#endif
