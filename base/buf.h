// Capped byte buffers: every buffer has a limit from birth. Always NUL-terminated after `len`.
// After a write past the cap the buffer is in error (buf_err() != 0) and ignores further writes, so
// callers check once at the end.
#ifndef MUSTER_BASE_BUF_H
#define MUSTER_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

struct buf {
    char *data; // NULL until the first write; use buf_str() for a string
    size_t len;
    size_t cap;   // allocated
    size_t limit; // most bytes `len` may reach
    int err;      // 0 or ERR_TOO_LARGE
};

void buf_init(struct buf *b, size_t limit);
void buf_free(struct buf *b);
void buf_reset(struct buf *b); // len = 0, err = 0, memory kept
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list args);
void buf_drop_front(struct buf *b, size_t n);
const char *buf_str(const struct buf *b); // "" when empty
char *buf_take(struct buf *b);            // the heap string; b is empty afterwards

int buf_append_growing(struct buf *b, const void *data, size_t len); // what does not fit yet

// Inline, as answers are written in many small pieces that mostly fit.
static inline int buf_append(struct buf *b, const void *data, size_t len)
{
    if (!len || len >= b->cap - b->len || b->err)
        return buf_append_growing(b, data, len);
    memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

#endif
