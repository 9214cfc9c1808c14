// The minimum of free space: its value, when the space falls below it and when it recovers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/common/free_space.h"

static const uint64_t MiB = 1 << 20, GiB = 1 << 30;

static struct {
    atomic_uint_least64_t free[FREE_SPACE_PLACES], total;
    atomic_bool away;
    atomic_int changes;
} disk;

static int look(const char *path, uint64_t *free, uint64_t *total)
{
    *free =
        atomic_load(&disk.free[strcmp(path, "data") ? FREE_SPACE_CHECKPOINTS : FREE_SPACE_DATA]);
    *total = atomic_load(&disk.total);
    return atomic_load(&disk.away) ? -1 : 0;
}

static void note_change(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&disk.changes, 1);
}

static uint64_t spare(void *bytes)
{
    return *(uint64_t *)bytes;
}

static struct free_space *make(uint64_t total, uint64_t free, struct disk_size floor)
{
    const struct free_space_options options = {
        .paths = {"data", "checkpoints"}, .floor = floor, .look = look, .changed = note_change};
    atomic_store(&disk.total, total);
    atomic_store(&disk.free[FREE_SPACE_DATA], free);
    atomic_store(&disk.free[FREE_SPACE_CHECKPOINTS], total);
    atomic_store(&disk.away, false);
    atomic_store(&disk.changes, 0);
    log_set_level(LOG_LEVEL_ERROR);
    return free_space_new(&options);
}

static bool low_at(struct free_space *r, uint64_t free)
{
    atomic_store(&disk.free[FREE_SPACE_DATA], free);
    free_space_poll(r, FREE_SPACE_DATA);
    return free_space_is_low(r, FREE_SPACE_DATA);
}

static void test_default_is_the_smaller_of_two(void **state)
{
    (void)state;
    struct free_space *r = make(1000 * GiB, 500 * GiB, free_space_floor_default); // 1 GiB of it
    assert_false(low_at(r, GiB));
    assert_true(low_at(r, GiB - 1));
    free_space_free(r);
    r = make(2000 * MiB, 1000 * MiB, free_space_floor_default); // 5 % of it
    assert_false(low_at(r, 100 * MiB));
    assert_true(low_at(r, 100 * MiB - 1));
    free_space_free(r);
    r = make(GiB, 0, (struct disk_size){0}); // none
    assert_false(free_space_is_low(r, FREE_SPACE_DATA));
    free_space_free(r);
}

static void test_recovery_needs_more_space_than_the_floor(void **state)
{
    (void)state;
    struct free_space *r = make(GiB, 100 * MiB, (struct disk_size){.bytes = 80 * MiB});
    assert_false(low_at(r, 80 * MiB));
    assert_true(low_at(r, 79 * MiB));
    assert_true(low_at(r, 80 * MiB));
    assert_true(low_at(r, 90 * MiB - 1));
    assert_false(low_at(r, 90 * MiB));
    assert_false(low_at(r, 80 * MiB));
    assert_int_equal(atomic_load(&disk.changes), 2);
    assert_true(low_at(r, 0));
    atomic_store(&disk.away, true); // a file system that cannot be queried changes nothing
    assert_true(low_at(r, GiB));
    free_space_free(r);
}

static void test_filling_begins_at_twice_the_floor(void **state)
{
    (void)state;
    char text[FREE_SPACE_TEXT];
    const struct disk_size floor = {.bytes = 80 * MiB};
    struct free_space *r = make(GiB, 160 * MiB, floor);
    assert_false(free_space_is_filling(r, FREE_SPACE_DATA, text));
    assert_false(low_at(r, 160 * MiB - 1));
    assert_true(free_space_is_filling(r, FREE_SPACE_DATA, text));
    assert_false(free_space_is_filling(r, FREE_SPACE_CHECKPOINTS, text));
    free_space_free(r);
    atomic_store(&disk.away, true); // nobody knows its space
    const struct free_space_options options = {
        .paths = {"data", "checkpoints"}, .floor = floor, .look = look};
    r = free_space_new(&options);
    assert_false(free_space_is_filling(r, FREE_SPACE_DATA, text));
    free_space_free(r);
}

