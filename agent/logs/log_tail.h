// The last lines that a rank wrote: when it fails, they say why. Bounded and made readable: without
// control characters, colours and blank lines. Pure; one thread per object.
#ifndef MUSTER_AGENT_LOGS_LOG_TAIL_H
#define MUSTER_AGENT_LOGS_LOG_TAIL_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

enum {
    WORDS_LINES = 20,
    WORDS_BYTES = 4096,     // of all lines together
    WORDS_LINE_BYTES = 500, // a longer line is cut
};

struct words {
    struct buf text; // lines, each with its "\n"
    size_t lines;
};

void words_init(struct words *w);
void words_free(struct words *w);
void words_add(struct words *w, const char *line, size_t len); // any bytes; the oldest lines go

// All lines, with "\n" between them, as JSON; the caller owns it. U+FFFD replaces bytes that are
// not UTF-8.
json_t *words_json(const struct words *w);

// Copies the last line that has a letter or a digit into `out`; "": there is none. It passes over
// lines that muster's own programs log at level info or debug: they give no reason.
void words_last(const struct words *w, char *out, size_t cap);

#endif
