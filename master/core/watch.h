// Lines of logs that somebody waits for: the log policies of an experiment, and webhooks. A worker
// matches the lines of a post before the core stores them, and the core only hears which pattern
// matched, so that no pattern holds up the core. Then lines and effects are committed together.
//
// The lines of one post may cost LIMIT_MATCH_POST_MS of CPU time. When that is used up, the trial's
// log says how many lines were not matched. Core thread, except for the worker's part.
#ifndef MUSTER_MASTER_CORE_WATCH_H
#define MUSTER_MASTER_CORE_WATCH_H

#include "master/core/logpost.h"
#include "master/core/state.h"

struct log_wish { // a pattern, and who waits for it
    char *pattern;
    int policy;      // number among those of the experiment; -1: a webhook's
    int64_t trigger; // .. this one
    bool matched;
    char *line;  // the first that matched
    char *fault; // of a pattern that does not compile here; NULL: it does
};

struct log_watched { // the lines of one task
    const struct log_part *part;
    struct log_wish *wishes; // webhooks first
    size_t count, cap;
    int64_t unseen; // lines that some pattern was not matched with
};

// The worker's memory.
struct log_watch_kit *log_watch_kit_new(void);
void log_watch_kit_free(struct log_watch_kit *k); // NULL is fine

// Called by those who wait, when a post has come (policies_wish, webhooks_wish).
void log_watched_add(struct log_watched *w, const char *pattern, int policy, int64_t trigger);

// 0: nobody waits for these lines; store them. REQUEST_PARKED: they are matched first, and stored
// by log_post_store() then. Negative: too much waits.
int log_watch_begin(struct core *c, struct request *rq, struct log_post *post, struct error *e);

#endif
