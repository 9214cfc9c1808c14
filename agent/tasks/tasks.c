#include "agent/tasks/tasks.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/logs/log_spool.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/proctrack.h"
#include "agent/supervisor/spawner.h"
#include "agent/supervisor/supervisor.h"
#include "agent/tasks/task_spec.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "base/rng.h"
#include "base/text/json.h"

enum {
    STATUS_MAX = 1 << 20, // bytes of a status on the socket
    FETCH_AGAIN_US = 1000 * 1000,
    ATTACH_AGAIN_US = 20 * 1000,
    KILL_AGAIN_US = 100 * 1000,
    KILL_REPORTS_US = 10 * 1000 * 1000, // for the last reports of a task that is ended
};

enum task_phase {
    PHASE_FETCHING,   // the file worker fetches its files
    PHASE_CONNECTING, // its supervisor was started, by this agent or a former one
    PHASE_ATTACHED,   // connected to its supervisor
    PHASE_KILLING,    // its supervisor is lost; the agent kills its processes
    PHASE_REPORTING,  // it has ended; the shipper sends the last reports of its program
    PHASE_EXITED,
    PHASE_FORGETTING, // the shipper sends its last log lines
};

struct agent_task {
    char *id, *dir;
    char *url; // of its files; "": it has no files
    enum task_phase phase;
    bool in_worker; // the file worker has a job for it
    bool warned;    // that its files are not available yet
    bool killed;
    bool has_spec;      // so the master knows where its log belongs
    bool shipped;       // PHASE_FORGETTING: the master has the log
    bool reports;       // its program can report
    bool searched;      // PHASE_KILLING: for live processes, once at least
    struct error quota; // why the machine ends it; code 0: it does not
    int64_t grace_s;
    int64_t retry_at; // monotonic: PHASE_FETCHING, PHASE_CONNECTING, PHASE_KILLING; in
                      // PHASE_REPORTING the end of the time for reports of a killed task
    int fd;           // PHASE_ATTACHED
    struct buf in;
    json_t *status; // for the master
    json_t *end;    // PHASE_REPORTING: the status that follows
    struct agent_task *next;
};

struct tasks {
    struct tasks_options o;
    char *folder, *trash, *program_dir;
    char *command_dir, *python_dir; // see task_spec.h
    struct spawner *spawner;
    struct agent_task *first;
    bool changed;
};

// --- one task ------------------------------------------------------------------------------------

static struct agent_task *find_task(struct tasks *t, const char *id)
{
    struct agent_task *task = t->first;
    while (task && strcmp(task->id, id) != 0)
        task = task->next;
    return task;
}

static struct agent_task *add_task(struct tasks *t, const char *id)
{
    struct agent_task *task = xcalloc(1, sizeof *task);
    task->id = xstrdup(id);
    task->dir = path_join(t->folder, id);
    task->fd = -1;
    task->grace_s = DESIRED_DEFAULT_GRACE_S;
    task->status = taskdir_status(id, TASK_STARTING, NULL, "");
    buf_init(&task->in, STATUS_MAX);
    task->next = t->first;
    t->first = task;
    t->changed = true;
    return task;
}

static void agent_task_free(struct agent_task *task)
{
    if (task->fd >= 0)
        close(task->fd);
    buf_free(&task->in);
    json_decref(task->status);
    json_decref(task->end);
    free(task->url);
    free(task->dir);
    free(task->id);
    free(task);
}

static void remove_task(struct tasks *t, struct agent_task *task)
{
    struct agent_task **at = &t->first;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    agent_task_free(task);
}

static void set_status(struct tasks *t, struct agent_task *task, json_t *status)
{
    t->changed |= !json_equal(task->status, status);
    json_decref(task->status);
    task->status = status;
}

static void disconnect_supervisor(struct agent_task *task)
{
    if (task->fd >= 0)
        close(task->fd);
    task->fd = -1;
    buf_reset(&task->in);
}

