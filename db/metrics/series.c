#include "db/metrics/series.h"

#include <string.h>

#include "base/hash.h"
#include "base/log.h"

enum {
    VERSION = 1,
    VARINT_MAX = 10,
    CRC_BYTES = 4,
    STRIDE = 0, // modes of a list of integers
    DELTAS = 1,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "doubles are copied as they lie");

// --- writing -------------------------------------------------------------------------------------

static void put_number(struct buf *out, uint64_t v)
{
    uint8_t bytes[VARINT_MAX];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    buf_append(out, bytes, n);
}

// Differences wrap around, so that any two integers have one.
static void put_signed(struct buf *out, uint64_t v)
{
    put_number(out, (v << 1) ^ (0 - (v >> 63)));
}

static void put_integers(struct buf *out, const int64_t *v, size_t count)
{
    uint64_t stride = count > 1 ? (uint64_t)v[1] - (uint64_t)v[0] : 0;
    size_t same = 1;
    while (same < count && (uint64_t)v[same] - (uint64_t)v[same - 1] == stride)
        same++;
    put_number(out, same >= count ? STRIDE : DELTAS);
    put_signed(out, (uint64_t)v[0]);
    if (same >= count)
        put_signed(out, stride);
    for (size_t i = 1; same < count && i < count; i++)
        put_signed(out, (uint64_t)v[i] - (uint64_t)v[i - 1]);
}

static size_t put_head(struct buf *out, char letter)
{
    size_t start = out->len;
    buf_append(out, (const char[]){letter, VERSION}, 2);
    return start;
}

static void put_crc(struct buf *out, size_t start)
{
    if (out->err)
        return;
    uint32_t crc = crc32c(0, out->data + start, out->len - start);
    buf_append(out, &crc, sizeof crc);
}

static void put_axis_integers(struct buf *out, const struct series_block *b, size_t first,
                              size_t count)
{
    must(count > 0 && count <= SERIES_REPORTS_MAX);
    put_number(out, count);
    put_integers(out, b->ids + first, count);
    put_integers(out, b->runs + first, count);
    put_integers(out, b->steps + first, count);
    put_integers(out, b->times + first, count);
}

void series_put_axis(struct buf *out, const struct series_block *b, size_t first, size_t count)
{
    size_t start = put_head(out, 'A');
    put_axis_integers(out, b, first, count);
    put_crc(out, start);
}

static bool is_number(enum series_kind kind)
{
    return kind == SERIES_REAL || kind == SERIES_INTEGER;
}

// Returns the end of the run of equal kinds that begins at `from`.
static size_t run_end(const struct series_column *c, size_t from, size_t end)
{
    enum series_kind kind = series_kind_at(c, from);
    size_t i = from + 1;
    if (from >= c->end)
        return end;
    while (i < end && series_kind_at(c, i) == kind)
        i++;
    return i;
}

static void put_values(struct buf *out, const struct series_column *c, size_t first, size_t end)
{
    for (size_t i = first, next; i < end; i = next) {
        next = run_end(c, i, end);
        put_number(out, (next - i) << 2 | series_kind_at(c, i));
    }
    for (size_t i = first, next; i < end; i = next) {
        next = run_end(c, i, end);
        if (is_number(series_kind_at(c, i)))
            buf_append(out, c->values + (i - c->first), (next - i) * sizeof *c->values);
    }
    for (size_t i = first; c->texts && i < end; i++)
        if (series_kind_at(c, i) == SERIES_JSON) {
            const char *text = c->texts[i - c->first];
            put_number(out, strlen(text));
            buf_append(out, text, strlen(text));
        }
}

void series_put_column(struct buf *out, const struct series_column *c, size_t first, size_t count)
{
    size_t start = put_head(out, 'C');
    put_values(out, c, first, first + count);
    put_crc(out, start);
}

bool series_has(const struct series_column *c, size_t first, size_t count)
{
    size_t from = first > c->first ? first : c->first;
    size_t end = first + count < c->end ? first + count : c->end;
    for (size_t i = from; i < end; i++)
        if (c->kinds[i - c->first] != SERIES_ABSENT)
            return true;
    return false;
}

void series_put_block(struct buf *out, const struct series_block *b, size_t first, size_t count)
{
    size_t start = put_head(out, 'B'), columns = 0;
    put_axis_integers(out, b, first, count);
    for (size_t i = 0; i < b->column_count; i++)
        columns += series_has(&b->columns[i], first, count);
    put_number(out, columns);
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *c = &b->columns[i];
        if (!series_has(c, first, count))
            continue;
        size_t len = strlen(c->name);
        put_number(out, len);
        buf_append(out, c->name, len);
        put_values(out, c, first, first + count);
    }
    put_crc(out, start);
}

