// Mounts of a task: what they may cover, and the mounts themselves in a child process with a mount
// namespace (left out where the system does not permit one).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/isolation/mounts.h"
#include "agent/isolation/sandbox.h"
#include "agent/tasks/taskdir.h"
#include "base/os/file.h"

#define OWN_WORK "agent/tasks/1/" TASKDIR_WORK

static void places_that_may_be_covered(void **state)
{
    (void)state;
    static const struct mount_places places = {"/w/a/tasks/7.1", "/secret/token", NULL};
    static const struct {
        const char *target;
        bool may;
    } cases[] = {
        {"/data", true},
        {"/w/b", true},
        {"/w/ab", true},
        {"/secret/other", true},
        {"/w/a/tasks/7.1/" TASKDIR_WORK "/data", true},
        {"/w/a/tasks/7.1/" TASKDIR_WORK, false},
        {"/w/a/tasks/7.1", false},
        {"/w/a/tasks/7.2/" TASKDIR_WORK "/x", false},
        {"/w/a", false},
        {"/w", false},
        {"/", false},
        {"/proc", false},
        {"/proc/1", false},
        {"/run", false},
        {"/run/determined", false},
        {"/run/determined/info", false},
        {"/run/user", true},
        {"/secret/token", false},
        {"/secret", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        if (cases[i].may != (mounts_check_target(cases[i].target, &places, &e) == 0))
            fail_msg("%s: %s", cases[i].target, e.text);
    }
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(20);
    close(fd);
}

static bool has_text(const char *path, const char *text)
{
    char *found = NULL;
    size_t len;
    bool same = file_read(path, 4096, &found, &len, NULL) == 0 && !strcmp(found, text);
    free(found);
    return same;
}

// Whether the folder is opened while the machine's /tmp is visible.
static bool opens(const char *folder, const struct mount_places *places)
{
    json_t *mounts = json_pack("[{s:s}]", "source", folder);
    int *sources = mounts_open_sources(mounts, places);
    bool opened = sources[0] >= 0;
    if (opened)
        close(sources[0]);
    free(sources);
    json_decref(mounts);
    return opened;
}

// A mount of a folder in /tmp shows neither the agent's folder nor its token.
static int check_temporary_sources(void)
{
    char top[] = "/tmp/muster-mounts-XXXXXX";
    const struct task_account account = {0};
    if (!mkdtemp(top))
        return 30;
    char *dir = path_join(top, "a/agent/tasks/1"), *token = path_join(top, "b/token"),
         *agent = path_join(top, "a"), *secret = path_join(top, "b"), *data = path_join(top, "c");
    const struct mount_places places = {dir, token, &account};
    if (dir_make(dir, 0755, NULL) || dir_make(secret, 0755, NULL) || dir_make(data, 0755, NULL))
        return 31;
    write_text(token, "token");
    if (!opens(data, &places))
        return 32;
    if (opens(agent, &places) || opens(secret, &places) || opens(token, &places) ||
        opens(top, &places))
        return 33;
    dir_remove_tree(top, NULL);
    free(data);
    free(secret);
    free(agent);
    free(token);
    free(dir);
    return 0;
}

static int make(const char *mounts_text, const struct mount_places *places, struct error *e)
{
    json_t *mounts = json_loads(mounts_text, 0, NULL);
    int *sources = mounts_open_sources(mounts, places);
    int err = mounts_make(mounts, sources, places, e);
    free(sources);
    json_decref(mounts);
    return err;
}

// In the child; the number of the check that failed.
static int check_in_namespace(const char *top)
{
    struct error e = {0};
    char *dir = path_join(top, "agent/tasks/1"), mounts[8192];
    const struct task_account account = {0};
    const struct mount_places places = {dir, NULL, &account};
    if (sandbox_enter_user_namespace(&e) || sandbox_enter_mount_namespace(&e))
        return 77;
    if (chdir(top) || mkdir("from", 0755) || mkdir("to", 0755) || dir_make(OWN_WORK, 0755, &e))
        return 1;
    write_text("from/file", "from");
    snprintf(mounts, sizeof mounts,
             "[{\"source\": \"%s/from\", \"target\": \"%s/to\"},"
             "{\"source\": \"%s/from\", \"target\": \"inside/deep\", \"readOnly\": true},"
             "{\"source\": \"%s/from/file\", \"target\": \"%s/new/file\"}]",
             top, top, top, top, top);
    if (make(mounts, &places, &e))
        return 2;
    if (!has_text("to/file", "from") || !has_text(OWN_WORK "/inside/deep/file", "from") ||
        !has_text("new/file", "from"))
        return 3;
    write_text("to/written", "here");
    if (!has_text("from/written", "here"))
        return 4;
    if (open(OWN_WORK "/inside/deep/x", O_WRONLY | O_CREAT, 0644) >= 0 || errno != EROFS)
        return 5;
    // a link to a place that may not be covered
    if (symlink("/proc", "link"))
        return 6;
    snprintf(mounts, sizeof mounts, "[{\"source\": \"%s/from\", \"target\": \"%s/link\"}]", top,
             top);
    if (make(mounts, &places, &e) != ERR_FORBIDDEN || !strstr(e.text, "/proc"))
        return 7;
    snprintf(mounts, sizeof mounts, "[{\"source\": \"%s/none\", \"target\": \"%s/to\"}]", top, top);
    if (make(mounts, &places, &e) != ERR_NOT_FOUND || !strstr(e.text, "this machine has no"))
        return 8;
    free(dir);
    return check_temporary_sources();
}

static void mounts_in_a_namespace(void **state)
{
    (void)state;
    char top[] = "mounts-XXXXXX", *full;
    int status = 0;
    assert_non_null(mkdtemp(top));
    full = realpath(top, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(check_in_namespace(full));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 77) {
        assert_int_equal(WEXITSTATUS(status), 0);
        char *outside = path_join(full, "to/file");
        assert_int_not_equal(access(outside, F_OK), 0);
        free(outside);
    }
    assert_int_equal(dir_remove_tree(full, NULL), 0);
    free(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_that_may_be_covered),
        cmocka_unit_test(mounts_in_a_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
