// Control groups of tasks: the kernel's texts, and real groups where this process may make them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/cgroup.h"
#include "base/os/file.h"

static void finds_the_mount_point(void **state)
{
    (void)state;
    static const struct {
        const char *text, *mount;
    } cases[] = {
        {"25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
         "36 25 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
         "/sys/fs/cgroup"},
        {"40 36 0:35 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
         "41 36 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
         "/sys/fs/cgroup/unified"},
        {"40 36 0:35 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", NULL},
        {"40 36 0:35 / /cgroup2 rw - tmpfs cgroup2 rw\n", NULL},
        {"- cgroup2 \n", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = cgroup_parse_mount(cases[i].text);
        if (cases[i].mount)
            assert_string_equal(found, cases[i].mount);
        else
            assert_null(found);
        free(found);
    }
}

static void finds_the_own_group(void **state)
{
    (void)state;
    char *one = cgroup_parse_own("0::/system.slice/muster-agent.service\n");
    char *two = cgroup_parse_own("8:pids:/\n4:memory:/a\n0::/\n");
    assert_string_equal(one, "/system.slice/muster-agent.service");
    assert_string_equal(two, "/");
    assert_null(cgroup_parse_own("8:pids:/\n"));
    free(one);
    free(two);
}

static void reads_controllers(void **state)
{
    (void)state;
    assert_int_equal(cgroup_parse_controllers("cpuset cpu io memory hugetlb pids rdma misc\n"),
                     CGROUP_ALL);
    assert_int_equal(cgroup_parse_controllers("cpuset io hugetlb\n"), 0);
    assert_int_equal(cgroup_parse_controllers("pids\n"), CGROUP_PIDS);
    assert_int_equal(cgroup_parse_controllers("\n"), 0);
}

static void weighs_by_slots(void **state)
{
    (void)state;
    assert_int_equal(cgroup_weight(0), 100);
    assert_int_equal(cgroup_weight(1), 100);
    assert_int_equal(cgroup_weight(8), 800);
    assert_int_equal(cgroup_weight(1000), 10000); // the kernel takes no more
}

// --- real groups ---------------------------------------------------------------------------------

static char *folder;
static unsigned works;

static int open_groups(void **state)
{
    (void)state;
    char name[64];
    struct error e = {0};
    snprintf(name, sizeof name, "muster-test-%ld", (long)getpid());
    if (geteuid() != 0)
        print_message("skipped: only root makes groups at the root of the hierarchy\n");
    else if (cgroup_prepare(NULL, name, &folder, &works, &e) != 0)
        print_message("skipped: %s\n", e.text);
    return 0;
}

static int close_groups(void **state)
{
    (void)state;
    if (folder)
        rmdir(folder);
    free(folder);
    return 0;
}

static struct cgroup *make_group(const char *id, int64_t processes, int64_t memory)
{
    struct error e = {0};
    struct cgroup *g = NULL;
    const struct cgroup_limits limits = {.processes = processes, .memory = memory, .slots = 2};
    if (!folder)
        skip();
    if (cgroup_create(folder, id, &limits, &g, &e) != 0)
        fail_msg("%s", e.text);
    return g;
}

// Starts a child in the group, and returns when it is there.
static pid_t start_child(const struct cgroup *g, void (*run)(void))
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        byte = cgroup_enter(cgroup_fd(g)) ? 'y' : 'n';
        if (write(ready[1], &byte, 1) == 1 && byte == 'y')
            run();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(byte, 'y');
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

static void fork_a_sleeper(void)
{
    fork();
    sleep_for_ever();
}

static void kills_all_and_removes(void **state)
{
    (void)state;
    struct cgroup *g = make_group("1.1", 0, 0);
    char *path = path_join(folder, "1.1");
    assert_true(path_exists(path));
    assert_false(cgroup_populated(g));
    pid_t child = start_child(g, fork_a_sleeper);
    assert_true(cgroup_populated(g));
    cgroup_kill(g);
    assert_true(WIFSIGNALED(wait_for(child)));
    while (cgroup_populated(g)) // its orphan
        usleep(1000);
    cgroup_close(g);
    assert_false(path_exists(path));
    free(path);
}

static void clears_a_lost_group(void **state)
{
    (void)state;
    struct cgroup *g = make_group("1.2", 0, 0);
    char *path = path_join(folder, "1.2");
    pid_t child = start_child(g, sleep_for_ever);
    cgroup_clear(folder, "1.2");
    assert_true(WIFSIGNALED(wait_for(child)));
    cgroup_clear(folder, "1.2");
    assert_false(path_exists(path));
    cgroup_clear(folder, "1.2"); // there is none
    cgroup_close(g);
    free(path);
}

static void fork_too_often(void)
{
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child < 0)
            _exit(errno == EAGAIN ? 7 : 8);
        if (child == 0)
            sleep_for_ever();
    }
}

static void limits_processes(void **state)
{
    (void)state;
    struct cgroup *g = make_group("1.3", 10, 0);
    if (!(cgroup_controllers(g) & CGROUP_PIDS)) {
        cgroup_close(g);
        print_message("skipped: no controller pids\n");
        skip();
    }
    assert_false(cgroup_refused_process(g));
    int status = wait_for(start_child(g, fork_too_often));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_true(cgroup_refused_process(g));
    cgroup_kill(g);
    while (cgroup_populated(g))
        usleep(1000);
    cgroup_close(g);
}

static void eat_memory(void)
{
    for (;;) {
        char *some = malloc(1 << 20);
        if (some)
            memset(some, 1, 1 << 20);
    }
}

static void kills_for_memory_as_a_whole(void **state)
{
    (void)state;
    struct cgroup *g = make_group("1.4", 0, 32 << 20);
    if (!(cgroup_controllers(g) & CGROUP_MEMORY)) {
        cgroup_close(g);
        print_message("skipped: no controller memory\n");
        skip();
    }
    assert_int_equal(cgroup_memory_kills(g), 0);
    pid_t neighbour = start_child(g, sleep_for_ever), eater = start_child(g, eat_memory);
    assert_int_equal(WTERMSIG(wait_for(eater)), SIGKILL);
    assert_int_equal(WTERMSIG(wait_for(neighbour)), SIGKILL);
    assert_true(cgroup_memory_kills(g) > 0);
    cgroup_close(g);
}

static void refuses_what_is_no_group(void **state)
{
    (void)state;
    struct error e = {0};
    char *path = NULL;
    assert_int_equal(cgroup_prepare("/no/such/group", "x", &path, &works, &e), ERR_FORBIDDEN);
    assert_null(path);
    assert_string_not_equal(e.text, "");
    struct cgroup *g = NULL;
    const struct cgroup_limits limits = {0};
    assert_true(cgroup_create("/no/such/folder", "1", &limits, &g, &e) != 0);
    assert_null(g);
    assert_non_null(strstr(e.text, "/no/such/folder/1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_mount_point),    cmocka_unit_test(finds_the_own_group),
        cmocka_unit_test(reads_controllers),        cmocka_unit_test(weighs_by_slots),
        cmocka_unit_test(kills_all_and_removes),    cmocka_unit_test(clears_a_lost_group),
        cmocka_unit_test(limits_processes),         cmocka_unit_test(kills_for_memory_as_a_whole),
        cmocka_unit_test(refuses_what_is_no_group),
    };
    return cmocka_run_group_tests(tests, open_groups, close_groups);
}