// Writes the end of a task without a supervisor as the last line of its log.
static void write_last_line(const struct agent_task *task, const char *text)
{
    struct log_spool spool;
    struct spool_cursor shipped;
    char *path = path_join(task->dir, TASKDIR_SPOOL);
    char *cursor = path_join(task->dir, TASKDIR_CURSOR);
    spool_cursor_load(cursor, &shipped);
    if (log_spool_open(&spool, path, shipped.sequence, LOG_SPOOL_DISK_MAX, NULL) == 0)
        log_spool_append_message(&spool, "ERROR", text);
    log_spool_close(&spool);
    free(cursor);
    free(path);
}

// Moves the folder to the trash first, so that a partly removed folder never looks like a task.
static void remove_folder(struct tasks *t, const char *id, const char *dir)
{
    char unique[UUID_TEXT];
    uuid_make(unique);
    char *trash = xasprintf("%s/%s.%s", t->trash, id, unique);
    if (rename(dir, trash) == 0)
        file_worker_remove(t->o.remover, trash);
    free(trash);
}

// Frees the disk when the program of a task that has filled it has ended, because the master may
// not take the log soon.
static void discard_files(struct tasks *t, const struct agent_task *task)
{
    static const char *const names[] = {TASKDIR_WORK, TASKDIR_TMP, TASKDIR_HOME};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(task->dir, names[i]);
        remove_folder(t, task->id, path);
        free(path);
    }
}

static void task_exited(struct tasks *t, struct agent_task *task)
{
    json_t *end = task->end;
    task->end = NULL;
    set_status(t, task, end);
    task->phase = PHASE_EXITED;
}

static bool has_reports(const struct agent_task *task)
{
    char *path = path_join(task->dir, TASKDIR_REPORT_SPOOL);
    bool found = task->reports && path_exists(path);
    free(path);
    return found;
}

// Handles the end of a task; takes ownership of `status`. The master learns of it after the last
// report of the program, because the token for reports ends with the allocation. Reports that the
// master cannot take must not hold the slots of a task that it wants to end, so that one waits for
// a limited time.
static void task_ended(struct tasks *t, struct agent_task *task, json_t *status)
{
    char quoted[ERROR_TEXT_MAX];
    log_info("task ended", "alloc=%s reason=%s", task->id,
             log_quote(quoted, sizeof quoted, jget_string(status, "reason", "")));
    disconnect_supervisor(task);
    if (task->quota.code)
        discard_files(t, task);
    task->end = status;
    task->retry_at = clock_mono_us() + KILL_REPORTS_US;
    if (has_reports(task))
        task->phase = PHASE_REPORTING;
    else
        task_exited(t, task);
    if (task->reports)
        shipper_finish(t->o.reports, task->id);
}

// Handles the end of a task that has no supervisor, or was never started.
static void end_unsupervised_task(struct tasks *t, struct agent_task *task, const char *reason)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    json_t *ranks = jget(task->status, "ranks");
    log_warn("agent ended a task without a supervisor", "alloc=%s reason=%s", task->id,
             log_quote(quoted, sizeof quoted, reason));
    if (task->has_spec)
        write_last_line(task, reason);
    json_t *status = taskdir_status(task->id, TASK_EXITED, json_incref(ranks), reason);
    if (taskdir_write_status(task->dir, status, true, &e) != 0)
        log_error("cannot write the status", "alloc=%s err=%s", task->id,
                  log_quote(quoted, sizeof quoted, e.text));
    task_ended(t, task, status);
}

// Takes ownership of a status that the task's supervisor has sent or written.
static void take_status(struct tasks *t, struct agent_task *task, json_t *status)
{
    if (taskdir_status_is(status, TASK_EXITED))
        task_ended(t, task, status);
    else
        set_status(t, task, status);
}

// --- supervisors ---------------------------------------------------------------------------------

