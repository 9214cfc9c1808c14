#include "agent/logs/line_splitter.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/log_text.h"

enum { CUT_NOTE = 64, LINE_ROOM = LIMIT_LOG_LINE - CUT_NOTE, RANK_DIGITS = 9 };

void line_splitter_init(struct line_splitter *s)
{
    *s = (struct line_splitter){0};
    buf_init(&s->text, LIMIT_LOG_LINE);
}

void line_splitter_free(struct line_splitter *s)
{
    buf_free(&s->text);
}

// Appends all that fits; a mark is never cut in two.
static void append_text(struct line_splitter *s, const char *data, size_t len, bool whole)
{
    size_t room = s->cut ? 0 : LINE_ROOM - s->text.len;
    size_t fits = len <= room ? len : whole ? 0 : room;
    must(buf_append(&s->text, data, fits) == 0);
    s->cut |= fits < len;
}

static void append_line(struct line_splitter *s, const char *data, size_t len)
{
    s->bytes += len;
    while (len > 0) {
        size_t plain = log_text_span(data, len);
        append_text(s, data, plain, false);
        if (plain == len)
            return;
        append_text(s, LOG_TEXT_MARK, strlen(LOG_TEXT_MARK), true);
        data += plain + 1;
        len -= plain + 1;
    }
}

// Returns `len` without the bytes of an incomplete last character.
static size_t trim_partial_character(const char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && len - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return len;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needed = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return len - start + 1 < needed ? start - 1 : len;
}

static void emit_line(struct line_splitter *s, line_fn *fn, void *ctx)
{
    if (s->cut) {
        s->text.len = trim_partial_character(s->text.data, s->text.len);
        must(buf_printf(&s->text, " [cut: the line has %zu bytes]", s->bytes) == 0);
    }
    fn(ctx, buf_str(&s->text), s->text.len);
    buf_reset(&s->text);
    s->bytes = 0;
    s->cut = false;
}

void line_splitter_feed(struct line_splitter *s, const char *data, size_t len, line_fn *fn,
                        void *ctx)
{
    for (size_t at = 0; at < len;) {
        size_t run = 0;
        while (at + run < len && data[at + run] != '\n' && data[at + run] != '\r')
            run++;
        append_line(s, data + at, run);
        if (run > 0)
            s->after_cr = false;
        at += run;
        if (at == len)
            return;
        bool cr = data[at++] == '\r';
        bool ended = !cr && s->after_cr;
        bool nothing = cr && s->text.len == 0;
        if (!ended && !nothing)
            emit_line(s, fn, ctx);
        s->after_cr = cr && !nothing;
    }
}

void line_splitter_end(struct line_splitter *s, line_fn *fn, void *ctx)
{
    if (s->text.len > 0)
        emit_line(s, fn, ctx);
    s->after_cr = false;
}

static bool skip_word(struct parsed_line *v, const char *word)
{
    size_t len = strlen(word);
    if (v->len < len || memcmp(v->text, word, len) != 0)
        return false;
    v->text += len;
    v->len -= len;
    return true;
}

static void parse_rank(struct parsed_line *v)
{
    struct parsed_line rest = *v;
    if (!skip_word(&rest, "[rank="))
        return;
    int rank = 0, digits = 0;
    while (rest.len > 0 && *rest.text >= '0' && *rest.text <= '9' && digits < RANK_DIGITS) {
        rank = rank * 10 + (*rest.text - '0');
        rest.text++, rest.len--, digits++;
    }
    if (digits == 0 || !skip_word(&rest, "]"))
        return;
    skip_word(&rest, " ");
    rest.rank = rank;
    *v = rest;
}

static void parse_level(struct parsed_line *v)
{
    // The words of WIRE_LOG_LEVEL; api/wire.h would load a cryptography library into each
    // supervisor.
    static const char *const levels[] = {"TRACE", "DEBUG",    "INFO", "WARNING",
                                         "ERROR", "CRITICAL", NULL};
    for (const char *const *word = levels; *word; word++) {
        struct parsed_line rest = *v;
        if (skip_word(&rest, *word) && skip_word(&rest, ":")) {
            skip_word(&rest, " ");
            rest.level = *word;
            *v = rest;
            return;
        }
    }
}

// Muster's own programs write logfmt: ts=.. level=error msg=.. ; the text keeps the whole line.
static void parse_logfmt_level(struct parsed_line *v)
{
    static const struct {
        const char *key, *level;
    } rows[] = {{"level=error ", "ERROR"}, {"level=warn ", "WARNING"}, {"level=debug ", "DEBUG"}};
    struct parsed_line rest = *v;
    if (!skip_word(&rest, "ts="))
        return;
    const char *blank = memchr(rest.text, ' ', rest.len);
    if (!blank)
        return;
    rest.len -= (size_t)(blank + 1 - rest.text);
    rest.text = blank + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (skip_word(&rest, rows[i].key))
            v->level = rows[i].level;
}

struct parsed_line line_parse_prefix(const char *text, size_t len)
{
    struct parsed_line v = {.rank = -1, .level = "INFO", .text = text, .len = len};
    parse_rank(&v);
    parse_level(&v);
    parse_logfmt_level(&v);
    return v;
}
