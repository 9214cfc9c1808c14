// One thread with a poll loop. Events set fields of struct supervisor; publish_status() writes them
// to disk and sends them to the agent.
#include "agent/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/failures/failure.h"
#include "agent/failures/idle.h"
#include "agent/failures/memory.h"
#include "agent/failures/processes.h"
#include "agent/logs/log_spool.h"
#include "agent/reports/report_server.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/enclosure.h"
#include "agent/supervisor/proctrack.h"
#include "agent/supervisor/rank_exit.h"
#include "agent/supervisor/rank_process.h"
#include "agent/supervisor/startup_hook.h"
#include "agent/tasks/task_spec.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "base/text/json.h"

enum {
    COMMAND_MAX = 4096, // bytes of a command of the agent
    KILL_AGAIN_US = 200 * 1000,
    WRITE_AGAIN_US = 1000 * 1000,
    WRITE_TRIES = 600,            // after so many failures it no longer writes the status
    CHECK_EVERY_US = 2000 * 1000, // between two checks of the task's folder, and for hangs
    HANG_RANKS_SHOWN = 8,         // ranks that the report of a hang describes
    POLL_SIGNALS = 0,
    POLL_LISTEN,
    POLL_AGENT,
    POLL_REPORTS,
    POLL_OUTPUTS, // two for each rank and for the startup hook
};

struct supervisor {
    const char *dir, *id;
    json_t *spec;
    char *marker;
    struct log_spool spool;
    struct report_server *reports; // NULL: programs of this task do not report
    struct enclosure enclosure;    // of all processes of the task
    struct rank_process *ranks;    // `count` ranks, and then the startup hook
    size_t count;
    int hook_env; // the file for the environment of the startup hook; -1: it does not run
    struct pollfd *polls;
    int lock_fd, listen_fd, agent_fd, signal_fd;
    struct buf commands;
    bool started, children_left, finished;
    bool ending;
    bool failed;      // the task is ending because a rank has failed
    int64_t kill_at;  // monotonic, while ending
    bool deleted;     // the task's folder was deleted
    bool warned_lost; // the log mentions that output lines are lost
    int64_t check_at; // monotonic: the next check of the folder and the spool
    bool changed;     // since the last publish_status()
    int64_t publish_at;
    int publish_tries;
    size_t *ends; // indexes of the ranks in the order in which they ended
    size_t end_count;
    const struct rank_process *cause; // the rank that caused the failure; NULL: none or unknown
    bool lost_peer;            // the cause failed after a peer, so the cause is on another machine
    struct failure failure;    // of the cause
    struct memory_kills kills; // at the start
    struct idle_watch idle;
    int64_t warn_after, kill_after; // it hangs, in microseconds; 0: never
    bool active;                    // it has printed or reported something since the last check
    bool warned_hang, hung;         // hung: it is ended for that
    bool over_quota;                // it is ended because of its files
    struct cgroup *cgroup;          // of the task; NULL: it has none
    bool warned_processes;          // that it may have no more processes
    char *work_dir;
    char reason[1024];
};

__attribute__((format(printf, 3, 4))) static void write_log(struct supervisor *s, const char *level,
                                                            const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_spool_append_message(&s->spool, level, text);
}

static json_t *ranks_json(const struct supervisor *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++)
        must(json_array_append_new(list, rank_process_json(&s->ranks[i])) == 0);
    return list;
}

static void disconnect_agent(struct supervisor *s)
{
    if (s->agent_fd >= 0)
        close(s->agent_fd);
    s->agent_fd = -1;
    buf_reset(&s->commands);
}

static void send_status(struct supervisor *s, const json_t *status)
{
    if (s->agent_fd < 0)
        return;
    char *text = json_text(status);
    char *line = xasprintf("%s\n", text);
    size_t len = strlen(line);
    // Disconnects an agent that does not read; it connects again and gets the complete status.
    if (send(s->agent_fd, line, len, MSG_NOSIGNAL) != (ssize_t)len)
        disconnect_agent(s);
    free(line);
    free(text);
}

