// The folder of a task: names, the lock of the supervisor, the socket, and the task's processes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/proctrack.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "base/text/json.h"

static void ids(void **state)
{
    (void)state;
    char name[LIMIT_NAME + 2];
    memset(name, 'a', sizeof name);
    name[LIMIT_NAME + 1] = '\0';
    assert_false(taskdir_id_valid(name));
    name[LIMIT_NAME] = '\0';
    assert_true(taskdir_id_valid(name));
    assert_true(taskdir_id_valid("1.1.0"));
    assert_true(taskdir_id_valid("trial-1_B.2"));
    for (const char *const *bad =
             (const char *const[]){"", ".", "..", "a/b", "../a", "a b", "a\n", "\xC3\xA9", NULL};
         *bad; bad++)
        assert_false(taskdir_id_valid(*bad));
}

static void lock_goes_with_its_holder(void **state)
{
    (void)state;
    int fd = -1, second = -1;
    assert_int_equal(dir_make("locked", 0700, NULL), 0);
    assert_false(taskdir_supervised("locked"));
    assert_int_equal(taskdir_lock("locked", &fd, NULL), 0);
    assert_true(taskdir_supervised("locked"));
    assert_int_equal(taskdir_lock("locked", &second, NULL), ERR_CONFLICT);
    int copy = dup(fd); // as in a supervisor
    close(fd);
    assert_true(taskdir_supervised("locked"));
    close(copy);
    assert_false(taskdir_supervised("locked"));
}

static void status_round_trip(void **state)
{
    (void)state;
    json_t *spec = json_pack("{s:[s]}", "argv", "true"), *read = NULL;
    json_t *running = taskdir_status("a", TASK_RUNNING, NULL, "a reason longer than the next");
    json_t *exited = taskdir_status("a", TASK_EXITED, NULL, "");
    assert_int_equal(taskdir_read_status("status", &read, NULL), ERR_NOT_FOUND);
    assert_int_equal(taskdir_read_spec("status", &read, NULL), ERR_NOT_FOUND);
    assert_int_not_equal(taskdir_write_status("status", running, false, NULL), 0);
    assert_int_equal(taskdir_make("status", spec, NULL), 0);
    assert_int_equal(taskdir_read_status("status", &read, NULL), ERR_NOT_FOUND);
    for (int i = 0; i < 2; i++) {
        json_t *status = i == 0 ? running : exited;
        assert_int_equal(taskdir_write_status("status", status, i == 0, NULL), 0);
        assert_int_equal(taskdir_read_status("status", &read, NULL), 0);
        assert_true(json_equal(status, read));
        json_decref(read);
    }
    assert_true(taskdir_status_is(running, TASK_RUNNING));
    assert_false(taskdir_status_is(running, TASK_EXITED));
    assert_int_equal(taskdir_read_spec("status", &read, NULL), 0);
    assert_true(json_equal(spec, read));
    json_decref(read);
    json_decref(spec);
    json_decref(running);
    json_decref(exited);
}

// An interrupted write counts neither as complete nor as absent.
static void torn_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool spec, status; // can be read
        bool begun;        // has a status, perhaps incomplete
    } cases[] = {
        {"", false, false, false},
        {"{\"argv\": [", false, false, false},
        {"{}\n", true, false, false},
        {"{}\n{\"state\": \"RUNN", true, false, true},
        {"{}\n{}garbage of before", true, false, true},
        {"\n{\"state\": \"EXITED\"}   ", false, true, true},
    };
    assert_int_equal(dir_make("torn", 0700, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *spec = NULL, *status = NULL;
        const char *text = cases[i].text;
        assert_int_equal(file_write_durable("torn/" TASKDIR_TASK, text, strlen(text), 0600, NULL),
                         0);
        assert_int_equal(taskdir_read_spec("torn", &spec, NULL) == 0, cases[i].spec);
        int rc = taskdir_read_status("torn", &status, NULL);
        assert_int_equal(rc == 0, cases[i].status);
        assert_int_equal(rc != ERR_NOT_FOUND, cases[i].begun);
        json_decref(spec);
        json_decref(status);
    }
}

