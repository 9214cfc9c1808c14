// One thread, one poll loop. Everything the loop learns sets fields of struct supervisor; one place
// (publish) brings them to disk and to the agent.
#include "agent/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "agent/logs/line_splitter.h"
#include "agent/logs/log_tail.h"
#include "agent/logs/spool.h"
#include "agent/supervisor/proctrack.h"
#include "agent/supervisor/rank_exit.h"
#include "agent/supervisor/sandbox.h"
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
    CHUNK = 64 * 1024, // bytes read from a pipe at once
    PIPE_BYTES = 1 << 20,
    ORDER_MAX = 4096, // bytes of an order
    KILL_AGAIN_US = 200 * 1000,
    WRITE_AGAIN_US = 1000 * 1000,
    WRITE_TRIES = 600,           // then it stops writing its state; the agent has it by the socket
    LOOK_EVERY_US = 2000 * 1000, // between two looks at the task's folder
    POLL_SIGNALS = 0,
    POLL_LISTEN,
    POLL_AGENT,
    POLL_STREAMS, // two for each rank
};

struct stream {
    int fd;
    int rank;
    const char *name;
    struct line_splitter lines;
    struct words words;
    struct spool *spool;
};

struct rank {
    int number;
    pid_t pid;        // 0: not started
    bool ended, told; // told: to end, before it did
    int wait_status;
    struct stream streams[2]; // stdout, stderr
};

struct supervisor {
    const char *dir, *id;
    json_t *spec;
    char *marker;
    struct spool spool;
    struct rank *ranks;
    size_t count;
    struct pollfd *polls;
    int lock_fd, listen_fd, agent_fd, signal_fd;
    struct buf orders;
    bool started, children_left, finished;
    bool ending;
    bool failed;     // .. since a rank failed
    int64_t kill_at; // monotonic, while ending
    bool gone;       // the task's folder was deleted
    bool told_lost;  // the task's log has said that lines are lost
    int64_t look_at; // monotonic: next look at the folder and at failed writes
    bool changed;    // since the last publish
    int64_t publish_at;
    int publish_tries;
    size_t *ends; // indexes of ranks in the order of their ends
    size_t end_count;
    const struct rank *cause; // of the failure; NULL: not known, or there is none
    bool lost_peer;           // .. and it failed after a peer: another machine knows the cause
    char reason[512];
};

__attribute__((format(printf, 3, 4))) static void say(struct supervisor *s, const char *level,
                                                      const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    spool_say(&s->spool, level, text);
}

static json_t *ranks_json(const struct supervisor *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const struct rank *r = &s->ranks[i];
        bool ran = r->ended && r->pid > 0; // what could not be started has no status
        bool exited = ran && WIFEXITED(r->wait_status);
        bool killed = ran && WIFSIGNALED(r->wait_status);
        json_t *one =
            json_pack("{s:i, s:i, s:o, s:o}", "rank", r->number, "pid", (int)r->pid, "exitCode",
                      exited ? json_integer(WEXITSTATUS(r->wait_status)) : json_null(), "signal",
                      killed ? json_integer(WTERMSIG(r->wait_status)) : json_null());
        must(one && json_array_append_new(list, one) == 0);
    }
    return list;
}

static void drop_agent(struct supervisor *s)
{
    if (s->agent_fd >= 0)
        close(s->agent_fd);
    s->agent_fd = -1;
    buf_reset(&s->orders);
}

static void send_status(struct supervisor *s, const json_t *status)
{
    if (s->agent_fd < 0)
        return;
    char *text = json_text(status);
    char *line = xasprintf("%s\n", text);
    size_t len = strlen(line);
    // An agent that does not read is dropped; it connects again and gets the whole state.
    if (send(s->agent_fd, line, len, MSG_NOSIGNAL) != (ssize_t)len)
        drop_agent(s);
    free(line);
    free(text);
}

// The last lines of the rank's stderr, or of its stdout if its stderr is empty.
static const struct words *words_of(const struct rank *r)
{
    const struct words *err = &r->streams[1].words;
    return err->lines > 0 ? err : &r->streams[0].words;
}

static json_t *status_json(const struct supervisor *s)
{
    const char *state = s->finished ? TASK_EXITED : s->started ? TASK_RUNNING : TASK_STARTING;
    json_t *status = taskdir_status(s->id, state, ranks_json(s), s->reason);
    if (s->cause) {
        json_object_set_new(status, "cause", json_integer(s->cause->number));
        json_object_set_new(status, "lostPeer", json_boolean(s->lost_peer));
        json_object_set_new(status, "lastWords", words_json(words_of(s->cause)));
    }
    return status;
}