static size_t read_rank_pids(const struct agent_task *task, pid_t **out)
{
    const json_t *ranks = jget(task->status, "ranks");
    size_t i;
    json_t *rank;
    *out = xcalloc(json_array_size(ranks) + 1, sizeof **out);
    json_array_foreach(ranks, i, rank)(*out)[i] = (pid_t)jget_int(rank, "pid", 0);
    return json_array_size(ranks);
}

// Ends all processes of the task's group, also those that fork meanwhile.
static void clear_group(const struct tasks *t, const struct agent_task *task)
{
    const char *folder = jget_string(t->o.limits, "cgroup", NULL);
    if (folder)
        cgroup_clear(folder, task->id);
}

// The kernel releases the lock of a dying supervisor before it kills the first process of the task,
// which kills the others. So only the second search can find that nothing lives.
static void kill_processes(struct tasks *t, struct agent_task *task, int64_t now)
{
    clear_group(t, task);
    pid_t *ranks;
    char *marker = taskdir_marker(task->dir);
    pid_t init = (pid_t)jget_int(task->status, "init", 0);
    struct process_filter wanted = {.marker = marker, .init = init};
    wanted.known_count = read_rank_pids(task, &ranks);
    wanted.known = ranks;
    size_t live = proctrack_signal(&wanted, SIGKILL) + proctrack_count_ending(init);
    if (live == 0 && (task->searched || init == 0)) {
        end_unsupervised_task(t, task,
                              SUPERVISOR_LOST ": its processes on this machine were ended");
    } else {
        task->phase = PHASE_KILLING;
        task->searched = true;
        task->retry_at = now + KILL_AGAIN_US;
    }
    free(ranks);
    free(marker);
}

static bool task_is_over(const struct agent_task *task)
{
    return task->phase == PHASE_REPORTING || task->phase == PHASE_EXITED;
}

// Handles a task whose lock is free: task.json holds the last status of its supervisor.
static void read_last_status(struct tasks *t, struct agent_task *task, int64_t now)
{
    json_t *status = NULL;
    int err = taskdir_read_status(task->dir, &status, NULL);
    if (!err)
        take_status(t, task, status);
    if (err == ERR_NOT_FOUND)
        end_unsupervised_task(t, task,
                              SUPERVISOR_LOST ": it was killed before it had started the task");
    else if (!task_is_over(task))
        // An unreadable status was being overwritten when the machine died; the task had started.
        kill_processes(t, task, now);
}

static void send_kill(struct agent_task *task)
{
    char command[64];
    int len = snprintf(command, sizeof command, "{\"kill\": %lld}\n", (long long)task->grace_s);
    // If the supervisor has ended, the next read reports the end of the connection.
    if (send(task->fd, command, (size_t)len, MSG_NOSIGNAL) != len)
        log_debug("cannot send to a supervisor", "alloc=%s", task->id);
}

