// Splits the output of a program into lines, and reads the rank and level in a line. Pure; one
// thread for each object.
//
// A line ends at "\n", "\r" or "\r\n", so that every state of a progress bar becomes a line. A line
// longer than LIMIT_LOG_LINE is cut and marked. Control bytes become U+FFFD (base/text/log_text.h).
#ifndef MUSTER_AGENT_LOGS_LINE_SPLITTER_H
#define MUSTER_AGENT_LOGS_LINE_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct line_splitter {
    struct buf text; // the line so far
    size_t bytes;    // of the line as it was written, with those that were cut
    bool cut;        // its text is full
    bool after_cr;   // the last byte was "\r"; a "\n" after it ends no further line
};

// Receives a line without its end. The text is valid during the call and may not be UTF-8.
typedef void line_fn(void *ctx, const char *text, size_t len);

void line_splitter_init(struct line_splitter *s);
void line_splitter_free(struct line_splitter *s);
void line_splitter_feed(struct line_splitter *s, const char *data, size_t len, line_fn *fn,
                        void *ctx);
// Flushes a last line without an end.
void line_splitter_end(struct line_splitter *s, line_fn *fn, void *ctx);

struct parsed_line {
    int rank;          // from "[rank=3] "; -1: not given
    const char *level; // word of WIRE_LOG_LEVEL, static; "INFO" if not given
    const char *text;  // the rest of the line
    size_t len;
};

// Reads an optional "[rank=N] " and then an optional "LEVEL: " at the start of a line.
struct parsed_line line_parse_prefix(const char *text, size_t len);

#endif
