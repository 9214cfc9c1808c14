// Makes untrusted text safe to show: escapes the characters that act on a terminal or on the order
// of a line. Pure; any thread.
//
// A terminal obeys control characters (ESC, the 8-bit CSI U+009B), and bidirectional controls and
// separators reorder or break the text that a person reads. All of these, and bytes that are not
// UTF-8, are written as \u001b or \xff: plain ASCII, and still the same value in a JSON string.
#ifndef MUSTER_BASE_PRINTABLE_H
#define MUSTER_BASE_PRINTABLE_H

#include <stddef.h>

#include "base/buf.h"

enum printability {
    CHAR_PRINTABLE,  // shown as it is
    CHAR_CONTROL,    // a character that acts instead of being seen
    CHAR_INVALID,    // a byte that no UTF-8 character has there
    CHAR_INCOMPLETE, // the text ends within a character
};

enum { PRINTABLE_ESCAPE_MAX = 6 }; // bytes of the longest escape, "\u202e"

// Looks at the first character of text[0..len), len > 0; *taken: its bytes.
enum printability printable_classify(const char *text, size_t len, size_t *taken);

// The escape of the `taken` bytes at `text` that are `kind`; returns its length.
size_t printable_escape(enum printability kind, const char *text, size_t taken,
                        char out[PRINTABLE_ESCAPE_MAX + 1]);

// Appends text[0..len), escaped but for the ASCII characters of `kept`, such as "\n\t".
void printable_append(struct buf *out, const char *text, size_t len, const char *kept);

// The same as a heap string.
char *printable_text(const char *text, const char *kept);

#endif
