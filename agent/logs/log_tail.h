// The last lines that a rank wrote, which explain a failure: bounded and readable, without control
// characters, colours and blank lines. Pure; one thread for each object.
#ifndef MUSTER_AGENT_LOGS_LOG_TAIL_H
#define MUSTER_AGENT_LOGS_LOG_TAIL_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

enum {
    LOG_TAIL_LINES = 20,
    LOG_TAIL_BYTES = 4096,     // of all lines together that a report shows
    LOG_TAIL_LINE_BYTES = 500, // a longer line is cut
    // A traceback may be longer, and launchers print their own after that of the program. Up to
    // twice as much is kept, so that not every line moves the others.
    LOG_TAIL_KEPT_LINES = 300,
    LOG_TAIL_KEPT_BYTES = 32 * 1024,
};

struct log_tail {
    struct buf text; // lines, each with its "\n"
    size_t lines;
};

void log_tail_init(struct log_tail *t);
void log_tail_free(struct log_tail *t);
void log_tail_add(struct log_tail *t, const char *line, size_t len); // any bytes; drops old lines

// The last lines up to line `end` (0: all), separated by "\n", as a JSON string; the caller owns
// it. U+FFFD replaces bytes that are not UTF-8.
json_t *log_tail_json(const struct log_tail *t, size_t end);
const char *log_tail_text(const struct log_tail *t); // all lines that are kept

// Copies the last line with a letter or digit to `out`; "" if there is none. Ignores lines that
// Muster's own programs log at level info or debug, because they give no reason.
void log_tail_last_line(const struct log_tail *t, char *out, size_t cap);

#endif
