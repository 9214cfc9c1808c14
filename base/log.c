#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"

// Every thread reads the level, so it is atomic.
static atomic_int minimum_level = LOG_LEVEL_INFO;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

enum { LEVELS = sizeof level_names / sizeof level_names[0], LINE_MAX_BYTES = 8192 };

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&minimum_level, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&minimum_level, memory_order_relaxed);
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

// Constant once other threads run.
static struct {
    log_sink *write;
    void *ctx;
} extra_sink;

void log_set_sink(log_sink *sink, void *ctx)
{
    extra_sink.write = sink;
    extra_sink.ctx = ctx;
}

int log_parse_level(const char *text, enum log_level *out)
{
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return 0;
        }
    }
    return ERR_INVALID;
}

// Replaces line breaks, which could forge a second record, and characters that act on a terminal
// (base/printable.h) by blanks. The line keeps its length.
static void blank_controls(char *text, size_t len)
{
    size_t taken;
    for (size_t i = 0; i < len; i += taken)
        if (printable_classify(text + i, len - i, &taken) != CHAR_PRINTABLE)
            memset(text + i, ' ', taken);
}

void log_write(enum log_level level, const char *msg, const char *fmt, ...)
{
    if ((int)level < atomic_load_explicit(&minimum_level, memory_order_relaxed))
        return;
    static const char cut_mark[] = "...";
    char ts[CLOCK_RFC3339_MAX], quoted[512], line[LINE_MAX_BYTES];
    int64_t now = clock_wall_us();
    int start = snprintf(line, sizeof line, "ts=%.23sZ level=%s ", clock_format(now, ts),
                         level_names[level]);
    int head = start + snprintf(line + start, sizeof line - (size_t)start, "msg=%s ",
                                log_quote(quoted, sizeof quoted, msg));
    va_list args;
    va_start(args, fmt);
    int tail = vsnprintf(line + head, sizeof line - (size_t)head, fmt, args);
    va_end(args);
    size_t len = (size_t)head + (tail > 0 ? (size_t)tail : 0);
    if (tail <= 0) {
        len--; // the blank before the empty text
    } else if (len > sizeof line - sizeof cut_mark) {
        len = sizeof line - 1;
        memcpy(line + len - (sizeof cut_mark - 1), cut_mark, sizeof cut_mark - 1);
    }
    blank_controls(line, len);
    line[len] = '\0';
    if (extra_sink.write)
        extra_sink.write(extra_sink.ctx, level, now, line + start);
    line[len++] = '\n';
    // There is no place to report that the log cannot be written.
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}

// Writes the first character of text[0..len) to `out`: its escape, or its UTF-8 bytes. Returns the
// number of bytes written; *taken: the number of bytes read.
static size_t quote_character(const char *text, size_t len, char out[8], size_t *taken)
{
    static const char named[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *name = strchr(named, *text);
    enum printability kind = printable_classify(text, len, taken);
    if (name)
        return (size_t)snprintf(out, 8, "\\%c", letters[name - named]);
    if (kind != CHAR_PRINTABLE) {
        *taken = kind == CHAR_INCOMPLETE ? 1 : *taken;
        return printable_escape(kind, text, *taken, out);
    }
    memcpy(out, text, *taken);
    return *taken;
}

const char *log_quote(char *out, size_t cap, const char *text)
{
    must(cap >= 3);
    size_t len = 0;
    out[len++] = '"';
    const char *end = text ? text + strlen(text) : NULL;
    for (size_t taken; text < end; text += taken) {
        char shown[8];
        size_t n = quote_character(text, (size_t)(end - text), shown, &taken);
        if (len + n + 2 > cap) // the closing quote and the NUL
            break;
        memcpy(out + len, shown, n);
        len += n;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}

void log_die(const char *file, int line, const char *what)
{
    char quoted[256];
    log_write(LOG_LEVEL_ERROR, "broken invariant", "at=%s:%d what=%s", file, line,
              log_quote(quoted, sizeof quoted, what));
    abort();
}