static json_t *status_json(const struct supervisor *s)
{
    const char *state = s->finished ? TASK_EXITED : s->started ? TASK_RUNNING : TASK_STARTING;
    json_t *status = taskdir_status(s->id, state, ranks_json(s), s->reason);
    if (s->enclosure.init.pid > 0)
        json_object_set_new(status, "init", json_integer(s->enclosure.init.pid));
    if (s->cause) {
        json_object_set_new(status, "cause", json_integer(s->cause->number));
        json_object_set_new(status, "lostPeer", json_boolean(s->lost_peer));
        json_object_set_new(status, "lastWords",
                            rank_process_last_lines(s->cause, s->work_dir, &s->failure));
    }
    return status;
}

// Writes the status to task.json and sends it to the agent. If the disk is full, the task
// continues, and the write is tried again. Only the first status, before anything starts, is
// written durably: after a crash of the machine every task that had started is lost, whatever its
// later status.
static int publish_status(struct supervisor *s, struct error *e)
{
    json_t *status = status_json(s);
    int err = s->deleted ? 0 : taskdir_write_status(s->dir, status, !s->started, e);
    send_status(s, status);
    json_decref(status);
    s->changed = err && ++s->publish_tries < WRITE_TRIES;
    s->publish_at = clock_mono_us() + WRITE_AGAIN_US;
    return err;
}

static void publish_change(struct supervisor *s)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    if (s->changed && (s->publish_tries == 0 || clock_mono_us() >= s->publish_at)) {
        if (publish_status(s, &e) == 0)
            s->publish_tries = 0;
        else
            log_error("cannot write the status", "alloc=%s err=%s", s->id,
                      log_quote(quoted, sizeof quoted, e.text));
    }
}

// Launchers such as torchrun start their workers in sessions of their own.
static struct process_filter all_processes(const struct supervisor *s)
{
    return (struct process_filter){
        .marker = s->marker,
        .session = getsid(0),
        .parent = getpid(),
        .pid_namespace = s->enclosure.init.pid_namespace,
        .init = s->enclosure.init.pid,
    };
}

// Without the controller "cpu" of control groups the supervisor shares its processor time with the
// task. A fork bomb would starve the search for its processes, which therefore goes before all of
// them, as far as the kernel permits it.
static size_t signal_all(const struct supervisor *s, int signal)
{
    const struct process_filter filter = all_processes(s);
    const struct sched_param first = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    struct sched_param usual = {0};
    int policy = sched_getscheduler(0);
    bool preferred = policy >= 0 && sched_getparam(0, &usual) == 0 &&
                     sched_setscheduler(0, SCHED_FIFO, &first) == 0;
    size_t count = proctrack_signal(&filter, signal);
    if (preferred && sched_setscheduler(0, policy, &usual) != 0)
        log_warn("a supervisor keeps its priority", "alloc=%s", s->id);
    return count;
}

static int64_t used_processor_time(const struct supervisor *s)
{
    const struct process_filter filter = all_processes(s);
    return proctrack_cpu(&filter);
}

// Ends all processes of the task. A further call may only shorten the time until SIGKILL.
static void end_task(struct supervisor *s, int64_t grace_s, const char *reason)
{
    int64_t kill_at = clock_mono_us() + grace_s * 1000000;
    if (!s->reason[0]) {
        snprintf(s->reason, sizeof s->reason, "%s", reason);
        s->changed = true;
    }
    if (!s->ending)
        signal_all(s, SIGTERM);
    if (!s->ending || kill_at < s->kill_at)
        s->kill_at = kill_at;
    s->ending = true;
}

static void kill_overdue_processes(struct supervisor *s)
{
    int64_t now = clock_mono_us();
    if (s->ending && s->children_left && now >= s->kill_at) {
        cgroup_kill(s->cgroup);
        task_init_kill(&s->enclosure.init);
        signal_all(s, SIGKILL);
        s->kill_at = now + KILL_AGAIN_US; // a process may have forked meanwhile
    }
}

// --- the folder ----------------------------------------------------------------------------------

// Ends the task if its folder was deleted, because no agent can find it again. The lock, which
// keeps task.json open, then refers to a file without links.
static void check_folder(struct supervisor *s)
{
    struct stat lock;
    if (s->deleted || fstat(s->lock_fd, &lock) != 0 || lock.st_nlink > 0)
        return;
    s->deleted = true;
    log_error("the folder of a task was deleted; ending its processes", "alloc=%s dir=%s", s->id,
              s->dir);
    end_task(s, SUPERVISOR_PEER_GRACE_S, SUPERVISOR_LOST ": its folder was deleted");
}

