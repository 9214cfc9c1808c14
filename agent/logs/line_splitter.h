// Lines of a program's output: cut from its stream of bytes, and read for rank and level. Pure; one
// thread per object.
//
// A line ends at "\n", "\r" or "\r\n", so that progress bars that redraw themselves arrive as they
// are drawn. A line longer than LIMIT_LOG_LINE is cut and says so.
#ifndef MUSTER_AGENT_LOGS_LINE_SPLITTER_H
#define MUSTER_AGENT_LOGS_LINE_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct line_splitter {
    struct buf text; // the line so far
    size_t lost;     // bytes of it that had no room
    bool after_cr;   // a "\n" that comes now belongs to the "\r" before it
};

// Borrowed until it returns; no line end in it, perhaps bytes that are not UTF-8.
typedef void line_fn(void *ctx, const char *text, size_t len);

void line_splitter_init(struct line_splitter *s);
void line_splitter_free(struct line_splitter *s);
void line_splitter_feed(struct line_splitter *s, const char *data, size_t len, line_fn *fn,
                        void *ctx);
void line_splitter_end(struct line_splitter *s, line_fn *fn, void *ctx); // a last line without end

struct line_view {
    int rank;          // of "[rank=3] "; -1: none given
    const char *level; // word of WIRE_LOG_LEVEL, static; "INFO" when none is given
    const char *text;  // what is left of the line
    size_t len;
};

// Takes "[rank=N] " and then "LEVEL: " off the front, each if it is there.
struct line_view line_parse(const char *text, size_t len);

#endif
