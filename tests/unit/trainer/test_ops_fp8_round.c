// Conversion to FP8 on a CPU: every code of both formats, every tie between two codes, and
// everything beyond the largest.
#include "tests/unit/trainer/arithmetic.h"

#include "trainer/ops/cpu/fp8_round.h"

struct fp8_table {
    const char *name;
    bool wide;
    int bits, bias; // of the mantissa; of the exponent
    int largest;    // code
};

static const struct fp8_table tables[] = {{"E4M3", false, 3, 7, 0x7e}, {"E5M2", true, 2, 15, 0x7b}};

// The number of a positive code (Micikevicius et al. 2022, table 1).
static float number_of(const struct fp8_table *t, int code)
{
    int mantissa = code & ((1 << t->bits) - 1), exponent = code >> t->bits;
    return exponent ? ldexpf(1.0f + ldexpf((float)mantissa, -t->bits), exponent - t->bias)
                    : ldexpf((float)mantissa, 1 - t->bias - t->bits);
}

static void expect_rounded(const struct fp8_table *t, float x, float expected)
{
    for (int sign = -1; sign <= 1; sign += 2)
        for (int scale = -20; scale <= 20; scale += 20) { // x is scaled to the number
            float given = ldexpf((float)sign * x, -scale);
            float found = fp8_round(t->wide, given, ldexpf(1.0f, scale));
            if (found != (float)sign * expected)
                fail_msg("%s: %.9g * 2^%d becomes %.9g, expected %.9g", t->name, (double)given,
                         scale, (double)found, (double)((float)sign * expected));
        }
}

static void test_numbers_of_the_formats(void **state)
{
    (void)state;
    assert_true(number_of(&tables[0], 0x7e) == 448.0f && number_of(&tables[1], 0x7b) == 57344.0f);
    assert_true(number_of(&tables[0], 1) == 0x1p-9f && number_of(&tables[1], 1) == 0x1p-16f);
    for (const struct fp8_table *t = tables; t < tables + 2; t++)
        for (int code = 0; code <= t->largest; code++)
            expect_rounded(t, number_of(t, code), number_of(t, code));
}

// A tie goes to the even code; the next float on either side goes to the nearer one.
static void test_ties(void **state)
{
    (void)state;
    for (const struct fp8_table *t = tables; t < tables + 2; t++)
        for (int code = 0; code < t->largest; code++) {
            float low = number_of(t, code), high = number_of(t, code + 1), tie = (low + high) / 2;
            expect_rounded(t, tie, code % 2 ? high : low);
            expect_rounded(t, nextafterf(tie, 0), low);
            expect_rounded(t, nextafterf(tie, INFINITY), high);
        }
}

static void test_larger_numbers_become_the_largest(void **state)
{
    (void)state;
    for (const struct fp8_table *t = tables; t < tables + 2; t++) {
        float largest = number_of(t, t->largest);
        expect_rounded(t, nextafterf(largest, INFINITY), largest);
        expect_rounded(t, 1.07f * largest, largest);
        expect_rounded(t, 1e4f * largest, largest);
        assert_true(fp8_round(t->wide, 1e38f, 0x1p40f) == largest); // the product is infinite
        assert_true(fp8_round(t->wide, 0x1p-140f, 1.0f) == 0);
    }
}

static void test_what_is_not_finite_becomes_nan(void **state)
{
    (void)state;
    const float odd[] = {NAN,
                         -NAN,
                         INFINITY,
                         -INFINITY,
                         loops_float_of_bits(0x7f800001),
                         loops_float_of_bits(0xffffffff)};
    for (const struct fp8_table *t = tables; t < tables + 2; t++)
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
            assert_true(isnan(fp8_round(t->wide, odd[i], 0x1p-30f)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_the_formats),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_larger_numbers_become_the_largest),
        cmocka_unit_test(test_what_is_not_finite_becomes_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
