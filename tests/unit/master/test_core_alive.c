// The signs of life of the core thread: one for each interval, and none while a turn hangs.
#include "tests/unit/master/support/core_fixture.h"

#include <semaphore.h>

#include "base/clock.h"

enum { INTERVAL = 20 * 1000 };

static atomic_int signs;
static sem_t hangs, go_on;

static void count_sign(void)
{
    atomic_fetch_add(&signs, 1);
}

static void test_each_interval_has_a_sign(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        int before = atomic_load(&signs);
        advance(INTERVAL);
        assert_true(atomic_load(&signs) > before);
    }
}

static int hang(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    (void)rq;
    (void)e;
    sem_post(&hangs);
    sem_wait(&go_on);
    return 0;
}

static void test_a_turn_that_hangs_gives_none(void **state)
{
    (void)state;
    struct core_call *call = call_start(hang, as_user(OWNER, false), NULL, NULL, NULL);
    sem_wait(&hangs);
    int before = atomic_load(&signs);
    clock_sleep_us(5 * INTERVAL);
    assert_int_equal(atomic_load(&signs), before);
    sem_post(&go_on);
    json_decref(call_end(call));
    advance(INTERVAL);
    assert_true(atomic_load(&signs) > before);
}

static int setup(void **state)
{
    sem_init(&hangs, 0, 0);
    sem_init(&go_on, 0, 0);
    cluster_setup(state);
    cl.more.alive = count_sign;
    cl.more.alive_us = INTERVAL;
    restart_core();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_interval_has_a_sign, setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_turn_that_hangs_gives_none, setup, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
