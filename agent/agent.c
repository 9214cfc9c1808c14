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

#include "agent/gpu/gpu_monitor.h"
#include "agent/inbox.h"
#include "agent/logs/shipper.h"
#include "agent/master_poll.h"
#include "agent/slots.h"
#include "agent/tasks/desired_state.h"
#include "agent/tasks/file_worker.h"
#include "agent/tasks/tasks.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"

enum {
    NOTES_MAX = 4096,
    TOKEN_MAX = 4096,
    BACKOFF_FIRST_US = 100 * 1000,
    BACKOFF_MOST_US = 2000 * 1000,
    DROP_AFTER_US = 10 * 1000, // a call is not dropped before the master had time to answer it
    ASK_AGAIN_US = 50 * 1000,  // a master that answers at once without news is asked again
    WAIT_MOST_US = 10 * 1000 * 1000,
    LOCK_TRIES = 30,
    LOCK_AGAIN_US = 50 * 1000,
};

struct agent {
    const struct agent_options *o;
    char hostname[256], address[256], session[UUID_TEXT];
    char instance[2 * UUID_TEXT]; // of this work folder since this start of the machine
    const char *id;
    char *master_url, *token, *token_file, *work_dir;
    struct master_link link;
    struct slots slots;
    int work_lock, signal_fd;
    struct notes notes;
    struct sync *sync;
    struct worker *worker;
    struct shipper *shipper;
    struct watch *watch; // of GPUs
    struct tasks *tasks;
    json_t *use;       // newest, as the watch told it; NULL: none
    bool struck;       // a slot has met with a fault that the master has not been told of
    int64_t seen;      // version of the desired set that was applied
    int64_t posted_at; // monotonic
    int64_t post_at;   // not before
    int64_t backoff_us;
    int link_state; // 1: not yet asked, 0: connected, negative: why not
    bool stop;
};

// --- the call to the master ----------------------------------------------------------------------

static json_t *make_request(struct agent *a)
{
    if (!a->address[0])
        sync_local_address(a->sync, a->address, sizeof a->address);
    json_t *request =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:O*}", "version",
                  MUSTER_VERSION, "session", a->session, "instance", a->instance, "pool",
                  a->o->pool, "rack", a->o->rack ? a->o->rack : "", "hostname", a->hostname,
                  "address", a->address, "masterUrl", a->link.url, "slots", slots_json(&a->slots),
                  "seen", (json_int_t)a->seen, "tasks", tasks_report(a->tasks), "use", a->use);
    a->struck = false;
    must(request);
    return request;
}

static bool has_news(const struct agent *a)
{
    return a->struck || tasks_changed(a->tasks);
}

static void post_when_due(struct agent *a, int64_t now)
{
    bool due = !sync_is_posted(a->sync) && now >= a->post_at;
    bool news = sync_is_posted(a->sync) && has_news(a) && now >= a->posted_at + DROP_AFTER_US;
    if (due || news) {
        a->posted_at = now;
        sync_post(a->sync, make_request(a));
    }
}

static int64_t next_post(const struct agent *a)
{
    if (!sync_is_posted(a->sync))
        return a->post_at;
    return has_news(a) ? a->posted_at + DROP_AFTER_US : INT64_MAX;
}

// Told once for each change, not for each try.
static void set_link_state(struct agent *a, int state, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (state == a->link_state)
        return;
    a->link_state = state;
    if (state == 0) {
        log_info("connected to the master", "agent=%s url=%s slots=%zu", a->id, a->link.url,
                 a->slots.count);
        return;
    }
    const char *advice = state == ERR_CONFLICT ? "an agent of this id is connected already; give "
                                                 "each its own --id; trying on"
                                               : "trying on; tasks go on meanwhile";
    log_warn("no connection to the master", "agent=%s err=%s advice=\"%s\"", a->id,
             log_quote(quoted, sizeof quoted, e->text), advice);
}

static void back_off(struct agent *a, int64_t now)
{
    a->backoff_us = a->backoff_us == 0 ? BACKOFF_FIRST_US : a->backoff_us * 2;
    if (a->backoff_us > BACKOFF_MOST_US)
        a->backoff_us = BACKOFF_MOST_US;
    a->post_at = now + a->backoff_us;
}

static int apply_answer(struct agent *a, json_t *answer, int64_t now, struct error *e)
{
    struct desired desired;
    int rc = desired_parse(answer, &desired, e);
    if (rc != 0)
        return error_prefix(e, "the master's answer");
    bool hasty = desired.version == a->seen && now < a->posted_at + ASK_AGAIN_US;
    a->seen = desired.version;
    a->backoff_us = 0;
    a->post_at = hasty ? now + ASK_AGAIN_US : now;
    tasks_apply(a->tasks, &desired);
    desired_free(&desired);
    return 0;
}

