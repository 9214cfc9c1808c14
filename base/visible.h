// Makes untrusted text safe to show: escapes the characters that act on a terminal or on the order
// of a line. Pure; any thread.
//
// A terminal obeys control characters (ESC, the 8-bit CSI U+009B), and bidirectional controls and
// separators reorder or break the text that a person reads. All of these, and bytes that are not
// UTF-8, are written as \u001b or \xff: plain ASCII, and still the same value in a JSON string.
#ifndef MUSTER_BASE_VISIBLE_H
#define MUSTER_BASE_VISIBLE_H

#include <stddef.h>

#include "base/buf.h"

enum visible {
    VISIBLE_PLAIN,   // shown as it is
    VISIBLE_HIDDEN,  // a character that acts instead of being seen
    VISIBLE_BROKEN,  // a byte that no UTF-8 character has there
    VISIBLE_PARTIAL, // the text ends within a character
};

enum { VISIBLE_ESCAPE_MAX = 6 }; // bytes of the longest escape, "\u202e"

// Looks at the first character of text[0..len), len > 0; *taken: its bytes.
enum visible visible_look(const char *text, size_t len, size_t *taken);

// The escape of the `taken` bytes at `text` that are `kind`; returns its length.
size_t visible_escape(enum visible kind, const char *text, size_t taken,
                      char out[VISIBLE_ESCAPE_MAX + 1]);

// Appends text[0..len), escaped but for the ASCII characters of `kept`, such as "\n\t".
void visible_append(struct buf *out, const char *text, size_t len, const char *kept);

// The same as a heap string.
char *visible_text(const char *text, const char *kept);

#endif
