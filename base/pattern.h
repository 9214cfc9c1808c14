// Regular expressions (POSIX, extended) that somebody outside has written. Any thread; regfree() is
// the caller's.
#ifndef MUSTER_BASE_PATTERN_H
#define MUSTER_BASE_PATTERN_H

#include <regex.h>

#include "base/error.h"

enum { PATTERN_MAX = 256 }; // bytes

// Compiles it for matching alone. ERR_TOO_LARGE, ERR_INVALID: what is wrong, after `where`. Counted
// repetition ({n}) and back-references (\1) are refused: they can cost the C library's matcher time
// and memory without bound.
int pattern_compile(const char *text, const char *where, regex_t *out, struct error *e);

#endif
