// The shim over RE2, which is C++ (pattern_re2.cc), for pattern.c alone. Nothing throws, nothing is
// written to stderr: memory that runs out ends the process, as everywhere.
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

// NULL: *fault says why, and `fragment` (heap, the caller's) is the part of the pattern that is not
// understood. `memory`: bytes that the pattern may take with all that is remembered between
// matches.
struct re2_pattern *re2_compile(const char *text, size_t len, long memory, enum re2_fault *fault,
                                char **fragment) NEVER_THROWS;
int re2_program_size(const struct re2_pattern *p) NEVER_THROWS;
bool re2_matches(const struct re2_pattern *p, const char *text, size_t len) NEVER_THROWS;
void re2_free(struct re2_pattern *p) NEVER_THROWS;

#ifdef __cplusplus
}
#endif

#endif
