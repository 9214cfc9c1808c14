// The GPU itself: what is said where there is none, else its memory, copies and rounding.
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
    assert_int_equal(ops_wait(&e), 0);
    for (int i = 0; i < N; i++) {
        assert_true(back[i] == 0);
        sent[i] = (float)i;
    }
    ops_upload(block, sent, sizeof sent);
    memset(sent, 0, sizeof sent); // the host's memory was read
    ops_copy(copy, block, sizeof sent);
    ops_zero(copy, sizeof sent / 2);
    ops_download(back, copy, sizeof back);
    assert_int_equal(ops_wait(&e), 0);
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
    assert_int_equal(ops_floats_of_reals(5), 3);
    assert_int_equal(ops_alloc(sizeof back, &reals, &e), 0);
    ops_upload_reals(N, numbers, reals);
    ops_download_reals(N, reals, back);
    assert_int_equal(ops_wait(&e), 0);
    for (int i = 0; i < N; i++)
        assert_true(back[i] == rounded[i] || (isnan(back[i]) && isnan(rounded[i])));
    ops_free(reals);
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
    assert_int_equal(ops_wait(&e), 0); // that was told, and is over
    ops_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_no_memory),
    };
    struct error e;
    have_gpu = ops_open(OPS_BF16, &e) == 0;
    ops_close();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
