// The files of tasks: measuring a folder in steps, quotas, and the choice of the task that ends
// when the disk is nearly full.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/quotas/disk_rules.h"
#include "agent/quotas/folder_walk.h"
#include "agent/quotas/task_limits.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"

#define GiB (UINT64_C(1) << 30)
#define MiB (UINT64_C(1) << 20)

// --- folders -------------------------------------------------------------------------------------

static void make_file(const char *path, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char *text = calloc(bytes + 1, 1);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, bytes), 0);
    assert_int_equal(fsync(fd), 0); // the disk's blocks are known
    close(fd);
    free(text);
}

static struct folder_use measure(const char *folder, size_t step, size_t *steps)
{
    struct folder_walk *w = folder_walk_open(AT_FDCWD, folder);
    assert_non_null(w);
    *steps = 1;
    while (!folder_walk_step(w, step))
        (*steps)++;
    struct folder_use use = *folder_walk_use(w);
    folder_walk_close(w);
    return use;
}

// Root reads everything, so another account tries it. 0: it succeeds.
static int measure_closed_folders(void)
{
    size_t steps;
    if (chdir("open") != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0))
        return 1;
    if (dir_make("w/hidden", 0700, NULL) || dir_make("w/listed", 0700, NULL))
        return 2;
    make_file("w/hidden/large", MiB);
    make_file("w/listed/large", MiB);
    if (chmod("w/hidden", 0300) || chmod("w/listed", 0600))
        return 3;
    struct folder_use use = measure("w", 10, &steps);
    bool good = use.files == 4 && use.bytes >= 2 * MiB && !use.unreadable;
    return dir_remove_tree("w", NULL) || !good ? 4 : 0;
}

static void counts_what_its_owner_has_closed(void **state)
{
    (void)state;
    int status = 1;
    assert_int_equal(mkdir("open", 0700), 0);
    assert_int_equal(chmod("open", 0777), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(measure_closed_folders());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rmdir("open"), 0);
}

static void counts_files_and_bytes_in_steps(void **state)
{
    (void)state;
    char path[64];
    size_t steps;
    assert_int_equal(dir_make("walk/a/b", 0700, NULL), 0);
    assert_int_equal(dir_make("walk/empty", 0700, NULL), 0);
    for (int i = 0; i < 25; i++) {
        snprintf(path, sizeof path, "walk/a/%d", i);
        make_file(path, 0);
    }
    make_file("walk/a/b/large", MiB);
    assert_int_equal(symlink("/etc", "walk/outside"), 0);
    struct folder_use use = measure("walk", 10, &steps);
    assert_int_equal(use.files, 3 + 25 + 1 + 1);
    assert_in_range(use.bytes, MiB, MiB + 64 * 1024);
    assert_false(use.too_deep);
    assert_in_range(steps, 3, 4);
    struct folder_use same = measure("walk", 1, &steps);
    assert_int_equal(same.files, use.files);
    assert_int_equal(same.bytes, use.bytes);
    assert_int_equal(link("walk/a/b/large", "walk/again"), 0); // the same bytes
    same = measure("walk", 1000, &steps);
    assert_int_equal(same.files, use.files + 1);
    assert_in_range(same.bytes, MiB, MiB + 64 * 1024);
    assert_null(folder_walk_open(AT_FDCWD, "walk/outside")); // a link
    assert_null(folder_walk_open(AT_FDCWD, "walk/a/1"));     // a file
}

static void deep_folders_are_noticed(void **state)
{
    (void)state;
    size_t steps;
    int levels = LIMIT_TASK_FOLDER_DEPTH, parent = AT_FDCWD;
    for (int i = 0; i < levels; i++) { // as a program does whose path is longer than PATH_MAX
        const char *name = i ? "d" : "deep";
        assert_int_equal(mkdirat(parent, name, 0700), 0);
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent >= 0)
            close(parent);
        parent = fd;
    }
    assert_false(measure("deep", 1000, &steps).too_deep);
    assert_int_equal(mkdirat(parent, "d", 0700), 0);
    close(parent);
    struct folder_use use = measure("deep", 1000, &steps);
    assert_true(use.too_deep);
    assert_int_equal(use.files, levels);
    assert_int_equal(dir_remove_tree("deep", NULL), 0);
}

// --- rules ---------------------------------------------------------------------------------------

static const struct disk_state roomy = {
    .free = 80 * GiB, .total = 100 * GiB, .free_files = 900000, .total_files = 1000000};

static void check_rule(const struct disk_rules *rules, struct folder_use use, const char *text)
{
    struct error e = {0};
    int err = disk_rules_check_task(rules, &roomy, &use, &e);
    assert_int_equal(err, *text ? ERR_TOO_LARGE : 0);
    if (!strstr(e.text, text))
        fail_msg("%s", e.text);
}

static void a_task_may_use_its_quota(void **state)
{
    (void)state;
    const struct disk_rules rules = {.task = {.bytes = GiB}, .task_files = 1000};
    const struct disk_rules part = {.task = {.percent = 10}}, none = {0};
    check_rule(&rules, (struct folder_use){.bytes = GiB, .files = 1000}, "");
    check_rule(
        &rules, (struct folder_use){.bytes = GiB + 1},
        "files of 1.0 GiB on this machine (its working folder and /tmp), more than its quota");
    check_rule(&rules, (struct folder_use){.files = 1001}, "more than 1000 files");
    check_rule(&rules, (struct folder_use){.files = 1001}, "--task-files");
    check_rule(&part, (struct folder_use){.bytes = 10 * GiB}, "");
    check_rule(&part, (struct folder_use){.bytes = 10 * GiB + 1}, "--task-disk");
    check_rule(&none, (struct folder_use){.bytes = 100 * GiB, .files = 1000000000}, "");
    check_rule(&none, (struct folder_use){.too_deep = true}, "nested deeper than 200 levels");
}

