// Images, histograms, tables and texts of trials in the core: reports, restarts, deletion.
#include "tests/unit/master/support/core_fixture.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/os/file.h"

#define FOLDER "media/cluster/1"

static void run_one(void)
{
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
}

static char *path_of(const char *relative)
{
    return xasprintf("%s/%s", cl.checkpoints, relative);
}

// Writes the content as a task does, and returns its digest; valid for four calls.
static const char *write_bytes(const char *content, size_t len)
{
    static char digests[4][SHA256_HEX];
    static int turn;
    char *digest = digests[turn++ % 4];
    sha256_hex(content, len, digest);
    char *folder = path_of(FOLDER), *path = path_join(folder, digest);
    assert_int_equal(dir_make(folder, 0755, NULL), 0);
    assert_int_equal(file_write_durable(path, content, len, 0644, NULL), 0);
    free(path);
    free(folder);
    return digest;
}

static const char *write_content(const char *content)
{
    return write_bytes(content, strlen(content));
}

static int post_as(const char *allocation, const char *items)
{
    char *body =
        xasprintf("{\"trialRunId\": %s, \"items\": [%s]}", strrchr(allocation, '.') + 1, items);
    int status = call_status(core_trial_media, as_task(allocation), "1", body);
    free(body);
    return status;
}

static int post(const char *items)
{
    return post_as("1.1.1", items);
}

// An item with these members instead of the ordinary ones; valid for one call.
static const char *item(int64_t step, const char *name, const char *digest, int64_t size)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "{\"step\": %lld, \"name\": \"%s\", \"type\": \"text\", \"format\": \"text\","
             " \"digest\": \"%s\", \"size\": %lld, \"time\": 1700000000000000}",
             (long long)step, name, digest, (long long)size);
    return text;
}

static void assert_items(const char *expected)
{
    assert_stored("SELECT coalesce((SELECT group_concat(text, ' ') FROM (SELECT run_id || ':' ||"
                  " name || '@' || step AS text FROM media ORDER BY name, step)), '')",
                  expected);
}

static void test_reports(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    assert_int_equal(post(item(0, "a", digest, 3)), 200);
    assert_int_equal(post(item(10, "a", digest, 3)), 200);
    assert_int_equal(post(item(10, "b/c", digest, 3)), 200);
    assert_int_equal(post(item(10, "a", digest, 3)), 200); // repeated
    assert_items("1:a@0 1:a@10 1:b/c@10");
    assert_stored("SELECT type || ' ' || size || ' ' || reported_at FROM media WHERE step = 0",
                  "text 3 1700000000000000");
    assert_stored("SELECT group_concat(experiment_id) FROM media_folders", "1");
    const char *other = write_content("defg");
    assert_int_equal(post(item(10, "a", other, 4)), 200); // the newest counts
    assert_stored("SELECT size FROM media WHERE name = 'a' AND step = 10", "4");
    assert_int_equal(post(""), 200); // nothing to do
}

static void test_content_must_exist(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char missing[SHA256_HEX];
    sha256_hex("x", 1, missing);
    assert_int_equal(post(item(1, "a", missing, 1)), 400);
    assert_non_null(strstr(last_error, "items.0: "));
    assert_non_null(strstr(last_error, "write the content before its report"));
    assert_int_equal(post(item(1, "a", digest, 4)), 400);
    assert_non_null(strstr(last_error, "has 3 bytes, not 4"));
    char *both = xasprintf("%s,", item(1, "a", digest, 3)),
         *second = xasprintf("%s%s", both, item(2, "a", missing, 1));
    assert_int_equal(post(second), 400); // all or none
    assert_non_null(strstr(last_error, "items.1: "));
    assert_items("");
    free(second);
    free(both);

    // A link leads out of the storage.
    char *path = xasprintf("%s/" FOLDER "/%s", cl.checkpoints, missing);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_equal(post(item(1, "a", missing, 1)), 400);
    free(path);
    assert_items("");
}

static void test_storage_is_away(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char *aside = xasprintf("%s.aside", cl.checkpoints);
    assert_int_equal(rename(cl.checkpoints, aside), 0);
    assert_int_equal(post(item(1, "a", digest, 3)), 503); // the task tries again
    assert_int_equal(rename(aside, cl.checkpoints), 0);
    assert_int_equal(post(item(1, "a", digest, 3)), 200);
    free(aside);
}

static void assert_refused(const char *items, int status, const char *why)
{
    assert_int_equal(post(items), status);
    if (!strstr(last_error, why))
        fail_msg("\"%s\" lacks \"%s\"", last_error, why);
}

