// Files and folders, in the temporary folder each test program runs in.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"

static void write_text(const char *path, const char *text)
{
    struct error e;
    if (file_write_durable(path, text, strlen(text), 0644, &e) != 0)
        fail_msg("%s", e.text);
}

static void durable_write_and_read(void **state)
{
    (void)state;
    write_text("a", "one");
    write_text("a", "two"); // replaced
    char *text;
    size_t len;
    assert_int_equal(file_read("a", 100, &text, &len, NULL), 0);
    assert_int_equal(len, 3);
    assert_string_equal(text, "two");
    free(text);
    char *aside = xasprintf("a.tmp.%d", (int)getpid());
    assert_false(path_exists(aside));
    free(aside);
}

static void the_mode_is_meant(void **state)
{
    (void)state;
    struct stat st;
    mode_t old = umask(077);
    assert_int_equal(file_write_durable("open", "x", 1, 0664, NULL), 0);
    umask(0);
    assert_int_equal(file_write_durable("secret", "x", 1, 0600, NULL), 0);
    umask(old);
    assert_int_equal(stat("open", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0664);
    assert_int_equal(stat("secret", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void failed_writes_leave_the_old(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(file_write_durable("absent/file", "x", 1, 0644, &e), ERR_IO);
    assert_non_null(strstr(e.text, "absent/file"));
    assert_non_null(strstr(e.text, "No such file"));
    // A folder cannot be replaced by a file: the rename fails, and the temporary file is removed.
    assert_int_equal(dir_make("folder/inner", 0755, NULL), 0);
    assert_int_equal(file_write_durable("folder/inner", "x", 1, 0644, &e), ERR_IO);
    assert_int_equal(rmdir("folder/inner"), 0);
    assert_int_equal(rmdir("folder"), 0); // it is empty
}

// A limit on the size of files simulates a full disk.
static void a_write_cut_short_leaves_the_old(void **state)
{
    (void)state;
    struct error e;
    struct rlimit old, small = {.rlim_cur = 4};
    write_text("full", "old");
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int err = file_write_durable("full", "0123456789", 10, 0644, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(err, ERR_IO);
    assert_non_null(strstr(e.text, "cannot write full.tmp."));
    char *text, *aside = xasprintf("full.tmp.%d", (int)getpid());
    assert_int_equal(file_read("full", 100, &text, NULL, NULL), 0);
    assert_string_equal(text, "old");
    assert_false(path_exists(aside));
    free(aside);
    free(text);
}

static void a_link_aside_is_not_followed(void **state)
{
    (void)state;
    write_text("victim", "precious");
    char *aside = xasprintf("target.tmp.%d", (int)getpid());
    assert_int_equal(symlink("victim", aside), 0);
    assert_int_equal(file_write_durable("target", "x", 1, 0644, NULL), ERR_IO);
    char *text;
    assert_int_equal(file_read("victim", 100, &text, NULL, NULL), 0);
    assert_string_equal(text, "precious");
    free(text);
    free(aside);
}

static void writes_to_closed_descriptors(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, "x", 1), ERR_IO);
    assert_int_equal(file_write_all(fd, "", 0), 0);
    close(fd);
}

static void read_at_the_limit_and_past_it(void **state)
{
    (void)state;
    struct error e;
    char *text;
    size_t len;
    write_text("ten", "0123456789");
    assert_int_equal(file_read("ten", 10, &text, &len, &e), 0);
    assert_int_equal(len, 10);
    free(text);
    assert_int_equal(file_read("ten", 9, &text, &len, &e), ERR_TOO_LARGE);
    assert_null(text);
    assert_string_equal(e.text, "ten is larger than 9 bytes, which is the limit");
    write_text("nothing", "");
    assert_int_equal(file_read("nothing", 0, &text, &len, &e), 0);
    assert_string_equal(text, "");
    free(text);
}

// A pipe has no size: reads 20,000 bytes, and at most the limit.
static void files_that_hide_their_size(void **state)
{
    (void)state;
    enum { BYTES = 20000 };
    static char sent[BYTES];
    memset(sent, 'p', sizeof sent);
    for (size_t limit = BYTES - 1; limit <= BYTES + 1; limit++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(file_write_all(ends[1], sent, sizeof sent), 0);
        close(ends[1]);
        char *path = xasprintf("/proc/self/fd/%d", ends[0]), *text;
        size_t len;
        int err = file_read(path, limit, &text, &len, NULL);
        assert_int_equal(err, limit < BYTES ? ERR_TOO_LARGE : 0);
        if (!err) {
            assert_int_equal(len, BYTES);
            assert_memory_equal(text, sent, sizeof sent);
            assert_int_equal(text[len], '\0');
        }
        free(text);
        free(path);
        close(ends[0]);
    }
}

static void unreadable(void **state)
{
    (void)state;
    struct error e;
    char *text;
    size_t len;
    assert_int_equal(file_read("absent", 10, &text, &len, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "cannot open absent"));
    write_text("file", "x");
    assert_int_equal(file_read("file/below", 10, &text, &len, &e), ERR_NOT_FOUND);
    assert_int_equal(file_read(".", 10, &text, &len, &e), ERR_IO);
    assert_int_equal(file_sync_dir("file", &e), ERR_IO);
}

static void folders(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(dir_make("p/q/r/", 0755, &e), 0);
    assert_int_equal(dir_make("p/q/r", 0755, &e), 0); // it may exist
    assert_true(path_exists("p/q/r"));
    char *here = realpath(".", NULL), *absolute = path_join(here, "abs/b");
    assert_int_equal(dir_make(absolute, 0755, &e), 0);
    assert_true(path_exists("abs/b"));
    free(absolute);
    free(here);
    write_text("p/f", "x");
    assert_int_equal(dir_make("p/f/g", 0755, &e), ERR_IO);
    assert_non_null(strstr(e.text, "p/f"));
    assert_int_equal(dir_make("p/f", 0755, &e), ERR_IO);
}

static void trees_are_removed_and_links_not_followed(void **state)
{
    (void)state;
    struct error e;
    dir_make("tree/a/b", 0755, NULL);
    dir_make("outside", 0755, NULL);
    write_text("outside/kept", "x");
    write_text("tree/a/file", "x");
    assert_int_equal(symlink("../../outside", "tree/a/link"), 0);
    assert_int_equal(symlink("nowhere", "tree/dangling"), 0);
    assert_int_equal(dir_remove_tree("tree", &e), 0);
    assert_false(path_exists("tree"));
    assert_true(path_exists("outside/kept"));
    assert_int_equal(dir_remove_tree("tree", &e), 0); // it may be absent

    assert_int_equal(symlink("outside", "link"), 0);
    assert_int_equal(dir_remove_tree("link", &e), 0);
    assert_true(path_exists("outside/kept"));
    assert_false(path_exists("link"));
    assert_int_equal(dir_remove_tree("outside/kept", &e), 0); // a single file
    assert_false(path_exists("outside/kept"));
}

// Makes `depth` nested folders "d/d/d..".
static void make_deep(int depth)
{
    char *here = realpath(".", NULL);
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
    }
    assert_int_equal(chdir(here), 0);
    free(here);
}

static void trees_at_the_deepest_and_past_it(void **state)
{
    (void)state;
    static const int depths[] = {256, 257, 258, 1000};
    struct error e;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        make_deep(depths[i]);
        assert_int_equal(dir_remove_tree("d", &e), 0);
        assert_false(path_exists("d"));
    }
}

// Root reads everything, so another account tries it. 0: it succeeds.
static int remove_closed_folders(void)
{
    struct error e;
    if (chdir("everybody") != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0))
        return 1;
    if (dir_make("closed/a/b", 0700, &e) || dir_make("closed/writable/c", 0700, &e))
        return 2;
    if (chmod("closed/a/b", 0) || chmod("closed/a", 0500) || chmod("closed/writable", 0300) ||
        chmod("closed", 0400))
        return 3;
    return dir_remove_tree("closed", &e) != 0 || path_exists("closed") ? 4 : 0;
}

