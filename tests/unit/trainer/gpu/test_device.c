// The GPU itself: the errors without a GPU; with one its memory, copies and rounding.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/device.h"

static bool have_gpu;

static void test_no_gpu(void **state)
{
    (void)state;
    struct error e;
    if (have_gpu)
        skip();
    assert_int_equal(ops_open(OPS_BF16, &e), ERR_NOT_FOUND);
    assert_true(strstr(e.text, "no NVIDIA driver") || strstr(e.text, "finds no GPU"));
    assert_true(strstr(e.text, "CPU slots") || strstr(e.text, "nvidia-smi")); // what to do
    ops_close();
}

static void test_copies(void **state)
{
    (void)state;
    enum { N = 1000 };
    float sent[N], back[N];
    struct error e;
    void *block, *copy;
    if (!have_gpu)
        skip();
    assert_int_equal(ops_open(OPS_FLOAT, &e), 0);
    assert_int_equal(ops_alloc(sizeof sent, &block, &e), 0);
    assert_int_equal(ops_alloc(sizeof sent, &copy, &e), 0);
    assert_int_equal((uintptr_t)block % 256, 0);
    ops_download(back, block, sizeof back);
    assert_int_equal(ops_synchronize(&e), 0);
    for (int i = 0; i < N; i++) {
        assert_true(back[i] == 0);
        sent[i] = (float)i;
    }
    ops_upload(block, sent, sizeof sent);
    memset(sent, 0, sizeof sent); // the upload has already read it
    ops_copy(copy, block, sizeof sent);
    ops_zero(copy, sizeof sent / 2);
    ops_download(back, copy, sizeof back);
    assert_int_equal(ops_synchronize(&e), 0);
    for (int i = 0; i < N; i++)
        assert_true(back[i] == (i < N / 2 ? 0.0f : (float)i));
    ops_free(block);
    ops_free(copy);
    ops_close();
}

static void test_rounding(void **state)
{
    (void)state;
    static const float numbers[] = {1.0f,     1.00390625f, 1.01171875f, -3.14159f,
                                    3.39e38f, 3.4e38f,     1e-40f,      NAN};
    static const float rounded[] = {1.0f,         1.0f,     1.015625f, -3.140625f,
                                    0x1.fep+127f, INFINITY, 0x1p-133f, NAN};
    enum { N = sizeof numbers / sizeof numbers[0] };
    float back[N];
    struct error e;
    void *reals;
    if (!have_gpu)
        skip();
    assert_int_equal(ops_open(OPS_BF16, &e), 0);
    assert_int_equal(ops_floats_for_reals(5), 3);
    assert_int_equal(ops_alloc(sizeof back, &reals, &e), 0);
    ops_upload_reals(N, numbers, reals);
    ops_download_reals(N, reals, back);
    assert_int_equal(ops_synchronize(&e), 0);
    for (int i = 0; i < N; i++)
        assert_true(back[i] == rounded[i] || (isnan(back[i]) && isnan(rounded[i])));
    ops_free(reals);
    ops_close();
}

// --- replayed work: op by op, recorded, then as a graph ------------------------------------------

enum { REPEATED = 1000 };

struct device_relay {
    real *a, *b;
    uint64_t *key;
    int64_t *sample;
    uint8_t *keep;
    int turns; // number of host calls
};

static void take_turn(void *ctx)
{
    ((struct device_relay *)ctx)->turns++;
}

static void hand_on(void *ctx)
{
    const struct device_relay *r = ctx;
    const struct ops_dropout draw = {r->key, 0.5, r->sample};
    ops_copy(r->b, r->a, REPEATED * sizeof(float));
    ops_call_host(take_turn, ctx);
    ops_add(REPEATED, r->b, r->a, r->b);
    ops_dropout_forward(1, REPEATED, &draw, r->b, r->b, r->keep);
    ops_call_host(take_turn, ctx);
}

static void *device_new(size_t bytes)
{
    struct error e;
    void *p = NULL;
    assert_int_equal(ops_alloc(bytes, &p, &e), 0);
    return p;
}

static void relay_once(struct ops_recording **recording, struct device_relay *r, int round)
{
    float sent[REPEATED], back[REPEATED];
    uint8_t keep[REPEATED];
    uint64_t key = (uint64_t)round;
    struct error e;
    int kept = 0;
    for (int i = 0; i < REPEATED; i++)
        sent[i] = (float)(i + round);
    ops_upload(r->a, sent, sizeof sent);
    ops_upload(r->key, &key, sizeof key);
    ops_replay(recording, hand_on, r);
    ops_download(back, r->b, sizeof back);
    ops_download(keep, r->keep, sizeof keep);
    assert_int_equal(ops_synchronize(&e), 0);
    assert_int_equal(r->turns, 2 * (round + 1));
    for (int i = 0; i < REPEATED; i++) {
        assert_true(back[i] == (keep[i] ? 4 * sent[i] : 0)); // what is kept is doubled
        kept += keep[i];
    }
    assert_true(kept > REPEATED / 3 && kept < REPEATED * 2 / 3);
}

static void test_repeated_work(void **state)
{
    (void)state;
    struct error e;
    if (!have_gpu)
        skip();
    assert_int_equal(ops_open(OPS_FLOAT, &e), 0);
    struct device_relay r = {device_new(REPEATED * sizeof(float)),
                             device_new(REPEATED * sizeof(float)),
                             device_new(sizeof(uint64_t)),
                             device_new(sizeof(int64_t)),
                             device_new(REPEATED),
                             0};
    struct ops_recording *recording = NULL;
    uint8_t keep[6][REPEATED];
    for (int round = 0; round < 6; round++) {
        relay_once(&recording, &r, round);
        ops_download(keep[round], r.keep, REPEATED);
        assert_int_equal(ops_synchronize(&e), 0);
        for (int earlier = 0; earlier < round; earlier++) // keys are read again each time
            assert_memory_not_equal(keep[earlier], keep[round], REPEATED);
    }
    ops_recording_free(recording);
    ops_free(r.a);
    ops_free(r.b);
    ops_free(r.key);
    ops_free(r.sample);
    ops_free(r.keep);
    ops_close();
}

static void test_no_memory(void **state)
{
    (void)state;
    struct error e;
    void *block;
    if (!have_gpu)
        skip();
    assert_int_equal(ops_open(OPS_BF16, &e), 0);
    assert_int_equal(ops_alloc((size_t)1 << 50, &block, &e), ERR_NO_MEMORY);
    assert_non_null(strstr(e.text, "MiB are free"));
    assert_null(block);
    assert_int_equal(ops_synchronize(&e), 0); // the error was reported and cleared
    ops_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_gpu),    cmocka_unit_test(test_copies),
        cmocka_unit_test(test_rounding),  cmocka_unit_test(test_repeated_work),
        cmocka_unit_test(test_no_memory),
    };
    struct error e;
    have_gpu = ops_open(OPS_BF16, &e) == 0;
    ops_close();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
