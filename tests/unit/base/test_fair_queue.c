// The fair queue serves users in turn and keeps the items of each user in order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fair_queue.h"

static void users_take_turns(void **state)
{
    (void)state;
    static const int64_t users[] = {1, 1, 1, 1, 2, 2, 3};
    static const int order[] = {0, 4, 6, 1, 5, 2, 3};
    enum { COUNT = sizeof users / sizeof *users };
    struct fair_queue_item items[COUNT];
    struct fair_queue l = {0};
    assert_null(fair_queue_pop(&l));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            items[i] = (struct fair_queue_item){.user = users[i]};
            fair_queue_push(&l, &items[i]);
        }
        assert_int_equal(l.count, COUNT);
        assert_int_equal(fair_queue_count_of(&l, 1), 4);
        assert_int_equal(fair_queue_count_of(&l, 4), 0);
        for (int i = 0; i < COUNT; i++)
            assert_ptr_equal(fair_queue_pop(&l), &items[order[i]]);
        assert_int_equal(l.count, 0);
        assert_null(fair_queue_pop(&l));
    }
}

static void an_item_may_come_back(void **state)
{
    (void)state;
    struct fair_queue l = {0};
    struct fair_queue_item a = {.user = 1}, b = {.user = 2};
    fair_queue_push(&l, &a);
    fair_queue_push(&l, &b);
    assert_ptr_equal(fair_queue_pop(&l), &a);
    fair_queue_push(&l, &a);
    assert_ptr_equal(fair_queue_pop(&l), &b);
    assert_ptr_equal(fair_queue_pop(&l), &a);
    assert_int_equal(fair_queue_count_of(&l, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_take_turns),
        cmocka_unit_test(an_item_may_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