// Negative: an error that ends the agent.
static int take_result(struct agent *a, int64_t now, struct error *e)
{
    json_t *answer = NULL;
    struct error failure = {0};
    int rc = sync_result(a->sync, &answer, &failure);
    if (rc == 0)
        return 0;
    if (rc == 1)
        rc = apply_answer(a, answer, now, &failure);
    if (rc == ERR_AUTH || rc == ERR_FORBIDDEN)
        return error_set(e, rc,
                         "%s. The master does not accept the token in %s: give the agent "
                         "the token of this master (agent.token in its data folder)",
                         failure.text, a->o->token_file);
    set_link_state(a, rc, &failure);
    if (rc != 0)
        back_off(a, now);
    return 0;
}

// --- the loop ------------------------------------------------------------------------------------

static void take_signals(struct agent *a)
{
    struct signalfd_siginfo info;
    while (read(a->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            a->stop = true;
    while (waitpid(-1, NULL, WNOHANG) > 0) // supervisors; their sockets tell more
        ;
}

static void take_fault(struct agent *a, size_t number, long long xid)
{
    char quoted[ERROR_TEXT_MAX];
    struct slot *slot = &a->slots.items[number];
    if (!slot_strike_xid(slot, xid, clock_wall_us()))
        return;
    a->struck = true;
    log_warn("a GPU has met with a fault", "agent=%s slot=%zu uuid=%s grade=%s reason=%s", a->id,
             number, slot->uuid, fault_grade_names[slot->fault.grade],
             log_quote(quoted, sizeof quoted, slot->fault.reason));
}

static void take_use(struct agent *a, struct note *note)
{
    json_decref(a->use);
    a->use = note->use;
    note->use = NULL;
}

static void take_notes(struct agent *a)
{
    struct note *note;
    while ((note = notes_take(&a->notes))) {
        if (note->kind == NOTE_FAULT)
            take_fault(a, note->slot, note->xid);
        else if (note->kind == NOTE_USE)
            take_use(a, note);
        else
            tasks_note(a->tasks, note);
        note_free(note);
    }
}

static void wait_for_events(struct agent *a, int64_t now)
{
    struct curl_waitfd *fds = xcalloc(tasks_poll_count(a->tasks) + 1, sizeof *fds);
    fds[0] = (struct curl_waitfd){.fd = a->signal_fd, .events = CURL_WAIT_POLLIN};
    unsigned count = 1 + tasks_poll(a->tasks, fds + 1);
    int64_t until = now + WAIT_MOST_US, tick = tasks_next_tick(a->tasks), post = next_post(a);
    until = tick < until ? tick : until;
    until = post < until ? post : until;
    sync_wait(a->sync, fds, count, until <= now ? 0 : (int)((until - now) / 1000) + 1);
    free(fds);
}

// Supervisors look after their own folders, and end their tasks.
static int check_work_dir(const struct agent *a, struct error *e)
{
    struct stat lock;
    if (fstat(a->work_lock, &lock) != 0 || lock.st_nlink > 0)
        return 0;
    return error_set(e, ERR_IO,
                     "--work-dir: %s was deleted, and its tasks end with it; start the agent again",
                     a->work_dir);
}

static int loop(struct agent *a, struct error *e)
{
    int rc = 0;
    while (!a->stop && rc == 0) {
        int64_t now = clock_mono_us();
        post_when_due(a, now);
        wait_for_events(a, now);
        now = clock_mono_us();
        take_signals(a);
        take_notes(a);
        tasks_read(a->tasks);
        tasks_tick(a->tasks, now);
        rc = take_result(a, now, e);
        if (rc == 0)
            rc = check_work_dir(a, e);
    }
    return rc;
}

// --- start and end -------------------------------------------------------------------------------

static int read_token(struct agent *a, struct error *e)
{
    size_t len = 0;
    int rc = file_read(a->o->token_file, TOKEN_MAX, &a->token, &len, e);
    if (rc != 0)
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

static int read_master_url(struct agent *a, struct error *e)
{
    const char *text = a->o->master;
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
                            "--master: \"%.200s\" is no address of a master; write it as "
                            "http://host:8080",
                            text);
}

static int check_word(const char *flag, const char *word, struct error *e)
{
    json_t *text = json_string(word); // NULL: not UTF-8
    size_t len = json_string_length(text);
    for (const char *c = word; *c; c++)
        len = (unsigned char)*c <= ' ' || *c == '/' ? 0 : len;
    json_decref(text);
    return len > 0 && len <= LIMIT_NAME
               ? 0
               : error_set(e, ERR_INVALID,
                           "--%s: 1 to %d bytes of UTF-8, none of them a blank or a slash", flag,
                           LIMIT_NAME);
}

static int name_agent(struct agent *a, struct error *e)
{
    if (gethostname(a->hostname, sizeof a->hostname - 1) != 0)
        snprintf(a->hostname, sizeof a->hostname, "unknown");
    a->id = a->o->id ? a->o->id : a->hostname;
    snprintf(a->address, sizeof a->address, "%s", a->o->address ? a->o->address : "");
    uuid_make(a->session);
    int rc = check_word("id", a->id, e);
    if (rc == 0)
        rc = check_word("pool", a->o->pool, e);
    if (rc == 0 && a->o->rack)
        rc = check_word("rack", a->o->rack, e);
    if (rc == 0 && a->o->address)
        rc = check_word("address", a->o->address, e);
    return rc;
}

// Where an agent was killed while it started its spawner, the child of both holds its lock until it
// has become one. False: errno says why.
static bool take_lock(int fd)
{
    for (int i = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return false;
        clock_sleep_us(LOCK_AGAIN_US);
    }
    return true;
}

// A copy of the folder on another machine is another agent, so the start of the machine counts,
// too.
static void add_boot(char instance[2 * UUID_TEXT])
{
    char *text = NULL;
    size_t len = 0;
    if (file_read("/proc/sys/kernel/random/boot_id", UUID_TEXT, &text, &len, NULL) == 0)
        snprintf(instance + UUID_TEXT - 1, UUID_TEXT + 1, ".%.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

// The lock's file holds who works here: the master tells an agent that has started again from
// another one that was given the same id.
static int read_instance(struct agent *a, struct error *e)
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
    add_boot(id);
    return 0;
}

static int hold_work_dir(struct agent *a, struct error *e)
{
    int rc = dir_make(a->o->work_dir, 0700, e);
    if (rc != 0)
        return error_prefix(e, "--work-dir");
    a->work_dir = realpath(a->o->work_dir, NULL);
    if (!a->work_dir)
        return error_set_errno(e, ERR_IO, errno, "--work-dir: cannot enter %s", a->o->work_dir);
    char *path = path_join(a->work_dir, "agent.lock");
    a->work_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->work_lock < 0)
        rc = error_set_errno(e, ERR_IO, errno, "--work-dir: cannot write in %s", a->o->work_dir);
    else if (!take_lock(a->work_lock))
        rc = error_set(e, ERR_CONFLICT,
                       "--work-dir: another agent works in %s; stop it, or give this one a "
                       "folder of its own",
                       a->o->work_dir);
    else
        rc = read_instance(a, e);
    free(path);
    return rc;
}

static int catch_signals(struct agent *a, struct error *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    // Before any thread is started: they inherit the mask, so all signals come to the descriptor.
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) == 0)
        a->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return a->signal_fd >= 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot catch signals");
}

