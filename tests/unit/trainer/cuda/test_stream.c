// Concurrency of host and GPU: copies (ops/cuda/device/copies.c) and phases by the GPU's clock
// (ops/cuda/device/phases.c), on a fake GPU, and on a real one if there is one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

enum { MS = 1000, SKIPPED = 77 };

// --- copies --------------------------------------------------------------------------------------

enum { MIB = 1 << 20 };

static char *device_new(size_t bytes)
{
    struct error e;
    void *p = NULL;
    assert_int_equal(ops_alloc(bytes, &p, &e), 0);
    assert_int_equal(ops_synchronize(&e), 0);
    return p;
}

// In neither direction does the host wait for earlier work of the GPU.
static void check_that_nobody_waits(size_t n)
{
    char *device = device_new(n), *sent = xcalloc(1, n), *back = xcalloc(1, n);
    struct error e;
    memset(sent, 7, n);
    ops_upload(device, sent, n); // the first call allocates page-locked memory
    assert_int_equal(ops_synchronize(&e), 0);
    int64_t begin = clock_mono_us();
    gpu_compute_us(1500 * MS);
    ops_upload(device, sent, n);
    memset(sent, 8, n); // the upload has already read it
    ops_download(back, device, n);
    ops_upload(device, sent, n);
    assert_true(clock_mono_us() - begin < 1400 * MS);
    assert_int_equal(ops_synchronize(&e), 0);
    assert_true(clock_mono_us() - begin >= 1499 * MS);
    assert_true(back[0] == 7 && back[n - 1] == 7);
    assert_memory_equal(back, back + n / 2, n / 2);
    ops_download(back, device, n);
    assert_int_equal(ops_synchronize(&e), 0);
    assert_true(back[0] == 8 && back[n - 1] == 8);
    ops_free(device);
    free(back);
    free(sent);
}

static void test_nobody_waits_for_copies(void **state)
{
    (void)state;
    check_that_nobody_waits(1000);
    check_that_nobody_waits(40 * MIB);
}

// Copies of several sizes in both directions; some are larger than a part, and all together are
// much more than the page-locked memory.
static void check_copies(void)
{
    const size_t sizes[] = {40 * MIB, 1, 63 * MIB, 70 * MIB, 30 * MIB, 4097};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *sent = xcalloc(1, 70 * MIB), *devices[COUNT], *back[COUNT];
    struct error e;
    for (int i = 0; i < COUNT; i++) {
        devices[i] = device_new(sizes[i]);
        back[i] = xcalloc(1, sizes[i]);
        memset(sent, i + 1, sizes[i]);
        gpu_compute_us(5 * MS);
        ops_upload(devices[i], sent, sizes[i]);
    }
    memset(sent, 0, 70 * MIB);
    for (int i = 0; i < COUNT; i++)
        ops_download(back[i], devices[i], sizes[i]);
    assert_int_equal(ops_synchronize(&e), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(back[i][0] == i + 1 && back[i][sizes[i] - 1] == i + 1);
        assert_memory_equal(back[i], back[i] + sizes[i] / 2, sizes[i] / 2);
        ops_free(devices[i]);
        free(back[i]);
    }
    free(sent);
}

static void test_copies_of_all_sizes(void **state)
{
    (void)state;
    check_copies();
}

// More pending downloads than a staging buffer records.
static void test_many_copies(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    int32_t *device = (int32_t *)device_new(MANY * sizeof *device), back[MANY];
    struct error e;
    for (int i = 0; i < MANY; i++) {
        ops_upload(device + i, &i, sizeof i);
        ops_download(back + i, device + i, sizeof i);
    }
    assert_int_equal(ops_synchronize(&e), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(back[i], i);
    ops_free(device);
}

static void test_without_locked_memory(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    cuda_free_copies();
    fake_faults.no_locked_memory = true;
    check_copies();
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    fake_faults.no_locked_memory = false;
    check_copies();
}

// --- phases --------------------------------------------------------------------------------------

static void phase_compute(enum ops_phase phase, int64_t us)
{
    ops_phase(phase);
    gpu_compute_us(us);
}

static void phases_forget(void)
{
    int64_t before[OPS_PHASES];
    struct error e;
    ops_phase(OPS_OTHER);
    assert_int_equal(ops_synchronize(&e), 0);
    ops_phases(before);
}

// The host only enqueues the work; the time counts when the GPU does it later.
static void test_time_is_of_the_gpu(void **state)
{
    (void)state;
    int64_t us[OPS_PHASES];
    struct error e;
    phases_forget();
    int64_t begin = clock_mono_us();
    phase_compute(OPS_FORWARD, 1000 * MS);
    phase_compute(OPS_BACKWARD, 120 * MS);
    assert_int_equal(ops_phase(OPS_OTHER), OPS_BACKWARD);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] == 0 && us[OPS_BACKWARD] == 0); // not yet
    assert_int_equal(ops_synchronize(&e), 0);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] >= 999 * MS && us[OPS_BACKWARD] >= 119 * MS);
    assert_true(us[OPS_FORWARD] + us[OPS_BACKWARD] <= clock_mono_us() - begin + MS);
    ops_phases(us);
    assert_true(us[OPS_FORWARD] == 0 && us[OPS_BACKWARD] == 0); // reported once
}

// Time that the host spends while the GPU is busy does not count. The times are so long because a
// busy machine may stop a thread for part of a second.
static void test_hidden_work_of_the_host(void **state)
{
    (void)state;
    int64_t us[OPS_PHASES];
    struct error e;
    phases_forget();
    phase_compute(OPS_BACKWARD, 2000 * MS);
    ops_phase(OPS_DATA);
    clock_sleep_us(1000 * MS);
    ops_phase(OPS_OTHER);
    assert_int_equal(ops_synchronize(&e), 0);
    int64_t begin = clock_mono_us();
    ops_phase(OPS_DATA);
    clock_sleep_us(500 * MS); // now the GPU waits
    ops_phase(OPS_OTHER);
    assert_int_equal(ops_synchronize(&e), 0);
    int64_t waited = clock_mono_us() - begin;
    ops_phases(us);
    assert_true(us[OPS_DATA] >= 100 * MS && us[OPS_DATA] < waited + 500 * MS);
    assert_true(us[OPS_BACKWARD] >= 1999 * MS);
}

// More phases than there are marks.
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    int64_t us[OPS_PHASES];
    struct error e;
    phases_forget();
    int64_t begin = clock_mono_us();
    for (int i = 0; i < MANY; i++)
        phase_compute(i % 2 ? OPS_OPTIMIZER : OPS_COMMUNICATION, 10);
    ops_phase(OPS_OTHER);
    assert_int_equal(ops_synchronize(&e), 0);
    int64_t took = clock_mono_us() - begin;
    ops_phases(us);
    assert_true(us[OPS_OPTIMIZER] >= MANY / 2 * 10 && us[OPS_COMMUNICATION] >= MANY / 2 * 10);
    assert_true(us[OPS_OPTIMIZER] + us[OPS_COMMUNICATION] <= took);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits_for_copies),
        cmocka_unit_test(test_copies_of_all_sizes),
        cmocka_unit_test(test_many_copies),
        cmocka_unit_test(test_without_locked_memory),
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
