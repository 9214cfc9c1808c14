// Formats and parses times and durations.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

static void format(void **state)
{
    (void)state;
    char out[CLOCK_RFC3339_MAX];
    assert_string_equal(clock_format(0, out), "1970-01-01T00:00:00.000000Z");
    assert_string_equal(clock_format(-1, out), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(clock_format(1795251600123456, out), "2026-11-21T09:00:00.123456Z");
    assert_true(strlen(clock_format(INT64_MAX, out)) < CLOCK_RFC3339_MAX);
    assert_int_equal(out[strlen(out) - 1], 'Z');
}

static void parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59.999999Z", -1},
        {"2026-11-21T09:00:00.123456Z", 1795251600123456},
        {"2026-11-21t09:00:00.123456z", 1795251600123456},
        {"2026-11-21T10:00:00.123456+01:00", 1795251600123456},
        {"2026-11-20T21:30:00-11:30", 1795251600000000},
        {"2026-11-21T09:00:00.5Z", 1795251600500000},
        {"2026-11-21T09:00:00.123456789123Z", 1795251600123456},
        {"2024-02-29T00:00:00Z", 1709164800000000},
        {"2016-12-31T23:59:60Z", 1483228800000000}, // a leap second
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t us = 0;
        assert_int_equal(clock_parse(rows[i].text, &us), 0);
        assert_int_equal(us, rows[i].us);
    }
}

static void parse_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "2026",
        "2026-11-21",
        "2026-11-21T09:00:00",
        "2026-11-21 09:00:00Z",
        "2026-13-21T09:00:00Z",
        "2026-00-21T09:00:00Z",
        "2026-11-31T09:00:00Z",
        "2026-11-00T09:00:00Z",
        "2026-02-29T09:00:00Z",
        "1900-02-29T09:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T09:60:00Z",
        "2026-11-21T09:00:61Z",
        "2026-11-21T09:00:00.Z",
        "2026-11-21T09:00:00+0100",
        "2026-11-21T09:00:00+24:00",
        "2026-11-21T09:00:00Zx",
        "2026-1-21T09:00:00Z",
        "-026-11-21T09:00:00Z",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t us = 42;
        assert_int_equal(clock_parse(texts[i], &us), ERR_INVALID);
        assert_int_equal(us, 42);
    }
}

static void there_and_back(void **state)
{
    (void)state;
    for (int64_t us = -3000000000000000; us < 30000000000000000; us += 1234567890123457) {
        char out[CLOCK_RFC3339_MAX];
        int64_t again;
        assert_int_equal(clock_parse(clock_format(us, out), &again), 0);
        assert_int_equal(again, us);
    }
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {0, "0 s"},
        {999, "999 us"},
        {1000, "1 ms"},
        {45000, "45 ms"},
        {999999, "999 ms"},
        {1000000, "1.0 s"},
        {12345678, "12.3 s"},
        {59999999, "59.9 s"},
        {60000000, "1m 00s"},
        {3599000000, "59m 59s"},
        {3720000000, "1h 02m"},
        {90000000000, "1d 01h"},
        {-12345678, "-12.3 s"},
        {INT64_MIN, "-106751991d 04h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[32];
        assert_string_equal(duration_format(rows[i].us, out, sizeof out), rows[i].text);
    }
    char small[4];
    assert_string_equal(duration_format(12345678, small, sizeof small), "12.");
}

static void running(void **state)
{
    (void)state;
    int64_t start = clock_mono_us();
    clock_sleep_us(2000);
    assert_true(clock_mono_us() - start >= 2000);
    clock_sleep_us(-5); // returns at once
    assert_true(clock_wall_us() > 1700000000000000);
}

// Durations in the format of Go.
static void lengths(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {{"90m", 5400000000},   {"1h30m", 5400000000},  {"2.5s", 2500000},
                {"250ms", 250000},     {"-1h", -3600000000},   {"0s", 0},
                {"72h", 259200000000}, {"1h0.5s", 3600500000}, {"3us", 3},
                {"+1s", 1000000}};
    static const char *const bad[] = {"",   "-",    "1",    "h",   "1d",     "1h ",  " 1h",
                                      "1x", "0x1h", "1e3s", "inf", "99e99h", "1h-1m"};
    int64_t us;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(duration_parse(good[i].text, &us), 0);
        assert_int_equal(us, good[i].us);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(duration_parse(bad[i], &us), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format),        cmocka_unit_test(parse),
        cmocka_unit_test(parse_refuses), cmocka_unit_test(there_and_back),
        cmocka_unit_test(durations),     cmocka_unit_test(lengths),
        cmocka_unit_test(running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
