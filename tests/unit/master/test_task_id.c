// The ids of tasks and allocations as texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "master/common/task_id.h"

static void test_new_ids(void **state)
{
    (void)state;
    char id[TASK_ID], again[TASK_ID], other[TASK_ID];
    struct task_id read;
    task_id_make(id, "cluster", 8, 10);
    task_id_make(again, "cluster", 8, 10);
    task_id_make(other, "another cluster", 8, 10);
    assert_string_equal(id, again);
    assert_string_not_equal(id, other);
    assert_int_equal(strlen(id), 2 + UUID_TEXT - 1);
    assert_int_equal(id[2 + 14], '8'); // the version
    assert_non_null(strchr("89ab", id[2 + 19]));
    assert_string_equal(id + 2 + 24, "000000000010");
    assert_true(task_id_read(id, &read));
    assert_int_equal(read.experiment, 8);
    assert_int_equal(read.trial, 10);
    assert_false(read.is_short);
    assert_int_equal(read.epoch, 0);
    task_id_make(id, "cluster", INT64_C(100000000000000000), INT64_C(999999999999));
    assert_true(task_id_read(id, &read));
    assert_int_equal(read.experiment, INT64_C(100000000000000000));
    assert_int_equal(read.trial, INT64_C(999999999999));
}

static void test_ids_in_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct task_id id;
    } ids[] = {
        {"8.10", {8, 10, true, 0, 0}},
        {"8.10.3", {8, 10, true, 0, 3}},
        {"8.10-1", {8, 10, true, 1, 0}},
        {"8.10-1.3", {8, 10, true, 1, 3}},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012", {7, 12, false, 0, 0}},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012.4", {7, 12, false, 0, 4}},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012-2", {7, 12, false, 2, 0}},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012-2.4", {7, 12, false, 2, 4}},
    };
    static const char *const others[] = {
        "",
        ".",
        "8",
        "8.",
        "8.x",
        "8.10.",
        "8.10.3.1",
        "8.10x",
        "8.010",
        "8.0",
        "-8.10",
        "8.-10",
        "8.10-0",
        "8.10-",
        "8.10-x",
        "8.10.3-1",
        "8.10.0",
        "8 .10",
        "8.1000000000000000000",
        "7.5d0c8f3e-91ab-4c42-a7f0-000000000012",   // the job of a command
        "7.5d0c8f3e-91ab-8c42-a7f0-00000000001f",   // no number
        "7.5D0C8F3E-91ab-8c42-a7f0-000000000012",   // upper case
        "7.5d0c8f3e-91ab-8c42-a7f0-00000000001",    // too short
        "7.5d0c8f3e-91ab-8c42-a7f0-0000000000123",  // too long
        "7.5d0c8f3e-91ab-8c42-a7f0-000000000012.x", // no epoch
    };
    struct task_id read;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_true(task_id_read(ids[i].text, &read));
        assert_int_equal(read.experiment, ids[i].id.experiment);
        assert_int_equal(read.trial, ids[i].id.trial);
        assert_int_equal(read.is_short, ids[i].id.is_short);
        assert_int_equal(read.epoch, ids[i].id.epoch);
        assert_int_equal(read.number, ids[i].id.number);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (task_id_read(others[i], &read))
            fail_msg("\"%s\" is read as the id of a task", others[i]);
}

static void test_names_of_a_task(void **state)
{
    (void)state;
    char id[TASK_ID];
    task_id_make(id, "cluster", 8, 10);
    assert_true(task_id_names(id, id));
    assert_true(task_id_names("8.10", id));
    assert_true(task_id_names("8.10", "8.10"));
    assert_false(task_id_names("8.1", id));
    assert_false(task_id_names("9.10", id));
    assert_false(task_id_names("8.10.1", id));
    assert_false(task_id_names("8.10-1", id));
    assert_false(task_id_names("8.5d0c8f3e-91ab-8c42-a7f0-000000000010", id));
}

static void test_first_task(void **state)
{
    (void)state;
    static const char *const first[][2] = {
        {"8.10-1", "8.10"},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012-21", "7.5d0c8f3e-91ab-8c42-a7f0-000000000012"},
        {"7.5d0c8f3e-91ab-8c42-a7f0-000000000012", "7.5d0c8f3e-91ab-8c42-a7f0-000000000012"},
        {"7.5d0c8f3e-91ab-4c42-a7f0-000000000012-1", "7.5d0c8f3e-91ab-4c42-a7f0-000000000012-1"},
        {"8.10-1.3", "8.10-1.3"},
        {"x", "x"}};
    char out[TASK_ID];
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_string_equal(task_id_first(first[i][0], out), first[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_ids),
        cmocka_unit_test(test_ids_in_texts),
        cmocka_unit_test(test_names_of_a_task),
        cmocka_unit_test(test_first_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