// The supervisor ends the task as failed for this reason. A full disk cannot wait.
static void send_quota(struct agent_task *task)
{
    json_t *command =
        json_pack("{s:i, s:s}", "end", task->quota.code == ERR_FULL ? 0 : SUPERVISOR_PEER_GRACE_S,
                  "reason", task->quota.text);
    must(command);
    char *text = json_text(command), *line = xasprintf("%s\n", text);
    if (send(task->fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        log_debug("cannot send to a supervisor", "alloc=%s", task->id);
    free(line);
    free(text);
    json_decref(command);
}

static void connect_supervisor(struct tasks *t, struct agent_task *task, int64_t now)
{
    disconnect_supervisor(task);
    task->phase = PHASE_CONNECTING;
    if (taskdir_connect(task->dir, &task->fd, NULL) == 0) {
        task->phase = PHASE_ATTACHED;
        if (task->quota.code)
            send_quota(task);
        if (task->killed)
            send_kill(task);
    } else if (taskdir_supervised(task->dir)) {
        task->retry_at = now + ATTACH_AGAIN_US;
    } else {
        read_last_status(t, task, now);
    }
}

static void start_supervisor(struct tasks *t, struct agent_task *task)
{
    struct error e = {0};
    if (spawner_supervise(t->spawner, task->id, &e) != 0)
        end_unsupervised_task(t, task, e.text);
    else
        connect_supervisor(t, task, clock_mono_us());
}

static void read_statuses(struct tasks *t, struct agent_task *task)
{
    const char *stop;
    while (task->phase == PHASE_ATTACHED && task->in.len > 0 &&
           (stop = memchr(task->in.data, '\n', task->in.len))) {
        size_t len = (size_t)(stop - task->in.data);
        json_t *status = json_loadb(task->in.data, len, 0, NULL);
        buf_drop_front(&task->in, len + 1);
        if (status)
            take_status(t, task, status);
    }
}

static void read_supervisor(struct tasks *t, struct agent_task *task)
{
    char chunk[16 * 1024];
    while (task->phase == PHASE_ATTACHED) {
        ssize_t n = recv(task->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0 && buf_append(&task->in, chunk, (size_t)n) == 0)
            read_statuses(t, task);
        else
            connect_supervisor(t, task, clock_mono_us());
    }
}

void tasks_read(struct tasks *t)
{
    for (struct agent_task *task = t->first; task; task = task->next)
        read_supervisor(t, task);
}

// --- actions -------------------------------------------------------------------------------------

static int write_spec(struct tasks *t, struct agent_task *task, const struct desired_task *wanted,
                      struct error *e)
{
    json_t *spec = NULL;
    const struct task_host host = {
        .agent_id = t->o.agent_id,
        .slots = t->o.slots,
        .dir = task->dir,
        .program_dir = t->program_dir,
        .command_dir = t->command_dir,
        .python_dir = t->python_dir,
        .home = getenv("HOME"),
        .path = getenv("PATH"),
        .lang = getenv("LANG"),
        .limits = t->o.limits,
        .token_file = t->o.token_file,
        .protections = t->o.protections,
        .task_account = t->o.task_account,
        .task_group = t->o.task_group,
        .tasks_as_root = t->o.tasks_as_root,
        .ca_file = t->o.ca_file,
    };
    int err = task_spec_build(wanted, &host, &spec, e);
    if (!err && t->o.ca_file) // before the specification, with which the task may start
        err = taskdir_copy_authority(task->dir, t->o.ca_file, e);
    int make_err = taskdir_make(task->dir, spec, err ? NULL : e);
    err = err ? err : make_err;
    task->has_spec = !err;
    task->url = xstrdup(jget_string(spec, "contextUrl", ""));
    json_decref(spec);
    return err;
}

static void fetch_files(struct tasks *t, struct agent_task *task)
{
    struct error e = {0};
    task->in_worker = task->url[0] != '\0';
    if (task->in_worker) {
        file_worker_fetch(t->o.file_worker, task->id, task->dir, task->url);
        return;
    }
    char *work = path_join(task->dir, TASKDIR_WORK);
    if (dir_make(work, 0700, &e) == 0)
        start_supervisor(t, task);
    else
        end_unsupervised_task(t, task, e.text);
    free(work);
}

// `spec`: the specification of the task, or its entry of the desired state.
static void ship_task(struct tasks *t, struct agent_task *task, const json_t *spec)
{
    shipper_add(t->o.logs, task->dir);
    task->reports = task_spec_reports(spec);
    if (task->reports)
        shipper_add(t->o.reports, task->dir);
}

static void start_task(struct tasks *t, const struct desired_task *wanted)
{
    struct error e = {0};
    struct agent_task *task = add_task(t, wanted->id);
    task->grace_s = wanted->grace_s;
    task->phase = PHASE_FETCHING;
    if (write_spec(t, task, wanted, &e) != 0) {
        end_unsupervised_task(t, task, e.text);
        return;
    }
    log_info("starting task", "alloc=%s ranks=%zu", task->id,
             json_array_size(jget(wanted->json, "ranks")));
    ship_task(t, task, wanted->json);
    fetch_files(t, task);
}

static void kill_task(struct tasks *t, struct agent_task *task, const struct desired_task *wanted)
{
    if (wanted)
        task->grace_s = wanted->grace_s;
    log_info("ending task", "alloc=%s", task->id);
    task->killed = true;
    if (task->phase == PHASE_FETCHING)
        end_unsupervised_task(t, task, "told to end before it was started");
    else if (task->phase == PHASE_ATTACHED)
        send_kill(task);
    task->retry_at =
        task->phase == PHASE_REPORTING ? clock_mono_us() + KILL_REPORTS_US : task->retry_at;
}

static void declare_gone(struct tasks *t, const char *id)
{
    struct error e = {0};
    struct agent_task *task = add_task(t, id);
    if (taskdir_make(task->dir, NULL, &e) != 0)
        log_warn("cannot create the folder of a task", "alloc=%s", id);
    end_unsupervised_task(t, task, "it was never started on this machine");
}

static void remove_forgotten_task(struct tasks *t, struct agent_task *task)
{
    if (task->in_worker || !task->shipped)
        return;
    log_info("task removed", "alloc=%s", task->id);
    clear_group(t, task);
    remove_folder(t, task->id, task->dir);
    remove_task(t, task);
}

static void forget_task(struct tasks *t, struct agent_task *task)
{
    task->phase = PHASE_FORGETTING;
    task->shipped = !task->has_spec;
    t->changed = true;
    if (task->has_spec)
        shipper_finish(t->o.logs, task->id);
    remove_forgotten_task(t, task);
}

static void apply_action(struct tasks *t, const struct action *action)
{
    switch (action->kind) {
    case ACTION_NONE:
        break;
    case ACTION_START:
        start_task(t, action->wanted);
        break;
    case ACTION_KILL:
        kill_task(t, find_task(t, action->id), action->wanted);
        break;
    case ACTION_DECLARE_GONE:
        declare_gone(t, action->id);
        break;
    case ACTION_FORGET:
        forget_task(t, find_task(t, action->id));
        break;
    }
}

static enum observed_state observe_task(const struct agent_task *task)
{
    if (task->phase == PHASE_FORGETTING)
        return OBSERVED_FORGETTING;
    if (task->phase == PHASE_EXITED)
        return OBSERVED_EXITED;
    bool ending = task->killed || task->phase == PHASE_KILLING;
    return ending ? OBSERVED_ENDING : OBSERVED_RUNNING;
}

static size_t count_tasks(const struct tasks *t)
{
    size_t count = 0;
    for (const struct agent_task *task = t->first; task; task = task->next)
        count++;
    return count;
}

void tasks_apply(struct tasks *t, const struct desired_state *desired)
{
    size_t count = count_tasks(t), i = 0;
    struct observed_task *observed = xcalloc(count + 1, sizeof *observed);
    struct action *actions = xcalloc(count + desired->count + 1, sizeof *actions);
    for (const struct agent_task *task = t->first; task; task = task->next)
        observed[i++] = (struct observed_task){task->id, observe_task(task)};
    size_t todo = reconcile(desired, observed, count, actions);
    for (i = 0; i < todo; i++)
        apply_action(t, &actions[i]);
    free(actions);
    free(observed);
}

void tasks_wait_for_master(struct tasks *t)
{
    for (struct agent_task *task = t->first; task; task = task->next)
        if (task->phase == PHASE_REPORTING)
            task->retry_at = clock_mono_us() + KILL_REPORTS_US;
}

// The master may be unreachable or busy: the agent retries until the files come or the task is
// ended.
static bool is_temporary(int code)
{
    return code == ERR_UNAVAILABLE || code == ERR_TIMEOUT || code == ERR_BUSY;
}

static void files_fetched(struct tasks *t, struct agent_task *task, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (e->code == 0) {
        start_supervisor(t, task);
    } else if (!is_temporary(e->code)) {
        end_unsupervised_task(t, task, e->text);
    } else {
        if (!task->warned)
            log_warn("a task waits for its files; trying again", "alloc=%s err=%s", task->id,
                     log_quote(quoted, sizeof quoted, e->text));
        task->warned = true;
        task->retry_at = clock_mono_us() + FETCH_AGAIN_US;
    }
}

static void handle_quota(struct tasks *t, struct agent_task *task, const struct error *why)
{
    char quoted[ERROR_TEXT_MAX];
    if (task_is_over(task) || task->phase == PHASE_FORGETTING)
        discard_files(t, task);
    if (task->quota.code)
        return;
    task->quota = *why;
    log_warn("ending a task because of the files that it has made", "alloc=%s reason=%s", task->id,
             log_quote(quoted, sizeof quoted, why->text));
    if (task->phase == PHASE_ATTACHED)
        send_quota(task);
}

void tasks_handle_message(struct tasks *t, const struct inbox_message *message)
{
    struct agent_task *task = find_task(t, message->id);
    if (!task)
        return;
    if (message->kind == INBOX_QUOTA) {
        handle_quota(t, task, &message->error);
        return;
    }
    if (message->kind == INBOX_FETCHED)
        task->in_worker = false;
    if (message->kind == INBOX_SHIPPED)
        task->shipped = true;
    if (message->kind == INBOX_REPORTED && task->phase == PHASE_REPORTING)
        task_exited(t, task);
    else if (task->phase == PHASE_FETCHING)
        files_fetched(t, task, &message->error);
    else if (task->phase == PHASE_FORGETTING)
        remove_forgotten_task(t, task);
}

static bool needs_retry(const struct agent_task *task)
{
    return (task->phase == PHASE_FETCHING && !task->in_worker) || task->phase == PHASE_CONNECTING ||
           task->phase == PHASE_KILLING || (task->phase == PHASE_REPORTING && task->killed);
}

static void give_up_reports(struct tasks *t, struct agent_task *task)
{
    log_warn("a task is ended before the master has all of its reports", "alloc=%s", task->id);
    if (task->has_spec)
        write_last_line(task, "the task is ended before the master has taken all of its reports");
    task_exited(t, task);
}

void tasks_tick(struct tasks *t, int64_t now)
{
    for (struct agent_task *task = t->first; task; task = task->next) {
        if (!needs_retry(task) || now < task->retry_at)
            continue;
        if (task->phase == PHASE_FETCHING)
            fetch_files(t, task);
        else if (task->phase == PHASE_CONNECTING)
            connect_supervisor(t, task, now);
        else if (task->phase == PHASE_REPORTING)
            give_up_reports(t, task);
        else
            kill_processes(t, task, now);
    }
}

int64_t tasks_next_tick(const struct tasks *t)
{
    int64_t next = INT64_MAX;
    for (const struct agent_task *task = t->first; task; task = task->next)
        if (needs_retry(task) && task->retry_at < next)
            next = task->retry_at;
    return next;
}

size_t tasks_poll_count(const struct tasks *t)
{
    return count_tasks(t);
}

unsigned tasks_poll(const struct tasks *t, struct curl_waitfd *fds)
{
    unsigned count = 0;
    for (const struct agent_task *task = t->first; task; task = task->next)
        if (task->phase == PHASE_ATTACHED)
            fds[count++] = (struct curl_waitfd){.fd = task->fd, .events = CURL_WAIT_POLLIN};
    return count;
}

json_t *tasks_report(struct tasks *t)
{
    json_t *list = json_array();
    for (const struct agent_task *task = t->first; task; task = task->next)
        if (task->phase != PHASE_FORGETTING)
            json_array_append(list, task->status);
    t->changed = false;
    return list;
}

bool tasks_changed(const struct tasks *t)
{
    return t->changed;
}

// --- start and end -------------------------------------------------------------------------------

// Without a status, the task was not started; without a specification, its files were not fetched.
// A specification without protections would start the task without any.
static void recover_task(struct tasks *t, const char *id)
{
    json_t *spec = NULL, *status = NULL;
    struct agent_task *task = add_task(t, id);
    task->has_spec = taskdir_read_spec(task->dir, &spec, NULL) == 0;
    task->url = xstrdup(jget_string(spec, "contextUrl", ""));
    task->grace_s = jget_int(spec, "graceSeconds", DESIRED_DEFAULT_GRACE_S);
    if (task->has_spec)
        ship_task(t, task, spec);
    int err = taskdir_read_status(task->dir, &status, NULL);
    if (!err && !taskdir_status_is(status, TASK_EXITED))
        set_status(t, task, json_incref(status)); // until the supervisor sends its own
    if (err != ERR_NOT_FOUND || taskdir_supervised(task->dir)) {
        connect_supervisor(t, task, clock_mono_us());
    } else if (task->has_spec && !jget(spec, "protections")) {
        // The first words tell the master that the program is not at fault.
        end_unsupervised_task(t, task, SUPERVISOR_LOST ": an older release has prepared the task");
    } else if (task->has_spec) {
        task->phase = PHASE_FETCHING;
        fetch_files(t, task);
    } else {
        remove_folder(t, id, task->dir);
        remove_task(t, task);
        goto out;
    }
    log_info("task recovered", "alloc=%s state=%s", id, jget_string(task->status, "state", ""));
out:
    json_decref(status);
    json_decref(spec);
}

static int recover_tasks(struct tasks *t, struct error *e)
{
    DIR *folder = opendir(t->folder);
    if (!folder)
        return error_set_errno(e, ERR_IO, errno, "cannot read %s", t->folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (taskdir_id_valid(entry->d_name))
            recover_task(t, entry->d_name);
    closedir(folder);
    return 0;
}

// Removes the folders that a former agent has left in the trash.
static void empty_trash(struct tasks *t)
{
    DIR *folder = opendir(t->trash);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *path = path_join(t->trash, entry->d_name);
            file_worker_remove(t->o.remover, path);
            free(path);
        }
    }
    if (folder)
        closedir(folder);
}

// The build tree and an installation have the same layout: bin/, libexec/muster and
// share/muster/python. NULL: this part is not installed.
static char *find_part(const char *program_dir, const char *part)
{
    char *path = path_join(program_dir, part);
    char *found = realpath(path, NULL);
    free(path);
    return found;
}

int tasks_open(const struct tasks_options *options, struct tasks **out, struct error *e)
{
    struct tasks *t = xcalloc(1, sizeof *t);
    t->o = *options;
    t->folder = path_join(options->work_dir, "tasks");
    t->trash = path_join(options->work_dir, "trash");
    t->program_dir = proc_self_dir();
    t->command_dir = find_part(t->program_dir, "../libexec/muster");
    t->python_dir = find_part(t->program_dir, "../share/muster/python");
    char *program = path_join(t->program_dir, "muster-supervisor");
    int err = spawner_open(program, t->folder, &t->spawner, e);
    free(program);
    if (!err)
        err = dir_make(t->folder, 0700, e);
    if (!err)
        err = dir_make(t->trash, 0700, e);
    if (!err) {
        size_t orphans = proctrack_kill_orphans(t->folder);
        if (orphans > 0)
            log_warn("killed processes of tasks whose folders were deleted", "count=%zu", orphans);
        empty_trash(t);
        err = recover_tasks(t, e);
    }
    if (err)
        tasks_close(t);
    else
        *out = t;
    return err;
}

void tasks_close(struct tasks *t)
{
    if (!t)
        return;
    while (t->first)
        remove_task(t, t->first);
    spawner_close(t->spawner);
    free(t->python_dir);
    free(t->command_dir);
    free(t->program_dir);
    free(t->trash);
    free(t->folder);
    free(t);
}
