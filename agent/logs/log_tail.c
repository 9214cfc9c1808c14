#include "agent/logs/log_tail.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"

enum { ESCAPE = 0x1b, DELETE = 0x7f };

void words_init(struct words *w)
{
    *w = (struct words){0};
    buf_init(&w->text, WORDS_BYTES + WORDS_LINE_BYTES);
}

void words_free(struct words *w)
{
    buf_free(&w->text);
}

// The length of a terminal's control sequence at `s` (ECMA-48: ESC [ parameters, then a final
// byte); 1: of another.
static size_t sequence_length(const char *s, size_t len)
{
    size_t n = 2;
    if (len < 2 || s[1] != '[')
        return 1;
    while (n < len && (s[n] < '@' || s[n] > '~'))
        n++;
    return n < len ? n + 1 : len;
}

// Copies a readable line into `out`, of WORDS_LINE_BYTES. Returns its length; 0: it is blank.
static size_t clean(const char *line, size_t len, char *out)
{
    size_t n = 0;
    bool blank = true;
    for (size_t i = 0; i < len && n < WORDS_LINE_BYTES - 1; i++) {
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

static void drop_oldest(struct words *w)
{
    const char *stop = memchr(w->text.data, '\n', w->text.len);
    must(stop);
    buf_drop_front(&w->text, (size_t)(stop - w->text.data) + 1);
    w->lines--;
}

void words_add(struct words *w, const char *line, size_t len)
{
    char text[WORDS_LINE_BYTES];
    size_t n = clean(line, len, text);
    if (n == 0)
        return;
    text[n++] = '\n';
    must(buf_append(&w->text, text, n) == 0);
    w->lines++;
    while (w->lines > WORDS_LINES || w->text.len > WORDS_BYTES)
        drop_oldest(w);
}

// Copies text for JSON: U+FFFD replaces each byte that is not part of a character.
static json_t *as_text(const char *text)
{
    struct buf quoted;
    struct json_writer writer;
    buf_init(&quoted, 8 * (WORDS_BYTES + WORDS_LINE_BYTES));
    jw_init(&writer, &quoted);
    jw_string(&writer, text);
    json_t *value = json_loadb(buf_str(&quoted), quoted.len, JSON_DECODE_ANY, NULL);
    must(value);
    buf_free(&quoted);
    return value;
}

json_t *words_json(const struct words *w)
{
    char *text = xasprintf("%.*s", w->text.len ? (int)w->text.len - 1 : 0, buf_str(&w->text));
    json_t *value = as_text(text);
    free(text);
    return value;
}

static bool says_something(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)line[i]) || (unsigned char)line[i] >= 0x80)
            return true;
    return false;
}

// A line that muster's own programs log while all is well: "ts=... level=info msg=...".
static bool is_routine(const char *line, size_t len)
{
    static const char stamp[] = "ts=", info[] = " level=info ", debug[] = " level=debug ";
    const char *space = memchr(line, ' ', len);
    size_t rest = space ? len - (size_t)(space - line) : 0;
    if (len < sizeof stamp - 1 || memcmp(line, stamp, sizeof stamp - 1))
        return false;
    return (rest >= sizeof info - 1 && !memcmp(space, info, sizeof info - 1)) ||
           (rest >= sizeof debug - 1 && !memcmp(space, debug, sizeof debug - 1));
}

void words_last(const struct words *w, char *out, size_t cap)
{
    const char *all = buf_str(&w->text);
    size_t end = w->text.len;
    out[0] = '\0';
    while (end > 0 && !out[0]) {
        size_t start = end - 1; // of the line's "\n"
        while (start > 0 && all[start - 1] != '\n')
            start--;
        size_t len = end - 1 - start;
        if (says_something(all + start, len) && !is_routine(all + start, len)) {
            while (len > 0 && all[start] == ' ')
                start++, len--;
            len = len < cap ? len : cap - 1;
            memcpy(out, all + start, len);
            out[len] = '\0';
        }
        end = start;
    }
}