// On a full disk the task goes on: the agent is told all the same, and the file is tried again.
// That something is about to be started has to outlive the machine; a task that did not live on
// with it is lost whatever stood in the file.
static int publish(struct supervisor *s, struct error *e)
{
    json_t *status = status_json(s);
    int rc = s->gone ? 0 : taskdir_write_status(s->dir, status, !s->started, e);
    send_status(s, status);
    json_decref(status);
    s->changed = rc != 0 && ++s->publish_tries < WRITE_TRIES;
    s->publish_at = clock_mono_us() + WRITE_AGAIN_US;
    return rc;
}

static void publish_change(struct supervisor *s)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    if (s->changed && (s->publish_tries == 0 || clock_mono_us() >= s->publish_at)) {
        if (publish(s, &e) == 0)
            s->publish_tries = 0;
        else
            log_error("cannot write the status", "alloc=%s err=%s", s->id,
                      log_quote(quoted, sizeof quoted, e.text));
    }
}

static size_t signal_all(const struct supervisor *s, int signal)
{
    const struct sweep sweep = {
        .marker = s->marker,
        .session = getsid(0),
        .parent = getpid(),
    };
    return sweep_processes(&sweep, signal);
}

// Ends all processes of the task. A second call can only make the end come sooner.
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

static void kill_what_is_late(struct supervisor *s)
{
    int64_t now = clock_mono_us();
    if (s->ending && s->children_left && now >= s->kill_at) {
        signal_all(s, SIGKILL);
        s->kill_at = now + KILL_AGAIN_US; // something may have been forked meanwhile
    }
}

// --- its folder ----------------------------------------------------------------------------------

// Without its folder no agent finds the task again: a person who deletes the folder wants the task
// to end. The task file then has no name; this process keeps it open through its lock.
static void look_at_folder(struct supervisor *s)
{
    struct stat lock;
    if (s->gone || fstat(s->lock_fd, &lock) != 0 || lock.st_nlink > 0)
        return;
    s->gone = true;
    log_error("the folder of a task was deleted; its processes are ended", "alloc=%s dir=%s", s->id,
              s->dir);
    end_task(s, SUPERVISOR_PEER_GRACE_S, SUPERVISOR_LOST ": its folder was deleted");
}

static void look_around(struct supervisor *s)
{
    if (clock_mono_us() < s->look_at)
        return;
    s->look_at = clock_mono_us() + LOOK_EVERY_US;
    look_at_folder(s);
    if (s->spool.dropped > 0 && !s->told_lost && !s->gone)
        log_error("lines of a task are lost", "alloc=%s why=\"%s\"", s->id, s->spool.why_dropped);
    s->told_lost = s->spool.dropped > 0;
}

// --- ranks ---------------------------------------------------------------------------------------

static void on_line(void *ctx, const char *text, size_t len)
{
    struct stream *stream = ctx;
    struct line_view v = line_parse(text, len);
    words_add(&stream->words, text, len);
    const struct spool_line line = {
        .wall_us = clock_wall_us(),
        .rank = v.rank >= 0 ? v.rank : stream->rank,
        .level = v.level,
        .stream = stream->name,
        .source = "task",
        .text = v.text,
        .len = v.len,
    };
    spool_append(stream->spool, &line);
}

static void close_stream(struct stream *stream)
{
    if (stream->fd < 0)
        return;
    line_splitter_end(&stream->lines, on_line, stream);
    close(stream->fd);
    stream->fd = -1;
}

// false: nothing is there now.
static bool read_stream(struct stream *stream)
{
    char chunk[CHUNK];
    ssize_t n = read(stream->fd, chunk, sizeof chunk);
    if (n > 0)
        line_splitter_feed(&stream->lines, chunk, (size_t)n, on_line, stream);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_stream(stream);
    return n > 0;
}

// What a rank wrote before it died, so that it stands in the log before the word of its death. Its
// children may go on writing: no more than a pipe holds.
static void read_last_words(struct stream *stream)
{
    for (int left = PIPE_BYTES / CHUNK; left > 0 && stream->fd >= 0 && read_stream(stream); left--)
        ;
}

// What is still in the pipes of a task that has ended.
static void drain_streams(struct supervisor *s)
{
    for (size_t i = 0; i < s->count * 2; i++) {
        struct stream *stream = &s->ranks[i / 2].streams[i % 2];
        while (stream->fd >= 0 && read_stream(stream))
            ;
        close_stream(stream);
    }
}

