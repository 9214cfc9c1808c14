// The arena and the allocations that cannot fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], 0);
}

static void zeroed_and_aligned(void **state)
{
    (void)state;
    struct arena a = {0};
    size_t total = 0;
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *p = arena_alloc(&a, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        is_zero(p, size);
        memset(p, 0xff, size); // the sanitizer checks the bounds
        total += size;
    }
    assert_int_equal(a.used, total);
    arena_free(&a);
    assert_int_equal(a.used, 0);
    assert_null(a.head);
}

static void larger_than_any_block(void **state)
{
    (void)state;
    struct arena a = {0};
    char *small = arena_strdup(&a, "kept");
    unsigned char *big = arena_alloc(&a, 5 << 20);
    is_zero(big + (5 << 20) - 64, 64);
    memset(big, 1, 5 << 20);
    assert_string_equal(small, "kept");
    arena_free(&a);
}

static void reset_gives_clean_memory_again(void **state)
{
    (void)state;
    struct arena a = {0};
    arena_reset(&a); // of an empty arena
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            memset(arena_alloc(&a, 1000), 0xee, 1000);
        struct arena_block *kept = a.head;
        arena_reset(&a);
        assert_ptr_equal(a.head, kept);
        assert_int_equal(a.used, 0);
        is_zero(arena_alloc(&a, 1000), 1000);
    }
    arena_free(&a);
    memset(arena_alloc(&a, 10), 1, 10); // usable again
    arena_free(&a);
}

static void strings(void **state)
{
    (void)state;
    struct arena a = {0};
    assert_null(arena_strdup(&a, NULL));
    assert_string_equal(arena_strdup(&a, ""), "");
    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(&a, "ab", 30), "ab");
    assert_string_equal(arena_printf(&a, "%s-%d", "x", 12), "x-12");
    arena_free(&a);
}

static void heap(void **state)
{
    (void)state;
    char *zero = xcalloc(0, 8), *text = xstrdup("abc"), *printed = xasprintf("%05d", 42);
    assert_non_null(zero);
    assert_null(xstrdup(NULL));
    text = xrealloc(text, 100);
    assert_string_equal(text, "abc");
    text = xrealloc(text, 0);
    assert_non_null(text);
    assert_string_equal(printed, "00042");
    free(zero);
    free(text);
    free(printed);
}

static void blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 64, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = block_alloc(sizes[i]), any = 0;
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t at = 0; at < sizes[i]; at++)
            any |= p[at];
        assert_int_equal(any, 0);
        memset(p, 1, sizes[i]);
        free(p);
    }
    assert_null(block_alloc(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroed_and_aligned),
        cmocka_unit_test(larger_than_any_block),
        cmocka_unit_test(reset_gives_clean_memory_again),
        cmocka_unit_test(strings),
        cmocka_unit_test(heap),
        cmocka_unit_test(blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
