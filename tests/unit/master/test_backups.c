// Automatic backups: the first one is made at once, the newest are kept, and the others are
// deleted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/db.h"
#include "master/backups.h"

static const int64_t hour = 3600LL * 1000000;

static void put(const char *name)
{
    assert_int_equal(file_write_durable(name, "old", 3, 0600, NULL), 0);
}

static size_t count_backups(void)
{
    size_t count;
    free(backups_found("kept", &count));
    return count;
}

static void wait_for_backups(size_t count, const char *gone)
{
    int64_t until = clock_mono_us() + 20 * 1000000;
    while (count_backups() != count || path_exists(gone)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(5000);
    }
}

static void test_newest_backups_are_kept(void **state)
{
    struct error e = {0};
    struct db *db = NULL;
    struct backups *b = NULL;
    size_t count;
    (void)state;
    assert_int_equal(db_open("store", &db, &e), 0);
    assert_int_equal(dir_make("kept", 0700, &e), 0);
    put("kept/muster-20200101T000000Z.db");
    put("kept/muster-20210101T000000Z.db");
    put("kept/mine.db");
    put("kept/muster-20190101T000000Z.db.gz");
    int64_t *found = backups_found("kept", &count);
    assert_int_equal(count, 2);
    assert_int_equal(found[0], 1609459200); // newest first
    free(found);
    assert_int_equal(backups_start(db_path(db), "kept", NULL, hour, 2, &b, &e), 0);
    wait_for_backups(2, "kept/muster-20200101T000000Z.db");
    backups_stop(b);
    assert_true(path_exists("kept/mine.db"));
    assert_true(path_exists("kept/muster-20190101T000000Z.db.gz"));

    // The newest backup is recent: a master that is restarted repeatedly makes no more.
    assert_int_equal(backups_start(db_path(db), "kept", NULL, hour, 1, &b, &e), 0);
    clock_sleep_us(100000);
    backups_stop(b);
    assert_int_equal(count_backups(), 2);
    db_close(db);
}

// A backup from the future was made while the clock was ahead. It neither delays the next backup
// nor takes its place.
static void test_a_clock_that_was_ahead(void **state)
{
    struct error e = {0};
    struct db *db = NULL;
    struct backups *b = NULL;
    size_t count;
    (void)state;
    assert_int_equal(dir_remove_tree("kept", &e), 0);
    assert_int_equal(dir_make("kept", 0700, &e), 0);
    assert_int_equal(db_open("store", &db, &e), 0);
    put("kept/muster-20990101T000000Z.db");
    put("kept/muster-20990102T000000Z.db");
    int64_t before = clock_wall_us() / 1000000;
    assert_int_equal(backups_start(db_path(db), "kept", NULL, hour, 2, &b, &e), 0);
    wait_for_backups(2, "kept/muster-20990101T000000Z.db");
    backups_stop(b);
    int64_t *found = backups_found("kept", &count);
    assert_true(found[1] >= before && found[1] <= clock_wall_us() / 1000000);
    free(found);
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest_backups_are_kept),
                                       cmocka_unit_test(test_a_clock_that_was_ahead)};
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
