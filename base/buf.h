// Byte buffers with a limit on their length. The data is always NUL-terminated after `len` bytes.
// A write beyond the limit sets `err`, and the buffer ignores all later writes, so that callers can
// check once, at the end.
#ifndef MUSTER_BASE_BUF_H
#define MUSTER_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buf {
    char *data; // NULL until the first write; use buf_str() for a string
    size_t len;
    size_t cap;   // allocated
    size_t limit; // maximum of `len`
    int err;      // 0 or ERR_TOO_LARGE
};

void buf_init(struct buf *b, size_t limit);
void buf_free(struct buf *b);
void buf_reset(struct buf *b); // len = 0, err = 0, memory kept
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_drop_front(struct buf *b, size_t n);
const char *buf_str(const struct buf *b); // "" when empty
char *buf_take(struct buf *b);            // the heap string; b is empty afterwards

int buf_append_growing(struct buf *b, const void *data, size_t len); // for buf_append()

// Inline, because responses are written in many small pieces and most of them fit.
static inline int buf_append(struct buf *b, const void *data, size_t len)
{
    bool fits = len && len < b->cap - b->len && !b->err;
    if (!fits)
        return buf_append_growing(b, data, len);
    memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

#endif
