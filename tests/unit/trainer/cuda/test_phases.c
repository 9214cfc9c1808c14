// Phases by the GPU's clock (ops/cuda/phases.c), over a GPU that is none, and over a real one where
// there is one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/device.h"

enum { MS = 1000, SKIPPED = 77 };

static void compute(enum ops_phase phase, int64_t us)
{
    ops_phase(phase);
    gpu_compute_us(us);
}

static void forget(void)
{
    int64_t before[OPS_PHASES];
    struct error e;
    ops_phase(OPS_REST);
    assert_int_equal(ops_wait(&e), 0);
    ops_phases(before);
}

// The host only says what is to be done; the time is that of the GPU, which does it later.
static void test_time_is_of_the_gpu(void **state)
{
    (void)state;
    int64_t us[OPS_PHASES];
    struct error e;
    forget();
    int64_t begin = clock_mono_us();
    compute(OPS_FORWARD, 60 * MS);
    compute(OPS_BACKWARD, 120 * MS);
    assert_int_equal(ops_phase(OPS_REST), OPS_BACKWARD);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] == 0 && us[OPS_BACKWARD] == 0); // not yet
    assert_int_equal(ops_wait(&e), 0);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] >= 59 * MS && us[OPS_BACKWARD] >= 119 * MS);
    assert_true(us[OPS_FORWARD] + us[OPS_BACKWARD] <= clock_mono_us() - begin + MS);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] == 0 && us[OPS_BACKWARD] == 0); // told once
}

// What the host does while the GPU is busy takes none of its time.
static void test_hidden_work_of_the_host(void **state)
{
    (void)state;
    int64_t us[OPS_PHASES];
    struct error e;
    forget();
    compute(OPS_BACKWARD, 600 * MS);
    ops_phase(OPS_DATA);
    clock_sleep_us(200 * MS);
    ops_phase(OPS_REST);
    assert_int_equal(ops_wait(&e), 0);
    int64_t begin = clock_mono_us();
    ops_phase(OPS_DATA);
    clock_sleep_us(50 * MS); // and now it waits
    ops_phase(OPS_REST);
    assert_int_equal(ops_wait(&e), 0);
    int64_t waited = clock_mono_us() - begin;
    ops_phases(us);
    assert_true(us[OPS_DATA] >= 49 * MS && us[OPS_DATA] < waited + 100 * MS);
    assert_true(us[OPS_BACKWARD] >= 599 * MS);
}

// More phases than are remembered.
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    int64_t us[OPS_PHASES];
    struct error e;
    forget();
    int64_t begin = clock_mono_us();
    for (int i = 0; i < MANY; i++)
        compute(i % 2 ? OPS_UPDATE : OPS_EXCHANGE, 10);
    ops_phase(OPS_REST);
    assert_int_equal(ops_wait(&e), 0);
    int64_t took = clock_mono_us() - begin;
    ops_phases(us);
    assert_true(us[OPS_UPDATE] >= MANY / 2 * 10 && us[OPS_EXCHANGE] >= MANY / 2 * 10);
    assert_true(us[OPS_UPDATE] + us[OPS_EXCHANGE] <= took);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_is_of_the_gpu),
        cmocka_unit_test(test_hidden_work_of_the_host),
        cmocka_unit_test(test_many),
    };
    if (!gpu_is_there()) {
        print_message("no GPU\n");
        return SKIPPED;
    }
    gpu_begin(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
