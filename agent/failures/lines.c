#include "agent/failures/lines.h"

#include <ctype.h>
#include <string.h>

#include "base/log.h"

// Returns the bytes of "[rank0]: " or "[default0]:" at `text`; 0: there is no such prefix.
static size_t torch_prefix(const char *text, size_t len)
{
    static const char *const names[] = {"[rank", "[default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t at = strlen(names[i]);
        if (len <= at || memcmp(text, names[i], at) != 0 || !isdigit((unsigned char)text[at]))
            continue;
        while (at < len && isdigit((unsigned char)text[at]))
            at++;
        if (at + 1 < len && text[at] == ']' && text[at + 1] == ':')
            return at + 2 + (at + 2 < len && text[at + 2] == ' ');
    }
    return 0;
}

static size_t count_spaces(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && text[n] == ' ')
        n++;
    return n;
}

// Returns the bytes of the frame that Python draws around exception groups: "  | ", "  + ".
static size_t group_prefix(const char *text, size_t len)
{
    size_t at = count_spaces(text, len);
    if (at < 2 || at + 1 >= len || !strchr("|+", text[at]) || text[at + 1] != ' ')
        return 0;
    return at + 2;
}

static struct output_line make_line(const char *text, size_t len)
{
    size_t prefix = torch_prefix(text, len);
    text += prefix, len -= prefix;
    prefix = group_prefix(text, len);
    text += prefix, len -= prefix;
    size_t indent = count_spaces(text, len);
    return (struct output_line){text + indent, len - indent, indent};
}

void lines_split(const char *text, struct output_lines *out)
{
    size_t count = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        count++;
    out->count = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (count-- <= LINES_MAX)
            out->at[out->count++] = make_line(at, strcspn(at, "\n"));
}

bool line_starts(const struct output_line *line, const char *with)
{
    size_t len = strlen(with);
    return line->len >= len && memcmp(line->text, with, len) == 0;
}

const char *line_find(const struct output_line *line, const char *words)
{
    return memmem(line->text, line->len, words, strlen(words));
}

void line_copy(const struct output_line *line, const char *after, char *out, size_t cap)
{
    const char *found = after ? line_find(line, after) : NULL;
    const char *from = found ? found + strlen(after) : line->text;
    size_t len = (size_t)(line->text + line->len - from);
    must(cap > 0);
    len = len < cap ? len : cap - 1;
    memcpy(out, from, len);
    while (len > 0 && out[len - 1] == ' ')
        len--;
    out[len] = '\0';
}

void text_shorten(char *text, size_t max)
{
    size_t end = max - 2;
    if (strlen(text) <= max)
        return;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, "..", 3);
}

void text_remove(char *text, const char *part)
{
    size_t len = strlen(part);
    for (char *at; len > 0 && (at = strstr(text, part));)
        memmove(at, at + len, strlen(at + len) + 1);
}