static void check_folder_and_spool(struct supervisor *s)
{
    check_folder(s);
    if (s->spool.dropped > 0 && !s->warned_lost && !s->deleted)
        log_error("log lines of a task are lost", "alloc=%s why=\"%s\"", s->id,
                  s->spool.why_dropped);
    s->warned_lost = s->spool.dropped > 0;
}

// --- hangs ---------------------------------------------------------------------------------------

static bool rank_has_left(const struct rank_process *r)
{
    return r->ended && rank_exit_classify(r->wait_status, r->asked_to_end) == RANK_SUCCEEDED;
}

// Returns a rank that has ended with exit 0 while others run; NULL: there is none.
static const struct rank_process *first_that_left(const struct supervisor *s)
{
    for (size_t i = 0; i < s->end_count; i++)
        if (rank_has_left(&s->ranks[s->ends[i]]))
            return &s->ranks[s->ends[i]];
    return NULL;
}

static void describe_ranks(const struct supervisor *s, struct buf *out)
{
    char what[300];
    size_t shown = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct rank_process *r = &s->ranks[i];
        if (r->ended)
            continue;
        processes_describe(r->pid, what, sizeof what);
        buf_printf(out, "%srank %d %s", shown ? ", " : "", r->number, what);
        if (++shown == HANG_RANKS_SHOWN)
            return;
    }
}

// The ranks come last, because they may fill the text.
static void describe_hang(const struct supervisor *s, int64_t idle, bool kill, struct buf *out)
{
    char span[32];
    const char *action = kill ? "; it is ended (hang.kill_after)" : "";
    const struct rank_process *left = first_that_left(s);
    duration_format(idle, span, sizeof span);
    if (left)
        buf_printf(out,
                   "rank %d has ended with exit 0, and the other ranks have done nothing for %s, "
                   "as if they waited for it%s: ",
                   left->number, span, action);
    else
        buf_printf(out,
                   "the task seems to hang: for %s it has printed and reported nothing and used "
                   "almost no processor time%s: ",
                   span, action);
    describe_ranks(s, out);
}

static void handle_hang(struct supervisor *s, int64_t idle)
{
    struct buf text;
    bool kill = s->kill_after && idle >= s->kill_after;
    if (s->warned_hang && !kill)
        return;
    buf_init(&text, sizeof s->reason);
    describe_hang(s, idle, kill, &text);
    write_log(s, kill ? "ERROR" : "WARNING", "%s", buf_str(&text));
    s->warned_hang = true;
    if (kill) {
        s->failed = s->hung = true;
        end_task(s, SUPERVISOR_PEER_GRACE_S, buf_str(&text));
    }
    buf_free(&text);
}

// A rank that has left early makes the others wait for it, which is noticed sooner.
static void check_hang(struct supervisor *s)
{
    int64_t now = clock_mono_us();
    int64_t warn = first_that_left(s) ? s->warn_after / 10 : s->warn_after;
    int64_t limit = s->kill_after && (!warn || s->kill_after < warn) ? s->kill_after : warn;
    if (s->active || !s->started) {
        idle_note_activity(&s->idle, now);
        s->active = s->warned_hang = false;
    } else if (limit && !s->ending && idle_is_due(&s->idle, now, limit)) {
        int64_t idle = idle_look(&s->idle, now, used_processor_time(s));
        if (idle >= limit)
            handle_hang(s, idle);
        else
            s->warned_hang = false;
    }
}

static void read_hang_limits(struct supervisor *s)
{
    const json_t *hang = jget(s->spec, "hang");
    s->warn_after = jget_int(hang, "warnAfter", 0) * 1000000;
    s->kill_after = jget_int(hang, "killAfter", 0) * 1000000;
}

// --- ranks ---------------------------------------------------------------------------------------

// Scripts for Determined search the log for these words, with which its launcher begins.
static void log_start(struct supervisor *s)
{
    if (!strcmp(jget_string(jget(s->spec, "env"), "DET_TASK_TYPE", ""), "TRIAL"))
        write_log(s, "INFO", "New trial runner in container %s on agent %s",
                  jget_string(s->spec, "containerId", ""), jget_string(s->spec, "agentId", ""));
}

static struct rank_process *startup_hook(const struct supervisor *s)
{
    return &s->ranks[s->count];
}

// The number of the task's own group tells what happened to it alone.
static struct memory_kills count_kills(const struct supervisor *s)
{
    struct memory_kills kills = memory_count_kills();
    int64_t own = s->cgroup ? cgroup_memory_kills(s->cgroup) : -1;
    if (own >= 0)
        kills.cgroup = own;
    return kills;
}

