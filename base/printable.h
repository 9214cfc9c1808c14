// Makes untrusted text safe to print on a terminal. Pure; any thread.
//
// A terminal obeys control characters (ESC, the 8-bit CSI U+009B); bidirectional controls and
// separators reorder or break the text that a person reads. These functions write all of them, and
// bytes that are not UTF-8, as \u001b or \xff: plain ASCII that has the same value in a JSON
// string.
#ifndef MUSTER_BASE_PRINTABLE_H
#define MUSTER_BASE_PRINTABLE_H

#include <stddef.h>

#include "base/buf.h"

enum printability {
    CHAR_PRINTABLE,
    CHAR_CONTROL,    // acts on the terminal or on the order of the text
    CHAR_INVALID,    // a byte that is not UTF-8
    CHAR_INCOMPLETE, // the text ends within a character
};

enum { PRINTABLE_ESCAPE_MAX = 6 }; // bytes of the longest escape, "\u202e"

// Classifies the first character of text[0..len), len > 0. *size: its bytes.
enum printability printable_classify(const char *text, size_t len, size_t *size);

// Writes the escape of the `size` bytes at `text`, which are of `kind`; returns its length.
size_t printable_escape(enum printability kind, const char *text, size_t size,
                        char out[PRINTABLE_ESCAPE_MAX + 1]);

// Appends text[0..len), escaped. ASCII characters in `kept` (such as "\n\t") stay as they are.
void printable_append(struct buf *out, const char *text, size_t len, const char *kept);

// The same, as a heap string.
char *printable_text(const char *text, const char *kept);

#endif
