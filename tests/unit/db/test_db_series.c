// Blobs of metrics: blocks are read bit for bit as they were written; damage is reported, never
// read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "db/metrics/series_json.h"

enum { ROUNDS = 300, REPORTS = 40, COLUMNS = 6 };

static struct rng rng;

static uint64_t rng_next(struct rng *r)
{
    uint64_t high = rng_u32(r);
    return high << 32 | rng_u32(r);
}

static int64_t any_integer(void)
{
    static const int64_t odd[] = {0, 1, -1, INT64_MIN, INT64_MAX, 1700000000000000};
    return rng_below(&rng, 4) ? (int64_t)rng_next(&rng) >> rng_below(&rng, 63)
                              : odd[rng_below(&rng, sizeof odd / sizeof *odd)];
}

static double any_double(void)
{
    uint64_t bits = rng_next(&rng);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static int64_t *integers(struct arena *a, size_t count)
{
    int64_t *out = arena_alloc(a, count * sizeof *out), first = any_integer();
    bool strides = rng_below(&rng, 2);
    for (size_t i = 0; i < count; i++)
        out[i] = strides ? (int64_t)((uint64_t)first + i * 10) : any_integer();
    return out;
}

static void fill_column(struct arena *a, struct series_column *c, size_t count)
{
    static const char *const texts[] = {"null", "\"text\"", "[1,{\"a\":2}]", "true"};
    unsigned like = rng_below(&rng, 5); // 0-3: all of one kind
    c->end = count;
    c->kinds = arena_alloc(a, count);
    c->values = arena_alloc(a, count * sizeof *c->values);
    c->texts = arena_alloc(a, count * sizeof *c->texts);
    for (size_t i = 0; i < count; i++) {
        c->kinds[i] = (uint8_t)(like < 4 ? like : rng_below(&rng, 4));
        if (c->kinds[i] == SERIES_REAL)
            c->values[i] = any_double();
        if (c->kinds[i] == SERIES_INTEGER)
            c->values[i] = (double)((int64_t)rng_next(&rng) >> 11);
        if (c->kinds[i] == SERIES_JSON)
            c->texts[i] = texts[rng_below(&rng, 4)];
    }
}

static void any_block(struct arena *a, struct series_block *b)
{
    *b = (struct series_block){.count = 1 + rng_below(&rng, REPORTS), .column_count = COLUMNS};
    b->ids = integers(a, b->count);
    b->runs = integers(a, b->count);
    b->steps = integers(a, b->count);
    b->times = integers(a, b->count);
    b->columns = arena_alloc(a, COLUMNS * sizeof *b->columns);
    for (int i = 0; i < COLUMNS; i++) {
        b->columns[i].name = arena_printf(a, "metric/%d", i);
        fill_column(a, &b->columns[i], b->count);
    }
}

static void expect_axis(const struct series_block *b, const struct series_block *got)
{
    assert_int_equal(got->count, b->count);
    assert_memory_equal(got->ids, b->ids, b->count * sizeof *b->ids);
    assert_memory_equal(got->runs, b->runs, b->count * sizeof *b->runs);
    assert_memory_equal(got->steps, b->steps, b->count * sizeof *b->steps);
    assert_memory_equal(got->times, b->times, b->count * sizeof *b->times);
}

static void expect_column(const struct series_column *c, const struct series_column *got,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(series_kind_at(got, i), c->kinds[i]);
        if (c->kinds[i] == SERIES_JSON)
            assert_string_equal(got->texts[i - got->first], c->texts[i]);
        else if (c->kinds[i] != SERIES_ABSENT)
            assert_memory_equal(&got->values[i - got->first], &c->values[i], sizeof(double));
    }
}

static const struct series_column *column(const struct series_block *b, const char *name)
{
    for (size_t i = 0; i < b->column_count; i++)
        if (!strcmp(b->columns[i].name, name) && b->columns[i].end)
            return &b->columns[i];
    return NULL;
}