static int open_pipe(struct stream *stream, int *write_fd, struct error *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot make a pipe");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    stream->fd = fds[0];
    *write_fd = fds[1];
    return 0;
}

static int spawn(struct supervisor *s, struct rank *r, const char *const *argv,
                 const char *const *envp, struct error *e)
{
    int out = -1, err = -1;
    char *work = path_join(s->dir, TASKDIR_WORK);
    int rc = open_pipe(&r->streams[0], &out, e);
    if (rc == 0)
        rc = open_pipe(&r->streams[1], &err, e);
    if (rc != 0)
        goto out;
    const struct proc_spec spec = {
        .argv = argv,
        .envp = envp,
        .cwd = work,
        .fd_in = -1,
        .fd_out = out,
        .fd_err = err,
        .new_group = true,
        .die_with_parent = true,
    };
    rc = proc_spawn(&spec, &r->pid, NULL, e);
out:
    if (out >= 0)
        close(out);
    if (err >= 0)
        close(err);
    free(work);
    return rc;
}

static const char **make_argv(const json_t *words)
{
    const char **argv = xcalloc(json_array_size(words) + 1, sizeof *argv);
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word) argv[i] = json_string_value(word);
    return argv;
}

static char **make_envp(json_t *env)
{
    char **envp = xcalloc(json_object_size(env) + 1, sizeof *envp);
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach(env, name, value) envp[i++] =
        xasprintf("%s=%s", name, json_string_value(value));
    return envp;
}

static int start_rank(struct supervisor *s, struct rank *r, const json_t *entry, struct error *e)
{
    json_t *env = spec_environment(s->spec, entry);
    char **envp = make_envp(env);
    const char **argv = make_argv(jget(s->spec, "argv"));
    int rc = spawn(s, r, argv, (const char *const *)envp, e);
    for (char **p = envp; *p; p++)
        free(*p);
    free(envp);
    free(argv);
    json_decref(env);
    return rc == 0 ? 0 : error_prefix(e, "rank %d could not be started", r->number);
}

static void start_ranks(struct supervisor *s)
{
    size_t i;
    json_t *entry;
    struct error e = {0};
    json_array_foreach(jget(s->spec, "ranks"), i, entry)
    {
        if (start_rank(s, &s->ranks[i], entry, &e) != 0) {
            say(s, "ERROR", "%s", e.text);
            end_task(s, SUPERVISOR_PEER_GRACE_S, e.text);
            break;
        }
        s->children_left = true;
    }
    s->started = s->changed = true;
}

static void rank_ended(struct supervisor *s, struct rank *r, int wait_status)
{
    char how[64], reason[128];
    enum verdict verdict = judge_status(wait_status, s->ending);
    if (verdict == VERDICT_RUNS)
        return;
    r->ended = s->changed = true;
    r->told = s->ending;
    r->wait_status = wait_status;
    s->ends[s->end_count++] = (size_t)(r - s->ranks);
    for (int i = 0; i < 2; i++)
        read_last_words(&r->streams[i]);
    if (verdict == VERDICT_WELL || s->ending)
        return;
    s->failed = true;
    snprintf(reason, sizeof reason, "rank %d: %s", r->number,
             proc_status_text(wait_status, how, sizeof how));
    say(s, "ERROR", "%s%s", reason, s->count > 1 ? "; ending the other ranks" : "");
    end_task(s, SUPERVISOR_PEER_GRACE_S, reason);
}

// Whether the exit code or the last lines of a failed rank say that it lost a peer.
static bool lost_a_peer(const struct supervisor *s, const struct rank *r)
{
    json_t *words = words_json(words_of(r));
    bool native = jget_bool(s->spec, "native", false) && WIFEXITED(r->wait_status) &&
                  WEXITSTATUS(r->wait_status) == err_exit_code(ERR_PEER);
    bool blames = native || judge_blames_peers(json_string_value(words));
    json_decref(words);
    return blames;
}

static enum verdict judge_rank(const struct supervisor *s, const struct rank *r)
{
    enum verdict verdict = judge_status(r->wait_status, r->told);
    return verdict == VERDICT_FAILED && lost_a_peer(s, r) ? VERDICT_LOST_PEER : verdict;
}

