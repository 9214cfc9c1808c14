// Regular expressions that users write, matched by RE2: for every pattern, the time of a match is
// linear in the length of the text, and memory is bounded.
//
// The syntax is that of Go's package regexp, in UTF-8: `.` does not match a line end, `^` and `$`
// match the ends of the text, (?i), (?s) and (?m) change these rules, and counts go up to 1000.
// There is no look-around and there are no back-references.
//
// A compiled pattern is constant: several threads may match with it at once. The caller frees it
// with pattern_free().
#ifndef MUSTER_BASE_TEXT_PATTERN_H
#define MUSTER_BASE_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct pattern; // opaque

// Compiles a pattern of at most LIMIT_PATTERN bytes and LIMIT_PATTERN_PROGRAM instructions (after
// its counts are expanded). ERR_TOO_LARGE, ERR_INVALID: *out is NULL, and the message says after
// `where` the place in the pattern, the fault, and the correction.
int pattern_compile(const char *text, const char *where, struct pattern **out, struct error *e);

// Returns whether the pattern matches anywhere in the first LIMIT_PATTERN_TEXT bytes of the text.
bool pattern_matches(const struct pattern *p, const char *text, size_t len);

void pattern_free(struct pattern *p); // NULL is fine

#endif
