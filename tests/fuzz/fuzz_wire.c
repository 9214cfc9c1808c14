// Parsers of bytes. The first letter selects the parser:
//
//   j JSON            t the types of a call's body (a byte: which call)
//   l, m log lines    s server-sent events (a byte: where they are cut)    h headers
//   e an enrolment string
//   c a chunk of log lines, as the store has it (two bytes: length of the first blob)
//   a, k, b metrics: an axis, a column (a byte: of how many reports), a block; their checksum is
//   made here
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enrolment.h"
#include "api/http/sse.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text/json.h"
#include "db/logs/loglines.h"
#include "db/metrics/series.h"
#include "master/http/auth/session.h"
#include "master/http/page.h"
#include "master/http/routing/routes.h"
#include "master/http/routing/schemas.h"
#include "master/ingest/log_parse.h"
#include "tests/fuzz/support.h"

// --- JSON ----------------------------------------------------------------------------------------

// A parsed value is written and parsed again with the same result.
static void read_json(struct piece p)
{
    json_t *value = NULL, *again = NULL;
    struct error e;
    if (!json_parse(p.text, p.len, "body", &value, &e)) {
        char *text = json_text(value);
        must(!json_parse(text, strlen(text), "again", &again, &e));
        must(json_equal_as_text(value, again));
        json_deep_merge(again, value);
        free(text);
    }
    json_decref(value);
    json_decref(again);
}

static void check_types(struct piece p)
{
    if (!p.len)
        return;
    const struct route *route = &route_table[(uint8_t)*p.text % route_count];
    json_t *value = NULL;
    struct error e;
    if (route->takes && !json_parse(p.text + 1, p.len - 1, "body", &value, &e))
        schema_check(route->takes, value, &e);
    json_decref(value);
}

// --- log lines -----------------------------------------------------------------------------------

// Every packed line is in the chunk.
static size_t read_packed(const struct log_packed *c)
{
    struct log_chunk chunk = {0};
    struct error e;
    must(!log_chunk_read_origins(&chunk, c->origins, c->origins_len, &e));
    must(!log_chunk_read_lines(&chunk, c->data, c->data_len, &e));
    must(chunk.line_count == (size_t)c->lines);
    for (size_t i = 0; i < chunk.line_count; i++) {
        const struct log_line *line = &chunk.lines[i];
        must(line->origin < chunk.origin_count && strlen(line->text) <= line->len);
        must(line->time >= c->first_time && line->time <= c->last_time);
    }
    size_t count = chunk.line_count;
    log_chunk_free(&chunk);
    return count;
}

static void read_post(body_reader *reader, struct piece p)
{
    struct request rq = {0};
    struct error e;
    char *text = piece_copy(p);
    if (!reader(&rq, text, p.len, &e)) {
        const struct log_post *post = rq.input;
        for (struct log_part *part = post->parts; part; part = part->next) {
            size_t lines = 0;
            for (size_t i = 0; i < part->chunk_count; i++)
                lines += read_packed(&part->chunks[i]);
            must(lines == part->count && lines <= post->lines);
            log_part_drop(part, part->first_sequence);
            must(part->count <= lines);
        }
    }
    if (rq.input)
        rq.input_free(rq.input);
    arena_free(&rq.arena);
    free(text);
}

static void read_chunk(struct piece p)
{
    struct log_chunk chunk = {0};
    struct error e;
    if (p.len < 2)
        return;
    size_t first = (uint8_t)p.text[0] | (size_t)(uint8_t)p.text[1] << 8, rest = p.len - 2;
    first = first < rest ? first : rest;
    char *origins = piece_copy((struct piece){p.text + 2, first});
    char *lines = piece_copy((struct piece){p.text + 2 + first, rest - first});
    if (!log_chunk_read_origins(&chunk, origins, first, &e) &&
        !log_chunk_read_lines(&chunk, lines, rest - first, &e))
        for (size_t i = 0; i < chunk.line_count; i++)
            must(chunk.lines[i].origin < chunk.origin_count &&
                 !chunk.lines[i].text[chunk.lines[i].len]);
    log_chunk_free(&chunk);
    free(origins);
    free(lines);
}

// --- metrics -------------------------------------------------------------------------------------

// The blob with its checksum, in a buffer of exactly that size.
static void *with_sum(struct piece p, size_t *len)
{
    uint32_t crc = crc32c(0, p.text, p.len);
    uint8_t *blob = xcalloc(1, p.len + sizeof crc);
    memcpy(blob, p.text, p.len);
    for (size_t i = 0; i < sizeof crc; i++)
        blob[p.len + i] = (uint8_t)(crc >> 8 * i);
    *len = p.len + sizeof crc;
    return blob;
}

static void use_block(struct arena *a, const struct series_block *b)
{
    struct series_cut cut[] = {{2, 5}, {1, 0}};
    struct series_cuts cuts = {cut, 2};
    struct series_block joined, both[2] = {*b, *b};
    double value;
    series_cuts_sort(&cuts);
    series_join(a, both, 2, &cuts, &joined);
    must(joined.count <= 2 * b->count);
    for (size_t i = 0; i < b->count && b->column_count; i++)
        series_value(b, i, b->columns[i % b->column_count].name, &value);
}

