// The isolation of tasks: the choice of the account, what stays visible, the devices of a GPU, and
// in child processes the refused system calls and lost privileges.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/isolation/account.h"
#include "agent/isolation/confine.h"
#include "agent/isolation/devices.h"
#include "agent/isolation/system_calls.h"
#include "agent/isolation/task_init.h"
#include "agent/isolation/task_view.h"
#include "agent/supervisor/enclosure.h"
#include "agent/supervisor/protections.h"
#include "base/os/file.h"

// --- the account ---------------------------------------------------------------------------------

static int choose(const char *text, uid_t agent, struct task_account *out, struct error *e)
{
    json_t *spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    int err = account_choose(spec, agent, out, e);
    json_decref(spec);
    return err;
}

static void account_of_a_task(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uid_t agent;
        int err;
        bool switches;
        uid_t uid;
        const char *says;
    } cases[] = {
        {"{}", 0, ERR_FORBIDDEN, false, 0, "--task-account"},
        {"{\"tasksAsRoot\": true}", 0, 0, false, 0, NULL},
        {"{}", 1000, 0, false, 0, NULL},
        {"{\"account\": {\"uid\": 2000, \"gid\": 2001, \"user\": \"ann\"}}", 0, 0, true, 2000,
         NULL},
        {"{\"account\": {\"uid\": 2000, \"gid\": 2001, \"user\": \"ann\"}}", 1000, 0, false, 0,
         NULL},
        {"{\"account\": {\"uid\": 1000, \"gid\": 1000, \"user\": \"ann\"}}", 0, 0, true, 1000,
         NULL},
        {"{\"account\": {\"uid\": 1000, \"gid\": 100, \"user\": \"ann\"}}", 0, 0, true, 1000, NULL},
        {"{\"account\": {\"uid\": 1000, \"gid\": 6, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN, false,
         0, "a system group (gid 6)"},
        {"{\"account\": {\"uid\": 1000, \"gid\": 999, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN, false,
         0, "a group from gid 1000 on, or 100"},
        {"{\"account\": {\"uid\": 1000, \"gid\": -1, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN, false,
         0, "a system group"},
        {"{\"account\": {\"uid\": 1000, \"gid\": 4294967295, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN,
         false, 0, "a system group"},
        {"{\"account\": {\"uid\": 100, \"gid\": 100, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN, false,
         0, "a system account"},
        {"{\"account\": {\"uid\": 999, \"gid\": 999, \"user\": \"bin\"}}", 0, ERR_FORBIDDEN, false,
         0, "a system account"},
        {"{\"account\": {\"uid\": 0, \"gid\": 0, \"user\": \"root\"}}", 0, ERR_FORBIDDEN, false, 0,
         "tasks never run as root"},
        {"{\"account\": {\"uid\": 2000, \"gid\": 0, \"user\": \"ann\"}}", 0, ERR_FORBIDDEN, false,
         0, "tasks never run as root"},
        {"{\"account\": {\"uid\": 4294967295, \"gid\": 7, \"user\": \"x\"}}", 0, ERR_FORBIDDEN,
         false, 0, "a system account"},
        {"{\"account\": {\"uid\": -2, \"gid\": 7}}", 0, ERR_FORBIDDEN, false, 0,
         "a system account"},
        // the link goes before the agent's flags
        {"{\"account\": {\"uid\": 0, \"gid\": 0}, \"tasksAsRoot\": true}", 0, ERR_FORBIDDEN, false,
         0, "tasks never run as root"},
        {"{\"account\": {\"uid\": 2000, \"gid\": 2000}, \"taskAccount\": \"nobody\"}", 0, 0, true,
         2000, NULL},
        {"{\"taskAccount\": \"nobody\"}", 0, 0, true, 65534, NULL},
        {"{\"taskAccount\": \"root\"}", 0, ERR_FORBIDDEN, false, 0, "is root's"},
        {"{\"taskAccount\": \"no-such-account\"}", 0, ERR_NOT_FOUND, false, 0, "useradd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        struct task_account a;
        int err = choose(cases[i].spec, cases[i].agent, &a, &e);
        if (err != cases[i].err || (cases[i].says && !strstr(e.text, cases[i].says)))
            fail_msg("%s: %d %s", cases[i].spec, err, e.text);
        if (!err && (a.switches != cases[i].switches || (a.switches && a.uid != cases[i].uid)))
            fail_msg("%s: uid %u", cases[i].spec, a.uid);
    }
}