static bool is_absent(const struct series_column *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (c->kinds[i] != SERIES_ABSENT)
            return false;
    return true;
}

static void expect_columns(const struct series_block *b, const struct series_block *got)
{
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *c = column(got, b->columns[i].name);
        if (c)
            expect_column(&b->columns[i], c, b->count);
        else
            assert_true(is_absent(&b->columns[i], b->count));
    }
}

static void test_round_trips(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, SERIES_BLOB_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct arena arena = {0};
        struct series_block b, got;
        struct series_column one = {.name = "x"};
        struct error e = {0};
        any_block(&arena, &b);

        buf_reset(&out);
        series_put_block(&out, &b, 0, b.count);
        assert_int_equal(series_get_block(&arena, out.data, out.len, NULL, &got, &e), 0);
        expect_axis(&b, &got);
        expect_columns(&b, &got);

        const char *const names[] = {"metric/3", "unknown"};
        const struct series_names only = {names, 2};
        assert_int_equal(series_get_block(&arena, out.data, out.len, &only, &got, &e), 0);
        assert_int_equal(got.column_count, 2);
        assert_false(series_has(&got.columns[1], 0, got.count));
        if (got.columns[0].end)
            expect_column(&b.columns[3], &got.columns[0], b.count);

        buf_reset(&out);
        series_put_axis(&out, &b, 0, b.count);
        assert_int_equal(series_get_axis(&arena, out.data, out.len, &got, &e), 0);
        expect_axis(&b, &got);

        buf_reset(&out);
        series_put_column(&out, &b.columns[0], 0, b.count);
        assert_int_equal(series_get_column(&arena, out.data, out.len, b.count, &one, &e), 0);
        expect_column(&b.columns[0], &one, b.count);
        arena_free(&arena);
    }
    buf_free(&out);
}

// Every later version must be able to read blobs of the store.
static void test_known_bytes(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct buf out;
    int64_t ids[] = {7, 8, 9}, runs[] = {1, 1, 1}, steps[] = {10, 20, 30}, times[] = {5, 7, 6};
    uint8_t kinds[] = {SERIES_REAL, SERIES_INTEGER, SERIES_JSON};
    double values[] = {0.5, 2, 0};
    const char *texts[] = {NULL, NULL, "null"};
    struct series_column c = {"loss", 0, 3, kinds, values, texts};
    const struct series_block b = {3, ids, runs, steps, times, 1, &c};
    char hex[256];
    buf_init(&out, SERIES_BLOB_MAX);
    series_put_block(&out, &b, 0, 3);
    hex_encode(out.data, out.len, hex);
    assert_string_equal(hex, "420103"
                             "000e02"
                             "000200"
                             "001414"
                             "010a0401"
                             "01046c6f7373"
                             "050607"
                             "000000000000e03f0000000000000040"
                             "046e756c6c"
                             "eb549261");
    buf_free(&out);
    arena_free(&arena);
}

static int read_any(struct arena *a, int what, size_t count, const void *data, size_t len)
{
    struct series_block b;
    struct series_column c = {.name = "x"};
    struct error e = {0};
    int err = what == 0   ? series_get_block(a, data, len, NULL, &b, &e)
              : what == 1 ? series_get_axis(a, data, len, &b, &e)
                          : series_get_column(a, data, len, count, &c, &e);
    if (err) {
        assert_int_equal(err, ERR_CORRUPT);
        assert_non_null(strstr(e.text, "damaged"));
    }
    return err;
}

