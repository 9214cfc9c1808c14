#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/credential.h"
#include "agent/gpu/gpu_monitor.h"
#include "agent/inbox.h"
#include "agent/isolation/account.h"
#include "agent/isolation/mounts.h"
#include "agent/logs/log_shipper.h"
#include "agent/master_poll.h"
#include "agent/quotas/disk_watch.h"
#include "agent/reports/report_shipper.h"
#include "agent/slots.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/protection_probe.h"
#include "agent/supervisor/protections.h"
#include "agent/tasks/desired_state.h"
#include "agent/tasks/file_worker.h"
#include "agent/tasks/tasks.h"
#include "api/enrolment.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/systemd.h"
#include "base/rng.h"
#include "base/text/json.h"

enum {
    INBOX_MAX = 4096,
    TOKEN_MAX = 4096,
    BACKOFF_FIRST_US = 100 * 1000,
    BACKOFF_MAX_US = 2000 * 1000,
    CANCEL_AFTER_US = 10 * 1000, // the master has at least this time to answer
    POLL_AGAIN_US = 50 * 1000,   // pause after an immediate answer without news
    WAIT_MAX_US = 10 * 1000 * 1000,
    LOCK_TRIES = 30,
    LOCK_RETRY_US = 50 * 1000,
};

struct agent_daemon {
    const struct agent_options *o;
    char hostname[256], address[256], session[UUID_TEXT];
    char instance[2 * UUID_TEXT]; // identifies this work folder and this boot of the machine
    const char *id, *pool;
    char *master_url, *token, *token_file, *work_dir;
    const char *why_tasks_as_root; // NULL: they do not
    struct protections protections;
    json_t *protections_json;
    struct credential credential;     // empty: the agent uses the token that agents share
    char mount_fault[ERROR_TEXT_MAX]; // why tasks cannot have mounts of their own; "": they can
    struct master_endpoint master;
    struct slots slots;
    int work_lock, signal_fd;
    struct inbox inbox;
    struct master_poll *poll;
    struct file_worker *file_worker, *remover;
    struct shipper *logs, *reports;
    struct disk_watch *disk_watch;
    struct gpu_monitor *gpu_monitor; // NULL without GPUs
    struct tasks *tasks;
    json_t *limits, *task_limits; // of tasks, for the master and for their supervisors
    char *cgroup;                 // the folder of the tasks' groups; NULL: there is none
    unsigned controllers;         // of the groups
    json_t *usage;                // the newest sample of the GPUs; NULL: none
    bool new_fault;               // a slot has a fault that the master does not know yet
    int64_t seen;                 // version of the desired state that was applied last
    int64_t posted_at;            // monotonic
    int64_t post_at;              // monotonic; no call before
    int64_t alive_at;             // monotonic; when systemd expects a sign of life
    int64_t backoff_us;
    int link_state; // 1: no call has ended yet, 0: connected, negative: the error
    bool stop;
};

// --- the call to the master ----------------------------------------------------------------------

static json_t *make_request(struct agent_daemon *a)
{
    if (!a->address[0])
        master_poll_local_address(a->poll, a->address, sizeof a->address);
    json_t *request = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:O, s:O*, s:O}", "version",
        MUSTER_VERSION, "session", a->session, "instance", a->instance, "pool", a->pool, "rack",
        a->o->rack ? a->o->rack : "", "hostname", a->hostname, "address", a->address, "masterUrl",
        a->master.url, "mountFault", a->mount_fault, "slots", slots_json(&a->slots), "seen",
        (json_int_t)a->seen, "tasks", tasks_report(a->tasks), "limits", a->limits, "use", a->usage,
        "protections", a->protections_json);
    a->new_fault = false;
    must(request);
    return request;
}

static bool has_news(const struct agent_daemon *a)
{
    return a->new_fault || tasks_changed(a->tasks);
}

