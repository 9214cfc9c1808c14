// The encoding of log chunks: packed lines are read again; damage is an error, never a crash.
#include "tests/unit/db/store_test.h"

#include "base/arena.h"
#include "base/rng.h"
#include "db/logs/loglines.h"

struct packed_line { // a line that was packed
    struct log_origin origin;
    int64_t time;
    char text[200];
    size_t len;
};

static struct log_origin origin_of(const char *level, int64_t rank)
{
    return (struct log_origin){.text = {"1.1.1", "agent-1", "container", "task", "stdout", level},
                               .rank = rank};
}

static void read_back(const struct log_packed *packed, struct log_chunk *out)
{
    struct error e = {0};
    if (log_chunk_read_origins(out, packed->origins, packed->origins_len, &e) ||
        log_chunk_read_lines(out, packed->data, packed->data_len, &e))
        fail_msg("%s", e.text);
}

static struct packed_line random_line(struct rng *rng)
{
    static const char *const levels[] = {"INFO", "ERROR", ""};
    struct packed_line g = {
        .origin = origin_of(levels[rng_below(rng, 3)], (int64_t)rng_below(rng, 5) - 1)};
    g.time = rng_below(rng, 50) ? (int64_t)rng_below(rng, 1000000)
                                : (int64_t)((uint64_t)rng_u32(rng) << 32 | rng_u32(rng));
    g.len = rng_below(rng, sizeof g.text);
    for (size_t i = 0; i < g.len; i++)
        g.text[i] = (char)rng_below(rng, rng_below(rng, 2) ? 256 : 4);
    return g;
}

static void assert_same(const struct log_chunk *c, const struct log_line *line,
                        const struct packed_line *g)
{
    const struct log_origin *o = &c->origins[line->origin];
    assert_int_equal(line->time, g->time);
    assert_int_equal(line->len, g->len);
    assert_memory_equal(line->text, g->text, g->len);
    assert_int_equal(line->text[line->len], 0);
    assert_int_equal(o->rank, g->origin.rank);
    for (int i = 0; i < LOG_FIELDS; i++)
        assert_string_equal(o->text[i], g->origin.text[i]);
}

static void packed_lines_are_read(void **state)
{
    (void)state;
    struct rng rng;
    struct log_packer p = {0}; // reused for every chunk
    rng_seed(&rng, 11, 1);
    for (int round = 0; round < 300; round++) {
        size_t count = 1 + rng_below(&rng, 100);
        struct packed_line *given = xcalloc(count, sizeof *given);
        struct log_packed packed;
        struct log_chunk chunk;
        int64_t first = INT64_MAX, last = INT64_MIN;
        for (size_t i = 0; i < count; i++) {
            given[i] = random_line(&rng);
            first = given[i].time < first ? given[i].time : first;
            last = given[i].time > last ? given[i].time : last;
            assert_true(
                log_packer_add(&p, &given[i].origin, given[i].time, given[i].text, given[i].len));
        }
        log_packer_pack(&p, &packed);
        assert_int_equal(packed.lines, count);
        assert_int_equal(packed.first_time, first);
        assert_int_equal(packed.last_time, last);
        read_back(&packed, &chunk);
        assert_int_equal(chunk.line_count, count);
        assert_true(chunk.origin_count <= 15);
        for (size_t i = 0; i < count; i++)
            assert_same(&chunk, &chunk.lines[i], &given[i]);
        log_chunk_free(&chunk);
        log_packed_free(&packed);
        free(given);
    }
    log_packer_free(&p);
}

static struct log_packed pack_steps(int count)
{
    struct log_packer p = {0};
    struct log_packed packed;
    for (int i = 0; i < count; i++) {
        char text[64];
        const struct log_origin o = origin_of(i % 9 ? "INFO" : "WARNING", i % 3);
        int len = snprintf(text, sizeof text, "step %d: loss %f", i, 1.0 / (i + 1));
        assert_true(log_packer_add(&p, &o, i, text, (size_t)len));
    }
    log_packer_pack(&p, &packed);
    log_packer_free(&p);
    return packed;
}

static void many_lines_are_compressed(void **state)
{
    (void)state;
    struct log_packed packed = pack_steps(5000);
    assert_true((int64_t)packed.data_len * 3 < packed.bytes);
    assert_true(packed.origins_len < 128);
    log_packed_free(&packed);
}