// Finds the rank that caused the failure and its last lines, after all ranks have ended and all of
// their output is read.
static void find_cause(struct supervisor *s)
{
    char how[64], last[256];
    enum verdict worst = VERDICT_ENDED;
    for (size_t i = 0; s->failed && i < s->end_count; i++) {
        const struct rank *r = &s->ranks[s->ends[i]];
        enum verdict verdict = judge_rank(s, r);
        if (verdict > worst) {
            worst = verdict;
            s->cause = r;
        }
    }
    if (!s->cause)
        return;
    s->lost_peer = worst == VERDICT_LOST_PEER;
    words_last(words_of(s->cause), last, sizeof last);
    snprintf(s->reason, sizeof s->reason, "rank %d: %s%s%s", s->cause->number,
             proc_status_text(s->cause->wait_status, how, sizeof how), last[0] ? ": " : "", last);
}

static bool all_ranks_ended(const struct supervisor *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->ranks[i].pid != 0 && !s->ranks[i].ended)
            return false;
    return true;
}

static void reap(struct supervisor *s)
{
    int wait_status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        for (size_t i = 0; i < s->count; i++)
            if (s->ranks[i].pid == pid && !s->ranks[i].ended)
                rank_ended(s, &s->ranks[i], wait_status);
    }
    s->children_left = pid == 0;
    if (s->children_left && !s->ending && all_ranks_ended(s)) {
        say(s, "WARNING", "the ranks have ended and left processes behind; ending those");
        end_task(s, SUPERVISOR_PEER_GRACE_S, "");
    }
}

// --- the loop ------------------------------------------------------------------------------------

static void on_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            say(s, "ERROR", "the machine tells the task to end (signal %u)", info.ssi_signo);
            end_task(s, SUPERVISOR_PEER_GRACE_S, SUPERVISOR_LOST ": the machine ended it");
        }
    }
    reap(s);
}

static void on_agent_connects(struct supervisor *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    drop_agent(s);
    s->agent_fd = fd;
    json_t *status = status_json(s);
    send_status(s, status);
    json_decref(status);
}

static void obey(struct supervisor *s, const char *line, size_t len)
{
    json_t *order = json_loadb(line, len, 0, NULL);
    int64_t grace_s = jget_int(order, "kill", -1);
    if (grace_s >= 0) {
        if (!s->ending)
            say(s, "INFO", "told to end; SIGKILL after %lld s", (long long)grace_s);
        end_task(s, grace_s, "told to end");
    }
    json_decref(order);
}

static void on_agent_speaks(struct supervisor *s)
{
    char chunk[ORDER_MAX];
    ssize_t n = read(s->agent_fd, chunk, sizeof chunk);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            drop_agent(s);
        return;
    }
    buf_append(&s->orders, chunk, (size_t)n);
    const char *stop;
    while (!s->orders.err && s->orders.len > 0 &&
           (stop = memchr(s->orders.data, '\n', s->orders.len))) {
        size_t len = (size_t)(stop - s->orders.data);
        obey(s, s->orders.data, len);
        buf_drop_front(&s->orders, len + 1);
    }
    if (s->orders.err)
        drop_agent(s);
}

static int poll_timeout(const struct supervisor *s)
{
    int64_t until = s->look_at, now = clock_mono_us();
    if (s->ending && s->children_left && s->kill_at < until)
        until = s->kill_at;
    if (s->changed && s->publish_at < until)
        until = s->publish_at;
    return until <= now ? 0 : (int)((until - now) / 1000) + 1;
}

static void wait_for_events(struct supervisor *s)
{
    s->polls[POLL_SIGNALS] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    s->polls[POLL_LISTEN] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    s->polls[POLL_AGENT] = (struct pollfd){.fd = s->agent_fd, .events = POLLIN};
    for (size_t i = 0; i < s->count * 2; i++) {
        const struct stream *stream = &s->ranks[i / 2].streams[i % 2];
        s->polls[POLL_STREAMS + i] = (struct pollfd){.fd = stream->fd, .events = POLLIN};
    }
    if (poll(s->polls, POLL_STREAMS + s->count * 2, poll_timeout(s)) < 0)
        must(errno == EINTR);
}

static void handle_events(struct supervisor *s)
{
    if (s->polls[POLL_AGENT].revents)
        on_agent_speaks(s);
    if (s->polls[POLL_LISTEN].revents)
        on_agent_connects(s);
    for (size_t i = 0; i < s->count * 2; i++)
        if (s->polls[POLL_STREAMS + i].revents)
            read_stream(&s->ranks[i / 2].streams[i % 2]);
    if (s->polls[POLL_SIGNALS].revents)
        on_signal(s);
    kill_what_is_late(s);
}

