// Readiness: a core thread that does not turn, and a store that does not commit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "master/modules.h"
#include "master/watch/watch.h"

static struct db *db;
static struct storage *storage;

static struct core *new_core(void)
{
    struct error e = {0};
    char here[512], text[1024];
    struct core *core = NULL;
    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text, "{\"type\":\"directory\",\"container_path\":\"%s/checkpoints\"}",
             here);
    if (db_open("data", &db, &e) || storage_new(text, NULL, 0, &storage, &e))
        fail_msg("%s", e.text);
    const struct core_options options = {
        .modules = master_modules, .storage = storage, .alert_calm_us = 1};
    if (core_new(db, &options, &core, &e))
        fail_msg("%s", e.text);
    return core;
}

// Turns the core until the watch is ready, or, without `core`, waits until it is not.
static void wait_until(struct watch *w, struct core *core, int expected, struct error *e)
{
    while (watch_ready(w, e) != expected) {
        if (core)
            core_turn(core);
        clock_sleep_us(10000);
    }
}

static void *stop(void *w)
{
    watch_stop(w);
    return NULL;
}

// The watch stops after the core has answered its last question.
static void stop_while_turning(struct watch *w, struct core *core)
{
    pthread_t thread;
    assert_false(pthread_create(&thread, NULL, stop, w));
    while (pthread_tryjoin_np(thread, NULL)) {
        core_turn(core);
        clock_sleep_us(10000);
    }
}

static void test_a_core_that_does_not_turn(void **state)
{
    (void)state;
    struct error e = {0};
    struct arena arena = {0};
    struct watch_figures f;
    struct core *core = new_core();
    struct watch *w = watch_new(&(struct watch_options){.db = db});
    assert_int_equal(watch_ready(w, &e), ERR_UNAVAILABLE);
    assert_string_equal(e.text, "the master is starting");
    assert_false(watch_read(w, &arena, &f));
    assert_int_equal(watch_start(w, core, NULL, NULL, &e), 0);
    wait_until(w, core, 0, &e);
    assert_true(watch_read(w, &arena, &f));
    assert_int_equal(f.counts.pool_count, 1);
    assert_string_equal(f.counts.pools[0].name, "default");
    wait_until(w, NULL, ERR_UNAVAILABLE, &e); // nobody turns it any more
    assert_non_null(strstr(e.text, "the core thread has not answered for "));
    assert_true(watch_read(w, &arena, &f)); // the last counts stay
    assert_true(f.core_queue >= 1);
    wait_until(w, core, 0, &e);
    stop_while_turning(w, core);
    core_stop(core);
    core_free(core);
    watch_free(w);
    arena_free(&arena);
    db_close(db);
    storage_free(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_core_that_does_not_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
