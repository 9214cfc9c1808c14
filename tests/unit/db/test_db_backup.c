// Copies of a store: made during writes, verified, and restored.
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

static void insert_keys(struct db *db, int64_t first, int64_t count)
{
    struct db_batch *b = db_batch_new();
    char key[32];
    for (int64_t i = first; i < first + count; i++) {
        snprintf(key, sizeof key, "key-%lld", (long long)i);
        DB_ADD(b, META_SET, key, "value");
    }
    commit(db, b);
}

static void insert_key(struct db *db, int64_t number)
{
    insert_keys(db, number, 1);
}

static int64_t query_file_int(const char *path, const char *sql)
{
    struct db_reader *r = NULL;
    struct error e = {0};
    if (db_reader_open_path(path, &r, &e))
        fail_msg("%s", e.text);
    int64_t answer = query_int(r, sql);
    db_reader_close(r);
    return answer;
}

static const char keys[] = "SELECT count(*) FROM meta WHERE key LIKE 'key-%'";

static char *path_in(const char *dir, const char *name)
{
    return path_join(dir, name);
}

static void expect_error(int err, int code, const struct error *e, const char *words)
{
    if (err != code || !strstr(e->text, words))
        fail_msg("error %d: %s", err, e->text);
}

// Starts a child that writes one row after the other until it is killed.
static pid_t fork_writer(const char *dir)
{
    pid_t pid = fork_child();
    if (pid)
        return pid;
    struct db *db = store_open(dir);
    for (int64_t i = 1000000;; i++)
        insert_key(db, i);
}

static bool count_progress(void *ctx, const char *what, int64_t done, int64_t total)
{
    (void)what;
    assert_true(done >= 0 && total >= 0);
    ++*(int *)ctx;
    return true;
}

static bool cancel_later(void *ctx, const char *what, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return strcmp(what, "copying") != 0;
}

static void a_caller_may_cancel(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    const struct backup_watch watch = {cancel_later, NULL};
    struct db *db = store_open(store_folder(dir));
    struct db_batch *b = db_batch_new();
    char *large = xcalloc(1, 20000000);
    memset(large, 'x', 19999999);
    DB_ADD(b, META_SET, "large", large);
    commit(db, b);
    char *copy = path_in(dir, "copy.db");
    insert_keys(db, 0, 2000);
    expect_error(backup_make(dir, copy, false, &watch, &report, &e), ERR_TIMEOUT, &e,
                 "no longer waits");
    expect_error(backup_spool(dir, copy, &watch, &e), ERR_TIMEOUT, &e, "no longer waits");
    assert_false(path_exists(copy));
    assert_int_equal(backup_spool(dir, copy, NULL, &e), 0);
    assert_int_equal(query_file_int(copy, keys), 2000);
    free(large);
    free(copy);
    db_close(db);
}