static void loop(struct supervisor *s)
{
    while (s->children_left) {
        wait_for_events(s);
        handle_events(s);
        look_around(s);
        if (s->children_left)
            publish_change(s);
    }
    drain_streams(s);
    find_cause(s);
    spool_close(&s->spool);
    s->finished = s->changed = true;
    s->publish_tries = 0;
    while (s->changed) {
        look_at_folder(s);
        publish_change(s);
        if (s->changed)
            clock_sleep_us(WRITE_AGAIN_US);
    }
}

// --- start and end -------------------------------------------------------------------------------

// Takes lock and socket from the places where the spawner put them.
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
        return error_set_errno(e, ERR_IO, errno, "cannot place the supervisor's descriptors");
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
        return error_set_errno(e, ERR_IO, errno, "cannot watch over processes");
    return 0;
}

static void make_ranks(struct supervisor *s)
{
    const json_t *list = jget(s->spec, "ranks");
    s->count = json_array_size(list);
    s->ranks = xcalloc(s->count, sizeof *s->ranks);
    s->ends = xcalloc(s->count, sizeof *s->ends);
    s->polls = xcalloc(POLL_STREAMS + s->count * 2, sizeof *s->polls);
    for (size_t i = 0; i < s->count; i++) {
        struct rank *r = &s->ranks[i];
        r->number = (int)jget_int(json_array_get(list, i), "rank", 0);
        for (size_t j = 0; j < 2; j++) {
            r->streams[j] = (struct stream){.fd = -1,
                                            .rank = r->number,
                                            .name = j == 0 ? "stdout" : "stderr",
                                            .spool = &s->spool};
            line_splitter_init(&r->streams[j].lines);
            words_init(&r->streams[j].words);
        }
    }
    // Two pipes a rank may be more than the usual soft limit of 1,024 descriptors.
    struct rlimit files;
    if (s->count > 400 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void prepare_view(struct supervisor *s)
{
    struct error e = {0};
    if (jget_bool(s->spec, "native", false))
        return;
    json_t *env = spec_environment(s->spec, json_array_get(jget(s->spec, "ranks"), 0));
    int rc = sandbox_enter(&e);
    if (rc == 0)
        rc = sandbox_write_info(s->dir, env, s->count, &e);
    if (rc != 0)
        say(s, "WARNING",
            "no view of /run/determined of its own (%s): programs find their settings in the "
            "environment alone",
            e.text);
    else if (sandbox_hide_others(s->dir, jget_string(s->spec, "tokenFile", NULL), &e) != 0)
        say(s, "WARNING", "the folders of other tasks are not hidden from this one (%s)", e.text);
    json_decref(env);
}

static int prepare(struct supervisor *s, struct error *e)
{
    int rc = adopt_descriptors(s, e);
    if (rc == 0 && chdir(s->dir) != 0)
        rc = error_set_errno(e, ERR_IO, errno, "cannot enter %s", s->dir);
    if (rc == 0)
        rc = taskdir_read_spec(s->dir, &s->spec, e);
    if (rc != 0)
        return rc;
    s->id = jget_string(s->spec, "allocationId", "");
    make_ranks(s);
    char *path = path_join(s->dir, TASKDIR_SPOOL);
    rc = spool_open(&s->spool, path, 0, SPOOL_DISK_MAX, e);
    free(path);
    if (rc == 0)
        rc = catch_signals(s, e);
    return rc == 0 ? publish(s, e) : rc;
}

static void release(struct supervisor *s)
{
    for (size_t i = 0; i < s->count * 2; i++) {
        struct stream *stream = &s->ranks[i / 2].streams[i % 2];
        line_splitter_free(&stream->lines);
        words_free(&stream->words);
    }
    drop_agent(s);
    buf_free(&s->orders);
    spool_close(&s->spool);
    free(s->ends);
    free(s->ranks);
    free(s->polls);
    free(s->marker);
    json_decref(s->spec);
}

// Nothing was started, and the agent finds out why.
static void give_up(struct supervisor *s, const struct error *why)
{
    snprintf(s->reason, sizeof s->reason, "the task's supervisor did not start: %.400s", why->text);
    say(s, "ERROR", "%s", s->reason);
    s->finished = true;
    publish(s, NULL);
}

int supervisor_run(const char *dir, struct error *e)
{
    struct supervisor s = {
        .dir = dir,
        .marker = taskdir_marker(dir),
        .spool = {.fd = -1},
        .agent_fd = -1,
    };
    buf_init(&s.orders, ORDER_MAX);
    int rc = prepare(&s, e);
    if (rc == 0) {
        prepare_view(&s);
        start_ranks(&s);
        publish_change(&s);
        loop(&s);
    } else if (s.id) { // else the task is not ours
        give_up(&s, e);
    }
    release(&s);
    return rc;
}
