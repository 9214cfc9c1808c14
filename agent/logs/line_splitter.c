#include "agent/logs/line_splitter.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"

enum { CUT_NOTE = 64, LINE_KEEP = LIMIT_LOG_LINE - CUT_NOTE, RANK_DIGITS = 9 };

void line_splitter_init(struct line_splitter *s)
{
    *s = (struct line_splitter){0};
    buf_init(&s->text, LIMIT_LOG_LINE);
}

void line_splitter_free(struct line_splitter *s)
{
    buf_free(&s->text);
}

static void keep(struct line_splitter *s, const char *data, size_t len)
{
    size_t room = s->lost > 0 ? 0 : LINE_KEEP - s->text.len;
    size_t take = len < room ? len : room;
    must(buf_append(&s->text, data, take) == 0);
    s->lost += len - take;
}

// Drops the bytes of a character that the cut went through.
static size_t whole_characters(const char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && len - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return len;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t wants = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return len - start + 1 < wants ? start - 1 : len;
}

static void emit(struct line_splitter *s, line_fn *fn, void *ctx)
{
    if (s->lost > 0) {
        size_t whole = s->text.len + s->lost;
        s->text.len = whole_characters(s->text.data, s->text.len);
        must(buf_printf(&s->text, " [cut: the line has %zu bytes]", whole) == 0);
    }
    fn(ctx, buf_str(&s->text), s->text.len);
    buf_reset(&s->text);
    s->lost = 0;
}

void line_splitter_feed(struct line_splitter *s, const char *data, size_t len, line_fn *fn,
                        void *ctx)
{
    for (size_t at = 0; at < len;) {
        size_t run = 0;
        while (at + run < len && data[at + run] != '\n' && data[at + run] != '\r')
            run++;
        keep(s, data + at, run);
        if (run > 0)
            s->after_cr = false;
        at += run;
        if (at == len)
            return;
        bool cr = data[at++] == '\r';
        bool ended = !cr && s->after_cr;
        bool nothing = cr && s->text.len == 0;
        if (!ended && !nothing)
            emit(s, fn, ctx);
        s->after_cr = cr && !nothing;
    }
}

void line_splitter_end(struct line_splitter *s, line_fn *fn, void *ctx)
{
    if (s->text.len > 0)
        emit(s, fn, ctx);
    s->after_cr = false;
}

static bool take_word(struct line_view *v, const char *word)
{
    size_t len = strlen(word);
    if (v->len < len || memcmp(v->text, word, len) != 0)
        return false;
    v->text += len;
    v->len -= len;
    return true;
}

static void take_rank(struct line_view *v)
{
    struct line_view rest = *v;
    if (!take_word(&rest, "[rank="))
        return;
    int rank = 0, digits = 0;
    while (rest.len > 0 && *rest.text >= '0' && *rest.text <= '9' && digits < RANK_DIGITS) {
        rank = rank * 10 + (*rest.text - '0');
        rest.text++, rest.len--, digits++;
    }
    if (digits == 0 || !take_word(&rest, "]"))
        return;
    take_word(&rest, " ");
    rest.rank = rank;
    *v = rest;
}

static void take_level(struct line_view *v)
{
    // Those of api/wire.h, which would load a library of cryptography into each supervisor.
    static const char *const levels[] = {"TRACE", "DEBUG",    "INFO", "WARNING",
                                         "ERROR", "CRITICAL", NULL};
    for (const char *const *word = levels; *word; word++) {
        struct line_view rest = *v;
        if (take_word(&rest, *word) && take_word(&rest, ":")) {
            take_word(&rest, " ");
            rest.level = *word;
            *v = rest;
            return;
        }
    }
}

// Our own programs write logfmt: ts=.. level=error msg=.. ; the line stays whole.
static void take_logfmt_level(struct line_view *v)
{
    static const struct {
        const char *key, *level;
    } rows[] = {{"level=error ", "ERROR"}, {"level=warn ", "WARNING"}, {"level=debug ", "DEBUG"}};
    struct line_view rest = *v;
    if (!take_word(&rest, "ts="))
        return;
    const char *blank = memchr(rest.text, ' ', rest.len);
    if (!blank)
        return;
    rest.len -= (size_t)(blank + 1 - rest.text);
    rest.text = blank + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (take_word(&rest, rows[i].key))
            v->level = rows[i].level;
}

struct line_view line_parse(const char *text, size_t len)
{
    struct line_view v = {.rank = -1, .level = "INFO", .text = text, .len = len};
    take_rank(&v);
    take_level(&v);
    take_logfmt_level(&v);
    return v;
}
