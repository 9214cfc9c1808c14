// Regular expressions of users, matched by RE2: the time of a match grows only with the length of
// the text, whatever the pattern is, and the memory of a pattern is bounded.
//
// The syntax is that of Go's package regexp, in UTF-8: `.` matches no line end, `^` and `$` are the
// ends of the text, (?i), (?s) and (?m) change that, counts go up to 1000. Look-around and
// back-references do not exist.
//
// A pattern never changes after its compilation: any thread may match with it, several at once.
// pattern_free() is the caller's.
#ifndef MUSTER_BASE_TEXT_PATTERN_H
#define MUSTER_BASE_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct pattern; // opaque

// ERR_TOO_LARGE, ERR_INVALID: the place in the pattern, its fault, and what to write instead, all
// after `where`; *out is NULL then. At most LIMIT_PATTERN bytes, and LIMIT_PATTERN_PROGRAM
// instructions once its counts are written out.
int pattern_compile(const char *text, const char *where, struct pattern **out, struct error *e);

// Whether it matches anywhere in the first LIMIT_PATTERN_TEXT bytes of the text.
bool pattern_matches(const struct pattern *p, const char *text, size_t len);

void pattern_free(struct pattern *p); // NULL is fine

#endif
