// The last lines of a program's output, as its failure is explained from them. Pure; any thread.
#ifndef MUSTER_AGENT_FAILURES_LINES_H
#define MUSTER_AGENT_FAILURES_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { LINES_MAX = 600 };

struct output_line {
    const char *text; // without indentation and prefixes; points into the output
    size_t len;
    size_t indent; // spaces before it, after the prefix
};

struct output_lines {
    struct output_line at[LINES_MAX];
    size_t count;
};

// Splits `text` into lines without prefixes of torchrun ("[rank0]: ", "[default0]:") and of
// exception groups ("  | "). It keeps the last LINES_MAX lines.
void lines_split(const char *text, struct output_lines *out);

bool line_starts(const struct output_line *line, const char *with);
// Returns the place of `words` in the line; NULL: they are not there.
const char *line_find(const struct output_line *line, const char *words);
// Copies the line, or what follows `after` (NULL: all) in it, to `out`. `cap`: its bytes, at
// least 1.
void line_copy(const struct output_line *line, const char *after, char *out, size_t cap);

// Cuts UTF-8 text that is longer than `max` bytes and marks the cut with "..".
void text_shorten(char *text, size_t max);
// Removes every `part` from the text.
void text_remove(char *text, const char *part);

#endif