// A parsed value is written and parsed again with the same result.
static void read_block(struct piece p)
{
    struct arena a = {0};
    struct series_block b, again;
    struct buf once, twice;
    struct error e = {0};
    size_t len;
    void *blob = with_sum(p, &len);
    buf_init(&once, SERIES_BLOB_MAX);
    buf_init(&twice, SERIES_BLOB_MAX);
    if (!series_get_block(&a, blob, len, NULL, &b, &e)) {
        series_put_block(&once, &b, 0, b.count);
        must(!series_get_block(&a, once.data, once.len, NULL, &again, &e));
        must(again.count == b.count);
        series_put_block(&twice, &again, 0, again.count);
        must(once.len == twice.len && !memcmp(once.data, twice.data, once.len));
        use_block(&a, &b);
    }
    buf_free(&once);
    buf_free(&twice);
    arena_free(&a);
    free(blob);
}

static void read_axis(struct piece p)
{
    struct arena a = {0};
    struct series_block b = {0}, again = {0};
    struct buf out;
    struct error e = {0};
    size_t len;
    void *blob = with_sum(p, &len);
    buf_init(&out, SERIES_BLOB_MAX);
    if (!series_get_axis(&a, blob, len, &b, &e)) {
        series_put_axis(&out, &b, 0, b.count);
        must(!series_get_axis(&a, out.data, out.len, &again, &e) && again.count == b.count);
        must(!b.count || !memcmp(again.steps, b.steps, b.count * sizeof *b.steps));
    }
    buf_free(&out);
    arena_free(&a);
    free(blob);
}

static void read_column(struct piece p)
{
    struct arena a = {0};
    struct series_column c = {0}, again = {0};
    struct buf out;
    struct error e = {0};
    size_t len, count = p.len ? (uint8_t)*p.text : 0;
    p.text += p.len != 0;
    p.len -= p.len != 0;
    void *blob = with_sum(p, &len);
    buf_init(&out, SERIES_BLOB_MAX);
    if (!series_get_column(&a, blob, len, count, &c, &e) && count) {
        series_put_column(&out, &c, 0, count);
        must(!series_get_column(&a, out.data, out.len, count, &again, &e));
        for (size_t i = 0; i < count; i++)
            must(series_kind_at(&c, i) == series_kind_at(&again, i));
    }
    buf_free(&out);
    arena_free(&a);
    free(blob);
}

// --- server-sent events --------------------------------------------------------------------------

static int take_event(void *ctx, const struct sse_event *event, struct error *e)
{
    (void)e;
    buf_printf(ctx, "%s|%s|%s\n", event->name, event->data, event->id);
    return 0;
}

static void read_events(struct piece p, size_t at_once, struct buf *out)
{
    struct sse s = {0};
    struct error e;
    int err = 0;
    sse_init(&s, 256);
    sse_begin(&s);
    for (size_t at = 0; !err && at < p.len; at += at_once) {
        size_t n = p.len - at < at_once ? p.len - at : at_once;
        err = sse_feed(&s, p.text + at, n, take_event, out, &e);
    }
    buf_printf(out, "%d %lld", err, (long long)s.retry_ms);
    sse_free(&s);
}

// Cutting the stream anywhere gives the same events.
static void read_stream(struct piece p)
{
    struct buf whole, cut;
    if (!p.len)
        return;
    size_t at_once = (size_t)(uint8_t)*p.text % 16 + 1;
    p.text++;
    p.len--;
    buf_init(&whole, 1 << 24);
    buf_init(&cut, 1 << 24);
    read_events(p, p.len + 1, &whole);
    read_events(p, at_once, &cut);
    must(!strcmp(buf_str(&whole), buf_str(&cut)));
    buf_free(&whole);
    buf_free(&cut);
}

// --- headers -------------------------------------------------------------------------------------

// A session is one of the cookies; a word named by a list is in the list.
static void read_headers(struct piece p)
{
    char token[TOKEN_TEXT], *text = piece_copy(p);
    if (session_token(text, token))
        must(strlen(token) == TOKEN_TEXT - 1 && strstr(text, token));
    if (page_header_names(text, "gzip"))
        must(strcasestr(text, "gzip"));
    page_shows("GET", text, text);
    free(text);
}

// --- enrolment strings ---------------------------------------------------------------------------

// A string that is accepted is written again as the same string, but for blanks and capitals.
static void read_enrolment(struct piece p)
{
    struct enrolment s, again;
    struct error e;
    char *text = piece_copy(p), *fingerprint = piece_copy(p), hex[SHA256_HEX];
    if (!enrolment_parse(text, &s, &e)) {
        char *written = enrolment_format(&s);
        must(!enrolment_parse(written, &again, &e) && !strcmp(s.host, again.host) &&
             s.port == again.port && s.authority == again.authority &&
             !strcmp(s.fingerprint, again.fingerprint) && !strcmp(s.token, again.token));
        must(strcasestr(text, written));
        free(written);
    }
    if (!fingerprint_parse(fingerprint, hex, &e))
        must(strlen(hex) == SHA256_HEX - 1);
    free(fingerprint);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece p = {(const char *)data + 1, size - 1};
    switch (size ? *data : 0) {
    case 'j':
        read_json(p);
        break;
    case 't':
        check_types(p);
        break;
    case 'l':
        read_post(log_post_read, p);
        break;
    case 'm':
        read_post(log_list_read, p);
        break;
    case 'c':
        read_chunk(p);
        break;
    case 'a':
        read_axis(p);
        break;
    case 'k':
        read_column(p);
        break;
    case 'b':
        read_block(p);
        break;
    case 's':
        read_stream(p);
        break;
    case 'h':
        read_headers(p);
        break;
    case 'e':
        read_enrolment(p);
        break;
    default:
        return -1;
    }
    return 0;
}
