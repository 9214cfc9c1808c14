#include "agent/tasks/tasks.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/logs/spool.h"
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
    SWEEP_AGAIN_US = 100 * 1000,
};

enum phase {
    FETCHING,   // its files are on the way
    CONNECTING, // its supervisor was started, by us or by an agent before us
    ATTACHED,
    SWEEPING, // its supervisor is lost; what it left is being killed
    EXITED,
    FORGETTING, // its last log lines are being sent
};

struct task {
    char *id, *dir;
    char *url; // of its files; "": it has none
    enum phase phase;
    bool in_worker; // its files are being fetched, perhaps in vain by now
    bool told_late; // that they cannot be had yet
    bool told_to_end;
    bool has_spec; // so its log has a place to go
    bool shipped;  // FORGETTING: the log is with the master
    int64_t grace_s;
    int64_t retry_at; // monotonic: FETCHING, CONNECTING, SWEEPING
    int fd;           // ATTACHED
    struct buf in;
    json_t *status; // as reported
    struct task *next;
};

struct tasks {
    struct tasks_options o;
    char *folder, *trash, *program_dir;
    struct spawner *spawner;
    struct task *first;
    bool changed;
};

// --- one task ------------------------------------------------------------------------------------

static struct task *find(struct tasks *t, const char *id)
{
    struct task *task = t->first;
    while (task && strcmp(task->id, id) != 0)
        task = task->next;
    return task;
}

static struct task *add_task(struct tasks *t, const char *id)
{
    struct task *task = xcalloc(1, sizeof *task);
    task->id = xstrdup(id);
    task->dir = path_join(t->folder, id);
    task->fd = -1;
    task->grace_s = DESIRED_GRACE_S;
    task->status = taskdir_status(id, TASK_STARTING, NULL, "");
    buf_init(&task->in, STATUS_MAX);
    task->next = t->first;
    t->first = task;
    t->changed = true;
    return task;
}

static void free_task(struct task *task)
{
    if (task->fd >= 0)
        close(task->fd);
    buf_free(&task->in);
    json_decref(task->status);
    free(task->url);
    free(task->dir);
    free(task->id);
    free(task);
}

static void remove_task(struct tasks *t, struct task *task)
{
    struct task **at = &t->first;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    free_task(task);
}

static void set_status(struct tasks *t, struct task *task, json_t *status)
{
    t->changed |= !json_equal(task->status, status);
    json_decref(task->status);
    task->status = status;
}

static void detach(struct task *task)
{
    if (task->fd >= 0)
        close(task->fd);
    task->fd = -1;
    buf_reset(&task->in);
}

// The end of a task whose supervisor cannot say it: as the last line of its log.
static void write_last_line(const struct task *task, const char *text)
{
    struct spool spool;
    struct spool_cursor shipped;
    char *path = path_join(task->dir, TASKDIR_SPOOL);
    char *cursor = path_join(task->dir, TASKDIR_CURSOR);
    spool_cursor_load(cursor, &shipped);
    if (spool_open(&spool, path, shipped.sequence, SPOOL_DISK_MAX, NULL) == 0)
        spool_say(&spool, "ERROR", text);
    spool_close(&spool);
    free(cursor);
    free(path);
}

// The task has ended, or never began, and no supervisor will say so.
static void conclude(struct tasks *t, struct task *task, const char *reason)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    json_t *ranks = jget(task->status, "ranks");
    log_warn("task ended by the agent", "alloc=%s reason=%s", task->id,
             log_quote(quoted, sizeof quoted, reason));
    if (task->has_spec)
        write_last_line(task, reason);
    set_status(t, task, taskdir_status(task->id, TASK_EXITED, json_incref(ranks), reason));
    if (taskdir_write_status(task->dir, task->status, true, &e) != 0)
        log_error("cannot write the status", "alloc=%s err=%s", task->id,
                  log_quote(quoted, sizeof quoted, e.text));
    detach(task);
    task->phase = EXITED;
}

static void exited(struct task *task)
{
    char quoted[ERROR_TEXT_MAX];
    log_info("task ended", "alloc=%s reason=%s", task->id,
             log_quote(quoted, sizeof quoted, jget_string(task->status, "reason", "")));
    detach(task);
    task->phase = EXITED;
}

// --- supervisors ---------------------------------------------------------------------------------

static size_t rank_pids(const struct task *task, pid_t **out)
{
    const json_t *ranks = jget(task->status, "ranks");
    size_t i;
    json_t *rank;
    *out = xcalloc(json_array_size(ranks) + 1, sizeof **out);
    json_array_foreach(ranks, i, rank)(*out)[i] = (pid_t)jget_int(rank, "pid", 0);
    return json_array_size(ranks);
}

