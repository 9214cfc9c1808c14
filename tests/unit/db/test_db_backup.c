// Copies of a store: made while it is written, checked, and put in its place.
#include "tests/unit/db/store_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "db/backup.h"

static void put_many(struct db *db, int64_t first, int64_t count)
{
    struct db_batch *b = db_batch_new();
    char key[32];
    for (int64_t i = first; i < first + count; i++) {
        snprintf(key, sizeof key, "key-%lld", (long long)i);
        DB_ADD(b, META_SET, key, "value");
    }
    commit(db, b);
}

static void put(struct db *db, int64_t number)
{
    put_many(db, number, 1);
}

static int64_t ask_file(const char *path, const char *sql)
{
    struct db_reader *r = NULL;
    struct error e = {0};
    if (db_reader_open_path(path, &r, &e))
        fail_msg("%s", e.text);
    int64_t answer = ask(r, sql);
    db_reader_close(r);
    return answer;
}

static const char keys[] = "SELECT count(*) FROM meta WHERE key LIKE 'key-%'";

static char *in(const char *dir, const char *name)
{
    return path_join(dir, name);
}

static void expect(int err, int code, const struct error *e, const char *words)
{
    if (err != code || !strstr(e->text, words))
        fail_msg("error %d: %s", err, e->text);
}

// A child that writes one row after the other, without an end.
static pid_t writing_child(const char *dir)
{
    pid_t pid = fork_child();
    if (pid)
        return pid;
    struct db *db = store_open(dir);
    for (int64_t i = 1000000;; i++)
        put(db, i);
}

static bool count_looks(void *ctx, const char *what, int64_t done, int64_t total)
{
    (void)what;
    assert_true(done >= 0 && total >= 0);
    ++*(int *)ctx;
    return true;
}

static bool give_up(void *ctx, const char *what, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return strcmp(what, "copying") != 0;
}

static void whoever_waits_may_leave(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    const struct backup_watch watch = {give_up, NULL};
    struct db *db = store_open(store_folder(dir));
    struct db_batch *b = db_batch_new();
    char *large = xcalloc(1, 20000000);
    memset(large, 'x', 19999999);
    DB_ADD(b, META_SET, "large", large);
    commit(db, b);
    char *copy = in(dir, "copy.db");
    put_many(db, 0, 2000);
    expect(backup_make(dir, copy, false, &watch, &report, &e), ERR_TIMEOUT, &e, "no longer waits");
    expect(backup_spool(dir, copy, &watch, &e), ERR_TIMEOUT, &e, "no longer waits");
    assert_false(path_exists(copy));
    assert_int_equal(backup_spool(dir, copy, NULL, &e), 0);
    assert_int_equal(ask_file(copy, keys), 2000);
    free(large);
    free(copy);
    db_close(db);
}

static void a_copy_is_whole_while_a_master_writes(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    int looks = 0;
    const struct backup_watch watch = {count_looks, &looks};
    struct db *db = store_open(store_folder(dir));
    put_many(db, 0, 200);
    db_close(db);
    char *copy = in(dir, "copy.db");
    pid_t writer = writing_child(dir);
    while (ask_file(dir, keys) < 220)
        usleep(1000);
    for (int i = 0; i < 5; i++) {
        int64_t before = ask_file(dir, keys);
        if (backup_make(dir, copy, i > 0, &watch, &report, &e))
            fail_msg("%s", e.text);
        assert_true(ask_file(copy, keys) >= before);
        assert_true(report.rows >= before);
        assert_int_equal(report.version, ask_file(copy, "PRAGMA user_version"));
    }
    kill(writer, SIGKILL);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    struct stat is;
    assert_int_equal(stat(copy, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0600);
    assert_int_equal(is.st_size, report.bytes);
    assert_true(looks > 0);
    free(copy);
}

static void what_is_there_is_not_overwritten(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    db_close(store_open(store_folder(dir)));
    char *copy = in(dir, "copy.db");
    assert_int_equal(file_write_durable(copy, "mine", 4, 0644, &e), 0);
    expect(backup_make(dir, copy, false, NULL, &report, &e), ERR_CONFLICT, &e, "already exists");
    assert_int_equal(backup_make(dir, copy, true, NULL, &report, &e), 0);
    expect(backup_make("nothing-here", "other.db", false, NULL, &report, &e), ERR_NOT_FOUND, &e,
           "there is no");
    assert_false(path_exists("other.db"));
    free(copy);
}

static void damage(const char *path, long offset)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, offset, SEEK_SET);
    for (int i = 0; i < 4000; i++)
        fputc(0x5a, f);
    assert_int_equal(fclose(f), 0);
}

