// The threads that fill streams: users take turns, no wake-up is lost, and a stream belongs to
// exactly one thread at a time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "master/http/pump.h"

enum { MANY = 300, FILLS = 20, PATIENCE_US = 20 * 1000000 };

struct stream_source {
    struct pumped p; // must be the first member
    atomic_int fills, ready, wakes, inside;
    int last;              // number of fills before PUMP_READY
    enum pump_turn before; // result of each of those fills
    int64_t takes_us;
};

static struct db *db;
static struct pump *pump;

static enum pump_turn fill_source(struct pumped *p, struct db_reader *reader)
{
    struct stream_source *s = (struct stream_source *)p;
    assert_non_null(reader);
    assert_int_equal(atomic_fetch_add(&s->inside, 1), 0);
    if (s->takes_us)
        clock_sleep_us(s->takes_us);
    atomic_fetch_sub(&s->inside, 1);
    return atomic_fetch_add(&s->fills, 1) + 1 >= s->last ? PUMP_READY : s->before;
}

static void source_ready(struct pumped *p)
{
    atomic_fetch_add(&((struct stream_source *)p)->ready, 1);
}

static void start_source(struct stream_source *s, int64_t user, int last, enum pump_turn before,
                         int64_t takes_us)
{
    *s = (struct stream_source){
        .p = {.turn = {.user = user}, .fill = fill_source, .ready = source_ready},
        .last = last,
        .before = before,
        .takes_us = takes_us};
    pump_queue(pump, &s->p);
}

static bool counter_reaches(atomic_int *counter, int value)
{
    int64_t deadline = clock_mono_us() + PATIENCE_US;
    while (atomic_load(counter) < value && clock_mono_us() < deadline)
        clock_sleep_us(200);
    return atomic_load(counter) == value;
}

static int setup(void **state)
{
    (void)state;
    struct error e;
    return db_open(".", &db, &e) || pump_new(db, &pump, &e);
}

static int teardown(void **state)
{
    (void)state;
    pump_free(pump);
    db_close(db);
    return 0;
}

static void test_users_take_turns(void **state)
{
    (void)state;
    struct stream_source *greedy = calloc(MANY, sizeof *greedy), one;
    for (int i = 0; i < MANY; i++)
        start_source(&greedy[i], 1, FILLS, PUMP_AGAIN, 200);
    start_source(&one, 2, FILLS, PUMP_AGAIN, 200);
    assert_true(counter_reaches(&one.ready, 1));
    int done = 0;
    for (int i = 0; i < MANY; i++)
        done += atomic_load(&greedy[i].fills);
    // In the order of arrival it would be FILLS times MANY. The test allows twice the fair share.
    assert_true(done <= 4 * FILLS + 2 * PUMP_THREADS + MANY / 4);
    for (int i = 0; i < MANY; i++)
        assert_true(counter_reaches(&greedy[i].ready, 1));
    free(greedy);
}

static void *wake_often(void *arg)
{
    struct stream_source *s = arg;
    while (!atomic_load(&s->ready)) {
        int before = atomic_load(&s->fills);
        atomic_fetch_add(&s->wakes, 1);
        pump_wake(pump, &s->p);
        // Every wake-up leads to a fill that begins after it, even if it comes during a fill.
        int64_t deadline = clock_mono_us() + PATIENCE_US;
        while (atomic_load(&s->fills) == before && !atomic_load(&s->ready) &&
               clock_mono_us() < deadline)
            continue;
        if (atomic_load(&s->fills) == before && !atomic_load(&s->ready))
            return s;
    }
    return NULL;
}

static void test_no_wake_up_is_lost(void **state)
{
    (void)state;
    struct stream_source s;
    void *stuck = NULL;
    pthread_t thread;
    start_source(&s, 1, 2000, PUMP_WAIT, 20);
    assert_int_equal(pthread_create(&thread, NULL, wake_often, &s), 0);
    pthread_join(thread, &stuck);
    assert_null(stuck);
    assert_true(counter_reaches(&s.ready, 1));
    clock_sleep_us(2000);
    int fills = atomic_load(&s.fills);
    pump_wake(pump, &s.p); // the owner holds the stream, so this must have no effect
    clock_sleep_us(2000);
    assert_int_equal(atomic_load(&s.fills), fills);
    assert_int_equal(atomic_load(&s.ready), 1);
    pump_take(pump, &s.p);
    pump_queue(pump, &s.p);
    assert_true(counter_reaches(&s.ready, 2));
}

static void test_disconnected_peer(void **state)
{
    (void)state;
    struct stream_source waits, fills;
    start_source(&waits, 1, 2, PUMP_WAIT, 0);
    assert_true(counter_reaches(&waits.fills, 1));
    clock_sleep_us(2000);
    assert_true(pump_gone(pump, &waits.p)); // nothing else resumes it
    assert_int_equal(atomic_load(&waits.ready), 0);
    start_source(&fills, 1, 100, PUMP_WAIT, 50000);
    clock_sleep_us(10000);
    assert_false(pump_gone(pump, &fills.p)); // it is in use, so source_ready() is called
    assert_true(counter_reaches(&fills.ready, 1));
    assert_int_equal(atomic_load(&fills.fills), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users_take_turns),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_disconnected_peer),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
