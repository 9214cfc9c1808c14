// prefetch_get() returns the requested samples, whether the thread or the caller fetches them and
// whatever was requested before.
#include "tests/unit/trainer/data_files.h"

#include "base/clock.h"
#include "base/rng.h"
#include "trainer/data/prefetch.h"
#include "trainer/reduction/sampler.h"

enum { SIZE = 3, SAMPLES = 20, SIDE = 4 };

static const char *const spec = "{\"format\": \"npy\", \"inputs\": \"x\", \"labels\": \"y\","
                                " \"validation_count\": 1, \"augment\": {\"crop\": 1}}";

// Sample i is 16 floats of i + 1; sample `bad` has a NaN.
static void open_data(int bad)
{
    struct buf x, y;
    buf_init(&x, 1 << 16);
    buf_init(&y, 1 << 16);
    buf_append(&x, "\x93NUMPY\1\0\x76\0", 10);
    buf_append(&y, "\x93NUMPY\1\0\x76\0", 10);
    buf_printf(&x, "%-118s", "{'descr':'<f4','fortran_order':False,'shape':(20,4,4)}");
    buf_printf(&y, "%-118s", "{'descr':'|u1','fortran_order':False,'shape':(20,)}");
    for (int i = 0; i < SAMPLES; i++) {
        float value = i == bad ? __builtin_nanf("") : (float)i + 1;
        for (int k = 0; k < SIDE * SIDE; k++)
            buf_append(&x, &value, sizeof value);
        buf_append(&y, &(uint8_t){(uint8_t)(i % 5)}, 1);
    }
    write_buf("x", x);
    write_buf("y", y);
    open_good(spec, "{}");
}

static struct prefetch_request request_for(int64_t number)
{
    return (struct prefetch_request){.cursor = number * SIZE,
                                     .key = {.seed = 9, .step = number / 4}};
}

// Expects the samples of a plain fetch.
static void expect_batch(const struct batch *b, const struct prefetch_request *ask)
{
    int64_t indices[SIZE];
    struct error e;
    struct batch *plain = batch_new(dataset_shape(train), SIZE);
    sampler_indices(ask->key.seed, dataset_count(train), ask->cursor, SIZE, indices);
    assert_int_equal(dataset_fetch(train, indices, SIZE, &ask->key, plain, &e), 0);
    assert_int_equal(b->count, SIZE);
    assert_memory_equal(b->images, plain->images, SIZE * SIDE * SIDE * sizeof(float));
    assert_memory_equal(b->labels, plain->labels, SIZE * sizeof *b->labels);
    assert_memory_equal(b->samples, plain->samples, SIZE * sizeof *b->samples);
    batch_free(plain);
}

static struct batch *batch;

static struct prefetch *prefetch_begin(int bad)
{
    open_data(bad);
    batch = batch_new(dataset_shape(train), SIZE);
    return prefetch_new(train, SIZE);
}

static void prefetch_end(struct prefetch *p)
{
    prefetch_free(p);
    batch_free(batch);
    close_both();
}

static void expect_get(struct prefetch *p, int64_t number)
{
    struct prefetch_request ask = request_for(number);
    struct error e;
    assert_int_equal(prefetch_get(p, &ask, &batch, &e), 0);
    expect_batch(batch, &ask);
}

static void request_number(struct prefetch *p, int64_t number)
{
    struct prefetch_request ask = request_for(number);
    prefetch_request(p, &ask);
}

static void test_as_a_loop_uses_it(void **state)
{
    (void)state;
    struct prefetch *p = prefetch_begin(-1);
    for (int64_t i = 0; i < 3000; i++) {
        expect_get(p, i);
        for (int64_t k = 1; k <= PREFETCH_DEPTH + 1; k++)
            request_number(p, i + k);
    }
    prefetch_end(p);
}

// The thread runs only when the processor is idle, so it may take a while.
static void test_the_thread_fetches(void **state)
{
    (void)state;
    struct prefetch *p = prefetch_begin(-1);
    int64_t i = 0, until = clock_mono_us() + 60 * INT64_C(1000000);
    while (prefetch_hits(p) < 10 && clock_mono_us() < until) {
        request_number(p, i);
        request_number(p, i + 1);
        clock_sleep_us(1000);
        expect_get(p, i++);
        expect_get(p, i++);
    }
    assert_in_range(prefetch_hits(p), 10, i);
    prefetch_end(p);
}

static void test_takes_that_were_not_asked_for(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 4, 1);
    for (int round = 0; round < 50; round++) { // ends while requests are pending
        struct prefetch *p = prefetch_begin(-1);
        for (int i = 0; i < 100; i++) {
            request_number(p, rng_below(&rng, 20));
            if (rng_below(&rng, 3) == 0)
                clock_sleep_us(rng_below(&rng, 50));
            expect_get(p, rng_below(&rng, 20));
        }
        request_number(p, 30);
        request_number(p, 31);
        prefetch_end(p);
    }
}

static void test_errors_come_with_the_take(void **state)
{
    (void)state;
    struct prefetch *p = prefetch_begin(5);
    int failed = 0;
    for (int64_t i = 0; i < 19; i++) { // three epochs
        struct prefetch_request ask = request_for(i);
        struct error e = {0};
        int64_t indices[SIZE];
        bool bad = false;
        sampler_indices(ask.key.seed, dataset_count(train), ask.cursor, SIZE, indices);
        for (int k = 0; k < SIZE; k++)
            bad |= indices[k] == 5;
        for (int64_t k = 0; k < PREFETCH_DEPTH; k++)
            request_number(p, i + k);
        clock_sleep_us(300);
        assert_int_equal(prefetch_get(p, &ask, &batch, &e), bad ? ERR_CORRUPT : 0);
        if (bad)
            assert_non_null(strstr(e.text, "number 0 of sample 5 is nan"));
        else
            expect_batch(batch, &ask);
        failed += bad;
    }
    assert_int_equal(failed, 3);
    prefetch_end(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_loop_uses_it),
        cmocka_unit_test(test_the_thread_fetches),
        cmocka_unit_test(test_takes_that_were_not_asked_for),
        cmocka_unit_test(test_errors_come_with_the_take),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