static void sweep(struct tasks *t, struct task *task, int64_t now)
{
    pid_t *ranks;
    char *marker = taskdir_marker(task->dir);
    struct sweep wanted = {.marker = marker, .known_count = rank_pids(task, &ranks)};
    wanted.known = ranks;
    if (sweep_processes(&wanted, SIGKILL) == 0) {
        conclude(t, task, SUPERVISOR_LOST ": its processes on this machine were ended");
    } else {
        task->phase = SWEEPING;
        task->retry_at = now + SWEEP_AGAIN_US;
    }
    free(ranks);
    free(marker);
}

// Nobody holds the lock: what status.json says is the last word of the supervisor.
static void read_last_status(struct tasks *t, struct task *task, int64_t now)
{
    json_t *status = NULL;
    int rc = taskdir_read_status(task->dir, &status, NULL);
    if (rc == 0)
        set_status(t, task, status);
    if (rc == ERR_NOT_FOUND)
        conclude(t, task, SUPERVISOR_LOST ": it was killed before it had begun");
    else if (rc == 0 && taskdir_status_is(status, TASK_EXITED))
        exited(task);
    else
        sweep(t, task,
              now); // one that cannot be read was torn with the machine, later than the first
}

static void send_kill(struct task *task)
{
    char order[64];
    int len = snprintf(order, sizeof order, "{\"kill\": %lld}\n", (long long)task->grace_s);
    // A supervisor that is gone shows as the end of the connection.
    if (send(task->fd, order, (size_t)len, MSG_NOSIGNAL) != len)
        log_debug("an order was not sent", "alloc=%s", task->id);
}

static void attach(struct tasks *t, struct task *task, int64_t now)
{
    detach(task);
    task->phase = CONNECTING;
    if (taskdir_connect(task->dir, &task->fd, NULL) == 0) {
        task->phase = ATTACHED;
        if (task->told_to_end)
            send_kill(task);
    } else if (taskdir_supervised(task->dir)) {
        task->retry_at = now + ATTACH_AGAIN_US;
    } else {
        read_last_status(t, task, now);
    }
}

static void supervise(struct tasks *t, struct task *task)
{
    struct error e = {0};
    if (spawner_supervise(t->spawner, task->id, &e) != 0)
        conclude(t, task, e.text);
    else
        attach(t, task, clock_mono_us());
}

static void read_statuses(struct tasks *t, struct task *task)
{
    const char *stop;
    while (task->phase == ATTACHED && task->in.len > 0 &&
           (stop = memchr(task->in.data, '\n', task->in.len))) {
        size_t len = (size_t)(stop - task->in.data);
        json_t *status = json_loadb(task->in.data, len, 0, NULL);
        buf_drop_front(&task->in, len + 1);
        if (status)
            set_status(t, task, status);
        if (taskdir_status_is(task->status, TASK_EXITED))
            exited(task);
    }
}

static void read_supervisor(struct tasks *t, struct task *task)
{
    char chunk[16 * 1024];
    while (task->phase == ATTACHED) {
        ssize_t n = recv(task->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0 && buf_append(&task->in, chunk, (size_t)n) == 0)
            read_statuses(t, task);
        else
            attach(t, task, clock_mono_us());
    }
}

void tasks_read(struct tasks *t)
{
    for (struct task *task = t->first; task; task = task->next)
        read_supervisor(t, task);
}

// --- actions -------------------------------------------------------------------------------------

static int write_spec(struct tasks *t, struct task *task, const struct desired_task *wanted,
                      struct error *e)
{
    json_t *spec = NULL;
    const struct spec_place place = {
        .agent_id = t->o.agent_id,
        .slots = t->o.slots,
        .dir = task->dir,
        .program_dir = t->program_dir,
        .home = getenv("HOME"),
        .path = getenv("PATH"),
        .lang = getenv("LANG"),
        .token_file = t->o.token_file,
    };
    int rc = spec_build(wanted, &place, &spec, e);
    int made = taskdir_make(task->dir, spec, rc == 0 ? e : NULL);
    rc = rc == 0 ? made : rc;
    task->has_spec = rc == 0;
    task->url = xstrdup(jget_string(spec, "contextUrl", ""));
    json_decref(spec);
    return rc;
}

static void fetch(struct tasks *t, struct task *task)
{
    struct error e = {0};
    task->in_worker = task->url[0] != '\0';
    if (task->in_worker) {
        worker_fetch(t->o.worker, task->id, task->dir, task->url);
        return;
    }
    char *work = path_join(task->dir, TASKDIR_WORK);
    if (dir_make(work, 0700, &e) == 0)
        supervise(t, task);
    else
        conclude(t, task, e.text);
    free(work);
}

