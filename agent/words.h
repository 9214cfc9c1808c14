// The last lines that a rank wrote: when it fails, they say why. Bounded and made readable: without
// control characters, colours and blank lines. Pure; one thread per object.
#ifndef MUSTER_AGENT_WORDS_H
#define MUSTER_AGENT_WORDS_H

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

// All lines with "\n" between them; bytes that are not UTF-8 are U+FFFD. The caller's.
json_t *words_json(const struct words *w);

// The last line with a letter or a digit in it, into `out`; "" where there is none.
void words_last(const struct words *w, char *out, size_t cap);

#endif
