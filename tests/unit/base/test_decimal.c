// decimal_to_double() gives the same bits as strtod(3).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text/decimal.h"

static void expect_same_double(const char *text)
{
    double want = strtod(text, NULL), got = decimal_to_double(text);
    if (memcmp(&want, &got, sizeof want))
        fail_msg("%s: %.17g, not %.17g", text, got, want);
}

static void test_odd_ones(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.0",
                                        "-0.0e5",
                                        "1",
                                        "-1",
                                        "10",
                                        "0.1",
                                        "1e0",
                                        "1E+5",
                                        "1e-5",
                                        "123456789012345678",
                                        "18446744073709551615",
                                        "9999999999999999999",
                                        "99999999999999999999",
                                        "9007199254740993",
                                        "9007199254740992.5",
                                        "9007199254740993.0",
                                        "9007199254740995e0",
                                        "1e22",
                                        "1e23",
                                        "1e27",
                                        "1e28",
                                        "1e308",
                                        "1e309",
                                        "-1e400",
                                        "5e-324",
                                        "2.2250738585072011e-308",
                                        "1e-400",
                                        "0.000000000000000001",
                                        "0.0000000000000000000000000000000000001",
                                        "1.7976931348623157e308",
                                        "8.5e-27",
                                        "3e99999999999",
                                        "0.30000000000000004",
                                        "2.00000000000000011102230246251565404",
                                        "1,2",
                                        "7]",
                                        "1.5}",
                                        "4503599627370497.5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_same_double(texts[i]);
}

static void test_many(void **state)
{
    (void)state;
    struct rng r;
    char text[64];
    rng_seed(&r, 1, 1);
    for (int i = 0; i < 300000; i++) {
        uint64_t bits = (uint64_t)rng_u32(&r) << 32 | rng_u32(&r);
        double any;
        memcpy(&any, &bits, sizeof any);
        snprintf(text, sizeof text, "%.*g", 1 + (int)rng_below(&r, 20),
                 i % 3 ? rng_double(&r) * (double)(1 << rng_below(&r, 30)) : any);
        if (text[0] != 'i' && text[0] != 'n' && text[1] != 'i' && text[1] != 'n')
            expect_same_double(text);
        snprintf(text, sizeof text, "%u.%u%09ue%d", rng_below(&r, 1000), rng_u32(&r),
                 rng_below(&r, 1000000000), (int)rng_below(&r, 60) - 30);
        expect_same_double(text);
        // Halfway between two doubles, and next to it.
        uint64_t half = ((UINT64_C(1) << 53) + (bits >> 11)) * 2 + 1;
        snprintf(text, sizeof text, "%llu", (unsigned long long)half);
        expect_same_double(text);
        snprintf(text, sizeof text, "%llu.0000%u", (unsigned long long)half, rng_below(&r, 10));
        expect_same_double(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_ones),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