static void post_when_due(struct agent_daemon *a, int64_t now)
{
    bool due = !master_poll_is_pending(a->poll) && now >= a->post_at;
    bool news =
        master_poll_is_pending(a->poll) && has_news(a) && now >= a->posted_at + CANCEL_AFTER_US;
    if (due || news) {
        a->posted_at = now;
        master_poll_send(a->poll, make_request(a));
    }
}

static int64_t next_post(const struct agent_daemon *a)
{
    if (!master_poll_is_pending(a->poll))
        return a->post_at;
    return has_news(a) ? a->posted_at + CANCEL_AFTER_US : INT64_MAX;
}

// The agent is ready when its first call has ended, even by an error: a start must not wait for a
// master that is down.
static void tell_link_state(const struct agent_daemon *a)
{
    char *lines = a->link_state == 0
                      ? xasprintf("READY=1\nSTATUS=connected to %s", a->master.url)
                      : xasprintf("READY=1\nSTATUS=no connection to %s", a->master.url);
    systemd_notify(lines);
    free(lines);
}

// Logs each change once.
static void set_link_state(struct agent_daemon *a, int state, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (state == a->link_state)
        return;
    a->link_state = state;
    tell_link_state(a);
    if (state == 0) {
        log_info("connected to the master", "agent=%s url=%s slots=%zu", a->id, a->master.url,
                 a->slots.count);
        return;
    }
    const char *advice = state == ERR_CONFLICT ? "another agent with this id is connected; give "
                                                 "each agent its own --id; trying again"
                                               : "trying again; tasks keep running";
    log_warn("no connection to the master", "agent=%s err=%s advice=\"%s\"", a->id,
             log_quote(quoted, sizeof quoted, e->text), advice);
}

static void back_off(struct agent_daemon *a, int64_t now)
{
    a->backoff_us = a->backoff_us == 0 ? BACKOFF_FIRST_US : a->backoff_us * 2;
    if (a->backoff_us > BACKOFF_MAX_US)
        a->backoff_us = BACKOFF_MAX_US;
    a->post_at = now + a->backoff_us;
}

static int apply_answer(struct agent_daemon *a, json_t *answer, int64_t now, struct error *e)
{
    struct desired_state desired;
    int err = desired_state_parse(answer, &desired, e);
    if (err)
        return error_prefix(e, "the master's answer");
    bool immediate = desired.version == a->seen && now < a->posted_at + POLL_AGAIN_US;
    a->seen = desired.version;
    a->backoff_us = 0;
    a->post_at = immediate ? now + POLL_AGAIN_US : now;
    tasks_apply(a->tasks, &desired);
    desired_state_free(&desired);
    return 0;
}

static int explain_refusal(const struct agent_daemon *a, int err, const struct error *failure,
                           struct error *e)
{
    if (!a->credential.token)
        return error_set(e, err,
                         "%s. The master does not accept the token in %s: give the agent "
                         "the token of this master (agent.token in its data folder)",
                         failure->text, a->o->token_file);
    if (err == ERR_FORBIDDEN)
        return error_set(e, err, "%s", failure->text);
    return error_set(e, err,
                     "%s refuses the credential of this agent: it was revoked or replaced. The "
                     "tasks here go on until the master gives this agent up, within a minute. To "
                     "join again, ask an administrator for a line of `muster agent enroll --name "
                     "%s`, and start the agent with --enroll",
                     a->master.url, a->id);
}

// Negative: an error that ends the agent.
static int handle_result(struct agent_daemon *a, int64_t now, struct error *e)
{
    json_t *answer = NULL;
    struct error failure = {0};
    int result = master_poll_result(a->poll, &answer, &failure);
    if (result == 0)
        return 0;
    int err = result;
    if (result == 1)
        err = apply_answer(a, answer, now, &failure);
    if (err == ERR_AUTH || err == ERR_FORBIDDEN)
        return explain_refusal(a, err, &failure, e);
    set_link_state(a, err, &failure);
    if (err) {
        back_off(a, now);
        tasks_wait_for_master(a->tasks);
    }
    return 0;
}

// --- the loop ------------------------------------------------------------------------------------

