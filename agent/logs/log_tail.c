#include "agent/logs/log_tail.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"

enum { ESCAPE = 0x1b, DELETE = 0x7f };

void log_tail_init(struct log_tail *t)
{
    *t = (struct log_tail){0};
    buf_init(&t->text, 2 * LOG_TAIL_KEPT_BYTES + LOG_TAIL_LINE_BYTES);
}

void log_tail_free(struct log_tail *t)
{
    buf_free(&t->text);
}

// Returns the bytes of a terminal control sequence (ECMA-48: ESC [ parameters, then a final byte)
// at `s`, or 1 for any other escape.
static size_t sequence_length(const char *s, size_t len)
{
    size_t n = 2;
    if (len < 2 || s[1] != '[')
        return 1;
    while (n < len && (s[n] < '@' || s[n] > '~'))
        n++;
    return n < len ? n + 1 : len;
}

// Copies the readable part of a line to `out`. Returns its length; 0 if it is blank.
static size_t clean_line(const char *line, size_t len, char *out)
{
    size_t n = 0;
    bool blank = true;
    for (size_t i = 0; i < len && n < LOG_TAIL_LINE_BYTES - 1; i++) {
        unsigned char byte = (unsigned char)line[i];
        if (byte == ESCAPE) {
            i += sequence_length(line + i, len - i) - 1;
        } else if (byte == '\t') {
            out[n++] = ' ';
        } else if (byte >= ' ' && byte != DELETE) {
            out[n++] = (char)byte;
            blank = blank && byte == ' ';
        }
    }
    return blank ? 0 : n;
}

static void drop_oldest_lines(struct log_tail *t)
{
    const char *at = t->text.data, *end = at + t->text.len;
    while (t->lines > LOG_TAIL_KEPT_LINES || end - at > LOG_TAIL_KEPT_BYTES) {
        at = memchr(at, '\n', (size_t)(end - at));
        must(at);
        at++;
        t->lines--;
    }
    buf_drop_front(&t->text, (size_t)(at - t->text.data));
}

void log_tail_add(struct log_tail *t, const char *line, size_t len)
{
    char text[LOG_TAIL_LINE_BYTES];
    size_t n = clean_line(line, len, text);
    if (n == 0)
        return;
    text[n++] = '\n';
    must(buf_append(&t->text, text, n) == 0);
    t->lines++;
    if (t->lines > 2 * LOG_TAIL_KEPT_LINES || t->text.len > 2 * LOG_TAIL_KEPT_BYTES)
        drop_oldest_lines(t);
}

// Makes a JSON string; U+FFFD replaces bytes that are not UTF-8.
static json_t *json_string_lossy(const char *text)
{
    struct buf quoted;
    struct json_writer writer;
    buf_init(&quoted, 8 * (LOG_TAIL_BYTES + LOG_TAIL_LINE_BYTES));
    jw_init(&writer, &quoted);
    jw_string(&writer, text);
    json_t *value = json_loadb(buf_str(&quoted), quoted.len, JSON_DECODE_ANY, NULL);
    must(value);
    buf_free(&quoted);
    return value;
}

const char *log_tail_text(const struct log_tail *t)
{
    return buf_str(&t->text);
}

// Returns the bytes of the first `count` lines.
static size_t lines_length(const struct log_tail *t, size_t count)
{
    const char *all = buf_str(&t->text), *at = all;
    for (; count > 0 && (at = strchr(at, '\n')); count--)
        at++;
    return at ? (size_t)(at - all) : t->text.len;
}

// Returns the start of the lines that are shown of the first `end` bytes.
static size_t find_shown(const char *all, size_t end)
{
    size_t start = end, lines = 0;
    while (start > 0 && lines < LOG_TAIL_LINES) {
        size_t line = start - 1; // the "\n" of the line
        while (line > 0 && all[line - 1] != '\n')
            line--;
        if (end - line > LOG_TAIL_BYTES)
            break;
        start = line;
        lines++;
    }
    return start;
}

json_t *log_tail_json(const struct log_tail *t, size_t end)
{
    size_t stop = end ? lines_length(t, end) : t->text.len;
    size_t start = find_shown(buf_str(&t->text), stop);
    int len = stop > start ? (int)(stop - start) - 1 : 0;
    char *text = xasprintf("%.*s", len, buf_str(&t->text) + start);
    json_t *value = json_string_lossy(text);
    free(text);
    return value;
}

static bool has_letter_or_digit(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)line[i]) || (unsigned char)line[i] >= 0x80)
            return true;
    return false;
}

// Returns whether one of Muster's own programs logged the line at level info or debug.
static bool is_routine_log(const char *line, size_t len)
{
    static const char stamp[] = "ts=", info[] = " level=info ", debug[] = " level=debug ";
    const char *space = memchr(line, ' ', len);
    size_t rest = space ? len - (size_t)(space - line) : 0;
    if (len < sizeof stamp - 1 || memcmp(line, stamp, sizeof stamp - 1))
        return false;
    return (rest >= sizeof info - 1 && !memcmp(space, info, sizeof info - 1)) ||
           (rest >= sizeof debug - 1 && !memcmp(space, debug, sizeof debug - 1));
}

void log_tail_last_line(const struct log_tail *t, char *out, size_t cap)
{
    const char *all = buf_str(&t->text);
    size_t end = t->text.len;
    out[0] = '\0';
    while (end > 0 && !out[0]) {
        size_t start = end - 1; // the "\n" of the line
        while (start > 0 && all[start - 1] != '\n')
            start--;
        size_t len = end - 1 - start;
        if (has_letter_or_digit(all + start, len) && !is_routine_log(all + start, len)) {
            while (len > 0 && all[start] == ' ')
                start++, len--;
            len = len < cap ? len : cap - 1;
            memcpy(out, all + start, len);
            out[len] = '\0';
        }
        end = start;
    }
}