static void start(struct tasks *t, const struct desired_task *wanted)
{
    struct error e = {0};
    struct task *task = add_task(t, wanted->id);
    task->grace_s = wanted->grace_s;
    task->phase = FETCHING;
    if (write_spec(t, task, wanted, &e) != 0) {
        conclude(t, task, e.text);
        return;
    }
    log_info("task starts", "alloc=%s ranks=%zu", task->id,
             json_array_size(jget(wanted->json, "ranks")));
    shipper_add(t->o.shipper, task->dir);
    fetch(t, task);
}

static void kill_task(struct tasks *t, struct task *task, const struct desired_task *wanted)
{
    if (wanted)
        task->grace_s = wanted->grace_s;
    log_info("task is told to end", "alloc=%s", task->id);
    task->told_to_end = true;
    if (task->phase == FETCHING)
        conclude(t, task, "told to end before it was started");
    else if (task->phase == ATTACHED)
        send_kill(task);
}

static void declare_gone(struct tasks *t, const char *id)
{
    struct error e = {0};
    struct task *task = add_task(t, id);
    if (taskdir_make(task->dir, NULL, &e) != 0)
        log_warn("cannot make a task's folder", "alloc=%s", id);
    conclude(t, task, "it was never started on this machine");
}

// Moved aside first: at no instant is half a folder to be taken for a task.
static void remove_folder(struct tasks *t, const char *id, const char *dir)
{
    char unique[UUID_TEXT];
    uuid_make(unique);
    char *aside = xasprintf("%s/%s.%s", t->trash, id, unique);
    if (rename(dir, aside) == 0)
        worker_remove(t->o.worker, aside);
    free(aside);
}

static void remove_when_nobody_needs_it(struct tasks *t, struct task *task)
{
    if (task->in_worker || !task->shipped)
        return;
    log_info("task is forgotten", "alloc=%s", task->id);
    remove_folder(t, task->id, task->dir);
    remove_task(t, task);
}

static void forget(struct tasks *t, struct task *task)
{
    task->phase = FORGETTING;
    task->shipped = !task->has_spec;
    t->changed = true;
    if (task->has_spec)
        shipper_finish(t->o.shipper, task->id);
    remove_when_nobody_needs_it(t, task);
}

static void act(struct tasks *t, const struct action *action)
{
    switch (action->kind) {
    case ACTION_NONE:
        break;
    case ACTION_START:
        start(t, action->wanted);
        break;
    case ACTION_KILL:
        kill_task(t, find(t, action->id), action->wanted);
        break;
    case ACTION_DECLARE_GONE:
        declare_gone(t, action->id);
        break;
    case ACTION_FORGET:
        forget(t, find(t, action->id));
        break;
    }
}

static enum observed_state observe(const struct task *task)
{
    if (task->phase == FORGETTING)
        return OBSERVED_FORGETTING;
    if (task->phase == EXITED)
        return OBSERVED_EXITED;
    return task->told_to_end || task->phase == SWEEPING ? OBSERVED_ENDING : OBSERVED_LIVE;
}

static size_t count_tasks(const struct tasks *t)
{
    size_t count = 0;
    for (const struct task *task = t->first; task; task = task->next)
        count++;
    return count;
}

void tasks_apply(struct tasks *t, const struct desired *desired)
{
    size_t count = count_tasks(t), i = 0;
    struct observed_task *observed = xcalloc(count + 1, sizeof *observed);
    struct action *actions = xcalloc(count + desired->count + 1, sizeof *actions);
    for (const struct task *task = t->first; task; task = task->next)
        observed[i++] = (struct observed_task){task->id, observe(task)};
    size_t todo = reconcile(desired, observed, count, actions);
    for (i = 0; i < todo; i++)
        act(t, &actions[i]);
    free(actions);
    free(observed);
}

// The master may be away, or busy: the files are asked for until they come, or nobody wants them.
static bool is_for_later(int code)
{
    return code == ERR_UNAVAILABLE || code == ERR_TIMEOUT || code == ERR_BUSY;
}

static void fetched(struct tasks *t, struct task *task, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (e->code == 0) {
        supervise(t, task);
    } else if (!is_for_later(e->code)) {
        conclude(t, task, e->text);
    } else {
        if (!task->told_late)
            log_warn("a task waits for its files; trying on", "alloc=%s err=%s", task->id,
                     log_quote(quoted, sizeof quoted, e->text));
        task->told_late = true;
        task->retry_at = clock_mono_us() + FETCH_AGAIN_US;
    }
}