static void a_copy_is_consistent_while_a_master_writes(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    int looks = 0;
    const struct backup_watch watch = {count_progress, &looks};
    struct db *db = store_open(store_folder(dir));
    insert_keys(db, 0, 200);
    db_close(db);
    char *copy = path_in(dir, "copy.db");
    pid_t writer = fork_writer(dir);
    while (query_file_int(dir, keys) < 220)
        usleep(1000);
    for (int i = 0; i < 5; i++) {
        int64_t before = query_file_int(dir, keys);
        if (backup_make(dir, copy, i > 0, &watch, &report, &e))
            fail_msg("%s", e.text);
        assert_true(query_file_int(copy, keys) >= before);
        assert_true(report.rows >= before);
        assert_int_equal(report.version, query_file_int(copy, "PRAGMA user_version"));
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

static void an_existing_file_is_not_overwritten(void **state)
{
    (void)state;
    char dir[32];
    struct error e = {0};
    struct backup_report report;
    db_close(store_open(store_folder(dir)));
    char *copy = path_in(dir, "copy.db");
    assert_int_equal(file_write_durable(copy, "mine", 4, 0644, &e), 0);
    expect_error(backup_make(dir, copy, false, NULL, &report, &e), ERR_CONFLICT, &e,
                 "already exists");
    assert_int_equal(backup_make(dir, copy, true, NULL, &report, &e), 0);
    expect_error(backup_make("nothing-here", "other.db", false, NULL, &report, &e), ERR_NOT_FOUND,
                 &e, "there is no");
    assert_false(path_exists("other.db"));
    free(copy);
}

static void overwrite_bytes(const char *path, long offset)
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
    insert_keys(db, 0, 300);
    char *copy = path_in(dir, "copy.db"), *other = path_in(dir, "other");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    db_close(db);
    overwrite_bytes(copy, 4096 * 3);
    expect_error(backup_verify(copy, NULL, &report, &e), ERR_CORRUPT, &e, "damaged");
    expect_error(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_CORRUPT, &e, "damaged");
    assert_int_equal(query_file_int(dir, keys), 300); // the store is unchanged
    assert_int_equal(file_write_durable(copy, "hello", 5, 0644, &e), 0);
    expect_error(backup_restore(copy, other, NULL, &report, &kept, &e), ERR_CORRUPT, &e,
                 "not a store");
    expect_error(backup_restore("none.db", other, NULL, &report, &kept, &e), ERR_NOT_FOUND, &e,
                 "none.db");
    assert_null(kept);
    char *path = path_in(other, "muster.db");
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
    char *copy = path_in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    FILE *f = fopen(copy, "r+b"); // user_version of SQLite's header
    assert_non_null(f);
    fseek(f, 60, SEEK_SET);
    fwrite("\0\0\x7f\x01", 1, 4, f);
    assert_int_equal(fclose(f), 0);
    expect_error(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_VERSION, &e,
                 "versions up to");
    free(copy);
}

static void a_restore_keeps_the_old_store(void **state)
{
    (void)state;
    char dir[32], *kept = NULL;
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    insert_key(db, 1);
    char *copy = path_in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    insert_key(db, 2);
    expect_error(backup_restore(copy, dir, NULL, &report, &kept, &e), ERR_CONFLICT, &e,
                 "in use by another master");
    db_close(db);
    if (backup_restore(copy, dir, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_non_null(kept);
    assert_int_equal(query_file_int(kept, keys), 2);
    assert_int_equal(query_file_int(dir, keys), 1);
    db = store_open(dir);
    insert_key(db, 3);
    db_close(db);
    assert_int_equal(query_file_int(dir, keys), 2);
    free(kept);
    free(copy);
}

// Data that a killed master had left in its log is kept with the old store.
static void a_restore_keeps_the_log_of_a_killed_master(void **state)
{
    (void)state;
    char dir[32], byte, *kept = NULL;
    int ready[2];
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    char *copy = path_in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    db_close(db);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork_child();
    if (pid == 0) {
        db = store_open(dir);
        insert_keys(db, 0, 50);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (backup_restore(copy, dir, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_int_equal(query_file_int(kept, keys), 50);
    assert_int_equal(query_file_int(dir, keys), 0);
    close(ready[0]);
    close(ready[1]);
    free(kept);
    free(copy);
}

static void ids_are_not_reused(void **state)
{
    (void)state;
    char dir[32], other[40], *kept = NULL;
    struct error e = {0};
    struct backup_report report;
    struct db *db = store_open(store_folder(dir));
    struct db_batch *b = db_batch_new();
    DB_ADD(b, USER_INSERT, "a", "", 0, 1, "", 1);
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "w", 1, 1);
    DB_ADD(b, PROJECT_INSERT, 1, "p", 1, "", 1, 1, "P1");
    DB_ADD(b, EXPERIMENT_INSERT, 7, "ACTIVE", "n", "", "", "[]", 1, 1, "job", 0, "", "{}", 42,
           "single", "{}", 0, 1, "", 1);
    DB_ADD(b, TRIAL_INSERT, 9, 7, "r", "7.9", "ACTIVE", "{}", 1, 1);
    commit(db, b);
    db_close(db);
    char *copy = path_in(dir, "copy.db");
    assert_int_equal(backup_make(dir, copy, false, NULL, &report, &e), 0);
    assert_int_equal(report.experiments, 1);
    assert_int_equal(report.trials, 1);
    snprintf(other, sizeof other, "%s/other", dir);
    if (backup_restore(copy, other, NULL, &report, &kept, &e))
        fail_msg("%s", e.text);
    assert_null(kept); // there was no store
    assert_true(
        query_file_int(other, "SELECT seq FROM sqlite_sequence WHERE name = 'experiments'") > 1000);
    assert_true(query_file_int(other, "SELECT run_id FROM trials") > 100);
    assert_int_equal(query_file_int(copy, "SELECT run_id FROM trials"), 0);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_consistent_while_a_master_writes),
        cmocka_unit_test(a_caller_may_cancel),
        cmocka_unit_test(an_existing_file_is_not_overwritten),
        cmocka_unit_test(a_bad_copy_is_refused),
        cmocka_unit_test(a_newer_copy_is_refused),
        cmocka_unit_test(a_restore_keeps_the_old_store),
        cmocka_unit_test(a_restore_keeps_the_log_of_a_killed_master),
        cmocka_unit_test(ids_are_not_reused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