static enum memory_verdict judge_memory(const struct supervisor *s)
{
    const struct memory_kills now = count_kills(s);
    return memory_judge(&s->kills, &now);
}

static void start_ranks(struct supervisor *s)
{
    size_t i;
    json_t *entry;
    struct error e = {0};
    log_start(s);
    json_array_foreach(jget(s->spec, "ranks"), i, entry)
    {
        if (rank_process_start(&s->ranks[i], s->dir, s->spec, entry, &e) != 0) {
            write_log(s, "ERROR", "%s", e.text);
            end_task(s, SUPERVISOR_PEER_GRACE_S, e.text);
            break;
        }
        s->children_left = true;
    }
    s->started = s->changed = s->active = true;
}

static void start_hook_or_ranks(struct supervisor *s)
{
    struct error e = {0};
    if (!startup_hook_exists(s->dir)) {
        start_ranks(s);
        return;
    }
    write_log(s, "INFO", STARTUP_HOOK " runs before the program");
    if (startup_hook_start(startup_hook(s), s->dir, s->spec, &s->hook_env, &e) == 0) {
        s->children_left = true;
    } else {
        write_log(s, "ERROR", "%s", e.text);
        end_task(s, SUPERVISOR_PEER_GRACE_S, e.text);
    }
}

// Nothing has started: the task fails with the error of the script, or `why`, as its reason.
static void fail_hook(struct supervisor *s, const char *how, const char *why)
{
    char reason[sizeof s->reason];
    const struct rank_process *hook = startup_hook(s);
    rank_process_explain(hook, s->work_dir, judge_memory(s), &s->failure);
    snprintf(reason, sizeof reason, STARTUP_HOOK ": %s", why ? why : s->failure.sentence);
    s->failed = true;
    write_log(s, "ERROR", STARTUP_HOOK ": %s; the program does not start", how);
    end_task(s, SUPERVISOR_PEER_GRACE_S, reason);
}

static void hook_ended(struct supervisor *s, int wait_status)
{
    char how[64];
    struct error e = {0};
    struct rank_process *hook = startup_hook(s);
    enum rank_exit verdict = rank_exit_classify(wait_status, s->ending);
    if (verdict == RANK_RUNNING)
        return;
    hook->ended = true;
    hook->wait_status = wait_status;
    for (int i = 0; i < 2; i++)
        rank_output_read_rest(&hook->outputs[i]);
    if (s->ending)
        return;
    if (verdict != RANK_SUCCEEDED)
        fail_hook(s, proc_status_text(wait_status, how, sizeof how), NULL);
    else if (startup_hook_apply(s->hook_env, s->spec, &e) != 0)
        fail_hook(s, e.text, e.text);
    else
        start_ranks(s);
}

static void rank_ended(struct supervisor *s, struct rank_process *r, int wait_status)
{
    char how[64], reason[128];
    enum rank_exit verdict = rank_exit_classify(wait_status, s->ending);
    if (verdict == RANK_RUNNING)
        return;
    r->ended = s->changed = true;
    r->asked_to_end = s->ending;
    s->active = true;
    r->wait_status = wait_status;
    s->ends[s->end_count++] = (size_t)(r - s->ranks);
    for (int i = 0; i < 2; i++)
        rank_output_read_rest(&r->outputs[i]);
    if (verdict == RANK_SUCCEEDED || s->ending)
        return;
    s->failed = true;
    snprintf(reason, sizeof reason, "rank %d: %s", r->number,
             proc_status_text(wait_status, how, sizeof how));
    write_log(s, "ERROR", "%s%s", reason, s->count > 1 ? "; ending the other ranks" : "");
    end_task(s, SUPERVISOR_PEER_GRACE_S, reason);
}

// Returns whether a failed rank reports a lost peer, by its exit code or its last lines.
static bool lost_a_peer(const struct supervisor *s, const struct rank_process *r)
{
    json_t *last_lines = log_tail_json(rank_process_tail(r), 0);
    bool native = jget_bool(s->spec, "native", false) && WIFEXITED(r->wait_status) &&
                  WEXITSTATUS(r->wait_status) == err_exit_code(ERR_PEER);
    bool blames = native || rank_exit_blames_peer(json_string_value(last_lines));
    json_decref(last_lines);
    return blames;
}

