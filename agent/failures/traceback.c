#include "agent/failures/traceback.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

struct block {       // a traceback: its lines
    size_t first;    // the line "Traceback (most recent call last):", or the first frame
    size_t frame;    // the last frame
    size_t raised;   // the exception
    bool is_of_tool; // a launcher raised it because one of its processes failed
};

// --- frames --------------------------------------------------------------------------------------

static bool is_library(const char *path)
{
    static const char *const signs[] = {"/site-packages/", "/dist-packages/", "/lib/python", "<"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strstr(path, signs[i]))
            return true;
    return false;
}

void traceback_shorten_path(char *path, const char *work_dir)
{
    static const char *const roots[] = {"/site-packages/", "/dist-packages/", "/lib/"};
    size_t len = strlen(work_dir);
    if (len > 0 && strncmp(path, work_dir, len) == 0 && path[len] == '/') {
        memmove(path, path + len + 1, strlen(path + len + 1) + 1);
        return;
    }
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        char *root = strstr(path, roots[i]);
        if (root && (i < 2 || strncmp(root, "/lib/python", 11) == 0)) {
            root += strlen(roots[i]);
            memmove(path, root, strlen(root) + 1);
            return;
        }
    }
}

bool traceback_read_frame(const struct output_line *line, const char *work_dir, char *place,
                          size_t cap, bool *of_library)
{
    static const char open[] = "File \"", close[] = "\", line ";
    char path[1024];
    if (!line_starts(line, open))
        return false;
    const char *end = line_find(line, close), *start = line->text + sizeof open - 1;
    if (!end || (size_t)(end - start) >= sizeof path)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)(end - start), start);
    *of_library = is_library(path);
    traceback_shorten_path(path, work_dir);
    return snprintf(place, cap, "%s:%ld", path, strtol(end + sizeof close - 1, NULL, 10)) > 0;
}

static bool is_frame(const struct output_line *line)
{
    return line_starts(line, "File \"") && line_find(line, "\", line ");
}

// --- exceptions ----------------------------------------------------------------------------------

// Returns whether the line is "NAME", "NAME: text" or "package.NAME: text", where NAME begins with
// a capital letter, as names of exceptions do.
static bool is_exception(const struct output_line *line)
{
    size_t at = 0, name = 0;
    for (; at < line->len && line->text[at] != ':'; at++) {
        char byte = line->text[at];
        if (byte == '.')
            name = at + 1;
        else if (!isalnum((unsigned char)byte) && byte != '_')
            return false;
    }
    return name < at && isupper((unsigned char)line->text[name]);
}

// Returns the exception below the frame, after the lines of code; NONE: there is none.
static long find_raised(const struct output_lines *l, size_t frame)
{
    size_t indent = l->at[frame].indent, at = frame + 1;
    while (at < l->count &&
           (l->at[at].indent > indent || line_starts(&l->at[at], "[Previous line repeated")))
        at++;
    bool outside = at < l->count && (l->at[at].indent < indent || indent == 0);
    return outside && is_exception(&l->at[at]) ? (long)at : NONE;
}

static bool is_of_tool(const struct output_line *raised)
{
    return line_find(raised, "ChildFailedError") || line_find(raised, "CalledProcessError");
}

static bool is_header(const struct output_line *line)
{
    return line_find(line, "Traceback (most recent call last):");
}

static struct block make_block(const struct output_lines *l, size_t frame, size_t raised)
{
    struct block b = {.first = frame, .frame = frame, .raised = raised};
    size_t indent = l->at[frame].indent;
    while (b.first > 0 && l->at[b.first - 1].indent >= indent && !is_header(&l->at[b.first - 1]))
        b.first--;
    if (b.first > 0 && is_header(&l->at[b.first - 1]))
        b.first--;
    b.is_of_tool = is_of_tool(&l->at[raised]);
    return b;
}

// Finds the last traceback among the first `count` lines.
static bool find_block(const struct output_lines *l, size_t count, struct block *out)
{
    for (size_t i = count; i-- > 0;) {
        long raised = is_frame(&l->at[i]) ? find_raised(l, i) : NONE;
        if (raised != NONE) {
            *out = make_block(l, i, (size_t)raised);
            return true;
        }
    }
    return false;
}

static void read_place(const struct output_lines *l, const struct block *b, const char *work_dir,
                       char *place, size_t cap)
{
    char found[TRACEBACK_PLACE];
    bool of_library = false, any = false;
    place[0] = '\0';
    for (size_t i = b->frame + 1; i-- > b->first;) {
        if (!traceback_read_frame(&l->at[i], work_dir, found, sizeof found, &of_library))
            continue;
        if (!any || !of_library)
            snprintf(place, cap, "%s", found);
        any = true;
        if (!of_library)
            return;
    }
}

// Returns the line on which the text of an exception continues: the next one if it ends with ":",
// the first exception of a group; NONE: it is complete.
static long find_continuation(const struct output_lines *l, size_t raised, const char *text)
{
    size_t len = strlen(text), next = raised + 1;
    bool is_group = strstr(text, "ExceptionGroup: ");
    while (is_group && next < l->count && !is_exception(&l->at[next]))
        next++;
    bool goes_on = is_group || (len > 0 && text[len - 1] == ':');
    return goes_on && next < l->count && !is_header(&l->at[next]) ? (long)next : NONE;
}

// Returns the end of the exception as a number of lines.
static size_t read_text(const struct output_lines *l, size_t raised, char *out, size_t cap)
{
    char next[TRACEBACK_TEXT];
    line_copy(&l->at[raised], NULL, out, cap);
    size_t len = strlen(out);
    long more = find_continuation(l, raised, out);
    if (more == NONE)
        return raised + 1;
    line_copy(&l->at[more], NULL, next, sizeof next);
    snprintf(out + len, cap - len, "%s %s", out[len - 1] == ':' ? "" : ":", next);
    return (size_t)more + 1;
}

// The exception has a cause ("raise .. from ..") if the lines before its traceback say so.
static bool find_cause(const struct output_lines *l, const struct block *b, struct block *cause)
{
    return b->first > 0 &&
           line_find(&l->at[b->first - 1], "was the direct cause of the following exception") &&
           find_block(l, b->first - 1, cause);
}

static void add_cause(const struct output_lines *l, const struct block *b, const char *work_dir,
                      struct traceback *out)
{
    struct block cause;
    char text[TRACEBACK_TEXT];
    if (!find_cause(l, b, &cause))
        return;
    read_text(l, cause.raised, text, sizeof text);
    size_t used = strlen(out->text);
    if (strcmp(text, out->text) == 0) // of a worker process, whose traceback names the line
        read_place(l, &cause, work_dir, out->place, sizeof out->place);
    else
        snprintf(out->text + used, sizeof out->text - used, "; caused by %s", text);
}

bool traceback_find(const struct output_lines *lines, const char *work_dir, struct traceback *out)
{
    struct block b, inner;
    if (!find_block(lines, lines->count, &b))
        return false;
    size_t end = lines->count;
    while (b.is_of_tool && find_block(lines, b.first, &inner)) {
        end = b.first;
        b = inner;
    }
    out->end = read_text(lines, b.raised, out->text, sizeof out->text);
    out->after = end > out->end ? end - out->end : 0;
    read_place(lines, &b, work_dir, out->place, sizeof out->place);
    add_cause(lines, &b, work_dir, out);
    return true;
}
