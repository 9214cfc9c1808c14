// Which lines of a log a caller asks for: the filters of the log calls. It lies in an arena of its
// owner, and so do all its texts.
#ifndef MUSTER_MASTER_VIEWS_LOGCHOICE_H
#define MUSTER_MASTER_VIEWS_LOGCHOICE_H

#include "base/text/pattern.h"
#include "db/logs/logs.h"
#include "master/http/view.h"

struct log_filter {
    struct { // one of these, when there are any
        const char **texts;
        size_t count;
    } fields[LOG_FIELDS];
    int64_t *ranks; // -1: of no rank
    size_t rank_count;
    int64_t after, before;
    const char *part;    // in a line, in any case; NULL: whatever it says
    const char *pattern; // a regular expression that compiles; NULL: none
};

// From the query parameters; ERR_INVALID, ERR_TOO_LARGE.
int log_filter_read(struct view *v, struct arena *arena, struct log_filter *out, struct error *e);
bool log_filter_needs_text(const struct log_filter *c); // what lines say is looked at

struct log_wanted log_filter_columns(const struct log_filter *c); // all but what lines say
// Whether it asks for a line that says this. `compiled`: c->pattern, where there is one.
bool log_filter_matches_text(const struct log_filter *c, const struct pattern *compiled,
                             const struct log_line *line);

#endif