static enum rank_exit classify_rank(const struct supervisor *s, const struct rank_process *r)
{
    enum rank_exit verdict = rank_exit_classify(r->wait_status, r->asked_to_end);
    return verdict == RANK_FAILED && lost_a_peer(s, r) ? RANK_LOST_PEER : verdict;
}

// A rank that ended with exit 0 before the others leaves them waiting for it.
static void add_rank_that_left(struct supervisor *s)
{
    const struct rank_process *first = &s->ranks[s->ends[0]];
    size_t used = strlen(s->reason);
    if (!rank_has_left(first) || !rank_exit_lost_contact(s->failure.text))
        return;
    snprintf(s->reason + used, sizeof s->reason - used,
             "; rank %d had ended with exit 0 before, so the other ranks waited for it",
             first->number);
}

// Finds the rank that caused the failure, and its last lines. Called after all ranks have ended and
// all of their output was read.
static void find_cause(struct supervisor *s)
{
    enum rank_exit worst = RANK_TERMINATED;
    for (size_t i = 0; s->failed && !s->hung && !s->over_quota && i < s->end_count; i++) {
        const struct rank_process *r = &s->ranks[s->ends[i]];
        enum rank_exit verdict = classify_rank(s, r);
        if (verdict > worst) {
            worst = verdict;
            s->cause = r;
        }
    }
    if (!s->cause)
        return;
    s->lost_peer = worst == RANK_LOST_PEER;
    rank_process_explain(s->cause, s->work_dir, judge_memory(s), &s->failure);
    snprintf(s->reason, sizeof s->reason, "rank %d: %s", s->cause->number, s->failure.sentence);
    add_rank_that_left(s);
}

// Returns the exit code of the task as a shell shows it: that of the rank that caused a failure,
// else the first one other than 0; of the startup hook if it was the last to run. -1: not all ranks
// were started.
static int find_exit_code(const struct supervisor *s)
{
    const struct rank_process *hook = startup_hook(s);
    if (hook->ended && !s->started)
        return rank_exit_code(hook->wait_status);
    int code = s->cause ? rank_exit_code(s->cause->wait_status) : 0;
    for (size_t i = 0; i < s->end_count && !code; i++)
        code = rank_exit_code(s->ranks[s->ends[i]].wait_status);
    return s->end_count < s->count ? -1 : code;
}

// Writes the last line of the log. Scripts for Determined search the log for these words.
static void log_end(struct supervisor *s)
{
    static const char failed[] = "container failed with non-zero exit code";
    int code = find_exit_code(s);
    if (!code)
        write_log(s, "INFO", "resources exited successfully with a zero exit code");
    else if (code > 0 && s->ending && !s->failed)
        write_log(s, "INFO", "resources were killed: %s: %d", failed, code);
    else if (code > 0)
        write_log(s, "ERROR", "resources failed with non-zero exit code: %s: %d", failed, code);
}

static bool all_ranks_ended(const struct supervisor *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->ranks[i].pid != 0 && !s->ranks[i].ended)
            return false;
    return true;
}

static void child_ended(struct supervisor *s, pid_t pid, int wait_status, const struct rusage *used)
{
    if (pid == s->enclosure.init.pid)
        s->enclosure.init.pid = 0;
    if (pid == startup_hook(s)->pid && !startup_hook(s)->ended) {
        startup_hook(s)->peak_bytes = used->ru_maxrss * 1024;
        hook_ended(s, wait_status);
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->ranks[i].pid == pid && !s->ranks[i].ended) {
            s->ranks[i].peak_bytes = used->ru_maxrss * 1024;
            rank_ended(s, &s->ranks[i], wait_status);
        }
}

// Whether processes are left of a task whose ranks have ended.
static bool has_left_processes(const struct supervisor *s)
{
    if (s->enclosure.init.pid > 0 && !task_init_has_children(&s->enclosure.init))
        return false;
    return signal_all(s, 0) > 0;
}

// The first process of the task waits for all others.
static void let_init_end(struct supervisor *s)
{
    const struct rank_process *hook = startup_hook(s);
    bool nothing_starts = s->started || s->ending;
    if (nothing_starts && all_ranks_ended(s) && (hook->pid == 0 || hook->ended))
        task_init_finish(&s->enclosure.init);
}

