// The C interface of pattern_re2.cc, which calls RE2, a C++ library. Only pattern.c uses it. No
// function throws or writes to stderr; the process ends when memory runs out.
#ifndef MUSTER_BASE_TEXT_PATTERN_RE2_H
#define MUSTER_BASE_TEXT_PATTERN_RE2_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#define NEVER_THROWS noexcept
#else
#define NEVER_THROWS
#endif

enum re2_fault {
    RE2_NONE,
    RE2_ESCAPE,
    RE2_CLASS,
    RE2_RANGE,
    RE2_NO_BRACKET,
    RE2_NO_PAREN,
    RE2_PAREN,
    RE2_BACKSLASH,
    RE2_NOTHING_REPEATED,
    RE2_COUNT,
    RE2_REPEATED_TWICE,
    RE2_GROUP,
    RE2_UTF8,
    RE2_GROUP_NAME,
    RE2_LARGE,
    RE2_OTHER,
    RE2_FAULTS
};

struct re2_pattern; // opaque

// `memory` bounds the bytes of the pattern and of its state between matches. NULL: *fault is the
// reason, and *fragment (a heap string of the caller) is the faulty part of the pattern.
struct re2_pattern *re2_compile(const char *text, size_t len, long memory, enum re2_fault *fault,
                                char **fragment) NEVER_THROWS;
int re2_program_size(const struct re2_pattern *p) NEVER_THROWS;
bool re2_matches(const struct re2_pattern *p, const char *text, size_t len) NEVER_THROWS;
void re2_free(struct re2_pattern *p) NEVER_THROWS;

#ifdef __cplusplus
}
#endif

#endif