static void handle_signals(struct agent_daemon *a)
{
    struct signalfd_siginfo info;
    while (read(a->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            a->stop = true;
    while (waitpid(-1, NULL, WNOHANG) > 0) // supervisors; their sockets report the details
        ;
}

static void handle_fault(struct agent_daemon *a, size_t number, long long xid)
{
    char quoted[ERROR_TEXT_MAX];
    struct agent_slot *slot = &a->slots.items[number];
    if (!slot_report_xid(slot, xid, clock_wall_us()))
        return;
    a->new_fault = true;
    log_warn("GPU fault", "agent=%s slot=%zu uuid=%s grade=%s reason=%s", a->id, number, slot->uuid,
             fault_grade_names[slot->fault.grade],
             log_quote(quoted, sizeof quoted, slot->fault.reason));
}

static void handle_usage(struct agent_daemon *a, struct inbox_message *message)
{
    json_decref(a->usage);
    a->usage = message->usage;
    message->usage = NULL;
}

static void handle_messages(struct agent_daemon *a)
{
    struct inbox_message *message;
    while ((message = inbox_receive(&a->inbox))) {
        if (message->kind == INBOX_FAULT)
            handle_fault(a, message->slot, message->xid);
        else if (message->kind == INBOX_USAGE)
            handle_usage(a, message);
        else
            tasks_handle_message(a->tasks, message);
        inbox_message_free(message);
    }
}

static void wait_for_events(struct agent_daemon *a, int64_t now)
{
    struct curl_waitfd *fds = xcalloc(tasks_poll_count(a->tasks) + 1, sizeof *fds);
    fds[0] = (struct curl_waitfd){.fd = a->signal_fd, .events = CURL_WAIT_POLLIN};
    unsigned count = 1 + tasks_poll(a->tasks, fds + 1);
    int64_t until = now + WAIT_MAX_US, tick = tasks_next_tick(a->tasks), post = next_post(a);
    until = tick < until ? tick : until;
    until = post < until ? post : until;
    if (systemd_watchdog_us() && a->alive_at < until)
        until = a->alive_at;
    master_poll_wait(a->poll, fds, count, until <= now ? 0 : (int)((until - now) / 1000) + 1);
    free(fds);
}

// The supervisors check the folders of their tasks themselves, and end the tasks.
static int check_work_dir(const struct agent_daemon *a, struct error *e)
{
    struct stat lock;
    if (fstat(a->work_lock, &lock) != 0 || lock.st_nlink > 0)
        return 0;
    return error_set(e, ERR_IO,
                     "--work-dir: %s was deleted; its tasks are ended; start the agent again",
                     a->work_dir);
}

static void tell_alive(struct agent_daemon *a, int64_t now)
{
    if (!systemd_watchdog_us() || now < a->alive_at)
        return;
    systemd_notify("WATCHDOG=1");
    a->alive_at = now + systemd_watchdog_us();
}

static int agent_loop(struct agent_daemon *a, struct error *e)
{
    int err = 0;
    while (!a->stop && !err) {
        int64_t now = clock_mono_us();
        tell_alive(a, now);
        post_when_due(a, now);
        wait_for_events(a, now);
        now = clock_mono_us();
        handle_signals(a);
        handle_messages(a);
        tasks_read(a->tasks);
        tasks_tick(a->tasks, now);
        err = handle_result(a, now, e);
        if (!err)
            err = check_work_dir(a, e);
    }
    return err;
}

// --- start and end -------------------------------------------------------------------------------

static int read_token(struct agent_daemon *a, struct error *e)
{
    size_t len = 0;
    if (a->credential.token) {
        char *path = path_join(a->work_dir, CREDENTIAL_FILE);
        a->token = xstrdup(a->credential.token);
        a->token_file = realpath(path, NULL);
        free(path);
        return 0;
    }
    int err = file_read(a->o->token_file, TOKEN_MAX, &a->token, &len, e);
    if (err)
        return error_prefix(e, "--token-file");
    a->token_file = realpath(a->o->token_file, NULL);
    len = strcspn(a->token, " \t\r\n");
    a->token[len] = '\0';
    return len > 0 ? 0
                   : error_set(e, ERR_INVALID,
                               "--token-file: %s is empty; the master writes the "
                               "token to agent.token in its data folder",
                               a->o->token_file);
}

// With a credential the agent stays with the master that gave it. It follows to another address if
// the connection there is verified in the same way.
static const char *choose_master(const struct agent_daemon *a)
{
    const char *given = a->o->master, *known = a->credential.master;
    if (!known || !given || strcmp(given, known) == 0)
        return known ? known : given;
    if (a->credential.ca_file && strncmp(given, "https://", 8) == 0)
        return given;
    log_warn("--master (MUSTER_MASTER) is ignored: the credential is for another address",
             "agent=%s url=%s", a->id, known);
    return known;
}

static int read_master_url(struct agent_daemon *a, struct error *e)
{
    const char *text = choose_master(a);
    a->master_url = xasprintf("%s%s", strstr(text, "://") ? "" : "http://", text);
    size_t len = strlen(a->master_url);
    while (len > 0 && a->master_url[len - 1] == '/')
        a->master_url[--len] = '\0';
    CURLU *url = curl_url();
    bool good = curl_url_set(url, CURLUPART_URL, a->master_url, 0) == CURLUE_OK &&
                strncmp(a->master_url, "http", 4) == 0;
    curl_url_cleanup(url);
    return good ? 0
                : error_set(e, ERR_INVALID,
                            "--master: \"%.200s\" is not the address of a master; write it as "
                            "http://host:8080",
                            text);
}

static int check_name(const char *flag, const char *word, struct error *e)
{
    json_t *text = json_string(word); // NULL: not UTF-8
    size_t len = json_string_length(text);
    for (const char *c = word; *c; c++)
        len = (unsigned char)*c <= ' ' || *c == '/' ? 0 : len;
    json_decref(text);
    return len > 0 && len <= LIMIT_NAME
               ? 0
               : error_set(e, ERR_INVALID,
                           "--%s: expected 1 to %d bytes of UTF-8 without blanks and slashes", flag,
                           LIMIT_NAME);
}

static int set_agent_names(struct agent_daemon *a, struct error *e)
{
    if (gethostname(a->hostname, sizeof a->hostname - 1) != 0)
        snprintf(a->hostname, sizeof a->hostname, "unknown");
    a->id = a->o->id ? a->o->id : a->hostname;
    snprintf(a->address, sizeof a->address, "%s", a->o->address ? a->o->address : "");
    uuid_make(a->session);
    a->pool = a->o->pool ? a->o->pool : DEFAULT_POOL;
    int err = check_name("id", a->id, e);
    if (!err)
        err = check_name("pool", a->pool, e);
    if (!err && a->o->rack)
        err = check_name("rack", a->o->rack, e);
    if (!err && a->o->address)
        err = check_name("address", a->o->address, e);
    return err;
}

// Retries for a while: if a former agent was killed while it forked its spawner, the child holds
// the lock until its exec. False: errno is set.
static bool lock_work_dir(int fd)
{
    for (int i = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return false;
        clock_sleep_us(LOCK_RETRY_US);
    }
    return true;
}

// Appends the boot id, because a copy of the work folder on another machine is another agent.
static void append_boot_id(char instance[2 * UUID_TEXT])
{
    char *text = NULL;
    size_t len = 0;
    if (file_read("/proc/sys/kernel/random/boot_id", UUID_TEXT, &text, &len, NULL) == 0)
        snprintf(instance + UUID_TEXT - 1, UUID_TEXT + 1, ".%.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

// Reads the agent's instance id from the lock file, or creates it. By this id the master
// distinguishes an agent that has restarted from another agent with the same name.
static int read_instance(struct agent_daemon *a, struct error *e)
{
    enum { LEN = UUID_TEXT - 1 };
    char *id = a->instance;
    bool known = pread(a->work_lock, id, LEN, 0) == LEN && strspn(id, "0123456789abcdef-") == LEN;
    if (!known) {
        uuid_make(id);
        if (pwrite(a->work_lock, id, LEN, 0) != LEN || fsync(a->work_lock) != 0)
            return error_set_errno(e, ERR_IO, errno, "--work-dir: cannot write in %s", a->work_dir);
    }
    id[LEN] = '\0';
    append_boot_id(id);
    return 0;
}

static int open_work_dir(struct agent_daemon *a, struct error *e)
{
    int err = dir_make(a->o->work_dir, 0700, e);
    if (err)
        return error_prefix(e, "--work-dir");
    a->work_dir = realpath(a->o->work_dir, NULL);
    if (!a->work_dir)
        return error_set_errno(e, ERR_IO, errno, "--work-dir: cannot open %s", a->o->work_dir);
    char *path = path_join(a->work_dir, "agent.lock");
    a->work_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->work_lock < 0)
        err = error_set_errno(e, ERR_IO, errno, "--work-dir: cannot write in %s", a->o->work_dir);
    else if (!lock_work_dir(a->work_lock))
        err = error_set(e, ERR_CONFLICT,
                        "--work-dir: another agent works in %s; stop it, or give this agent its "
                        "own folder",
                        a->o->work_dir);
    else
        err = read_instance(a, e);
    free(path);
    return err;
}

static int catch_signals(struct agent_daemon *a, struct error *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    // Called before any thread starts: threads inherit the mask, so only the descriptor gets
    // signals.
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) == 0)
        a->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return a->signal_fd >= 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot catch signals");
}

static int start_disk_watch(struct agent_daemon *a, struct error *e)
{
    char *folder = path_join(a->work_dir, "tasks");
    int err = disk_watch_start(folder, &a->o->limits.disk, &a->inbox, &a->disk_watch, e);
    free(folder);
    return err;
}

static int start_threads(struct agent_daemon *a, struct error *e)
{
    const char *own_ca = a->credential.ca_file;
    a->master = (struct master_endpoint){.url = a->master_url,
                                         .token = a->token,
                                         .ca_file = own_ca ? own_ca : a->o->ca_file,
                                         .only_ca_file = own_ca};
    int err = master_poll_open(&a->master, a->id, &a->poll, e);
    if (err)
        return err;
    a->inbox.box = mailbox_new(INBOX_MAX);
    a->inbox.wake = master_poll_wake;
    a->inbox.wake_ctx = a->poll;
    err = file_worker_start(&a->master, &a->inbox, &a->file_worker, e);
    err = err ? err : file_worker_start(&a->master, &a->inbox, &a->remover, e);
    if (!err && a->slots.cuda)
        err = gpu_monitor_start(&a->slots, &a->inbox, &a->gpu_monitor, e);
    if (!err)
        err = shipper_start(&log_shipper, &a->master, &a->inbox, &a->logs, e);
    if (!err)
        err = shipper_start(&report_shipper, &a->master, &a->inbox, &a->reports, e);
    if (err)
        return err;
    const struct tasks_options options = {
        .work_dir = a->work_dir,
        .agent_id = a->id,
        .token_file = a->token_file,
        .protections = a->protections_json,
        .task_account = a->o->task_account,
        .task_group = a->o->task_group,
        .tasks_as_root = a->why_tasks_as_root,
        .ca_file = a->master.ca_file,
        .slots = &a->slots,
        .limits = a->task_limits,
        .file_worker = a->file_worker,
        .remover = a->remover,
        .logs = a->logs,
        .reports = a->reports,
    };
    err = tasks_open(&options, &a->tasks, e);
    return err ? err : start_disk_watch(a, e);
}

// Limits that need a cgroup are missing where the kernel has no controller for them.
static void note_limits(struct agent_daemon *a, const struct error *e)
{
    static const struct {
        enum protection_id id;
        enum cgroup_controller bit;
        const char *name;
    } limits[] = {{PROTECTION_PROCESS_LIMIT, CGROUP_PIDS, "pids"},
                  {PROTECTION_MEMORY_LIMIT, CGROUP_MEMORY, "memory"},
                  {PROTECTION_PROCESSOR_SHARE, CGROUP_CPU, "cpu"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *why = e->code ? xstrdup(e->text)
                            : xasprintf("%s has no controller \"%s\": the group above it does not "
                                        "pass it on, because the machine lacks it, or because "
                                        "other processes than the agent are in that group",
                                        a->cgroup, limits[i].name);
        bool works = !e->code && (a->controllers & limits[i].bit);
        protections_set(&a->protections, limits[i].id, works ? NULL : why);
        free(why);
    }
}

// The groups of this agent; others on the machine have their own.
static void look_for_cgroups(struct agent_daemon *a)
{
    struct error e = {0};
    char name[32];
    snprintf(name, sizeof name, "muster-%.8s", a->instance);
    a->limits = task_limits_json(&a->o->limits, a->work_dir);
    a->task_limits = json_pack("{s:O, s:O}", "processes", jget(a->limits, "processes"), "memory",
                               jget(a->limits, "memory"));
    must(a->task_limits);
    if (cgroup_prepare(a->o->task_cgroup, name, &a->cgroup, &a->controllers, &e) == 0)
        json_object_set_new(a->task_limits, "cgroup", json_string(a->cgroup));
    note_limits(a, &e);
}

// Without mounts, trials with storage of type shared_fs cannot run here.
static void look_for_mounts(struct agent_daemon *a)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    const struct protection *files = &a->protections.list[PROTECTION_FILES];
    int err = files->active ? mounts_probe(&e) : error_set(&e, ERR_FORBIDDEN, "%s", files->reason);
    if (!err)
        return;
    snprintf(a->mount_fault, sizeof a->mount_fault, "%s", e.text);
    log_warn("tasks cannot have mounts of their own, for shared_fs and bind_mounts",
             "agent=%s err=%s", a->id, log_quote(quoted, sizeof quoted, e.text));
}

static int check_account(const struct agent_options *o, struct error *e)
{
    struct task_account found;
    if (o->task_account && o->tasks_as_root)
        return error_set(e, ERR_INVALID, "--task-account and --tasks-as-root exclude each other");
    if (o->task_account && account_find(o->task_account, &found, e) != 0)
        return error_prefix(e, "--task-account");
    gid_t group;
    if (o->task_group && account_find_group(o->task_group, &group, e) != 0)
        return error_prefix(e, "--task-group");
    return 0;
}

// Why the tasks of users who are not linked with an account run as root; NULL: they do not run. A
// plain master on this machine belongs to somebody who tries Muster, as plain http does anywhere.
static const char *why_tasks_as_root(const struct agent_daemon *a)
{
    struct enrolment master = {0};
    if (a->o->task_account)
        return NULL;
    if (a->o->tasks_as_root)
        return "--tasks-as-root";
    bool own = enrolment_set_url(&master, a->master_url, "", NULL) == 0 &&
               master.authority == ENROLMENT_PLAIN && enrolment_is_loopback(&master);
    return own ? "no --task-account, and a master on this machine without https" : NULL;
}

// Warns at the start; otherwise the first sign is the failed trial of a user.
static void warn_without_account(const struct agent_daemon *a)
{
    if (geteuid() == 0 && !a->o->task_account && !a->why_tasks_as_root)
        log_warn(
            "tasks of users who are not linked with an account are refused, because this agent "
            "runs as root",
            "agent=%s advice=\"start it with --task-account NAME\"", a->id);
}

static void look_for_protections(struct agent_daemon *a)
{
    a->why_tasks_as_root = why_tasks_as_root(a);
    const struct protection_wishes wishes = {a->work_dir, a->why_tasks_as_root};
    protections_probe(&wishes, &a->protections);
    look_for_cgroups(a);
    protections_log(&a->protections, a->id);
    warn_without_account(a);
    a->protections_json = protections_json(&a->protections);
    look_for_mounts(a);
}

// Gets a credential by the enrolment string, or reads the one that the agent has.
static int take_credential(struct agent_daemon *a, struct error *e)
{
    struct credential *c = &a->credential;
    const struct enrolling enrolling = {a->work_dir, a->id, a->o->enrolment};
    int err =
        a->o->enrolment ? credential_enrol(&enrolling, c, e) : credential_load(a->work_dir, c, e);
    if (err)
        return error_prefix(e, a->o->enrolment ? "--enroll" : "--work-dir");
    if (!c->token)
        return 0;
    if (a->o->id && strcmp(a->o->id, c->agent) != 0)
        return error_set(e, ERR_CONFLICT,
                         "--id: the credential in %s is that of agent %s: leave --id away, or give "
                         "this agent a work folder of its own",
                         a->work_dir, c->agent);
    a->id = c->agent;
    a->pool = !a->o->pool && *c->pool ? c->pool : a->pool;
    if (a->o->token_file)
        log_info("the agent has a credential of its own, so it does not use --token-file",
                 "agent=%s", a->id);
    return 0;
}

static int agent_start(struct agent_daemon *a, struct error *e)
{
    int err = set_agent_names(a, e);
    if (!err)
        err = check_account(a->o, e);
    if (!err)
        err = open_work_dir(a, e);
    if (!err)
        err = take_credential(a, e);
    if (!err)
        err = read_master_url(a, e);
    if (!err)
        err = read_token(a, e);
    if (err || a->o->enrol_only)
        return err;
    if (!err)
        err = slots_find(&a->slots, a->o->slots, a->o->gpus, e);
    if (!err)
        err = catch_signals(a, e);
    if (err)
        return err;
    look_for_protections(a);
    return start_threads(a, e);
}

static void agent_end(struct agent_daemon *a)
{
    if (a->inbox.box)
        mailbox_close(a->inbox.box);
    gpu_monitor_stop(a->gpu_monitor);
    disk_watch_stop(a->disk_watch);
    file_worker_stop(a->file_worker);
    file_worker_stop(a->remover);
    shipper_stop(a->logs);
    shipper_stop(a->reports);
    struct inbox_message *message;
    while (a->inbox.box && (message = inbox_receive(&a->inbox)))
        inbox_message_free(message);
    mailbox_free(a->inbox.box);
    tasks_close(a->tasks);
    master_poll_close(a->poll);
    json_decref(a->usage);
    json_decref(a->limits);
    json_decref(a->protections_json);
    json_decref(a->task_limits);
    if (a->cgroup)
        rmdir(a->cgroup); // fails while a task has its group there
    free(a->cgroup);
    slots_free(&a->slots);
    if (a->signal_fd >= 0)
        close(a->signal_fd);
    if (a->work_lock >= 0)
        close(a->work_lock);
    if (a->token)
        explicit_bzero(a->token, strlen(a->token));
    credential_free(&a->credential);
    free(a->token_file);
    free(a->token);
    free(a->master_url);
    free(a->work_dir);
}

int agent_run(const struct agent_options *options, struct error *e)
{
    struct agent_daemon a = {
        .o = options, .signal_fd = -1, .work_lock = -1, .seen = -1, .link_state = 1};
    systemd_open();
    int err = agent_start(&a, e);
    if (!err && options->enrol_only) {
        printf("enrolled as agent %s of %s; start it with --work-dir %s\n", a.id,
               a.credential.master, a.work_dir);
    } else if (!err) {
        log_info("agent started", "agent=%s slots=%zu type=%s pool=%s", a.id, a.slots.count,
                 a.slots.cuda ? "CUDA" : "CPU", a.pool);
        err = agent_loop(&a, e);
        systemd_notify("STOPPING=1");
        log_info("agent stopped; its tasks keep running until the next start recovers them",
                 "agent=%s", a.id);
    }
    agent_end(&a);
    return err;
}