static void reap_children(struct supervisor *s)
{
    int wait_status = 0;
    struct rusage used;
    pid_t pid;
    while ((pid = wait4(-1, &wait_status, WNOHANG, &used)) > 0)
        child_ended(s, pid, wait_status, &used);
    s->children_left = pid == 0;
    if (s->children_left && !s->ending && s->started && all_ranks_ended(s) &&
        has_left_processes(s)) {
        write_log(s, "WARNING", "the ranks have ended but left processes behind; ending them");
        end_task(s, SUPERVISOR_PEER_GRACE_S, "");
    }
    let_init_end(s);
}

// --- the loop ------------------------------------------------------------------------------------

static void handle_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            write_log(s, "ERROR", "the supervisor received signal %u; ending the task",
                      info.ssi_signo);
            end_task(s, SUPERVISOR_PEER_GRACE_S, SUPERVISOR_LOST ": the machine ended it");
        }
    }
    reap_children(s);
}

static void accept_agent(struct supervisor *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    disconnect_agent(s);
    s->agent_fd = fd;
    json_t *status = status_json(s);
    send_status(s, status);
    json_decref(status);
}

static void handle_command(struct supervisor *s, const char *line, size_t len)
{
    json_t *command = json_loadb(line, len, 0, NULL);
    int64_t grace_s = jget_int(command, "kill", -1), end_s = jget_int(command, "end", -1);
    if (grace_s >= 0) {
        if (!s->ending)
            write_log(s, "INFO", "told to end; SIGKILL after %lld s", (long long)grace_s);
        end_task(s, grace_s, "told to end");
    }
    if (end_s >= 0 && !s->ending) {
        const char *reason = jget_string(command, "reason", "");
        write_log(s, "ERROR", "%s", reason);
        s->failed = s->over_quota = true;
        end_task(s, end_s, reason);
    }
    json_decref(command);
}

static void read_agent(struct supervisor *s)
{
    char chunk[COMMAND_MAX];
    ssize_t n = read(s->agent_fd, chunk, sizeof chunk);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            disconnect_agent(s);
        return;
    }
    buf_append(&s->commands, chunk, (size_t)n);
    const char *stop;
    while (!s->commands.err && s->commands.len > 0 &&
           (stop = memchr(s->commands.data, '\n', s->commands.len))) {
        size_t len = (size_t)(stop - s->commands.data);
        handle_command(s, s->commands.data, len);
        buf_drop_front(&s->commands, len + 1);
    }
    if (s->commands.err)
        disconnect_agent(s);
}

static int poll_timeout(const struct supervisor *s)
{
    int64_t until = s->check_at, now = clock_mono_us();
    if (s->ending && s->children_left && s->kill_at < until)
        until = s->kill_at;
    if (s->changed && s->publish_at < until)
        until = s->publish_at;
    return until <= now ? 0 : (int)((until - now) / 1000) + 1;
}

static size_t output_count(const struct supervisor *s)
{
    return (s->count + 1) * 2;
}

