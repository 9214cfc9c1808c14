// Matches log lines with the patterns of log policies and webhooks. A worker matches the lines of a
// post before the core stores them, and the core only learns which pattern matched, so no pattern
// holds up the core. Lines and effects are then committed together.
//
// Matching the lines of one post may cost LIMIT_MATCH_POST_MS of CPU time. When that is used up,
// the trial's log says how many lines were not matched. Core thread, except for the worker's part.
#ifndef MUSTER_MASTER_INGEST_LOG_PATTERNS_H
#define MUSTER_MASTER_INGEST_LOG_PATTERNS_H

#include "master/ingest/log_parse.h"
#include "master/kernel/state.h"

struct log_pattern { // a pattern and its owner
    char *text;
    int policy;      // index among the policies of the experiment; -1: it belongs to a webhook
    int64_t trigger; // .. to this trigger
    bool matched;
    char *line;  // the first line that matched
    char *fault; // why the pattern does not compile; NULL: it does
};

struct log_pattern_list { // the lines of one task and the patterns they are matched with
    const struct log_part *part;
    struct log_pattern *patterns; // those of webhooks first
    size_t count, cap;
    int64_t unmatched; // lines that were not matched with every pattern
};

// The compiled patterns, which workers share.
struct log_matcher *log_matcher_new(void);
void log_matcher_free(struct log_matcher *k); // NULL is fine

// Adds a pattern to the list (for log_policies_add_patterns and webhooks_add_patterns).
void log_patterns_add(struct log_pattern_list *w, const char *pattern, int policy, int64_t trigger);

// 0: there is no pattern for these lines; the caller stores them. REQUEST_PARKED: a worker matches
// them first, then log_post_store() stores them. Negative: too many posts wait.
int log_match_begin(struct core *c, struct request *rq, struct log_post *post, struct error *e);

#endif