static void a_bad_copy_is_refused(void **state)
{
    (void)state;
    char dir[32], *kept;
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    put_many(db, 0, 300);
    char *copy = in(dir, "copy.db"), *other = in(dir, "other");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    db_close(db);
    damage(copy, 4096 * 3);
    expect(backup_verify(copy, NULL, &report, &e), ERR_CORRUPT, &e, "damaged");
    expect(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_CORRUPT, &e, "damaged");
    assert_int_equal(ask_file(dir, keys), 300); // nothing has changed
    assert_int_equal(file_write_durable(copy, "hello", 5, 0644, &e), 0);
    expect(backup_restore(copy, other, NULL, &report, &kept, &e), ERR_CORRUPT, &e, "not a store");
    expect(backup_restore("none.db", other, NULL, &report, &kept, &e), ERR_NOT_FOUND, &e,
           "none.db");
    assert_null(kept);
    char *path = in(other, "muster.db");
    assert_false(path_exists(path));
    free(path);
    free(other);
    free(copy);
}

static void a_newer_copy_is_refused(void **state)
{
    (void)state;
    char dir[32], *kept;
    struct error e = {0};
    struct backup_report report;
    db_close(store_open(store_folder(dir)));
    char *copy = in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    FILE *f = fopen(copy, "r+b"); // user_version of SQLite's header
    assert_non_null(f);
    fseek(f, 60, SEEK_SET);
    fwrite("\0\0\x7f\x01", 1, 4, f);
    assert_int_equal(fclose(f), 0);
    expect(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_VERSION, &e, "versions up to");
    free(copy);
}

static void a_store_comes_back_and_the_old_one_stays(void **state)
{
    (void)state;
    char dir[32], *kept = NULL;
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    put(db, 1);
    char *copy = in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    put(db, 2);
    expect(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_CONFLICT, &e,
           "in use by another master");
    db_close(db);
    if (backup_restore(copy, dir, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_non_null(kept);
    assert_int_equal(ask_file(kept, keys), 2);
    assert_int_equal(ask_file(dir, keys), 1);
    db = store_open(dir);
    put(db, 3);
    db_close(db);
    assert_int_equal(ask_file(dir, keys), 2);
    free(kept);
    free(copy);
}

// What a killed master had written but not folded into its file is kept with the old store.
static void a_killed_master_loses_nothing_of_the_old(void **state)
{
    (void)state;
    char dir[32], byte, *kept = NULL;
    int ready[2];
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    char *copy = in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    db_close(db);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork_child();
    if (pid == 0) {
        db = store_open(dir);
        put_many(db, 0, 50);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (backup_restore(copy, dir, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_int_equal(ask_file(kept, keys), 50);
    assert_int_equal(ask_file(dir, keys), 0);
    close(ready[0]);
    close(ready[1]);
    free(kept);
    free(copy);
}

static void ids_are_not_given_again(void **state)
{
    (void)state;
    char dir[32], other[40], *kept = NULL;
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    struct db_batch *b = db_batch_new();
    DB_ADD(b, USER_INSERT, "a", "", 0, 1, "", 1);
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "w", 1, 1);
    DB_ADD(b, PROJECT_INSERT, 1, "p", 1, "", 1, 1);
    DB_ADD(b, EXPERIMENT_INSERT, 7, "ACTIVE", "n", "", "", "[]", 1, 1, "job", 0, "", "{}", 42,
           "single", "{}", 0, 1, "", 1);
    DB_ADD(b, TRIAL_INSERT, 9, 7, "r", "7.9", "ACTIVE", "{}", 1, 1);
    commit(db, b);
    db_close(db);
    char *copy = in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    assert_int_equal(report.experiments, 1);
    assert_int_equal(report.trials, 1);
    snprintf(other, sizeof other, "%s/other", dir);
    if (backup_restore(copy, other, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_null(kept); // nothing was there
    assert_true(ask_file(other, "SELECT seq FROM sqlite_sequence WHERE name = 'experiments'") >
                1000);
    assert_true(ask_file(other, "SELECT run_id FROM trials") > 100);
    assert_int_equal(ask_file(copy, "SELECT run_id FROM trials"), 0);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_whole_while_a_master_writes),
        cmocka_unit_test(whoever_waits_may_leave),
        cmocka_unit_test(what_is_there_is_not_overwritten),
        cmocka_unit_test(a_bad_copy_is_refused),
        cmocka_unit_test(a_newer_copy_is_refused),
        cmocka_unit_test(a_store_comes_back_and_the_old_one_stays),
        cmocka_unit_test(a_killed_master_loses_nothing_of_the_old),
        cmocka_unit_test(ids_are_not_given_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
