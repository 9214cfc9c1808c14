#include "cli/cluster/ssh/known_hosts_line.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { PATTERN_MAX = 512 };

// Only * and ? are special in a pattern of this file; [ belongs to "[HOST]:PORT".
static bool pattern_matches(const char *pattern, const char *name)
{
    char escaped[PATTERN_MAX];
    size_t len = 0;
    for (const char *c = pattern; *c; c++) {
        if (len + 3 > sizeof escaped)
            return false;
        if (*c == '[' || *c == ']' || *c == '\\')
            escaped[len++] = '\\';
        escaped[len++] = *c;
    }
    escaped[len] = '\0';
    return fnmatch(escaped, name, FNM_CASEFOLD) == 0;
}

// Whether one of the patterns, which commas separate, matches and none with "!" does.
static bool names_match(const char *names, const char *name)
{
    bool match = false, excluded = false;
    char *copy = xstrdup(names), *rest = NULL;
    for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (*one == '!')
            excluded |= pattern_matches(one + 1, name);
        else
            match |= pattern_matches(one, name);
    }
    free(copy);
    return match && !excluded;
}

// A revoked key counts for every name that a hashed one may stand for.
static enum known_line judge(const char *marker, const char *names, bool same_key, const char *name)
{
    bool hashed = *names == '|', here = !hashed && names_match(names, name);
    if (strcmp(marker, "@revoked") == 0)
        return same_key && (hashed || here) ? LINE_REVOKED : LINE_OTHER_HOST;
    if (*marker || !here)
        return LINE_OTHER_HOST;
    return same_key ? LINE_KEY : LINE_OTHER_KEY;
}

enum known_line known_hosts_line_read(const char *line, const char *name, const char *key)
{
    static const char blanks[] = " \t\r";
    char *copy = xstrdup(line), *rest = NULL;
    const char *first = strtok_r(copy, blanks, &rest);
    const char *marker = first && *first == '@' ? first : "";
    const char *names = *marker ? strtok_r(NULL, blanks, &rest) : first;
    const char *kind = names ? strtok_r(NULL, blanks, &rest) : NULL;
    const char *found = kind ? strtok_r(NULL, blanks, &rest) : NULL;
    bool is_entry = found && *names != '#';
    enum known_line result =
        is_entry ? judge(marker, names, strcmp(found, key) == 0, name) : LINE_OTHER_HOST;
    free(copy);
    return result;
}
