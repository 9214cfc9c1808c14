#include "agent/supervisor/protection_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/isolation/confine.h"
#include "agent/isolation/system_calls.h"
#include "agent/isolation/task_init.h"
#include "agent/tasks/taskdir.h"
#include "base/os/file.h"

// The answer of a child process that has tried something.
struct probe_answer {
    int err;
    enum protection_id failed;
    char text[ERROR_TEXT_MAX];
};

typedef void probe_fn(const void *ctx, struct probe_answer *answer);

// Runs `probe` in a child process, so that it may change that for good.
static struct probe_answer ask_child(probe_fn *probe, const void *ctx)
{
    int fds[2];
    struct probe_answer answer = {.err = ERR_IO, .failed = PROTECTION_COUNT};
    snprintf(answer.text, sizeof answer.text, "the agent cannot start a process to try it");
    if (pipe2(fds, O_CLOEXEC) != 0)
        return answer;
    pid_t child = fork();
    if (child == 0) {
        answer = (struct probe_answer){.failed = PROTECTION_COUNT};
        probe(ctx, &answer);
        _exit(write(fds[1], &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
    }
    close(fds[1]);
    struct probe_answer told;
    if (child > 0 && read(fds[0], &told, sizeof told) == (ssize_t)sizeof told)
        answer = told;
    close(fds[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return answer;
}

static void probe_confinement(const void *ctx, struct probe_answer *answer)
{
    const char *step = confine_process(ctx);
    if (!step)
        return;
    answer->err = ERR_FORBIDDEN;
    snprintf(answer->text, sizeof answer->text, "%s fails: %s", step, strerrordesc_np(errno));
}

static void probe_privileges(struct protections *p)
{
    const struct confinement c = {.mount_namespace = -1, .no_privileges = true};
    struct probe_answer answer = ask_child(probe_confinement, &c);
    protections_set(p, PROTECTION_PRIVILEGES, answer.err ? answer.text : NULL);
}

static void probe_system_calls(struct protections *p)
{
    struct error e = {0};
    struct confinement c = {.mount_namespace = -1, .no_privileges = true};
    if (system_calls_filter(&c.filter, &e) != 0) {
        protections_set(p, PROTECTION_SYSTEM_CALLS, e.text);
        return;
    }
    struct probe_answer answer = ask_child(probe_confinement, &c);
    protections_set(p, PROTECTION_SYSTEM_CALLS, answer.err ? answer.text : NULL);
    free(c.filter.filter);
}

static void probe_view(const void *ctx, struct probe_answer *answer)
{
    struct error e = {0};
    struct task_init init;
    struct view_report report;
    answer->err = task_init_start(ctx, &init, &report, &e);
    answer->failed = report.failed;
    snprintf(answer->text, sizeof answer->text, "%s", e.text);
    task_init_kill(&init);
    if (init.pid > 0)
        waitpid(init.pid, NULL, 0);
}

// Makes a folder as that of a task.
static int make_probe_folder(const char *dir, struct error *e)
{
    static const char *const names[] = {TASKDIR_WORK, TASKDIR_TMP, TASKDIR_OWN};
    int err = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !err; i++) {
        char *path = path_join(dir, names[i]);
        err = dir_make(path, 0700, e);
        free(path);
    }
    return err;
}

static bool tasks_run_as_root(const struct protection_wishes *wishes)
{
    return geteuid() == 0 && wishes->tasks_as_root;
}

// Tries with fewer protections than `wanted` (bits) until the view can be built.
static void try_views(struct protections *p, const char *dir, unsigned wanted)
{
    json_t *spec = json_object();
    const struct task_account account = {0};
    struct task_view view = {dir, spec, &account, wanted, TASK_INIT_PATIENCE_S};
    static const enum protection_id of_view[] = {PROTECTION_FILES, PROTECTION_PROCESSES,
                                                 PROTECTION_TEMPORARY, PROTECTION_DEVICES};
    struct probe_answer answer = ask_child(probe_view, &view);
    while (answer.err && answer.failed < PROTECTION_COUNT && answer.failed != PROTECTION_FILES &&
           task_view_has(&view, answer.failed)) {
        protections_set(p, answer.failed, answer.text);
        view.protections &= ~(1u << answer.failed);
        answer = ask_child(probe_view, &view);
    }
    for (size_t i = 0; i < sizeof of_view / sizeof *of_view; i++)
        if (answer.err || task_view_has(&view, of_view[i]))
            protections_set(p, of_view[i], answer.err ? answer.text : NULL);
    json_decref(spec);
}

static void probe_views(const struct protection_wishes *wishes, struct protections *p)
{
    struct error e = {0};
    char *top = path_join(wishes->work_dir, "probe"), *dir = path_join(top, "task");
    unsigned wanted =
        1u << PROTECTION_FILES | 1u << PROTECTION_PROCESSES | 1u << PROTECTION_DEVICES;
    if (!tasks_run_as_root(wishes))
        wanted |= 1u << PROTECTION_TEMPORARY;
    else // whoever tries Muster may have programs and data there
        protections_set(p, PROTECTION_TEMPORARY,
                        "tasks run as root, and see the machine's /tmp; --task-account hides it");
    if (make_probe_folder(dir, &e) == 0)
        try_views(p, dir, wanted);
    for (enum protection_id id = PROTECTION_FILES; id <= PROTECTION_DEVICES && e.code; id++)
        protections_set(p, id, e.text);
    dir_remove_tree(top, NULL);
    free(dir);
    free(top);
}

static void probe_account(const struct protection_wishes *wishes, struct protections *p)
{
    struct error why = {0};
    if (geteuid() != 0)
        error_set(&why, ERR_FORBIDDEN,
                  "the agent does not run as root, so tasks run under its own account");
    else if (tasks_run_as_root(wishes))
        error_set(&why, ERR_FORBIDDEN,
                  "%s: the tasks of users who are not linked with an account run as root, which "
                  "can change everything on this machine; --task-account prevents it",
                  wishes->tasks_as_root);
    protections_set(p, PROTECTION_ACCOUNT, why.code ? why.text : NULL);
}

void protections_probe(const struct protection_wishes *wishes, struct protections *out)
{
    *out = (struct protections){0};
    probe_account(wishes, out);
    probe_views(wishes, out);
    probe_privileges(out);
    probe_system_calls(out);
}
