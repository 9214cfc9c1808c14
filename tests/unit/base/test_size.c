// Sizes as people write and read them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/size.h"

#define GiB (UINT64_C(1) << 30)

static void parses_sizes_and_percentages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
        double percent;
    } good[] = {{"0", 0, 0},
                {"4096", 4096, 0},
                {"500M", 500ULL << 20, 0},
                {"1.5GiB", 3ULL << 29, 0},
                {"2T", 2ULL << 40, 0},
                {"5%", 0, 5},
                {"0.5%", 0, 0.5}};
    static const char *const bad[] = {"", "x", "-1", "5 %", "100%", "2GB", "1e99", "nan", "5%%"};
    struct disk_size size;
    struct error e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(disk_size_parse(good[i].text, &size, &e), 0);
        assert_int_equal(size.bytes, good[i].bytes);
        assert_true(size.percent == good[i].percent);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(disk_size_parse(bad[i], &size, &e), ERR_INVALID);
}

static void the_smaller_of_two_counts(void **state)
{
    (void)state;
    const struct disk_size both = {.bytes = GiB, .percent = 5}, part = {.percent = 50};
    assert_int_equal(disk_size_of(&both, 1000 * GiB), GiB);
    assert_int_equal(disk_size_of(&both, 10 * GiB), GiB / 2);
    assert_int_equal(disk_size_of(&part, 10 * GiB), 5 * GiB);
    assert_int_equal(disk_size_of(&(struct disk_size){.bytes = 7}, 10 * GiB), 7);
    assert_int_equal(disk_size_of(&(struct disk_size){0}, 10 * GiB), 0);
}

static void writes_sizes_for_people(void **state)
{
    (void)state;
    char text[SIZE_TEXT];
    assert_string_equal(size_text(0, text), "0 bytes");
    assert_string_equal(size_text(1023, text), "1023 bytes");
    assert_string_equal(size_text(1536, text), "1.5 KiB");
    assert_string_equal(size_text(312 << 20, text), "312 MiB");
    assert_string_equal(size_text(40 * GiB, text), "40.0 GiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_sizes_and_percentages),
        cmocka_unit_test(the_smaller_of_two_counts),
        cmocka_unit_test(writes_sizes_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