static void test_bad_items(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    assert_refused(item(-1, "a", digest, 3), 400, "items.0: step");
    assert_refused(item(1, "a", digest, -1), 400, "items.0: size");
    assert_refused(item(1, "", digest, 3), 400, "items.0: name: 0 bytes");
    assert_refused(item(1, "a\\nb", digest, 3), 400, "byte 1 is a control character");
    assert_refused(item(1, "a", "abc", 3), 400, "items.0: digest");
    assert_refused(item(1, "a", "../../../../etc/passwd", 3), 400, "items.0: digest");
    assert_refused("{\"step\": 1, \"name\": \"a\", \"type\": \"video\"}", 400, "items.0: type");
    assert_refused("{\"step\": 1, \"name\": \"a\", \"type\": \"image\", \"format\": \"gif\"}", 400,
                   "the format of type image is png");
    assert_refused("7", 400, "items.0");
    assert_int_equal(call_status(core_trial_media, as_task("1.1.1"), "1", "{}"), 400);
    assert_items("");
}

static void test_limits(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char name[LIMIT_MEDIA_NAME + 2];
    memset(name, 'n', sizeof name);
    name[LIMIT_MEDIA_NAME + 1] = '\0';
    assert_refused(item(1, name, digest, 3), 400, "257 bytes, not 1 to 256");
    name[LIMIT_MEDIA_NAME] = '\0';
    assert_int_equal(post(item(1, name, digest, 3)), 200);
    char *large = xcalloc(LIMIT_MEDIA_ITEM + 1, 1);
    digest = write_bytes(large, LIMIT_MEDIA_ITEM);
    assert_int_equal(post(item(2, "a", digest, LIMIT_MEDIA_ITEM)), 200);
    digest = write_bytes(large, LIMIT_MEDIA_ITEM + 1);
    assert_refused(item(3, "a", digest, LIMIT_MEDIA_ITEM + 1), 413, "at most 16777216");
    free(large);
    assert_stored("SELECT count(*) FROM media", "2");
}

static void test_content_must_have_its_digest(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char *path = xasprintf("%s/" FOLDER "/%s", cl.checkpoints, digest);
    assert_int_equal(file_write_durable(path, "abd", 3, 0644, NULL), 0);
    assert_refused(item(1, "a", digest, 3), 400, "items.0: the file ba7816bf");
    assert_non_null(strstr(last_error, "has another content: its SHA-256 is a52d159f"));
    assert_int_equal(file_write_durable(path, "abc", 3, 0644, NULL), 0);
    assert_int_equal(post(item(1, "a", digest, 3)), 200);
    free(path);
}

// The refusal names the file and comes at once: the program can mend it, another try cannot.
static void test_content_must_be_readable(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char *folder = path_of(FOLDER), *path = path_join(folder, digest);
    assert_int_equal(chmod(path, 0), 0);
    assert_refused(item(1, "a", digest, 3), 400, "items.0: the master may not read ");
    assert_non_null(strstr(last_error, path));
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(folder, 0), 0);
    assert_refused(item(1, "a", digest, 3), 400, "items.0: the master may not read ");
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(cl.checkpoints, 0), 0);
    assert_refused(item(1, "a", digest, 3), 400, "items.0: the master may not read ");
    assert_int_equal(chmod(cl.checkpoints, 0755), 0);
    assert_int_equal(post(item(1, "a", digest, 3)), 200);
    free(path);
    free(folder);
}

// A post of `count` items with steps from `first`.
static int post_many(const char *digest, int64_t first, int64_t count)
{
    struct buf items;
    buf_init(&items, LIMIT_BODY);
    for (int64_t i = 0; i < count; i++)
        buf_printf(&items, "%s%s", i ? "," : "", item(first + i, "a", digest, 3));
    int status = post(buf_str(&items));
    buf_free(&items);
    return status;
}

static void test_number_of_items(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    assert_int_equal(post_many(digest, 0, LIMIT_MEDIA_PER_POST + 1), 413);
    for (int64_t i = 0; i < LIMIT_MEDIA_ITEMS; i += LIMIT_MEDIA_PER_POST)
        assert_int_equal(post_many(digest, i, LIMIT_MEDIA_PER_POST), 200);
    assert_refused(item(LIMIT_MEDIA_ITEMS, "a", digest, 3), 413, "report at fewer steps");
    assert_int_equal(post_many(digest, 5, 2), 200); // repeated: they need no room
    assert_stored("SELECT count(*) FROM media", "20000");
}

