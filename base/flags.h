// Command-line flags from a table: parsing, help, and suggestions for misspelt flags.
#ifndef MUSTER_BASE_FLAGS_H
#define MUSTER_BASE_FLAGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

enum flag_kind {
    FLAG_BOOL,   // bool *
    FLAG_STRING, // const char ** (points into argv)
    FLAG_INT,    // long long *, within [min, max] unless both are 0
    FLAG_LIST,   // struct flag_list *; the flag may be repeated
};

enum { FLAG_LIST_MAX = 64 };
struct flag_list {
    const char *items[FLAG_LIST_MAX];
    int count;
};

struct flag {
    const char *name; // long name without dashes; "slots" matches --slots N and --slots=N
    char letter;      // 0: none
    enum flag_kind kind;
    void *target;
    const char *value_name; // "N", "FILE"; NULL for FLAG_BOOL
    const char *help;       // NULL: hidden from the help
    long long min, max;
    const char *env; // environment variable that gives the default; NULL: none
};

// Parses argv[1..argc). Flags may stand anywhere; "--" ends them. The positional arguments go to
// `rest` (room for argc pointers) and *rest_count. `flags` ends with name == NULL. ERR_INVALID.
int flags_parse(const struct flag *flags, int argc, char **argv, const char **rest, int *rest_count,
                struct error *e);
void flags_help(const struct flag *flags, FILE *out); // prints the table of flags

#endif