static void trees_that_their_owner_has_closed(void **state)
{
    (void)state;
    int status = 1;
    assert_int_equal(mkdir("everybody", 0700), 0);
    assert_int_equal(chmod("everybody", 0777), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(remove_closed_folders());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rmdir("everybody"), 0);
}

static void joined(const char *a, const char *b, const char *expected)
{
    char *path = path_join(a, b);
    assert_string_equal(path, expected);
    free(path);
}

static void joining(void **state)
{
    (void)state;
    joined("a", "b", "a/b");
    joined("a/", "b", "a/b");
    joined("a//", "//b/c", "a/b/c");
    joined("/", "b", "/b");
    joined("", "b", "b");
    joined("", "/b", "/b");
}

static void inside(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "..a", "a..", "...", "a/.b", "./a"};
    static const char *const bad[] = {"",     "/",    "/a",     "a/",        "a//b", "..",
                                      "../a", "a/..", "a/../b", "a/b/../..", "./.."};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(path_is_inside(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(path_is_inside(bad[i]));
    char path[1026];
    memset(path, 'p', sizeof path);
    path[1025] = '\0';
    assert_false(path_is_inside(path));
    path[1024] = '\0';
    assert_true(path_is_inside(path));
}

static void within(void **state)
{
    (void)state;
    assert_true(path_is_within("/a", "/"));
    assert_true(path_is_within("/a", "/a"));
    assert_true(path_is_within("/a/b", "/a"));
    assert_false(path_is_within("/ab", "/a"));
    assert_false(path_is_within("/a", "/a/b"));
    assert_false(path_is_within("a", "/a"));
}

// --- folders that others write to ----------------------------------------------------------------

static int open_below(const char *relative)
{
    struct error e = {0};
    int fd = -1, top = open("below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = dir_open_below(top, relative, relative, &fd, &e);
    if (fd >= 0)
        close(fd);
    close(top);
    return err;
}

static void look_below(void)
{
    assert_int_equal(open_below(""), 0);
    assert_int_equal(open_below("a"), 0);
    assert_int_equal(open_below("a/b"), 0);
    assert_int_equal(open_below("a/none"), ERR_NOT_FOUND);
    assert_int_equal(open_below("a/file"), ERR_INVALID);
    assert_int_equal(open_below("a/near"), ERR_INVALID);   // a link to a folder beside it
    assert_int_equal(open_below("a/near/b"), ERR_INVALID); // a component on the way is a link
    assert_int_equal(open_below("a/far"), ERR_INVALID);
    assert_int_equal(open_below("far/etc"), ERR_INVALID);
    assert_int_equal(open_below("a/../.."), ERR_INVALID);
    assert_int_equal(open_below("/etc"), ERR_INVALID);
}

// Simulates a kernel or container without openat2().
static void forbid_openat2(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    assert_int_equal(syscall(SYS_openat2, -1, "", NULL, 0), -1);
    assert_int_equal(errno, ENOSYS);
}

static void a_way_below_follows_no_link(void **state)
{
    (void)state;
    assert_int_equal(dir_make("below/a/b", 0755, NULL), 0);
    write_text("below/a/file", "x");
    assert_int_equal(symlink("b", "below/a/near"), 0);
    assert_int_equal(symlink("/etc", "below/a/far"), 0);
    assert_int_equal(symlink("/", "below/far"), 0);
    look_below();
    forbid_openat2(); // for the rest of this program
    look_below();
}

static void plain_files_alone_are_opened(void **state)
{
    (void)state;
    struct error e = {0};
    int fd = -1;
    write_text("plain", "text");
    assert_int_equal(symlink("plain", "plain-link"), 0);
    assert_int_equal(mkfifo("plain-pipe", 0644), 0);
    assert_int_equal(file_open_regular(AT_FDCWD, "plain", "plain", &fd, &e), 0);
    close(fd);
    assert_int_equal(file_open_regular(AT_FDCWD, "plain-link", "l", &fd, &e), ERR_INVALID);
    assert_int_equal(file_open_regular(AT_FDCWD, "plain-pipe", "p", &fd, &e), ERR_INVALID);
    assert_int_equal(file_open_regular(AT_FDCWD, ".", "d", &fd, &e), ERR_INVALID);
    assert_int_equal(file_open_regular(AT_FDCWD, "/dev/null", "n", &fd, &e), ERR_INVALID);
    assert_int_equal(file_open_regular(AT_FDCWD, "plain-none", "n", &fd, &e), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_write_and_read),
        cmocka_unit_test(the_mode_is_meant),
        cmocka_unit_test(failed_writes_leave_the_old),
        cmocka_unit_test(a_write_cut_short_leaves_the_old),
        cmocka_unit_test(a_link_aside_is_not_followed),
        cmocka_unit_test(writes_to_closed_descriptors),
        cmocka_unit_test(read_at_the_limit_and_past_it),
        cmocka_unit_test(files_that_hide_their_size),
        cmocka_unit_test(unreadable),
        cmocka_unit_test(folders),
        cmocka_unit_test(trees_are_removed_and_links_not_followed),
        cmocka_unit_test(trees_at_the_deepest_and_past_it),
        cmocka_unit_test(trees_that_their_owner_has_closed),
        cmocka_unit_test(joining),
        cmocka_unit_test(inside),
        cmocka_unit_test(within),
        cmocka_unit_test(plain_files_alone_are_opened),
        cmocka_unit_test(a_way_below_follows_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
