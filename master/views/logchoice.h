// Which lines of a log a caller asks for: the filters of the log calls. One request's, in its
// arena.
#ifndef MUSTER_MASTER_VIEWS_LOGCHOICE_H
#define MUSTER_MASTER_VIEWS_LOGCHOICE_H

#include "base/pattern.h"
#include "db/logs.h"
#include "master/http/view.h"

struct log_choice {
    struct { // one of these, when there are any
        const char **texts;
        size_t count;
    } fields[LOG_FIELDS];
    int64_t *ranks; // -1: of no rank
    size_t rank_count;
    int64_t after, before;
    const char *part; // in a line, in any case; NULL: whatever it says
    regex_t pattern;
    bool has_pattern;
};

// From the query parameters; ERR_INVALID, ERR_TOO_LARGE. To be freed after an error, too.
int log_choice_read(struct view *v, struct log_choice *out, struct error *e);
void log_choice_free(struct log_choice *c);

struct log_wanted log_choice_wanted(const struct log_choice *c);     // all but what lines say
bool log_choice_takes(const struct log_choice *c, const char *text); // what a line says

#endif
