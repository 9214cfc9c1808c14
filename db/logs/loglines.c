#include "db/logs/loglines.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"

enum {
    VERSION = 1,
    PLAIN = 1,
    DEFLATED = 2,
    LEVEL = 1, // compression level of zlib: twice as fast as its default, a tenth more bytes
    DEFLATE_MIN_BYTES = 512, // bytes
    VARINT_MAX = 10,
    LINES_FIRST = 256,
};

// --- packing -------------------------------------------------------------------------------------

static void put_varint(struct buf *b, uint64_t value)
{
    unsigned char bytes[VARINT_MAX];
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    buf_append(b, bytes, n);
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static bool origins_equal(const struct log_origin *a, const struct log_origin *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < LOG_FIELDS && same; i++)
        same = a->text[i] == b->text[i] || !strcmp(a->text[i], b->text[i]);
    return same;
}

static uint64_t origin_hash(const struct log_origin *o)
{
    uint64_t hash = hash64(&o->rank, sizeof o->rank);
    for (int i = 0; i < LOG_FIELDS; i++)
        hash = hash * 31 + hash64(o->text[i], strlen(o->text[i]));
    return hash;
}

static uint32_t packer_add_text(struct log_packer *p, const char *text)
{
    for (size_t i = 0; i < p->text_count; i++)
        if (!strcmp(p->texts[i], text))
            return (uint32_t)i;
    if (p->text_count == p->text_cap) {
        p->text_cap = p->text_cap ? 2 * p->text_cap : 16;
        p->texts = xrealloc(p->texts, p->text_cap * sizeof *p->texts);
    }
    p->texts[p->text_count] = arena_strdup(&p->arena, text);
    return (uint32_t)p->text_count++;
}

static void packer_add_origin(struct log_packer *p, const struct log_origin *o, uint64_t hash)
{
    if (p->origin_count == p->origin_cap) {
        p->origin_cap = p->origin_cap ? 2 * p->origin_cap : 8;
        p->origins = xrealloc(p->origins, p->origin_cap * sizeof *p->origins);
    }
    struct log_packer_origin *kept = &p->origins[p->origin_count++];
    *kept = (struct log_packer_origin){.origin.rank = o->rank, .hash = hash};
    for (int i = 0; i < LOG_FIELDS; i++) {
        kept->numbers[i] = packer_add_text(p, o->text[i]);
        kept->origin.text[i] = p->texts[kept->numbers[i]];
    }
}

// Returns the number of the origin, which is added if it is new. LOG_CHUNK_ORIGINS: the table is
// full.
static size_t packer_origin_number(struct log_packer *p, const struct log_origin *o)
{
    if (p->origin_count && origins_equal(&p->origins[p->last].origin, o))
        return p->last;
    uint64_t hash = origin_hash(o);
    for (size_t i = 0; i < p->origin_count; i++)
        if (p->origins[i].hash == hash && origins_equal(&p->origins[i].origin, o))
            return i;
    if (p->origin_count < LOG_CHUNK_ORIGINS)
        packer_add_origin(p, o, hash);
    else
        return LOG_CHUNK_ORIGINS;
    return p->origin_count - 1;
}

bool log_packer_add(struct log_packer *p, const struct log_origin *origin, int64_t time,
                    const char *text, size_t len)
{
    if (p->lines.len >= LOG_CHUNK_BYTES || p->count == LOG_CHUNK_LINES)
        return false;
    size_t number = packer_origin_number(p, origin);
    if (number == LOG_CHUNK_ORIGINS)
        return false;
    if (!p->lines.limit)
        buf_init(&p->lines, LOG_CHUNK_MAX);
    if (!p->count) {
        p->first_time = p->last_time = time;
        p->time = 0;
    }
    put_varint(&p->lines, number);
    put_varint(&p->lines, zigzag((int64_t)((uint64_t)time - (uint64_t)p->time)));
    put_varint(&p->lines, len);
    buf_append(&p->lines, text, len);
    buf_append(&p->lines, "", 1);
    p->last = number;
    p->time = time;
    p->first_time = time < p->first_time ? time : p->first_time;
    p->last_time = time > p->last_time ? time : p->last_time;
    p->count++;
    return true;
}