// Deleting experiments frees space inside the store's file, which does not become smaller.
static void test_deleted_rows_count_as_free_space(void **state)
{
    (void)state;
    uint64_t deleted = 0;
    struct free_space_options options = {.paths = {"data", "checkpoints"},
                                         .floor = {.bytes = 80 * MiB},
                                         .look = look,
                                         .spare = spare,
                                         .spare_ctx = &deleted};
    free_space_free(make(GiB, 50 * MiB, (struct disk_size){0}));
    struct free_space *r = free_space_new(&options);
    assert_true(free_space_is_low(r, FREE_SPACE_DATA));
    deleted = 40 * MiB;
    assert_false(low_at(r, 50 * MiB));
    deleted = GiB; // the write-ahead log of the store needs space of its own
    assert_false(low_at(r, 20 * MiB));
    assert_true(low_at(r, 19 * MiB));
    free_space_free(r);
}

static void test_messages_name_place_sizes_and_remedy(void **state)
{
    (void)state;
    struct error e = {0};
    char text[FREE_SPACE_TEXT];
    struct free_space *r = make(40 * GiB, 300 * MiB, (struct disk_size){.bytes = GiB});
    assert_int_equal(free_space_refuse_submission(r, &e), ERR_FULL);
    assert_string_equal(
        e.text, "the disk of the master's data (data) is nearly full: 300 MiB of 40.0 GiB "
                "are free, but at least 1.0 GiB must be; new submissions, metrics and logs wait "
                "until there is more; delete experiments or other files");
    assert_int_equal(free_space_refuse_report(r, &e), ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, "send it again later"));
    assert_int_equal(free_space_refuse_copy(r, &e), ERR_FULL);
    assert_non_null(strstr(e.text, "not enough free space for a copy of the store"));
    assert_non_null(strstr(e.text, "(data) is nearly full: 300 MiB of 40.0 GiB are free"));
    assert_null(strstr(e.text, "submissions"));
    assert_false(free_space_is_low(r, FREE_SPACE_CHECKPOINTS)); // each place is independent
    assert_non_null(
        strstr(free_space_describe(r, FREE_SPACE_CHECKPOINTS, text), "no trial starts"));
    assert_true(free_space_low_since(r, FREE_SPACE_DATA) > 0);
    free_space_free(r);
    assert_int_equal(free_space_refuse_submission(NULL, &e), 0);
    assert_int_equal(free_space_refuse_copy(NULL, &e), 0);
    assert_int_equal(free_space_refuse_report(NULL, &e), 0);
}

static void test_space_is_polled(void **state)
{
    (void)state;
    struct error e = {0};
    struct free_space *r = make(GiB, GiB, (struct disk_size){.bytes = 80 * MiB});
    assert_int_equal(free_space_start(r, &e), 0);
    atomic_store(&disk.free[FREE_SPACE_CHECKPOINTS], 1);
    int64_t until = clock_mono_us() + 20 * 1000000;
    while (!free_space_is_low(r, FREE_SPACE_CHECKPOINTS) && clock_mono_us() < until)
        clock_sleep_us(10000);
    assert_true(free_space_is_low(r, FREE_SPACE_CHECKPOINTS));
    free_space_free(r);
}

static void test_real_file_system(void **state)
{
    (void)state;
    uint64_t free = 0, total = 0;
    assert_int_equal(free_space_look_statvfs(".", &free, &total), 0);
    assert_true(total > 0 && free <= total);
    assert_int_equal(free_space_look_statvfs("nowhere", &free, &total), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_is_the_smaller_of_two),
        cmocka_unit_test(test_recovery_needs_more_space_than_the_floor),
        cmocka_unit_test(test_filling_begins_at_twice_the_floor),
        cmocka_unit_test(test_deleted_rows_count_as_free_space),
        cmocka_unit_test(test_messages_name_place_sizes_and_remedy),
        cmocka_unit_test(test_space_is_polled),
        cmocka_unit_test(test_real_file_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
