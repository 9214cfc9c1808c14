// Lanes: users take turns, and each user's items stay in order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lanes.h"

static void users_take_turns(void **state)
{
    (void)state;
    static const int64_t users[] = {1, 1, 1, 1, 2, 2, 3};
    static const int order[] = {0, 4, 6, 1, 5, 2, 3};
    enum { COUNT = sizeof users / sizeof *users };
    struct lane_item items[COUNT];
    struct lanes l = {0};
    assert_null(lanes_take(&l));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            items[i] = (struct lane_item){.user = users[i]};
            lanes_put(&l, &items[i]);
        }
        assert_int_equal(l.count, COUNT);
        assert_int_equal(lanes_of(&l, 1), 4);
        assert_int_equal(lanes_of(&l, 4), 0);
        for (int i = 0; i < COUNT; i++)
            assert_ptr_equal(lanes_take(&l), &items[order[i]]);
        assert_int_equal(l.count, 0);
        assert_null(lanes_take(&l));
    }
}

static void an_item_may_come_back(void **state)
{
    (void)state;
    struct lanes l = {0};
    struct lane_item a = {.user = 1}, b = {.user = 2};
    lanes_put(&l, &a);
    lanes_put(&l, &b);
    assert_ptr_equal(lanes_take(&l), &a);
    lanes_put(&l, &a);
    assert_ptr_equal(lanes_take(&l), &b);
    assert_ptr_equal(lanes_take(&l), &a);
    assert_int_equal(lanes_of(&l, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_take_turns),
        cmocka_unit_test(an_item_may_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
