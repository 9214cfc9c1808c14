#include "tests/sim/shrink.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { RUN_MOST_S = 120 };

static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

static _Noreturn void child(const struct seed_job *j, struct db *template)
{
    static struct world w;
    if (j->quiet)
        be_quiet();
    alarm(RUN_MOST_S);
    w.trace = j->trace;
    w.verdict = j->verdict;
    world_begin(&w, template, j->seed);
    for (int i = 0; i < w.plan_count; i++)
        w.plan[i].left_out = j->left_out[i];
    world_run(&w);
    world_end(&w);
    fflush(stdout);
    exit(0); // lets the leak checker run
}

pid_t job_start(const struct seed_job *j, struct db *template)
{
    *j->verdict = (struct verdict){0};
    fflush(stdout);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0)
        child(j, template);
    return pid;
}

bool job_failed(const struct seed_job *j, int status)
{
    struct verdict *v = j->verdict;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    if (v->name[0])
        return true;
    snprintf(v->name, sizeof v->name, "%s",
             !WIFSIGNALED(status)          ? "memory_is_freed"
             : WTERMSIG(status) == SIGABRT ? "assertions"
             : WTERMSIG(status) == SIGALRM ? "does_not_hang"
                                           : "does_not_crash");
    snprintf(v->text, sizeof v->text, "%s %d; see above",
             WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return true;
}

static bool still_fails(const struct seed_job *j, struct db *template, const char *name)
{
    int status = 0;
    pid_t pid = job_start(j, template);
    must(waitpid(pid, &status, 0) == pid);
    return job_failed(j, status) && !strcmp(j->verdict->name, name);
}

// Replays without the events of [from, to); returns whether the same failure remains.
static bool leave_out(struct seed_job *j, struct db *template, const char *name, int from, int to)
{
    struct seed_job shorter = *j;
    bool any = false;
    for (int i = from; i < to && i < PLAN_MAX; i++) {
        any |= !shorter.left_out[i];
        shorter.left_out[i] = true;
    }
    if (!any || !still_fails(&shorter, template, name))
        return false;
    *j = shorter;
    return true;
}

int job_shrink(struct seed_job *j, struct db *template, int64_t us)
{
    char name[sizeof j->verdict->name];
    int count = j->verdict->plan_count, left = 0;
    int64_t until = clock_mono_us() + us;
    memcpy(name, j->verdict->name, sizeof name);
    j->quiet = true;
    j->trace = 0;
    for (int size = (count + 1) / 2; size; size = size == 1 ? 0 : (size + 1) / 2)
        for (int from = 0; from < count && clock_mono_us() < until; from += size)
            leave_out(j, template, name, from, from + size);
    for (int i = 0; i < count; i++)
        left += !j->left_out[i];
    return left;
}