static int start_rooms(struct agent *a, struct error *e)
{
    a->link = (struct master_link){a->master_url, a->token, a->o->ca_file};
    int rc = sync_open(&a->link, a->id, &a->sync, e);
    if (rc != 0)
        return rc;
    a->notes.box = mailbox_new(NOTES_MAX);
    a->notes.wake = sync_wake;
    a->notes.wake_ctx = a->sync;
    rc = worker_start(&a->link, &a->notes, &a->worker, e);
    if (rc == 0 && a->slots.cuda)
        rc = watch_start(&a->slots, &a->notes, &a->watch, e);
    if (rc == 0)
        rc = shipper_start(&a->link, &a->notes, &a->shipper, e);
    if (rc != 0)
        return rc;
    const struct tasks_options options = {
        .work_dir = a->work_dir,
        .agent_id = a->id,
        .token_file = a->token_file,
        .slots = &a->slots,
        .worker = a->worker,
        .shipper = a->shipper,
    };
    return tasks_open(&options, &a->tasks, e);
}

static int start(struct agent *a, struct error *e)
{
    int rc = name_agent(a, e);
    if (rc == 0)
        rc = read_master_url(a, e);
    if (rc == 0)
        rc = read_token(a, e);
    if (rc == 0)
        rc = hold_work_dir(a, e);
    if (rc == 0)
        rc = slots_find(&a->slots, a->o->slots, a->o->gpus, e);
    if (rc == 0)
        rc = catch_signals(a, e);
    return rc == 0 ? start_rooms(a, e) : rc;
}

static void end(struct agent *a)
{
    if (a->notes.box)
        mailbox_close(a->notes.box);
    watch_stop(a->watch);
    worker_stop(a->worker);
    shipper_stop(a->shipper);
    struct note *note;
    while (a->notes.box && (note = notes_take(&a->notes)))
        note_free(note);
    mailbox_free(a->notes.box);
    tasks_close(a->tasks);
    sync_close(a->sync);
    json_decref(a->use);
    slots_free(&a->slots);
    if (a->signal_fd >= 0)
        close(a->signal_fd);
    if (a->work_lock >= 0)
        close(a->work_lock);
    if (a->token)
        explicit_bzero(a->token, strlen(a->token));
    free(a->token_file);
    free(a->token);
    free(a->master_url);
    free(a->work_dir);
}

int agent_run(const struct agent_options *options, struct error *e)
{
    struct agent a = {.o = options, .signal_fd = -1, .work_lock = -1, .seen = -1, .link_state = 1};
    int rc = start(&a, e);
    if (rc == 0) {
        log_info("agent started", "agent=%s slots=%zu type=%s pool=%s", a.id, a.slots.count,
                 a.slots.cuda ? "CUDA" : "CPU", options->pool);
        rc = loop(&a, e);
        log_info("agent stops; its tasks go on and are taken up by the next start", "agent=%s",
                 a.id);
    }
    end(&a);
    return rc;
}