static void test_only_the_present_run_reports(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    char *body = xasprintf("{\"trialRunId\": 2, \"items\": [%s]}", item(1, "a", digest, 3));
    assert_int_equal(call_status(core_trial_media, as_task("1.1.1"), "1", body), 403);
    assert_int_equal(call_status(core_trial_media, as_user(OWNER, false), "1", body), 400);
    assert_int_equal(call_status(core_trial_media, as_user(OTHER, false), "1", body), 403);
    assert_int_equal(call_status(core_trial_media, as_task("1.1.1"), "2", body), 403);
    free(body);
    assert_items("");
}

static void test_a_user_reports_after_the_end(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    settle();
    assert_int_equal(post(item(1, "a", digest, 3)), 403); // its task cannot any more
    char *body = xasprintf("{\"items\": [%s]}", item(1, "a", digest, 3));
    assert_int_equal(call_status(core_trial_media, as_user(OTHER, false), "1", body), 403);
    assert_int_equal(call_status(core_trial_media, as_user(OWNER, false), "1", body), 200);
    free(body);
    assert_items("1:a@1");
}

static void test_restart(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    assert_int_equal(post(item(10, "a", digest, 3)), 200);
    assert_int_equal(call_status(core_checkpoint_report, as_task("1.1.1"), NULL,
                                 "{\"uuid\":\"00000001-1111-4111-8111-111111111111\",\"metadata\":"
                                 "{\"steps_completed\":20},\"resources\":{}}"),
                     200);
    assert_int_equal(post(item(20, "a", digest, 3)), 200);
    assert_int_equal(post(item(30, "a", digest, 3)), 200);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_80));
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    settle();
    assert_items("1:a@10 1:a@20"); // step 30 comes again
    assert_int_equal(post_as("1.1.1", item(40, "a", digest, 3)), 403);
    assert_int_equal(post_as("1.1.2", item(20, "a", digest, 3)), 200);
    assert_int_equal(post_as("1.1.2", item(30, "b", digest, 3)), 200);
    assert_items("1:a@10 2:a@20 2:b@30");
}

static void wait_until_stored(const char *sql, const char *expected)
{
    for (int i = 0; i < 1000 && strcmp(stored(sql), expected); i++) {
        settle();
        clock_sleep_us(2000);
    }
    assert_stored(sql, expected);
}

static void test_deletion(void **state)
{
    (void)state;
    run_one();
    const char *digest = write_content("abc");
    assert_int_equal(post(item(1, "a", digest, 3)), 200);
    write_content("its report has not arrived");
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    char *aside = xasprintf("%s.aside", cl.checkpoints), *folder = path_of(FOLDER),
         *media = path_of("media/cluster");
    assert_int_equal(rename(cl.checkpoints, aside), 0);
    call_ok(core_experiment_delete, as_user(OWNER, false), "1", NULL);
    wait_until_stored("SELECT state FROM experiments", "DELETE_FAILED"); // nothing is forgotten
    assert_items("1:a@1");
    assert_int_equal(rename(aside, cl.checkpoints), 0);
    assert_true(path_exists(folder));
    call_ok(core_experiment_delete, as_user(OWNER, false), "1", NULL);
    wait_until_stored("SELECT count(*) FROM experiments", "0");
    assert_false(path_exists(folder));
    assert_true(path_exists(media));
    assert_items("");
    assert_stored("SELECT count(*) FROM media_folders", "0");
    free(aside);
    free(folder);
    free(media);
}

static void test_deletion_of_an_absent_folder(void **state)
{
    (void)state;
    run_one();
    assert_int_equal(post(item(1, "a", write_content("abc"), 3)), 200);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    char *media = path_of("media");
    assert_int_equal(dir_remove_tree(media, NULL), 0); // by a person
    free(media);
    call_ok(core_experiment_delete, as_user(OWNER, false), "1", NULL);
    wait_until_stored("SELECT count(*) FROM experiments", "0");
}

// Root, too, obeys the modes of files from here on; threads that start later inherit it.
static void give_up_override(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

int main(void)
{
    give_up_override();
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_reports),
        TEST(test_content_must_exist),
        TEST(test_content_must_have_its_digest),
        TEST(test_content_must_be_readable),
        TEST(test_storage_is_away),
        TEST(test_bad_items),
        TEST(test_limits),
        TEST(test_number_of_items),
        TEST(test_only_the_present_run_reports),
        TEST(test_a_user_reports_after_the_end),
        TEST(test_restart),
        TEST(test_deletion),
        TEST(test_deletion_of_an_absent_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