// A packer is full by bytes, by lines or by origins: each is tested at its limit and one beyond.
static void a_full_packer_refuses_lines(void **state)
{
    (void)state;
    struct log_packed packed;
    struct log_packer p = {0};
    struct log_origin o = origin_of("INFO", 0);
    char *large = xcalloc(LOG_CHUNK_BYTES, 1);
    for (int i = 0; i < LOG_CHUNK_LINES; i++)
        assert_true(log_packer_add(&p, &o, 1, "", 0));
    assert_false(log_packer_add(&p, &o, 1, "", 0));
    log_packer_pack(&p, &packed);
    assert_int_equal(packed.lines, LOG_CHUNK_LINES);
    log_packed_free(&packed);

    assert_true(
        log_packer_add(&p, &o, 1, large, LOG_CHUNK_BYTES - 7)); // 3 + 2 bytes beside the text
    assert_true(log_packer_add(&p, &o, 1, large, LOG_CHUNK_BYTES));
    assert_false(log_packer_add(&p, &o, 1, "", 0));
    log_packer_pack(&p, &packed);
    log_packed_free(&packed);

    for (o.rank = 0; o.rank < LOG_CHUNK_ORIGINS; o.rank++)
        assert_true(log_packer_add(&p, &o, 1, "x", 1));
    assert_false(log_packer_add(&p, &o, 1, "x", 1));
    o.rank--;
    assert_true(log_packer_add(&p, &o, 1, "x", 1));
    log_packer_free(&p);
    free(large);
}

static int read_quietly(const char *origins, size_t origins_len, const char *data, size_t data_len)
{
    struct log_chunk chunk;
    struct error e = {0};
    int err = log_chunk_read_origins(&chunk, origins, origins_len, &e);
    if (!err)
        err = log_chunk_read_lines(&chunk, data, data_len, &e);
    if (err) {
        assert_int_equal(err, ERR_CORRUPT);
        assert_non_null(strstr(e.text, "damaged"));
        assert_null(chunk.origins);
    }
    for (size_t i = 0; i < chunk.line_count; i++) { // every accepted line can be read
        assert_true(chunk.lines[i].origin < chunk.origin_count);
        assert_int_equal(chunk.lines[i].text[chunk.lines[i].len], 0);
    }
    log_chunk_free(&chunk);
    return err;
}

static void damage_is_an_error(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 12, 1);
    for (int count = 3; count <= 300; count += 297) { // without and with compression
        struct log_packed c = pack_steps(count);
        int refused = 0;
        assert_int_equal(c.data[0], count == 3 ? 1 : 2);
        for (size_t cut = 0; cut < c.origins_len; cut++)
            assert_int_equal(read_quietly(c.origins, cut, c.data, c.data_len), ERR_CORRUPT);
        for (size_t cut = 0; cut < c.data_len; cut++)
            assert_int_equal(read_quietly(c.origins, c.origins_len, c.data, cut), ERR_CORRUPT);
        for (int i = 0; i < 20000; i++) {
            char *blob = i % 2 ? c.origins : c.data;
            size_t at = rng_below(&rng, (uint32_t)(i % 2 ? c.origins_len : c.data_len));
            char was = blob[at];
            blob[at] = (char)rng_u32(&rng);
            refused += read_quietly(c.origins, c.origins_len, c.data, c.data_len) != 0;
            blob[at] = was;
        }
        assert_true(refused > 5000);
        log_packed_free(&c);
    }
}

static void random_bytes_are_an_error(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 13, 1);
    for (int i = 0; i < 20000; i++) {
        char origins[40], data[80];
        for (size_t k = 0; k < sizeof origins; k++)
            origins[k] = (char)rng_below(&rng, 8);
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (char)rng_u32(&rng);
        origins[0] = 1;
        data[0] = (char)(1 + i % 2);
        read_quietly(origins, rng_below(&rng, sizeof origins), data, sizeof data);
    }
    static const char huge[] = "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01xx";
    struct log_packed c = pack_steps(3);
    assert_int_equal(read_quietly(c.origins, c.origins_len, huge, sizeof huge), ERR_CORRUPT);
    log_packed_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_lines_are_read),       cmocka_unit_test(many_lines_are_compressed),
        cmocka_unit_test(a_full_packer_refuses_lines), cmocka_unit_test(damage_is_an_error),
        cmocka_unit_test(random_bytes_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