// A reason that was cut within a character, or contains bytes that are not UTF-8.
static void any_reason_can_be_reported(void **state)
{
    (void)state;
    static const struct {
        const char *reason, *reported;
    } cases[] = {{"", ""}, {"ok \xC3\xA9", "ok \xC3\xA9"}, {"cut \xC3", "cut "}, {"\xFF x", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *status = taskdir_status("a", TASK_EXITED, NULL, cases[i].reason);
        assert_string_equal(jget_string(status, "reason", NULL), cases[i].reported);
        json_decref(status);
    }
}

// The path is longer than the 107 bytes of a socket address.
static void sockets_in_deep_folders(void **state)
{
    (void)state;
    char *dir = xasprintf("%0100d/%0100d", 1, 2);
    int listener = -1, client = -1;
    assert_int_equal(dir_make(dir, 0700, NULL), 0);
    assert_int_equal(taskdir_connect(dir, &client, NULL), ERR_UNAVAILABLE);
    assert_int_equal(taskdir_listen(dir, &listener, NULL), 0);
    assert_int_equal(taskdir_connect(dir, &client, NULL), 0);
    close(client);
    close(listener);
    assert_int_equal(taskdir_connect(dir, &client, NULL), ERR_UNAVAILABLE); // nobody listens
    assert_int_equal(taskdir_listen(dir, &listener, NULL), 0);
    assert_int_equal(taskdir_connect(dir, &client, NULL), 0);
    close(client);
    close(listener);
    free(dir);
}

static pid_t start_process(const char *const *envp, bool session)
{
    const char *const argv[] = {"/bin/sleep", "1000", NULL};
    const struct proc_spec spec = {
        .argv = argv,
        .envp = envp,
        .fd_in = -1,
        .fd_out = -1,
        .fd_err = -1,
        .new_session = session,
        .die_with_parent = true,
    };
    pid_t pid = 0;
    assert_int_equal(proc_spawn(&spec, &pid, NULL, NULL), 0);
    return pid;
}

static void sweep_finds_the_tasks_processes_alone(void **state)
{
    (void)state;
    char *marker = taskdir_marker("/nowhere/of-this-test");
    char *other = xasprintf("%s-2", marker);
    const char *const marked[] = {"A=1", marker, NULL}, *const unmarked[] = {other, NULL};
    pid_t a = start_process(marked, false), b = start_process(marked, true),
          c = start_process(unmarked, true);
    const struct process_filter by_marker = {.marker = marker};
    const struct process_filter by_session = {.marker = "X=1", .session = c};
    const struct process_filter by_parent = {.marker = "X=1", .parent = getpid()};
    assert_int_equal(proctrack_signal(&by_marker, 0), 2);
    assert_int_equal(proctrack_signal(&by_session, 0), 1);
    assert_int_equal(proctrack_signal(&by_parent, 0), 3);
    assert_int_equal(proctrack_signal(&by_marker, SIGKILL), 2);
    int how = 0;
    assert_int_equal(waitpid(a, &how, 0), a);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    assert_int_equal(proctrack_signal(&by_session, 0), 1); // the other lives
    kill(c, SIGKILL);
    assert_int_equal(waitpid(b, NULL, 0), b);
    assert_int_equal(waitpid(c, NULL, 0), c);
    assert_int_equal(proctrack_signal(&by_marker, 0), 0);
    free(other);
    free(marker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids),
        cmocka_unit_test(lock_goes_with_its_holder),
        cmocka_unit_test(status_round_trip),
        cmocka_unit_test(torn_files),
        cmocka_unit_test(any_reason_can_be_reported),
        cmocka_unit_test(sockets_in_deep_folders),
        cmocka_unit_test(sweep_finds_the_tasks_processes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
