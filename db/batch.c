// A batch is one block of bytes, so that a metric row costs a few copies and no allocation. A
// record is the statement and the number of values (two bytes each), then the values. A value is
// its type (one byte), followed by eight bytes for a number, by a length (four bytes) and the bytes
// for a text or blob, and by nothing for a null. Values are not aligned, and a record never leaves
// the process.

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

// Makes room for `len` more bytes.
static void record_reserve(struct db_batch *b, size_t len)
{
    size_t cap = b->cap ? b->cap : BATCH_FIRST_BYTES;
    if (len <= b->cap - b->len)
        return;
    while (cap - b->len < len)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

static void record_append(struct db_batch *b, const void *data, size_t len)
{
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void value_append(struct db_batch *b, const struct db_value *v)
{
    bool has_bytes = v->type == DB_TEXT || v->type == DB_BLOB;
    unsigned char type = (unsigned char)v->type;
    must(v->len <= UINT32_MAX);
    record_reserve(b, sizeof type + sizeof v->i + (has_bytes ? v->len : 0));
    record_append(b, &type, sizeof type);
    if (v->type == DB_INTEGER)
        record_append(b, &v->i, sizeof v->i);
    if (v->type == DB_REAL)
        record_append(b, &v->d, sizeof v->d);
    if (has_bytes) {
        uint32_t len = (uint32_t)v->len;
        record_append(b, &len, sizeof len);
        record_append(b, v->p, len);
    }
}

void batch_add_values(struct db_batch *b, enum stmt stmt, const struct db_value *values,
                      size_t count)
{
    must(stmt >= 0 && stmt < STMT_COUNT && stmt_is_write(stmt));
    uint16_t head[2] = {(uint16_t)stmt, (uint16_t)count};
    record_reserve(b, sizeof head);
    record_append(b, head, sizeof head);
    for (size_t i = 0; i < count; i++)
        value_append(b, &values[i]);
}

void db_batch_add(struct db_batch *b, enum stmt stmt, const void *values)
{
    struct db_value list[PARAMS_MAX];
    batch_add_values(b, stmt, list, stmt_values(stmt, values, list));
}

void db_batch_join(struct db_batch *b, struct db_batch *more)
{
    record_reserve(b, more->len);
    record_append(b, more->data, more->len);
    db_batch_free(more);
}

static void record_read(const struct db_batch *b, size_t *offset, void *out, size_t len)
{
    must(len <= b->len - *offset);
    memcpy(out, b->data + *offset, len);
    *offset += len;
}

static void value_read(const struct db_batch *b, size_t *offset, struct db_value *v)
{
    unsigned char type;
    record_read(b, offset, &type, sizeof type);
    *v = (struct db_value){.type = (enum db_type)type};
    if (v->type == DB_INTEGER)
        record_read(b, offset, &v->i, sizeof v->i);
    if (v->type == DB_REAL)
        record_read(b, offset, &v->d, sizeof v->d);
    if (v->type == DB_TEXT || v->type == DB_BLOB) {
        uint32_t len;
        record_read(b, offset, &len, sizeof len);
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
    record_read(b, offset, head, sizeof head);
    must(head[1] <= PARAMS_MAX);
    *count = head[1];
    for (size_t i = 0; i < *count; i++)
        value_read(b, offset, &values[i]);
    return (enum stmt)head[0];
}
