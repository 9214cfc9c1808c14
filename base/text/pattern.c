#include "base/text/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/pattern_re2.h"

enum { PATTERN_MEMORY = 512 * 1024 }; // bytes, at most

struct pattern {
    struct re2_pattern *compiled;
};

// --- faults --------------------------------------------------------------------------------------

static const char *const faults[RE2_FAULTS] = {
    [RE2_ESCAPE] = "this escape does not exist; write an ordinary character without the "
                   "backslash or in brackets: [.]",
    [RE2_CLASS] = "this character class does not exist; list its characters: [abc]",
    [RE2_RANGE] = "this character range does not exist or is reversed; write [a-z], "
                  "[[:alpha:]] or [0-9]",
    [RE2_NO_BRACKET] = "this [ is not closed; add the ], or write \\[ for the character itself",
    [RE2_NO_PAREN] = "this ( is not closed; add the ), or write \\( for the character itself",
    [RE2_PAREN] = "this ) closes nothing; remove it, or write \\) for the character itself",
    [RE2_BACKSLASH] = "the pattern ends with a backslash; write \\\\ for the character itself",
    [RE2_NOTHING_REPEATED] = "there is nothing to repeat before this operator; write \\*, \\+ or "
                             "\\? for the character itself",
    [RE2_COUNT] = "a count goes from the smaller to the larger number, and nested counts "
                  "multiply to at most 1000",
    [RE2_REPEATED_TWICE] = "this repeats a repetition; keep one, or put the first in ( )",
    [RE2_GROUP] = "this kind of group is not supported; use ( ), (?: ), (?P<name> ) or (?i: )",
    [RE2_UTF8] = "the pattern is not valid UTF-8",
    [RE2_GROUP_NAME] = "write a named group as (?P<name> ), and use each name once",
    [RE2_LARGE] = "the pattern is too large after its counts are expanded; use smaller counts or "
                  "fewer \\p classes",
    [RE2_OTHER] = "the pattern is not valid",
};

// Syntax of other engines that a linear-time engine cannot support.
static const struct {
    enum re2_fault fault;
    const char *start, *text;
} unsupported[] = {
    {RE2_GROUP, "(?=", "look-ahead is not supported; include the text that follows in the pattern"},
    {RE2_GROUP, "(?!",
     "look-ahead is not supported; match the wanted lines, with a class such as [^x]"},
    {RE2_GROUP, "(?<",
     "look-behind is not supported; include the preceding text in the pattern (a named group is "
     "(?P<name> ))"},
    {RE2_GROUP, "(?>", "atomic groups are not supported; write (?: )"},
    {RE2_GROUP, "(?#", "comments are not supported; remove this one"},
    {RE2_ESCAPE, "\\Z", "\\Z is not supported; write \\z or $ for the end of the line"},
};

static const char *describe_fault(enum re2_fault fault, const char *fragment)
{
    if (fault == RE2_ESCAPE && fragment[0] == '\\' && fragment[1] >= '1' && fragment[1] <= '9')
        return "back-references are not supported; repeat the expression instead";
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (unsupported[i].fault == fault &&
            !strncmp(fragment, unsupported[i].start, strlen(unsupported[i].start)))
            return unsupported[i].text;
    return faults[fault];
}

// Returns the index of the ] that closes the class at text[i].
static size_t end_of_class(const char *text, size_t i)
{
    i += text[i + 1] == '^' ? 2 : 1;
    i += text[i] == ']';
    for (; text[i] && text[i] != ']'; i++) {
        const char *named =
            text[i] == '[' && text[i + 1] == ':' ? strstr(text + i + 2, ":]") : NULL;
        if (named)
            i = (size_t)(named - text) + 1;
        else if (text[i] == '\\' && text[i + 1])
            i++;
    }
    return i;
}

// Returns the index of the innermost ( without a ), or of the first ) without a (.
static size_t find_paren(const char *text, bool unclosed)
{
    size_t open[LIMIT_PATTERN], depth = 0, i = 0;
    for (; text[i]; i++) {
        if (text[i] == '\\' && text[i + 1]) {
            i++;
        } else if (text[i] == '[') {
            i = end_of_class(text, i);
            if (!text[i])
                break;
        } else if (text[i] == '(') {
            open[depth++] = i;
        } else if (text[i] == ')' && depth) {
            depth--;
        } else if (text[i] == ')' && !unclosed) {
            return i;
        }
    }
    return depth ? open[depth - 1] : 0;
}

// Finds the place of the fragment that RE2 names: its first occurrence outside escapes and, if the
// fault lies outside classes, outside classes.
static size_t find_fragment(const char *text, enum re2_fault fault, const char *fragment)
{
    bool outside =
        fault != RE2_CLASS && fault != RE2_RANGE && fault != RE2_ESCAPE && fault != RE2_NO_BRACKET;
    size_t len = strlen(fragment);
    for (size_t i = 0; len && text[i]; i++) {
        if (!strncmp(text + i, fragment, len))
            return i;
        if (text[i] == '\\' && text[i + 1])
            i++;
        else if (text[i] == '[' && outside)
            i = end_of_class(text, i) - !text[end_of_class(text, i)];
    }
    return len ? 0 : strlen(text) - (*text != 0);
}

// Returns the column of the byte at index `at`, in characters from 1.
static int column_of(const char *text, size_t at)
{
    int column = 1;
    for (size_t i = 0; i < at && text[i]; i++)
        column += (text[i] & 0xc0) != 0x80;
    return column;
}

static int report_fault(const char *text, const char *where, enum re2_fault fault,
                        const char *fragment, struct error *e)
{
    size_t at = fault == RE2_NO_PAREN || fault == RE2_PAREN
                    ? find_paren(text, fault == RE2_NO_PAREN)
                    : find_fragment(text, fault, fragment);
    if (fault == RE2_LARGE)
        return error_set(e, ERR_TOO_LARGE, "%s: %s", where, describe_fault(fault, fragment));
    bool shown = *fragment && strlen(fragment) <= 32 && fault != RE2_NO_PAREN && fault != RE2_PAREN;
    return error_set(e, ERR_INVALID, "%s: column %d of the pattern%s%s: %s", where,
                     column_of(text, at), shown ? ", at " : "", shown ? fragment : "",
                     describe_fault(fault, fragment));
}

// --- compiling and matching ----------------------------------------------------------------------

int pattern_compile(const char *text, const char *where, struct pattern **out, struct error *e)
{
    enum re2_fault fault;
    char *fragment;
    size_t len = strlen(text);
    *out = NULL;
    if (len > LIMIT_PATTERN)
        return error_set(e, ERR_TOO_LARGE, "%s: the pattern has %zu bytes; at most %d are allowed",
                         where, len, LIMIT_PATTERN);
    struct re2_pattern *compiled = re2_compile(text, len, PATTERN_MEMORY, &fault, &fragment);
    int err = compiled ? 0 : report_fault(text, where, fault, fragment, e);
    free(fragment);
    if (compiled && re2_program_size(compiled) > LIMIT_PATTERN_PROGRAM) {
        re2_free(compiled);
        compiled = NULL;
        err = report_fault(text, where, RE2_LARGE, "", e);
    }
    if (err)
        return err;
    *out = xcalloc(1, sizeof **out);
    (*out)->compiled = compiled;
    return 0;
}

bool pattern_matches(const struct pattern *p, const char *text, size_t len)
{
    return re2_matches(p->compiled, text, len < LIMIT_PATTERN_TEXT ? len : LIMIT_PATTERN_TEXT);
}

void pattern_free(struct pattern *p)
{
    if (p)
        re2_free(p->compiled);
    free(p);
}