// --- reading -------------------------------------------------------------------------------------

struct series_input {
    const uint8_t *at, *end;
    const char *bad; // the fault; NULL: none so far
};

static void input_fail(struct series_input *in, const char *why)
{
    if (!in->bad)
        in->bad = why;
    in->at = in->end;
}

// Returns the end of the number at `at`; NULL: it has none.
static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = v;
            return at;
        }
    }
    return NULL;
}

static uint64_t get_number(struct series_input *in)
{
    uint64_t v = 0;
    const uint8_t *end = read_number(in->at, in->end, &v);
    if (end)
        in->at = end;
    else
        input_fail(in, "a number has no end");
    return v;
}

static uint64_t from_zigzag(uint64_t v)
{
    return (v >> 1) ^ (0 - (v & 1));
}

static uint64_t get_signed(struct series_input *in)
{
    return from_zigzag(get_number(in));
}

static const void *get_bytes(struct series_input *in, size_t len)
{
    const void *p = in->at;
    if (len > (size_t)(in->end - in->at)) {
        input_fail(in, "it is too short");
        return NULL;
    }
    in->at += len;
    return p;
}

// Reads all integers but the first.
static void get_deltas(struct series_input *in, int64_t *out, size_t count)
{
    const uint8_t *at = in->at;
    uint64_t v = (uint64_t)out[0], delta = 0;
    for (size_t i = 1; i < count; i++) {
        at = read_number(at, in->end, &delta);
        if (!at)
            return input_fail(in, "a number has no end");
        v += from_zigzag(delta);
        out[i] = (int64_t)v;
    }
    in->at = at;
}

static int64_t *get_integers(struct series_input *in, struct arena *a, size_t count)
{
    int64_t *out = arena_alloc(a, count * sizeof *out);
    uint64_t mode = get_number(in), v = get_signed(in);
    uint64_t stride = mode == STRIDE ? get_signed(in) : 0;
    if (mode > DELTAS)
        input_fail(in, "integers have an unknown mode");
    out[0] = (int64_t)v;
    for (size_t i = 1; i < count && mode == STRIDE; i++)
        out[i] = (int64_t)(v += stride);
    if (mode == DELTAS)
        get_deltas(in, out, count);
    return out;
}

static void input_open(struct series_input *in, char letter, const void *data, size_t len)
{
    uint32_t crc;
    *in = (struct series_input){.at = data, .end = data};
    if (len < 2 + CRC_BYTES)
        return input_fail(in, "it is too short");
    in->end += len - CRC_BYTES;
    memcpy(&crc, in->end, sizeof crc);
    if (crc != crc32c(0, data, len - CRC_BYTES))
        return input_fail(in, "its checksum is wrong");
    if (in->at[0] != (uint8_t)letter || in->at[1] != VERSION)
        return input_fail(in, "it is of another kind or version");
    in->at += 2;
}

static int input_close(struct series_input *in, const char *what, struct error *e)
{
    if (!in->bad && in->at != in->end)
        in->bad = "it has more bytes than it should";
    return in->bad ? error_set(e, ERR_CORRUPT, "%s of metrics is damaged: %s", what, in->bad) : 0;
}

static void get_axis_integers(struct series_input *in, struct arena *a, struct series_block *out)
{
    uint64_t count = get_number(in);
    *out = (struct series_block){0};
    if (!count || count > SERIES_REPORTS_MAX)
        input_fail(in, "the number of reports is impossible");
    if (in->bad)
        return;
    out->count = (size_t)count;
    out->ids = get_integers(in, a, out->count);
    out->runs = get_integers(in, a, out->count);
    out->steps = get_integers(in, a, out->count);
    out->times = get_integers(in, a, out->count);
}

int series_get_axis(struct arena *a, const void *data, size_t len, struct series_block *out,
                    struct error *e)
{
    struct series_input in;
    input_open(&in, 'A', data, len);
    get_axis_integers(&in, a, out);
    return input_close(&in, "an axis", e);
}

struct column_kinds { // summary of a column's runs
    size_t numbers, texts;
    size_t first, end; // no report outside this range has the metric
    const uint8_t *at; // start of the runs
};

// Skips the runs. They are applied later, if the column is wanted.
static struct column_kinds get_kinds(struct series_input *in, size_t count)
{
    struct column_kinds k = {.at = in->at};
    for (size_t i = 0; i < count && !in->bad;) {
        uint64_t run = get_number(in), n = run >> 2, kind = run & 3;
        if (!n || n > count - i)
            input_fail(in, "the kinds do not match the number of reports");
        if (in->bad)
            break;
        k.numbers += kind == SERIES_REAL || kind == SERIES_INTEGER ? (size_t)n : 0;
        k.texts += kind == SERIES_JSON ? (size_t)n : 0;
        if (kind != SERIES_ABSENT) {
            k.first = k.end ? k.first : i;
            k.end = i + (size_t)n;
        }
        i += (size_t)n;
    }
    return k;
}

