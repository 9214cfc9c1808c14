// A searcher decides which trials an experiment runs, with which hyperparameters, and when the
// experiment is done. Pure: (state, event) to commands. The random generator is part of the state,
// so a restored search continues exactly. One thread at a time; the owner of `struct search` frees
// it.
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
    SEARCH_CONTINUE,    // the experiment had ended and runs again; the search is restored
    SEARCH_VALIDATED,   // a trial reported the searcher's metric
    SEARCH_PROGRESS,    // a trial reported its progress
    SEARCH_TRIAL_ENDED, // it will not run again
};

enum search_end {
    SEARCH_END_COMPLETED,
    SEARCH_END_ERROR,
    SEARCH_END_INVALID_HP, // the program rejected its hyperparameters
    SEARCH_END_CANCELED,   // by a user
};

struct search_event {
    enum search_event_kind kind;
    const char *request_id; // of the trial; not for SEARCH_BEGIN and SEARCH_CONTINUE
    const bool *completed;  // SEARCH_CONTINUE: of each trial that exists, by its number from 1
    const double *bests;    // .. and their best metrics; NaN: none
    size_t trials;          // .. how many these are
    double metric;          // SEARCH_VALIDATED; NaN and infinity are worse than any number
    double time;            // SEARCH_VALIDATED: training time; grows from report to report
    double fraction;        // SEARCH_PROGRESS: 0..1
    enum search_end end;    // SEARCH_TRIAL_ENDED
    double best;            // SEARCH_TRIAL_ENDED: the best metric that it reported; NaN: none
};

enum search_command_kind {
    SEARCH_CREATE,   // create a trial
    SEARCH_RESTART,  // run an ended trial again
    SEARCH_STOP,     // stop a trial, which then counts as completed
    SEARCH_SHUTDOWN, // the search is over; always the last command
};

enum { SEARCH_REQUEST_ID = 40 };

struct search_command {
    enum search_command_kind kind;
    char request_id[SEARCH_REQUEST_ID]; // unique in the experiment; not for SEARCH_SHUTDOWN
    json_t *hparams;                    // SEARCH_CREATE: plain values, nested as written;
                                        // SEARCH_RESTART: NULL: they stay as they are
    int64_t seed;                       // SEARCH_CREATE
    char source[SEARCH_REQUEST_ID];     // SEARCH_CREATE: the trial from whose newest checkpoint it
                                        // starts; "": none
    bool depends;            // SEARCH_CREATE: its values depend on results of other trials
    enum search_end outcome; // SEARCH_SHUTDOWN: of the experiment; not INVALID_HP
};

struct search_commands {
    struct search_command *items;
    size_t count;
};

// `config` is the experiment's complete configuration; it is only read during the call.
// ERR_INVALID: the method is unknown; the text lists the known ones.
int search_new(const json_t *config, int64_t seed, struct search **out, struct error *e);
// Restores a search. ERR_CORRUPT: the snapshot cannot be read.
int search_restore(const json_t *config, int64_t seed, const char *snapshot, struct search **out,
                   struct error *e);
void search_free(struct search *s);
// Whether a search that has ended can continue with a changed configuration. ERR_INVALID: no; the
// text names the key that its trials depend on.
int search_check_continue(const json_t *before, const json_t *after, struct error *e);
// Whether the state of an ended search covers its trials, so that it can continue. False: it was
// imported, and its rungs are not known.
bool search_covers(const struct search *s, size_t trials);

// Handles an event; *out gets the resulting commands, which search_commands_free() frees.
void search_handle_event(struct search *s, const struct search_event *event,
                         struct search_commands *out);
void search_commands_free(struct search_commands *commands);

// Whether it may run a trial again that has ended, so that the trial's checkpoint must be kept.
bool search_resumes(const struct search *s);
bool search_changed(const struct search *s); // the last event changed it, so it must be saved
// The metric that measures training time; NULL: completed steps. Points into the configuration.
const char *search_time_metric(const json_t *config);

// A sentence about a valid configuration that is probably a mistake; heap. NULL: none.
char *search_warning(const json_t *config);

char *search_snapshot(const struct search *s);  // JSON on the heap: all state except the progress
double search_progress(const struct search *s); // of the whole search, 0..1

// The rungs for display: [{"trials", "concurrent", "created", "rungs": [{"time", "goOn", "marks":
// [{"trial", "metric"}]}]}], best first. A mark without metric: it was not finite, or the trial
// failed. goOn: how many marks are promoted so far. A synchronous rung also has "size", the number
// of trials that it admits; goOn: how many are promoted when all have arrived. Empty without rungs;
// the caller owns it.
json_t *search_rungs(const struct search *s);

#endif
