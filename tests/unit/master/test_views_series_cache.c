// The cache of downsampled series: lookups by key and version, and the limit on its size.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/views/metrics/series_cache.h"

static const struct reports_version now = {7, 1};

static void test_versions(void **state)
{
    (void)state;
    struct series_cache *c = series_cache_new();
    struct arena a = {0};
    const struct reports_version grown = {8, 1}, restarted = {7, 2};
    assert_null(series_cache_get(c, "a", &now, &a));
    series_cache_put(c, "a", &now, "one");
    assert_string_equal(series_cache_get(c, "a", &now, &a), "one");
    assert_null(series_cache_get(c, "a", &grown, &a));
    assert_null(series_cache_get(c, "a", &restarted, &a));
    assert_null(series_cache_get(c, "b", &now, &a));
    series_cache_put(c, "a", &grown, "two");
    assert_null(series_cache_get(c, "a", &now, &a));
    assert_string_equal(series_cache_get(c, "a", &grown, &a), "two");
    arena_free(&a);
    series_cache_free(c);
}

static size_t found(struct series_cache *c, int count)
{
    struct arena a = {0};
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof key, "series %d", i);
        n += series_cache_get(c, key, &now, &a) != NULL;
    }
    arena_free(&a);
    return n;
}

static void put(struct series_cache *c, int number, size_t bytes)
{
    char key[32], *answer = xcalloc(1, bytes + 1);
    snprintf(key, sizeof key, "series %d", number);
    memset(answer, 'x', bytes);
    series_cache_put(c, key, &now, answer);
    free(answer);
}

static void test_no_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct series_cache *c = series_cache_new();
    struct arena a = {0};
    for (int i = 0; i < 2 * SERIES_CACHE_ENTRIES; i++) {
        put(c, i, 10);
        assert_non_null(series_cache_get(c, "series 0", &now, &a)); // used all the time
    }
    assert_int_equal(found(c, 2 * SERIES_CACHE_ENTRIES), SERIES_CACHE_ENTRIES);
    for (int i = 0; i < 20; i++)
        put(c, i, SERIES_CACHE_BYTES / 10);
    assert_int_equal(found(c, 20), 9); // the overhead of an entry counts, too
    put(c, 100, SERIES_CACHE_BYTES / 2);
    assert_null(series_cache_get(c, "series 100", &now, &a)); // too large to be cached
    assert_int_equal(found(c, 20), 9);
    arena_free(&a);
    series_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_no_more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