static void skip_values(struct series_input *in, size_t count)
{
    struct column_kinds k = get_kinds(in, count);
    get_bytes(in, k.numbers * sizeof(double));
    for (size_t i = 0; i < k.texts && !in->bad; i++)
        get_bytes(in, get_number(in));
}

static void get_texts(struct series_input *in, struct arena *a, struct series_column *c)
{
    size_t count = c->end - c->first;
    c->texts = arena_alloc(a, count * sizeof *c->texts);
    for (size_t i = 0; i < count && !in->bad; i++)
        if (c->kinds[i] == SERIES_JSON) {
            size_t len = get_number(in);
            const char *text = get_bytes(in, len);
            c->texts[i] = text ? arena_strndup(a, text, len) : "null";
        }
}

static void get_values(struct series_input *in, struct arena *a, size_t count,
                       struct series_column *c)
{
    struct column_kinds k = get_kinds(in, count);
    const uint8_t *numbers = get_bytes(in, k.numbers * sizeof(double));
    if (in->bad)
        return;
    c->first = k.first;
    c->end = k.end;
    c->kinds = arena_alloc(a, k.end - k.first);
    c->values = arena_alloc(a, (k.end - k.first) * sizeof *c->values);
    struct series_input runs = {.at = k.at, .end = in->end};
    for (size_t i = 0; i < k.end;) {
        uint64_t run = get_number(&runs);
        size_t n = (size_t)(run >> 2);
        enum series_kind kind = run & 3;
        if (i >= k.first)
            memset(c->kinds + (i - k.first), (int)kind, n);
        if (is_number(kind)) {
            memcpy(c->values + (i - k.first), numbers, n * sizeof(double));
            numbers += n * sizeof(double);
        }
        i += n;
    }
    if (k.texts)
        get_texts(in, a, c);
}

int series_get_column(struct arena *a, const void *data, size_t len, size_t count,
                      struct series_column *out, struct error *e)
{
    struct series_input in;
    input_open(&in, 'C', data, len);
    *out = (struct series_column){.name = out->name};
    get_values(&in, a, count, out);
    return input_close(&in, "a column", e);
}

static bool is_name(const char *name, const void *bytes, size_t len)
{
    return strlen(name) == len && !memcmp(name, bytes, len);
}

// Returns the column for this name; NULL: it is not wanted.
static struct series_column *find_column(struct arena *a, const struct series_names *only,
                                         const void *name, size_t len, struct series_block *out)
{
    for (size_t i = 0; only && i < only->count; i++)
        if (is_name(only->names[i], name, len))
            return out->columns[i].end ? NULL : &out->columns[i];
    if (only)
        return NULL;
    struct series_column *c = &out->columns[out->column_count++];
    c->name = arena_strndup(a, name, len);
    return c;
}

static void get_columns(struct series_input *in, struct arena *a, const struct series_names *only,
                        struct series_block *out)
{
    uint64_t count = get_number(in);
    if (count > (size_t)(in->end - in->at)) // a metric takes more than one byte
        input_fail(in, "the number of metrics is impossible");
    if (in->bad)
        return;
    size_t wanted = only ? only->count : (size_t)count;
    out->columns = arena_alloc(a, wanted * sizeof *out->columns);
    for (size_t i = 0; only && i < only->count; i++)
        out->columns[i].name = only->names[i];
    out->column_count = only ? only->count : 0;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        size_t len = get_number(in);
        const void *name = get_bytes(in, len);
        struct series_column *c = name ? find_column(a, only, name, len, out) : NULL;
        if (c)
            get_values(in, a, out->count, c);
        else
            skip_values(in, out->count);
    }
}

int series_get_block(struct arena *a, const void *data, size_t len, const struct series_names *only,
                     struct series_block *out, struct error *e)
{
    struct series_input in;
    input_open(&in, 'B', data, len);
    get_axis_integers(&in, a, out);
    if (!in.bad)
        get_columns(&in, a, only, out);
    return input_close(&in, "a block", e);
}

bool series_number_at(const struct series_column *c, size_t at, double *out)
{
    if (!is_number(series_kind_at(c, at)))
        return false;
    *out = c->values[at - c->first];
    return true;
}

bool series_value(const struct series_block *b, size_t at, const char *name, double *out)
{
    for (size_t i = 0; i < b->column_count; i++)
        if (!strcmp(b->columns[i].name, name))
            return series_number_at(&b->columns[i], at, out);
    return false;
}
