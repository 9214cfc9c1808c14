// Matches log lines with the patterns of log policies and webhooks. A worker matches the lines of a
// post before the core stores them, and the core only learns which pattern matched, so no pattern
// holds up the core. Lines and effects are then committed together.
//
// The lines of one post may cost LIMIT_MATCH_POST_MS of CPU time. When that is used up, the trial's
// log says how many lines were not matched. Core thread, except for the worker's part.
#ifndef MUSTER_MASTER_INGEST_LOG_PATTERNS_H
#define MUSTER_MASTER_INGEST_LOG_PATTERNS_H

#include "master/ingest/log_parse.h"
#include "master/kernel/state.h"

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
    int64_t unseen; // lines that were not matched with every pattern
};

// The worker's memory.
struct log_watch_kit *log_watch_kit_new(void);
void log_watch_kit_free(struct log_watch_kit *k); // NULL is fine

// Adds a pattern that the lines of a post are matched with (policies_wish, webhooks_wish).
void log_watched_add(struct log_watched *w, const char *pattern, int policy, int64_t trigger);

// 0: no pattern is to be matched with these lines; the caller stores them. REQUEST_PARKED: a worker
// matches them first, then log_post_store() stores them. Negative: too many posts wait.
int log_watch_begin(struct core *c, struct request *rq, struct log_post *post, struct error *e);

#endif