static void pack_origins(const struct log_packer *p, struct buf *out)
{
    buf_init(out, LOG_CHUNK_MAX);
    buf_append(out, &(char){VERSION}, 1);
    put_varint(out, p->text_count);
    for (size_t i = 0; i < p->text_count; i++) {
        size_t len = strlen(p->texts[i]);
        put_varint(out, len);
        buf_append(out, p->texts[i], len);
    }
    put_varint(out, p->origin_count);
    for (size_t i = 0; i < p->origin_count; i++) {
        for (int k = 0; k < LOG_FIELDS; k++)
            put_varint(out, p->origins[i].numbers[k]);
        put_varint(out, zigzag(p->origins[i].origin.rank));
    }
}

static void put_data_head(struct buf *out, char kind, size_t len)
{
    buf_reset(out);
    buf_append(out, &kind, 1);
    put_varint(out, len);
}

// Writes the lines without compression if that is shorter.
static void pack_lines(const struct buf *lines, struct buf *out)
{
    uLongf room = compressBound(lines->len);
    char *deflated = lines->len >= DEFLATE_MIN_BYTES ? xcalloc(room, 1) : NULL;
    buf_init(out, LOG_CHUNK_MAX + 64);
    if (deflated &&
        compress2((Bytef *)deflated, &room, (const Bytef *)lines->data, lines->len, LEVEL) ==
            Z_OK &&
        room < lines->len) {
        put_data_head(out, DEFLATED, lines->len);
        buf_append(out, deflated, room);
    } else {
        put_data_head(out, PLAIN, lines->len);
        buf_append(out, lines->data, lines->len);
    }
    free(deflated);
}

void log_packer_pack(struct log_packer *p, struct log_packed *out)
{
    struct buf origins, data;
    must(p->count && !p->lines.err);
    pack_origins(p, &origins);
    pack_lines(&p->lines, &data);
    *out = (struct log_packed){.lines = p->count,
                               .bytes = (int64_t)p->lines.len,
                               .first_time = p->first_time,
                               .last_time = p->last_time,
                               .origins_len = origins.len,
                               .data_len = data.len};
    out->origins = buf_take(&origins);
    out->data = buf_take(&data);
    buf_reset(&p->lines);
    arena_reset(&p->arena);
    p->count = 0;
    p->text_count = p->origin_count = p->last = 0;
}

void log_packer_free(struct log_packer *p)
{
    arena_free(&p->arena);
    buf_free(&p->lines);
    free(p->texts);
    free(p->origins);
    *p = (struct log_packer){0};
}

void log_packed_free(struct log_packed *c)
{
    free(c->origins);
    free(c->data);
    *c = (struct log_packed){0};
}

// --- reading -------------------------------------------------------------------------------------

struct log_chunk_input {
    const unsigned char *at, *end;
    bool bad; // once set, every read returns 0
};

static uint64_t get_varint(struct log_chunk_input *in)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            break;
        unsigned char byte = *in->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    in->bad = true;
    return 0;
}

