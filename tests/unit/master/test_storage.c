// The places where checkpoints may be, and how they are opened.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "master/common/storage.h"
#include "master/retention/gc.h"

#define UUID "11111111-2222-3333-4444-555555555555"

static char here[512];
static struct storage *places;

static int setup(void **state)
{
    (void)state;
    struct error e = {0};
    assert_non_null(getcwd(here, sizeof here));
    char *own = xasprintf("{\"type\":\"directory\",\"container_path\":\"%s/own\"}", here);
    char *linked = xasprintf("%s/linked//", here);
    const char *allowed[] = {linked};
    assert_int_equal(dir_make("own", 0755, NULL), 0);
    assert_int_equal(dir_make("real/team", 0755, NULL), 0);
    assert_int_equal(dir_make("data/" UUID, 0755, NULL), 0);
    assert_int_equal(file_write_durable("data/" UUID "/agent.token", "x", 1, 0600, NULL), 0);
    assert_int_equal(symlink("real", "linked"), 0); // made by the administrator
    if (storage_new(own, allowed, 1, &places, &e))
        fail_msg("%s", e.text);
    free(linked);
    free(own);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    storage_free(places);
    return 0;
}

static char *at(const char *path)
{
    return xasprintf("{\"type\":\"directory\",\"container_path\":\"%s\"}", path);
}

static int check(const char *path)
{
    struct error e = {0};
    json_t *value;
    char *text = at(path);
    assert_int_equal(json_parse(text, strlen(text), "t", &value, &e), 0);
    int rc = storage_check(places, value, &e);
    if (rc) {
        assert_non_null(strstr(e.text, path));
        assert_non_null(strstr(e.text, "--storage-allow"));
    }
    json_decref(value);
    free(text);
    return rc;
}

static int check_here(const char *below)
{
    char *path = xasprintf("%s%s", here, below);
    int rc = check(path);
    free(path);
    return rc;
}

static void test_only_allowed_folders_are_accepted(void **state)
{
    (void)state;
    assert_int_equal(check_here("/own"), 0);
    assert_int_equal(check_here("/own/"), 0);
    assert_int_equal(check_here("/own/team/a"), 0);
    assert_int_equal(check_here("/linked/team"), 0); // as the administrator configured it
    assert_int_equal(check_here("/real/team"), 0);   // the real path
    assert_int_equal(check_here("/owned"), ERR_FORBIDDEN);
    assert_int_equal(check_here(""), ERR_FORBIDDEN);
    assert_int_equal(check_here("/data"), ERR_FORBIDDEN);
    assert_int_equal(check_here("/own/../data"), ERR_FORBIDDEN);
    assert_int_equal(check_here("/own/a/../../data"), ERR_FORBIDDEN);
    assert_int_equal(check("/"), ERR_FORBIDDEN);
    assert_int_equal(check("/etc"), ERR_FORBIDDEN);
}

static int open_at(const char *below, const char *uuid)
{
    struct error e = {0};
    char *path = xasprintf("%s%s", here, below), *text = at(path), *shown = NULL;
    int fd = -1, rc = storage_open(places, text, uuid, &fd, &shown, &e);
    assert_int_equal(rc == 0, fd >= 0 && shown);
    if (fd >= 0)
        close(fd);
    free(shown);
    free(text);
    free(path);
    return rc;
}

static void test_links_do_not_lead_out(void **state)
{
    (void)state;
    assert_int_equal(dir_make("real/team/" UUID, 0755, NULL), 0);
    assert_int_equal(open_at("/linked/team", UUID), 0);
    assert_int_equal(open_at("/real/team", UUID), 0);
    assert_int_equal(open_at("/real/none", UUID), ERR_UNAVAILABLE);
    assert_int_equal(open_at("/own", UUID), ERR_NOT_FOUND);
    assert_int_equal(open_at("/data", UUID), ERR_FORBIDDEN);
    assert_int_equal(open_at("/own", ".."), ERR_INVALID);
    assert_int_equal(open_at("/own", "../data/" UUID), ERR_INVALID);
    assert_int_equal(symlink("../data/" UUID, "own/" UUID), 0); // in place of a checkpoint
    assert_int_equal(open_at("/own", UUID), ERR_NOT_FOUND);
    assert_int_equal(symlink("../data", "own/team"), 0); // in place of the storage folder
    assert_int_equal(open_at("/own/team", UUID), ERR_INVALID);
    assert_int_equal(unlink("own/" UUID), 0);
    assert_int_equal(unlink("own/team"), 0);
}

static int collect(const char *below, const char *patterns)
{
    struct error e = {0};
    char *path = xasprintf("%s%s", here, below), *text = at(path), *left = NULL;
    int rc = gc_remove_files(places, UUID, text, patterns, &left, &e);
    free(left);
    free(text);
    free(path);
    return rc;
}

static void test_nothing_is_removed_elsewhere(void **state)
{
    (void)state;
    static const char *const patterns[] = {"[\"**\"]", "[\"agent.token\"]"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(collect("/data", patterns[i]), ERR_FORBIDDEN);
        assert_int_equal(symlink("../data", "own/team"), 0);
        assert_int_equal(collect("/own/team", patterns[i]), ERR_INVALID);
        assert_int_equal(unlink("own/team"), 0);
        assert_int_equal(symlink("../data/" UUID, "own/" UUID), 0);
        assert_int_equal(collect("/own", patterns[i]), 0); // the link itself is removed
        assert_int_not_equal(access("own/" UUID, F_OK), 0);
        assert_true(path_exists("data/" UUID "/agent.token"));
    }
}

static void test_configured_folder_is_absolute(void **state)
{
    (void)state;
    struct error e = {0};
    struct storage *s;
    const char *relative[] = {"a/b"};
    assert_int_equal(
        storage_new("{\"type\":\"directory\",\"container_path\":\"/c\"}", relative, 1, &s, &e),
        ERR_INVALID);
    assert_null(s);
    assert_non_null(strstr(e.text, "\"a/b\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_allowed_folders_are_accepted),
        cmocka_unit_test(test_links_do_not_lead_out),
        cmocka_unit_test(test_nothing_is_removed_elsewhere),
        cmocka_unit_test(test_configured_folder_is_absolute),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
