// Buffers at their limit and one past it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

static void empty(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_string_equal(buf_str(&b), "");
    assert_null(b.data);
    char *text = buf_take(&b);
    assert_string_equal(text, "");
    free(text);
    buf_drop_front(&b, 0);
    buf_free(&b);
}

static void grows(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf_printf(&b, "%d,", i), 0);
    assert_int_equal(b.len, 48890);
    assert_int_equal(strlen(buf_str(&b)), b.len);
    assert_memory_equal(buf_str(&b), "0,1,2,", 6);
    assert_string_equal(buf_str(&b) + b.len - 5, "9999,");
    buf_free(&b);
}

static void at_the_limit_and_past_it(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4);
    assert_int_equal(buf_puts(&b, "abcd"), 0);
    assert_int_equal(buf_append(&b, "", 0), 0);
    assert_int_equal(buf_puts(&b, "e"), ERR_TOO_LARGE);
    assert_int_equal(b.err, ERR_TOO_LARGE);
    assert_string_equal(buf_str(&b), "abcd");
    assert_int_equal(buf_append(&b, "", 0), ERR_TOO_LARGE); // the error stays
    buf_reset(&b);
    assert_int_equal(b.err, 0);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_printf(&b, "%s", "12345"), ERR_TOO_LARGE);
    assert_string_equal(buf_str(&b), "");
    buf_free(&b);
}

static void limit_of_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 0);
    assert_int_equal(buf_puts(&b, ""), 0);
    assert_int_equal(buf_puts(&b, "a"), ERR_TOO_LARGE);
    buf_free(&b);
}

static void drop_front(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_append(&b, "a\0bcd", 5);
    assert_int_equal(b.len, 5);
    buf_drop_front(&b, 2);
    assert_string_equal(buf_str(&b), "bcd");
    buf_drop_front(&b, 3);
    assert_string_equal(buf_str(&b), "");
    buf_free(&b);
}

static void take(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_puts(&b, "mine");
    char *text = buf_take(&b);
    assert_string_equal(text, "mine");
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_puts(&b, "more"), 0);
    assert_string_equal(text, "mine");
    free(text);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(grows),
        cmocka_unit_test(at_the_limit_and_past_it),
        cmocka_unit_test(limit_of_nothing),
        cmocka_unit_test(drop_front),
        cmocka_unit_test(take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