static void environment_of_an_account(void **state)
{
    (void)state;
    json_t *env = json_pack("{s:s, s:s}", "HOME", "/root", "OTHER", "x");
    struct task_account a = {.uid = 2000, .name = "ann"};
    account_set_environment(&a, "/task/home", env);
    assert_string_equal(json_string_value(json_object_get(env, "HOME")), "/root");
    a.switches = true;
    account_set_environment(&a, "/task/home", env);
    assert_string_equal(json_string_value(json_object_get(env, "HOME")), "/task/home");
    assert_string_equal(json_string_value(json_object_get(env, "USER")), "ann");
    assert_string_equal(json_string_value(json_object_get(env, "LOGNAME")), "ann");
    snprintf(a.home, sizeof a.home, "/home/ann");
    account_set_environment(&a, "/task/home", env);
    assert_string_equal(json_string_value(json_object_get(env, "HOME")), "/home/ann");
    assert_string_equal(json_string_value(json_object_get(env, "OTHER")), "x");
    json_object_set_new(env, "HOME", json_string("/scratch"));
    json_object_set_new(env, "USER", json_string("bob"));
    account_set_environment(&a, NULL, env); // the user has set HOME
    assert_string_equal(json_string_value(json_object_get(env, "HOME")), "/scratch");
    assert_string_equal(json_string_value(json_object_get(env, "USER")), "bob");
    json_decref(env);
}

// --- the view ------------------------------------------------------------------------------------

static void paths_that_stay_visible(void **state)
{
    (void)state;
    json_t *spec = json_pack(
        "{s:{s:s, s:s}}", "env", "DET_MASTER_CERT_FILE", "/tmp/ca", "DET_EXPERIMENT_CONFIG",
        "{\"checkpoint_storage\": {\"type\": \"shared_fs\", \"host_path\": \"/tmp/storage\"}}");
    json_t *kept = task_view_named_paths(spec);
    char *text = json_dumps(kept, JSON_COMPACT);
    assert_string_equal(text, "[\"/tmp/ca\",\"/tmp/storage\"]");
    free(text);
    json_decref(kept);
    json_decref(spec);
    spec = json_pack("{s:{s:s}}", "env", "DET_EXPERIMENT_CONFIG", "no json");
    kept = task_view_named_paths(spec);
    assert_int_equal(json_array_size(kept), 0);
    json_decref(kept);
    json_decref(spec);
}

static void devices_of_a_gpu(void **state)
{
    (void)state;
    char folder[32];
    devices_gpu_folder("00000000:0B:00.0", folder);
    assert_string_equal(folder, "0000:0b:00.0");
    devices_gpu_folder("0001:0b:00.0", folder);
    assert_string_equal(folder, "0001:0b:00.0");
    devices_gpu_folder("", folder);
    assert_string_equal(folder, "");
    static const char text[] = "Model: \t\t NVIDIA H100\nDevice Minor: \t 3\nGPU Excluded:\t No\n";
    assert_int_equal(devices_number(text, "Device Minor"), 3);
    assert_int_equal(devices_number(text, "DeviceFileMinor"), -1);
    assert_int_equal(
        devices_number("DeviceFileMinor: 21\nDeviceFileMode: 292\n", "DeviceFileMinor"), 21);
}

// --- the table of protections --------------------------------------------------------------------

static void protections_of_a_specification(void **state)
{
    (void)state;
    struct protections p = {0};
    for (enum protection_id id = 0; id < PROTECTION_COUNT; id++)
        protections_set(&p, id, id == PROTECTION_FILES ? "no namespaces" : NULL);
    json_t *list = protections_json(&p), *spec = json_pack("{s:O}", "protections", list);
    assert_int_equal(json_array_size(list), PROTECTION_COUNT);
    const json_t *files = json_array_get(list, PROTECTION_FILES);
    assert_string_equal(json_string_value(json_object_get(files, "name")), "files");
    assert_string_equal(json_string_value(json_object_get(files, "reason")), "no namespaces");
    assert_int_equal(enclosure_protections(spec),
                     (1u << PROTECTION_COUNT) - 1 - (1u << PROTECTION_FILES));
    json_object_del(spec, "protections"); // of an older agent
    assert_int_equal(enclosure_protections(spec), 0);
    json_decref(list);
    json_decref(spec);
}

// --- in child processes --------------------------------------------------------------------------

typedef void child_fn(void);

// The child reports its first failed check by its exit code, and prints the reason.
static void run_child(child_fn *body)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void check(bool good, const char *what)
{
    if (good)
        return;
    dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

static void confine(struct confinement c)
{
    const char *step = confine_process(&c);
    check(!step, step ? step : "");
}

static void call_everything_that_is_refused(void)
{
    struct confinement c = {.mount_namespace = -1, .no_privileges = true, .keeps_root = true};
    check(system_calls_filter(&c.filter, NULL) == 0, "filter");
    confine(c);
    int tried = 0;
    for (const char *const *name = system_calls_refused; *name; name++) {
        int number = seccomp_syscall_resolve_name(*name);
        if (number < 0) // not on this architecture
            continue;
        errno = 0;
        check(syscall(number, 0, 0, 0, 0, 0, 0) == -1 && errno == EPERM, *name);
        tried++;
    }
    check(tried > 30, "the list");
    static const int namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        check(unshare(namespaces[i]) == -1 && errno == EPERM, "unshare");
        check(syscall(SYS_clone, namespaces[i] | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EPERM,
              "clone");
    }
    check(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS, "clone3");
    int ends[2], value = 1;
    socklen_t len = sizeof value;
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    check(getsockopt(ends[0], SOL_SOCKET, 77, &value, &len) == -1 && errno == ENOPROTOOPT,
          "SO_PEERPIDFD");
    check(setsockopt(ends[0], SOL_SOCKET, 76, &value, sizeof value) == -1 && errno == ENOPROTOOPT,
          "SO_PASSPIDFD");
    check(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &len) == 0, "getsockopt");
    check(unshare(CLONE_FILES) == 0, "unshare of files");
    pid_t child = fork();
    if (child == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? 0 : 1);
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "fork and ptrace");
}

