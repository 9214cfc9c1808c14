// Generators: published test vectors, and the permutation is a bijection.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

// The first numbers of pcg32-demo, seed 42, stream 54 (pcg-random.org).
static void pcg_vectors(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330,
                                        0x83d2f293, 0xbfa4784b, 0xcbed606e};
    struct rng r;
    rng_seed(&r, 42, 54);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rng_u32(&r), expected[i]);
}

static void streams_differ(void **state)
{
    (void)state;
    struct rng a, b, again;
    rng_seed(&a, 1, 1);
    rng_seed(&b, 1, 2);
    rng_seed(&again, 1, 1);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t x = rng_u32(&a);
        same += x == rng_u32(&b);
        assert_int_equal(x, rng_u32(&again));
    }
    assert_true(same < 3);
}

static void below(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 7, 0);
    int seen[6] = {0};
    for (int i = 0; i < 60000; i++)
        seen[rng_below(&r, 6)]++;
    for (int i = 0; i < 6; i++) // 10,000 each, five standard deviations
        assert_in_range(seen[i], 9540, 10460);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rng_below(&r, 1), 0);
        assert_true(rng_below(&r, UINT32_MAX) < UINT32_MAX);
    }
    // A plain modulo of 3 * 2^30 would favour the lower third.
    int low = 0;
    for (int i = 0; i < 30000; i++)
        low += rng_below(&r, 3u << 30) < 1u << 30;
    assert_in_range(low, 9590, 10410);
}

static void doubles(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 3, 3);
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double v = rng_double(&r);
        assert_true(v >= 0 && v < 1);
        sum += v;
    }
    assert_true(sum > 49500 && sum < 50500);
}

// kat_vectors of Random123: philox4x32 with 10 rounds.
static void philox_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        const uint32_t *c = rows[i].counter, *k = rows[i].key;
        uint32_t out[4];
        philox4x32((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2],
                   (uint64_t)c[1] << 32 | c[0], out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

static void permutes(uint64_t key, uint64_t n)
{
    bool *hit = xcalloc(n, sizeof *hit);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = keyed_permutation(key, n, i);
        assert_true(to < n);
        assert_false(hit[to]);
        hit[to] = true;
    }
    free(hit);
}

static void permutation_is_a_bijection(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, 0x0123456789abcdef, UINT64_MAX};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        for (uint64_t n = 1; n <= 130; n++)
            permutes(keys[k], n);
        permutes(keys[k], 1000);
        permutes(keys[k], 4096);
        permutes(keys[k], 4097);
        permutes(keys[k], 10007);
    }
}

static void permutation_of_huge_sets(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 33) + 1,
                                     (UINT64_C(1) << 63) + 5, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t n = sizes[s];
        uint64_t first = keyed_permutation(9, n, 0), last = keyed_permutation(9, n, n - 1);
        assert_true(first < n && last < n && first != last);
    }
}

static void permutation_depends_on_its_key(void **state)
{
    (void)state;
    enum { N = 1000 };
    int fixed = 0, same = 0, rising = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t to = keyed_permutation(5, N, i);
        fixed += to == i;
        same += to == keyed_permutation(6, N, i);
        rising += i > 0 && to > keyed_permutation(5, N, i - 1);
    }
    assert_true(fixed < 8 && same < 8); // the expected value of both is 1
    assert_in_range(rising, 440, 560);
}

static void secrets(void **state)
{
    (void)state;
    unsigned char a[1000], b[1000];
    rng_secret(a, sizeof a);
    rng_secret(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    rng_secret(a, 0);
}

static void uuids(void **state)
{
    (void)state;
    char a[UUID_TEXT], b[UUID_TEXT];
    uuid_make(a);
    uuid_make(b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(strspn(a, "0123456789abcdef-"), 36);
    assert_true(a[8] == '-' && a[13] == '-' && a[18] == '-' && a[23] == '-');
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcg_vectors),
        cmocka_unit_test(streams_differ),
        cmocka_unit_test(below),
        cmocka_unit_test(doubles),
        cmocka_unit_test(philox_vectors),
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_of_huge_sets),
        cmocka_unit_test(permutation_depends_on_its_key),
        cmocka_unit_test(secrets),
        cmocka_unit_test(uuids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