// Changes one byte anywhere, or removes the last.
static void test_damage_is_reported(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct buf out;
    struct series_block b;
    buf_init(&out, SERIES_BLOB_MAX);
    any_block(&arena, &b);
    series_put_block(&out, &b, 0, b.count);
    for (size_t i = 0; i < out.len; i++) {
        assert_int_equal(read_any(&arena, 0, 0, out.data, i), ERR_CORRUPT);
        out.data[i] ^= (char)(1 << i % 8);
        assert_int_equal(read_any(&arena, 0, 0, out.data, out.len), ERR_CORRUPT);
        out.data[i] ^= (char)(1 << i % 8);
    }
    assert_int_equal(read_any(&arena, 0, 0, out.data, out.len), 0);
    assert_int_equal(read_any(&arena, 1, 0, out.data, out.len),
                     ERR_CORRUPT); // a block is not an axis
    buf_free(&out);
    arena_free(&arena);
}

// Random bytes with the right checksum: an error or a block, but never a crash.
static void test_changed_bytes(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct buf out;
    int refused = 0;
    buf_init(&out, SERIES_BLOB_MAX);
    for (int round = 0; round < 20000; round++) {
        struct series_block b;
        int what = (int)rng_below(&rng, 3);
        any_block(&arena, &b);
        buf_reset(&out);
        if (what == 0)
            series_put_block(&out, &b, 0, b.count);
        if (what == 1)
            series_put_axis(&out, &b, 0, b.count);
        if (what == 2)
            series_put_column(&out, &b.columns[0], 0, b.count);
        size_t len = out.len - 4;
        for (unsigned i = rng_below(&rng, 4); i > 0; i--)
            out.data[2 + rng_below(&rng, (uint32_t)len - 2)] = (char)rng_u32(&rng);
        if (!rng_below(&rng, 4))
            len = 2 + rng_below(&rng, (uint32_t)len - 2);
        uint32_t crc = crc32c(0, out.data, len);
        memcpy(out.data + len, &crc, sizeof crc);
        refused += read_any(&arena, what, b.count, out.data, len + sizeof crc) != 0;
        arena_reset(&arena);
    }
    assert_true(refused > 4000 && refused < 16000);
    buf_free(&out);
    arena_free(&arena);
}

static void test_json(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct series_block b, got;
    struct error e = {0};
    struct buf out, text;
    struct json_writer w;
    const char values[] = "{\"loss\":0.1,\"whole\":3.0,\"count\":3,\"big\":9007199254740993,"
                          "\"gone\":null,\"flag\":true,\"list\":[1,{\"a\":\"b\"}],\"nan\":\"NaN\","
                          "\"low\":\"-Infinity\",\"note\":\"x\",\"\":-0.0}";
    json_t *v = json_loads(values, 0, NULL), *batches = json_loads("[{\"loss\":1}]", 0, NULL);
    buf_init(&out, SERIES_BLOB_MAX);
    buf_init(&text, 4096);
    assert_int_equal(series_from_json(&arena, v, batches, &b, &e), 0);
    series_put_block(&out, &b, 0, 1);
    assert_int_equal(series_get_block(&arena, out.data, out.len, NULL, &got, &e), 0);
    jw_init(&w, &text);
    series_write_values(&w, &got, 0);
    assert_string_equal(buf_str(&text), values);
    assert_string_equal(series_batches(&got, 0), "[{\"loss\":1}]");
    json_decref(v);
    json_decref(batches);

    v = json_pack("{s:i}", SERIES_BATCHES, 1);
    assert_int_equal(series_from_json(&arena, v, NULL, &b, &e), ERR_INVALID);
    json_decref(v);
    char name[1100];
    memset(name, 'x', sizeof name);
    for (size_t len = 1024; len <= 1025; len++) {
        name[len] = '\0';
        v = json_pack("{s:i}", name, 1);
        assert_int_equal(series_from_json(&arena, v, NULL, &b, &e), len > 1024 ? ERR_TOO_LARGE : 0);
        json_decref(v);
        name[len] = 'x';
    }
    buf_free(&out);
    buf_free(&text);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_known_bytes),
        cmocka_unit_test(test_damage_is_reported),
        cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_json),
    };
    rng_seed(&rng, 11, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
