#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

enum { FIRST_BYTES = 64 };

void buf_init(struct buf *b, size_t limit)
{
    must(limit < SIZE_MAX / 4);
    *b = (struct buf){.limit = limit};
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->err = 0;
    if (b->data)
        b->data[0] = '\0';
}

// Makes room for `more` bytes and the NUL, or sets the error.
static int buf_reserve(struct buf *b, size_t more)
{
    if (b->err)
        return b->err;
    if (more > b->limit - b->len)
        return b->err = ERR_TOO_LARGE;
    size_t needed = b->len + more + 1;
    if (needed <= b->cap)
        return 0;
    size_t cap = b->cap ? b->cap * 2 : FIRST_BYTES;
    if (cap < needed)
        cap = needed;
    if (cap > b->limit + 1)
        cap = b->limit + 1;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
    return 0;
}

int buf_append_growing(struct buf *b, const void *data, size_t len)
{
    if (buf_reserve(b, len) != 0)
        return b->err;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

static int buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    must(len >= 0);
    if (buf_reserve(b, (size_t)len) != 0)
        return b->err;
    vsnprintf(b->data + b->len, (size_t)len + 1, fmt, args);
    b->len += (size_t)len;
    return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int err = buf_vprintf(b, fmt, args);
    va_end(args);
    return err;
}

void buf_drop_front(struct buf *b, size_t n)
{
    must(n <= b->len);
    if (n == 0)
        return;
    b->len -= n;
    memmove(b->data, b->data + n, b->len + 1);
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *text = b->data ? b->data : xstrdup("");
    *b = (struct buf){.limit = b->limit};
    return text;
}
