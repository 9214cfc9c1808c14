#include "master/retention/path_patterns.h"

#include <string.h>

// Whether `letter` is in the set that begins after the '[' at `p`; *end is behind its ']'. A set
// without an end is a literal '['.
static bool set_contains(const char *p, const char *limit, unsigned char letter, const char **end)
{
    const char *start = p;
    bool no = p < limit && (*p == '!' || *p == '^'), found = false;
    p += no;
    for (bool first = true; p < limit && (*p != ']' || first); first = false) {
        unsigned char low = (unsigned char)*p, high = low;
        if (p + 2 < limit && p[1] == '-' && p[2] != ']') {
            high = (unsigned char)p[2];
            p += 2;
        }
        found |= letter >= low && letter <= high;
        p++;
    }
    if (p >= limit) {
        *end = start;
        return letter == '[';
    }
    *end = p + 1;
    return found != no;
}

// Matches one name without slashes. On a mismatch, the last star takes one letter more; earlier
// stars need no retry.
static bool match_name(const char *p, const char *p_end, const char *s, const char *s_end)
{
    const char *star = NULL, *retry = NULL;
    while (s < s_end) {
        const char *next = p + 1;
        bool fits = false;
        if (p < p_end && *p == '*') {
            star = ++p;
            retry = s;
            continue;
        }
        if (p < p_end)
            fits = *p == '?'   ? true
                   : *p == '[' ? set_contains(p + 1, p_end, (unsigned char)*s, &next)
                               : *p == *s;
        if (fits) {
            p = next;
            s++;
        } else if (star) {
            p = star;
            s = ++retry;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

static const char *part_end(const char *p)
{
    return p + strcspn(p, "/");
}

static const char *next_part(const char *p)
{
    p = part_end(p);
    return *p ? p + 1 : p;
}

static bool is_double_star(const char *p)
{
    return p[0] == '*' && p[1] == '*' && (p[2] == '/' || !p[2]);
}

bool path_pattern_match(const char *pattern, const char *path)
{
    const char *p = pattern, *s = path, *star = NULL, *retry = NULL;
    while (*s) {
        if (is_double_star(p)) {
            if (!p[2])
                return true; // a final ** matches everything below
            star = p = next_part(p);
            retry = s;
        } else if (*p && match_name(p, part_end(p), s, part_end(s)) &&
                   (*part_end(p) == *part_end(s))) {
            p = next_part(p);
            s = next_part(s);
        } else if (star) {
            p = star;
            s = retry = next_part(retry);
        } else {
            return false;
        }
    }
    return !*p && *path;
}

int path_pattern_check(const char *pattern, const char *where, struct error *e)
{
    if (!pattern || !*pattern)
        return error_set(e, ERR_INVALID, "%s: empty; give a pattern of files such as *.pt or **",
                         where);
    if (strlen(pattern) > PATH_PATTERN_MAX)
        return error_set(e, ERR_INVALID, "%s: more than %d bytes", where, PATH_PATTERN_MAX);
    if (*pattern == '/' || strstr(pattern, "..") || pattern[strlen(pattern) - 1] == '/')
        return error_set(
            e, ERR_INVALID,
            "%s: \"%.128s\" names no files within the checkpoint's folder; a pattern is "
            "a path such as *.pt, optimizer/* or **",
            where, pattern);
    return 0;
}