static void refused_system_calls(void **state)
{
    (void)state;
    run_child(call_everything_that_is_refused);
}

static void look_at_privileges(void)
{
    struct rlimit core;
    confine((struct confinement){.mount_namespace = -1, .no_privileges = true, .processes = 12345});
    check(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no new privileges");
    // Until exec, it has the descriptors and the memory of its supervisor.
    check(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "closed to other processes of the account");
    check(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0, "core files");
    check(getrlimit(RLIMIT_NPROC, &core) == 0 && core.rlim_max <= 12345, "processes");
    if (geteuid() == 0)
        for (unsigned long cap = 0; cap < 40; cap++)
            check(prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0, "bounding set");
    check(chroot("/") == -1 && errno == EPERM, "capabilities");
}

static void lost_privileges(void **state)
{
    (void)state;
    run_child(look_at_privileges);
}

static void look_at_account(void)
{
    struct confinement c = {.mount_namespace = -1, .no_privileges = true};
    c.account = (struct task_account){
        .switches = true, .uid = 65533, .gid = 65532, .groups = {65531}, .group_count = 1};
    confine(c);
    gid_t groups[8] = {0};
    uid_t real, effective, saved;
    check(getresuid(&real, &effective, &saved) == 0 && real == 65533 && saved == 65533, "uid");
    check(getegid() == 65532 && getgroups(8, groups) == 1 && groups[0] == 65531, "groups");
    check(setuid(0) == -1 && errno == EPERM, "back to root");
    check(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "closed to other processes of the account");
}

static void changed_account(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); // only root may change its account
    run_child(look_at_account);
}

static void look_at_files_of_account(void)
{
    int signal = 0;
    const struct task_account a = {.switches = true, .uid = 65533, .gid = 65532};
    check(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0, "signal");
    check(account_enter_files(&a), "account");
    check(open("/etc/shadow", O_RDONLY) == -1 && errno == EACCES, "a file of root");
    account_leave_files(&a);
    check(open("/etc/shadow", O_RDONLY) >= 0, "a file of root, again");
    check(prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0) == 0 && signal == SIGKILL,
          "dies with its parent");
}

static void files_of_an_account(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); // only root may change its account
    run_child(look_at_files_of_account);
}

// --- the first process ---------------------------------------------------------------------------

// A file system whose server never answers, in a mount namespace of its own. False: not permitted.
static bool mount_dead_files(const char *path)
{
    char options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC); // it is open until this process ends
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    return fd >= 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("dead", path, "fuse", 0, options) == 0;
}

static void start_with_dead_storage(void)
{
    char here[512], config[1024], dir[600];
    struct error e = {0};
    struct task_init init;
    struct view_report report;
    const struct task_account account = {0};
    if (!mount_dead_files("dead"))
        return;
    check(getcwd(here, sizeof here), "folder");
    snprintf(dir, sizeof dir, "%s/agent/tasks/1", here);
    snprintf(config, sizeof config, "{\"checkpoint_storage\": {\"host_path\": \"%s/dead/x\"}}",
             here);
    json_t *spec = json_pack("{s:{s:s}}", "env", "DET_EXPERIMENT_CONFIG", config);
    const struct task_view view = {dir, spec, &account, 1u << PROTECTION_FILES, .patience_s = 1};
    int err = task_init_start(&view, &init, &report, &e);
    check(err == ERR_TIMEOUT && strstr(e.text, "does not answer"), "the error");
    check(report.failed == PROTECTION_COUNT, "no protection is at fault");
    check(waitpid(init.pid, NULL, 0) == init.pid, "the end of the first process");
    task_init_close(&init);
    json_decref(spec);
}

static void storage_that_does_not_answer(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); // only root may mount it
    assert_int_equal(dir_make("dead", 0755, NULL), 0);
    assert_int_equal(dir_make("agent/tasks/1/work", 0755, NULL), 0);
    assert_int_equal(dir_make("agent/tasks/1/own", 0755, NULL), 0);
    run_child(start_with_dead_storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(account_of_a_task),
        cmocka_unit_test(environment_of_an_account),
        cmocka_unit_test(paths_that_stay_visible),
        cmocka_unit_test(devices_of_a_gpu),
        cmocka_unit_test(protections_of_a_specification),
        cmocka_unit_test(refused_system_calls),
        cmocka_unit_test(lost_privileges),
        cmocka_unit_test(changed_account),
        cmocka_unit_test(files_of_an_account),
        cmocka_unit_test(storage_that_does_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
