// The filter of a log call. The caller provides the arena that holds the filter and its texts.
#ifndef MUSTER_MASTER_VIEWS_LOGS_LOG_FILTER_H
#define MUSTER_MASTER_VIEWS_LOGS_LOG_FILTER_H

#include "base/text/pattern.h"
#include "db/logs/logs.h"
#include "master/http/view.h"

struct log_filter {
    struct { // alternatives; none: any value
        const char **texts;
        size_t count;
    } fields[LOG_FIELDS];
    int64_t *ranks; // -1: lines without a rank
    size_t rank_count;
    int64_t after, before;
    const char *contains; // text that a line contains, in any case; NULL: any text
    const char *pattern;  // a valid regular expression; NULL: none
};

// Reads the query parameters. ERR_INVALID, ERR_TOO_LARGE.
int log_filter_read(struct view *v, struct arena *arena, struct log_filter *out, struct error *e);
bool log_filter_needs_text(const struct log_filter *c); // the filter looks at the text of lines

struct log_query
log_filter_columns(const struct log_filter *c); // the filter without its tests of the text
// Tests the text of a line. `compiled`: the compiled c->pattern, if there is one.
bool log_filter_matches_text(const struct log_filter *c, const struct pattern *compiled,
                             const struct log_line *line);

#endif