static int64_t get_signed(struct log_chunk_input *in)
{
    uint64_t value = get_varint(in);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

// Reads a number below `limit`.
static size_t get_number_below(struct log_chunk_input *in, size_t limit)
{
    uint64_t value = get_varint(in);
    in->bad |= value >= limit;
    return in->bad ? 0 : (size_t)value;
}

static const void *get_bytes(struct log_chunk_input *in, size_t len)
{
    const void *bytes = in->at;
    if (len > (size_t)(in->end - in->at)) {
        in->bad = true;
        return NULL;
    }
    in->at += len;
    return bytes;
}

static int chunk_damaged(struct log_chunk *out, const char *what, struct error *e)
{
    log_chunk_free(out);
    return error_set(e, ERR_CORRUPT, "a chunk of log lines is damaged (%s)", what);
}

// Copies the texts to out->texts, each with a 0 after it, and their addresses to `starts`.
static void read_texts(struct log_chunk *out, struct log_chunk_input *in, const char **starts,
                       size_t count, size_t room)
{
    char *to = out->texts = xcalloc(room, 1);
    for (size_t i = 0; i < count && !in->bad; i++) {
        size_t len = get_number_below(in, room);
        const void *bytes = get_bytes(in, len);
        if (!bytes)
            return;
        memcpy(to, bytes, len);
        starts[i] = to;
        to += len + 1;
    }
}

int log_chunk_read_origins(struct log_chunk *out, const void *origins, size_t len, struct error *e)
{
    *out = (struct log_chunk){0};
    struct log_chunk_input in = {.at = origins, .end = (const unsigned char *)origins + len};
    if (!len || *in.at++ != VERSION)
        return chunk_damaged(out, "unknown version", e);
    // Each text has at least one byte for its length, so `len` bytes hold all texts with a 0
    // instead.
    size_t texts = get_number_below(&in, (size_t)LOG_CHUNK_ORIGINS * LOG_FIELDS + 1);
    const char **starts = xcalloc(texts + 1, sizeof *starts);
    read_texts(out, &in, starts, texts, len);
    size_t count = in.bad ? 0 : get_number_below(&in, LOG_CHUNK_ORIGINS + 1);
    out->origins = xcalloc(count + 1, sizeof *out->origins);
    for (; out->origin_count < count && !in.bad; out->origin_count++) {
        struct log_origin *o = &out->origins[out->origin_count];
        for (int i = 0; i < LOG_FIELDS; i++)
            o->text[i] = starts[get_number_below(&in, texts)];
        o->rank = get_signed(&in);
    }
    free(starts);
    if (in.bad || in.at != in.end)
        return chunk_damaged(out, "invalid origins", e);
    return 0;
}

static bool unpack_lines(struct log_chunk *out, struct log_chunk_input *in, char kind, size_t len)
{
    size_t left = (size_t)(in->end - in->at);
    uLongf got = len;
    out->text = xcalloc(len + 1, 1);
    if (kind == PLAIN && left == len)
        memcpy(out->text, in->at, len);
    else if (kind != DEFLATED || uncompress((Bytef *)out->text, &got, in->at, left) != Z_OK ||
             got != len)
        return false;
    *in = (struct log_chunk_input){.at = (const unsigned char *)out->text,
                                   .end = (const unsigned char *)out->text + len};
    return true;
}

static void chunk_add_line(struct log_chunk *out, size_t *cap, const struct log_line *line)
{
    if (out->line_count == *cap) {
        *cap = *cap ? 2 * *cap : LINES_FIRST;
        out->lines = xrealloc(out->lines, *cap * sizeof *out->lines);
    }
    out->lines[out->line_count++] = *line;
}

int log_chunk_read_lines(struct log_chunk *out, const void *data, size_t len, struct error *e)
{
    struct log_chunk_input in = {.at = data, .end = (const unsigned char *)data + len};
    size_t cap = 0;
    char kind = len ? (char)*in.at++ : 0;
    size_t bytes = get_number_below(&in, LOG_CHUNK_MAX + 1);
    if (in.bad || !unpack_lines(out, &in, kind, bytes))
        return chunk_damaged(out, "it cannot be unpacked", e);
    uint64_t time = 0;
    while (in.at != in.end && !in.bad) {
        struct log_line line = {.origin = (uint32_t)get_number_below(&in, out->origin_count)};
        time += (uint64_t)get_signed(&in);
        line.time = (int64_t)time;
        line.len = (uint32_t)get_number_below(&in, bytes);
        line.text = get_bytes(&in, line.len);
        const char *stop = get_bytes(&in, 1);
        in.bad |= !line.text || !stop || *stop;
        if (!in.bad)
            chunk_add_line(out, &cap, &line);
    }
    return in.bad ? chunk_damaged(out, "invalid lines", e) : 0;
}

void log_chunk_free(struct log_chunk *c)
{
    free(c->origins);
    free(c->lines);
    free(c->texts);
    free(c->text);
    *c = (struct log_chunk){0};
}
