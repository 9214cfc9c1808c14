// Slots of a machine with and without GPUs; the driver is a library of the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/slots.h"
#include "base/json.h"

static void cpu_slots(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find(&s, 3, true, NULL), 0);
    assert_int_equal(s.count, 3);
    assert_false(s.cuda);
    assert_true(s.items[2].memory > 0);
    json_t *list = slots_json(&s);
    assert_int_equal(json_array_size(list), 3);
    const json_t *last = json_array_get(list, 2);
    assert_int_equal(jget_int(last, "id", -1), 2);
    assert_string_equal(jget_string(last, "type", ""), "CPU");
    assert_string_equal(jget_string(last, "uuid", ""), "cpu-2");
    assert_string_not_equal(jget_string(last, "name", ""), "");
    json_decref(list);
    slots_free(&s);
}

static void one_cpu_slot_per_core(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find(&s, 0, false, NULL), 0);
    assert_true(s.count >= 1);
    slots_free(&s);
}

static void gpus(void **state)
{
    (void)state;
    struct slots s;
    setenv("FAKE_GPUS", "2", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
    assert_true(s.cuda);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.items[1].name, "Fake GPU 1");
    assert_string_equal(s.items[1].uuid, "GPU-0000-1");
    assert_true(s.items[1].memory == INT64_C(80) << 30);
    json_t *list = slots_json(&s);
    assert_string_equal(jget_string(json_array_get(list, 0), "type", ""), "CUDA");
    json_decref(list);
    slots_free(&s);
}

static void machines_without_gpus(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find_gpus(&s, "libno-such-library.so.1", NULL), ERR_NOT_FOUND);
    setenv("FAKE_GPUS", "0", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), ERR_NOT_FOUND);
    setenv("FAKE_NVML_ERROR", "9", 1); // the driver is not loaded
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), ERR_NOT_FOUND);
    unsetenv("FAKE_NVML_ERROR");
    assert_int_equal(s.count, 0);
}

// A GPU that fails must not turn a GPU machine into one with CPU slots.
static void driver_in_trouble(void **state)
{
    (void)state;
    struct slots s;
    struct error e = {0};
    setenv("FAKE_NVML_ERROR", "999", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), ERR_IO);
    assert_non_null(strstr(e.text, "Unknown Error"));
    unsetenv("FAKE_NVML_ERROR");
    setenv("FAKE_GPUS", "3", 1);
    setenv("FAKE_BROKEN_GPU", "2", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), ERR_IO);
    assert_non_null(strstr(e.text, "describe GPU 2: GPU is lost"));
    assert_null(s.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_slots),
        cmocka_unit_test(one_cpu_slot_per_core),
        cmocka_unit_test(gpus),
        cmocka_unit_test(machines_without_gpus),
        cmocka_unit_test(driver_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