void tasks_note(struct tasks *t, const struct note *note)
{
    struct task *task = find(t, note->id);
    if (!task)
        return;
    if (note->kind == NOTE_FETCHED)
        task->in_worker = false;
    else
        task->shipped = true;
    if (task->phase == FETCHING)
        fetched(t, task, &note->error);
    else if (task->phase == FORGETTING)
        remove_when_nobody_needs_it(t, task);
}

static bool waits(const struct task *task)
{
    return (task->phase == FETCHING && !task->in_worker) || task->phase == CONNECTING ||
           task->phase == SWEEPING;
}

void tasks_tick(struct tasks *t, int64_t now)
{
    for (struct task *task = t->first; task; task = task->next) {
        if (!waits(task) || now < task->retry_at)
            continue;
        if (task->phase == FETCHING)
            fetch(t, task);
        else if (task->phase == CONNECTING)
            attach(t, task, now);
        else
            sweep(t, task, now);
    }
}

int64_t tasks_next_tick(const struct tasks *t)
{
    int64_t next = INT64_MAX;
    for (const struct task *task = t->first; task; task = task->next)
        if (waits(task) && task->retry_at < next)
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
    for (const struct task *task = t->first; task; task = task->next)
        if (task->phase == ATTACHED)
            fds[count++] = (struct curl_waitfd){.fd = task->fd, .events = CURL_WAIT_POLLIN};
    return count;
}

json_t *tasks_report(struct tasks *t)
{
    json_t *list = json_array();
    for (const struct task *task = t->first; task; task = task->next)
        if (task->phase != FORGETTING)
            json_array_append(list, task->status);
    t->changed = false;
    return list;
}

bool tasks_changed(const struct tasks *t)
{
    return t->changed;
}

// --- start and end -------------------------------------------------------------------------------

// Whatever is missing was never there: without a status nothing was started, without a
// specification nothing was fetched.
static void recover_task(struct tasks *t, const char *id)
{
    json_t *spec = NULL, *status = NULL;
    struct task *task = add_task(t, id);
    task->has_spec = taskdir_read_spec(task->dir, &spec, NULL) == 0;
    task->url = xstrdup(jget_string(spec, "contextUrl", ""));
    task->grace_s = jget_int(spec, "graceSeconds", DESIRED_GRACE_S);
    if (task->has_spec)
        shipper_add(t->o.shipper, task->dir);
    int rc = taskdir_read_status(task->dir, &status, NULL);
    if (rc == 0)
        set_status(t, task, status); // until the supervisor tells more
    if (rc != ERR_NOT_FOUND || taskdir_supervised(task->dir)) {
        attach(t, task, clock_mono_us());
    } else if (task->has_spec) {
        task->phase = FETCHING;
        fetch(t, task);
    } else {
        remove_folder(t, id, task->dir);
        remove_task(t, task);
        goto out;
    }
    log_info("task taken up again", "alloc=%s state=%s", id,
             jget_string(task->status, "state", ""));
out:
    json_decref(spec);
}

static int recover(struct tasks *t, struct error *e)
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

// What an agent before us moved aside and did not get to remove.
static void empty_trash(struct tasks *t)
{
    DIR *folder = opendir(t->trash);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *path = path_join(t->trash, entry->d_name);
            worker_remove(t->o.worker, path);
            free(path);
        }
    }
    if (folder)
        closedir(folder);
}

int tasks_open(const struct tasks_options *options, struct tasks **out, struct error *e)
{
    struct tasks *t = xcalloc(1, sizeof *t);
    t->o = *options;
    t->folder = path_join(options->work_dir, "tasks");
    t->trash = path_join(options->work_dir, "trash");
    t->program_dir = proc_self_dir();
    char *program = path_join(t->program_dir, "muster-supervisor");
    int rc = spawner_open(program, t->folder, &t->spawner, e);
    free(program);
    if (rc == 0)
        rc = dir_make(t->folder, 0700, e);
    if (rc == 0)
        rc = dir_make(t->trash, 0700, e);
    if (rc == 0) {
        size_t strays = sweep_strays(t->folder);
        if (strays > 0)
            log_warn("processes of tasks whose folders were deleted are ended", "count=%zu",
                     strays);
        empty_trash(t);
        rc = recover(t, e);
    }
    if (rc != 0)
        tasks_close(t);
    else
        *out = t;
    return rc;
}

void tasks_close(struct tasks *t)
{
    if (!t)
        return;
    while (t->first)
        remove_task(t, t->first);
    spawner_close(t->spawner);
    free(t->program_dir);
    free(t->trash);
    free(t->folder);
    free(t);
}