static void low_is_below_the_floor(void **state)
{
    (void)state;
    const struct disk_rules rules = {.floor = {.bytes = GiB, .percent = 5}}, none = {0};
    struct disk_state disk = roomy;
    assert_false(disk_rules_is_low(&rules, &disk));
    disk.free = GiB;
    assert_false(disk_rules_is_low(&rules, &disk));
    disk.free = GiB - 1;
    assert_true(disk_rules_is_low(&rules, &disk));
    assert_false(disk_rules_is_low(&none, &disk));
    disk = roomy;
    disk.free_files = 10000;
    assert_false(disk_rules_is_low(&rules, &disk));
    disk.free_files--;
    assert_true(disk_rules_is_low(&rules, &disk));
    assert_false(disk_rules_is_low(&none, &disk));
    disk.total_files = disk.free_files = 0; // a file system without a table of files
    assert_false(disk_rules_is_low(&rules, &disk));
}

#define USES(...) ((const struct task_use[]){__VA_ARGS__})
#define USE(bytes_, files_, ending_)                                                               \
    {                                                                                              \
        .use = {.bytes = (bytes_), .files = (files_)}, .ending = (ending_)                         \
    }

static int choose(const struct disk_state *disk, const struct task_use *tasks, size_t count,
                  struct error *e)
{
    const struct disk_rules rules = {.floor = {.bytes = GiB}};
    *e = (struct error){0};
    return disk_rules_choose(&rules, disk, tasks, count, e);
}

static void the_largest_task_ends(void **state)
{
    (void)state;
    struct error e;
    struct disk_state disk = roomy;
    disk.free = 100 * MiB; // 924 MiB are missing
    assert_int_equal(
        choose(&disk, USES(USE(GiB, 9, false), USE(3 * GiB, 1, false), USE(GiB, 9, false)), 3, &e),
        1);
    assert_int_equal(e.code, ERR_FULL);
    assert_non_null(strstr(e.text, "100 MiB of 100 GiB are free"));
    assert_non_null(strstr(e.text, "3.0 GiB in its working folder"));
    // Others have filled the disk if no task has as much as shall be free, however little is
    // missing.
    assert_int_equal(choose(&disk, USES(USE(GiB - 1, 9, false)), 1, &e), -1);
    assert_int_equal(choose(&disk, USES(USE(GiB, 9, false)), 1, &e), 0);
    disk.free = GiB - 1;
    assert_int_equal(choose(&disk, USES(USE(GiB - 1, 9, false)), 1, &e), -1);
    assert_int_equal(choose(&disk, USES(USE(GiB, 9, false)), 1, &e), 0);
    assert_int_equal(choose(&disk, NULL, 0, &e), -1);
    disk.free = 100 * MiB;
    // A task that ends already frees enough, or not enough.
    assert_int_equal(choose(&disk, USES(USE(GiB, 9, true), USE(5 * GiB, 9, false)), 2, &e), -1);
    assert_int_equal(choose(&disk, USES(USE(MiB, 9, true), USE(5 * GiB, 9, false)), 2, &e), 1);
    assert_int_equal(choose(&roomy, USES(USE(9 * GiB, 9, false)), 1, &e), -1);
}

static void the_task_with_most_files_ends(void **state)
{
    (void)state;
    struct error e;
    struct disk_state disk = roomy;
    disk.free_files = 10;
    assert_int_equal(choose(&disk, USES(USE(9 * GiB, 5, false), USE(MiB, 900000, false)), 2, &e),
                     1);
    assert_non_null(strstr(e.text, "10 of 1000000 are left"));
    assert_int_equal(choose(&disk, USES(USE(9 * GiB, 9999, false)), 1, &e), -1);
}

// --- flags ---------------------------------------------------------------------------------------

static void flags_replace_defaults(void **state)
{
    (void)state;
    struct error e = {0};
    struct task_limits limits = task_limits_default;
    const struct task_limits_text given = {.memory = "4GiB", .disk = "0", .floor = "10%"};
    assert_int_equal(task_limits_parse(&(struct task_limits_text){0}, &limits, &e), 0);
    assert_memory_equal(&limits, &task_limits_default, sizeof limits);
    assert_int_equal(task_limits_parse(&given, &limits, &e), 0);
    json_t *json = task_limits_json(&limits, ".");
    assert_int_equal(jget_int(json, "memory", -1), 4 * GiB);
    assert_int_equal(jget_int(json, "disk", -1), 0);
    assert_int_equal(jget_int(json, "processes", -1), 8192);
    assert_int_equal(jget_int(json, "files", -1), 2000000);
    assert_true(jget_int(json, "diskFloor", -1) > 0);
    json_decref(json);
    assert_int_equal(task_limits_parse(&(struct task_limits_text){.disk = "much"}, &limits, &e),
                     ERR_INVALID);
    assert_non_null(strstr(e.text, "--task-disk: \"much\" is no size"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_files_and_bytes_in_steps),
        cmocka_unit_test(counts_what_its_owner_has_closed),
        cmocka_unit_test(deep_folders_are_noticed),
        cmocka_unit_test(a_task_may_use_its_quota),
        cmocka_unit_test(low_is_below_the_floor),
        cmocka_unit_test(the_largest_task_ends),
        cmocka_unit_test(the_task_with_most_files_ends),
        cmocka_unit_test(flags_replace_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
