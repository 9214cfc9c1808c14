// A batch is one block of bytes, so that a metric row costs a few copies and no allocation. A
// record is the statement and the number of values (two bytes each), then for each value its letter
// and: i, d the eight bytes; s, b the length (four bytes) and the bytes; n nothing. Nothing is
// aligned, nothing leaves the process.

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/store.h"

enum { BATCH_FIRST_BYTES = 256 };

_Static_assert(STMT_COUNT <= UINT16_MAX, "a record has two bytes for the statement");

struct db_batch *db_batch_new(void)
{
    return xcalloc(1, sizeof(struct db_batch));
}

void db_batch_free(struct db_batch *b)
{
    if (!b)
        return;
    free(b->data);
    free(b);
}

bool db_batch_empty(const struct db_batch *b)
{
    return b->len == 0;
}

static void put(struct db_batch *b, const void *data, size_t len)
{
    if (len > b->cap - b->len) {
        size_t cap = b->cap ? b->cap : BATCH_FIRST_BYTES;
        while (cap - b->len < len)
            cap *= 2;
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void put_value(struct db_batch *b, const struct db_value *v)
{
    put(b, &v->type, sizeof v->type);
    if (v->type == 'i')
        put(b, &v->i, sizeof v->i);
    if (v->type == 'd')
        put(b, &v->d, sizeof v->d);
    if (v->type == 's' || v->type == 'b') {
        must(v->len <= UINT32_MAX);
        uint32_t len = (uint32_t)v->len;
        put(b, &len, sizeof len);
        put(b, v->p, len);
    }
}

void db_batch_add(struct db_batch *b, enum stmt stmt, const char *types, ...)
{
    must(stmt >= 0 && stmt < STMT_COUNT && stmt_is_write(stmt));
    struct db_value values[PARAMS_MAX];
    va_list args;
    va_start(args, types);
    size_t n = values_read(values, types, args);
    va_end(args);
    uint16_t head[2] = {(uint16_t)stmt, (uint16_t)n};
    put(b, head, sizeof head);
    for (size_t i = 0; i < n; i++)
        put_value(b, &values[i]);
}

void db_batch_join(struct db_batch *b, struct db_batch *more)
{
    put(b, more->data, more->len);
    db_batch_free(more);
}

static void get(const struct db_batch *b, size_t *offset, void *out, size_t len)
{
    must(len <= b->len - *offset);
    memcpy(out, b->data + *offset, len);
    *offset += len;
}

static void get_value(const struct db_batch *b, size_t *offset, struct db_value *v)
{
    *v = (struct db_value){0};
    get(b, offset, &v->type, sizeof v->type);
    if (v->type == 'i')
        get(b, offset, &v->i, sizeof v->i);
    if (v->type == 'd')
        get(b, offset, &v->d, sizeof v->d);
    if (v->type == 's' || v->type == 'b') {
        uint32_t len;
        get(b, offset, &len, sizeof len);
        must(len <= b->len - *offset);
        v->p = b->data + *offset;
        v->len = len;
        *offset += len;
    }
}

enum stmt batch_next(const struct db_batch *b, size_t *offset, struct db_value values[PARAMS_MAX],
                     size_t *count)
{
    uint16_t head[2];
    get(b, offset, head, sizeof head);
    must(head[1] <= PARAMS_MAX);
    *count = head[1];
    for (size_t i = 0; i < *count; i++)
        get_value(b, offset, &values[i]);
    return (enum stmt)head[0];
}