static void wait_for_events(struct supervisor *s)
{
    s->polls[POLL_SIGNALS] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    s->polls[POLL_LISTEN] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    s->polls[POLL_AGENT] = (struct pollfd){.fd = s->agent_fd, .events = POLLIN};
    s->polls[POLL_REPORTS] =
        (struct pollfd){.fd = s->reports ? report_server_fd(s->reports) : -1, .events = POLLIN};
    for (size_t i = 0; i < output_count(s); i++) {
        int fd = s->ranks[i / 2].outputs[i % 2].fd;
        s->polls[POLL_OUTPUTS + i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    if (poll(s->polls, POLL_OUTPUTS + output_count(s), poll_timeout(s)) < 0)
        must(errno == EINTR);
}

static void handle_events(struct supervisor *s)
{
    if (s->polls[POLL_AGENT].revents)
        read_agent(s);
    if (s->polls[POLL_LISTEN].revents)
        accept_agent(s);
    if (s->polls[POLL_REPORTS].revents) {
        report_server_handle(s->reports);
        s->active = true;
    }
    for (size_t i = 0; i < output_count(s); i++)
        if (s->polls[POLL_OUTPUTS + i].revents)
            s->active |= rank_output_read(&s->ranks[i / 2].outputs[i % 2]);
    if (s->polls[POLL_SIGNALS].revents)
        handle_signals(s);
    kill_overdue_processes(s);
}

// Programs only learn that a fork or a thread has failed.
static void check_processes(struct supervisor *s)
{
    if (!s->cgroup || s->warned_processes || !cgroup_refused_process(s->cgroup))
        return;
    write_log(s, "WARNING",
              "the task may not have more than %lld processes and threads on this machine: a fork "
              "or a new thread has failed; start fewer, or ask the administrator for a larger "
              "--task-processes of the agent",
              (long long)jget_int(jget(s->spec, "limits"), "processes", 0));
    s->warned_processes = true;
}

static void check_regularly(struct supervisor *s)
{
    if (clock_mono_us() < s->check_at)
        return;
    s->check_at = clock_mono_us() + CHECK_EVERY_US;
    check_folder_and_spool(s);
    check_processes(s);
    check_hang(s);
    if (s->reports)
        report_server_check(s->reports);
}

static void supervisor_loop(struct supervisor *s)
{
    while (s->children_left) {
        wait_for_events(s);
        handle_events(s);
        check_regularly(s);
        if (s->children_left)
            publish_change(s);
    }
    for (size_t i = 0; i < output_count(s); i++)
        rank_output_drain(&s->ranks[i / 2].outputs[i % 2]);
    if (s->reports)
        report_server_drain(s->reports);
    check_processes(s);
    find_cause(s);
    log_end(s);
    log_spool_close(&s->spool);
    s->finished = s->changed = true;
    s->publish_tries = 0;
    while (s->changed) {
        check_folder(s);
        publish_change(s);
        if (s->changed)
            clock_sleep_us(WRITE_AGAIN_US);
    }
}

// --- start and end -------------------------------------------------------------------------------

// Moves lock and socket from descriptors 0 and 1, where the spawner has put them.
static int adopt_descriptors(struct supervisor *s, struct error *e)
{
    struct stat lock, held;
    char *path = path_join(s->dir, TASKDIR_TASK);
    bool ours = stat(path, &lock) == 0 && fstat(0, &held) == 0 && lock.st_ino == held.st_ino &&
                lock.st_dev == held.st_dev;
    free(path);
    if (!ours)
        return error_set(e, ERR_INVALID, "descriptor 0 is not the lock of %s", s->dir);
    s->lock_fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
    s->listen_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (s->lock_fd < 0 || s->listen_fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot move the supervisor's descriptors");
    close(null);
    return 0;
}

static int catch_signals(struct supervisor *s, struct error *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    s->signal_fd = -1;
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->signal_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot follow child processes");
    return 0;
}

static void make_ranks(struct supervisor *s)
{
    const json_t *list = jget(s->spec, "ranks");
    s->count = json_array_size(list);
    s->ranks = xcalloc(s->count + 1, sizeof *s->ranks);
    s->ends = xcalloc(s->count, sizeof *s->ends);
    s->polls = xcalloc(POLL_OUTPUTS + output_count(s), sizeof *s->polls);
    for (size_t i = 0; i <= s->count; i++) { // the hook has the number of the first rank
        int number = (int)jget_int(json_array_get(list, i < s->count ? i : 0), "rank", 0);
        rank_process_init(&s->ranks[i], number, &s->spool);
        s->ranks[i].confinement = &s->enclosure.confinement;
        s->ranks[i].memory_limit = jget_int(jget(s->spec, "limits"), "memory", 0);
    }
    // Two pipes for each rank may exceed the usual soft limit of 1,024 descriptors.
    struct rlimit files;
    if (s->count > 400 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

// A launcher such as torchrun is the only rank on its machine, and its workers have ranks of their
// own.
static void program_told_failure(void *ctx, const json_t *failure)
{
    struct supervisor *s = ctx;
    for (size_t i = 0; i < s->count; i++)
        if (s->count == 1 || s->ranks[i].number == jget_int(failure, "rank", -1))
            rank_process_tell(&s->ranks[i], failure);
}

// Without the socket a program can still run; it learns that it cannot report.
static void open_reports(struct supervisor *s)
{
    struct error e = {0};
    const struct report_server_options options = {
        .dir = s->dir,
        .refusal = task_spec_reports(s->spec)
                       ? NULL
                       : "only the program of a trial can report, and this task is no trial; "
                         "submit it with `muster experiment create`",
        .on_failure = program_told_failure,
        .ctx = s,
        .disk_max = LIMIT_REPORT_SPOOL,
        .idle_us = LIMIT_REPORT_IDLE_S * INT64_C(1000000),
    };
    if (!jget_bool(s->spec, "native", false) && report_server_open(&options, &s->reports, &e) != 0)
        write_log(s, "WARNING", "programs cannot report: %s", e.text);
}

static void open_cgroup(struct supervisor *s)
{
    struct error e = {0};
    const json_t *limits = jget(s->spec, "limits");
    const char *folder = jget_string(limits, "cgroup", NULL);
    const struct cgroup_limits wanted = {
        .processes = jget_int(limits, "processes", 0),
        .memory = jget_int(limits, "memory", 0),
        .slots = jget_int(limits, "slots", 0),
    };
    if (folder && cgroup_create(folder, s->id, &wanted, &s->cgroup, &e) != 0)
        write_log(s, "WARNING", "the task has no limits of processes and memory: %s", e.text);
    s->kills = count_kills(s);
}

// Where the kernel does not count the processes of the task, it counts those of its account.
static void apply_limits(struct supervisor *s)
{
    struct confinement *c = &s->enclosure.confinement;
    bool counted = s->cgroup && (cgroup_controllers(s->cgroup) & CGROUP_PIDS);
    c->cgroup = s->cgroup ? cgroup_fd(s->cgroup) : 0;
    c->processes = counted ? 0 : jget_int(jget(s->spec, "limits"), "processes", 0);
}

static void start_task(struct supervisor *s)
{
    struct error e = {0};
    open_reports(s);
    open_cgroup(s);
    int err = enclosure_open(s->dir, s->spec, &s->enclosure, &e);
    s->children_left = s->changed = s->enclosure.init.pid > 0;
    if (!err && s->enclosure.warning[0])
        write_log(s, "WARNING", "%s", s->enclosure.warning);
    if (!err) {
        apply_limits(s);
        start_hook_or_ranks(s);
    } else {
        write_log(s, "ERROR", "%s", e.text);
        end_task(s, SUPERVISOR_PEER_GRACE_S, e.text);
    }
    let_init_end(s);
}

static int supervisor_prepare(struct supervisor *s, struct error *e)
{
    int err = adopt_descriptors(s, e);
    if (!err && chdir(s->dir) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot enter %s", s->dir);
    if (!err)
        err = taskdir_read_spec(s->dir, &s->spec, e);
    if (err)
        return err;
    s->id = jget_string(s->spec, "allocationId", "");
    read_hang_limits(s);
    char *here = getcwd(NULL, 0);
    s->work_dir = path_join(here ? here : s->dir, TASKDIR_WORK);
    free(here);
    make_ranks(s);
    char *path = path_join(s->dir, TASKDIR_SPOOL);
    err = log_spool_open(&s->spool, path, 0, LOG_SPOOL_DISK_MAX, e);
    free(path);
    if (!err)
        err = catch_signals(s, e);
    return err ? err : publish_status(s, e);
}

static void supervisor_release(struct supervisor *s)
{
    for (size_t i = 0; s->ranks && i <= s->count; i++)
        rank_process_free(&s->ranks[i]);
    if (s->hook_env >= 0)
        close(s->hook_env);
    disconnect_agent(s);
    report_server_close(s->reports);
    enclosure_close(&s->enclosure);
    cgroup_close(s->cgroup);
    buf_free(&s->commands);
    log_spool_close(&s->spool);
    free(s->ends);
    free(s->ranks);
    free(s->polls);
    free(s->work_dir);
    free(s->marker);
    json_decref(s->spec);
}

// Reports to the agent why nothing was started.
static void report_start_failure(struct supervisor *s, const struct error *why)
{
    snprintf(s->reason, sizeof s->reason, "the task's supervisor did not start: %.400s", why->text);
    write_log(s, "ERROR", "%s", s->reason);
    s->finished = true;
    publish_status(s, NULL);
}

int supervisor_run(const char *dir, struct error *e)
{
    struct supervisor s = {
        .dir = dir,
        .marker = taskdir_marker(dir),
        .spool = {.file = {.fd = -1}},
        .agent_fd = -1,
        .hook_env = -1,
    };
    buf_init(&s.commands, COMMAND_MAX);
    int err = supervisor_prepare(&s, e);
    if (!err) {
        start_task(&s);
        publish_change(&s);
        supervisor_loop(&s);
    } else if (s.id) { // otherwise the task belongs to another supervisor
        report_start_failure(&s, e);
    }
    supervisor_release(&s);
    return err;
}
