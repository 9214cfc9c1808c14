#include "trainer/launcher/gang.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"

enum { TICK_MS = 200, KILL_GRACE_US = 5 * 1000 * 1000, GPU_NAME_MAX = 128 };

struct gang_parent {
    const struct gang_spec *spec;
    struct gang_result *result;
    pid_t *pids;            // [world] 0: the process is gone
    struct pollfd *polls;   // [world] sockets of the ranks, then the signalfd
    json_t **contributions; // [world] the ranks' values for the all_gather in progress
    char *buffer;           // GANG_MESSAGE_MAX
    int alive;
    int64_t kill_at; // when the remaining ranks are ended; INT64_MAX: not
    bool terminated; // SIGTERM has been sent
};

// --- the child -----------------------------------------------------------------------------------

static int send_message(int fd, const json_t *message, struct error *e)
{
    char *text = json_text(message);
    size_t len = strlen(text);
    int err = 0;
    if (len > GANG_MESSAGE_MAX)
        err = error_set(e, ERR_TOO_LARGE,
                        "a message of %zu bytes between a rank and its parent is too long", len);
    else if (send(fd, text, len, MSG_NOSIGNAL) < 0)
        err = error_set_errno(e, ERR_PEER, errno, "cannot send to the parent process");
    free(text);
    return err;
}

int gang_send(struct gang_member *member, const json_t *message, struct error *e)
{
    return send_message(member->fd, message, e);
}

static int receive_message(struct gang_member *member, int flags, struct error *e)
{
    char *text = xcalloc(1, GANG_MESSAGE_MAX);
    json_t *message = NULL;
    int err = 0;
    ssize_t n = recv(member->fd, text, GANG_MESSAGE_MAX, flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        err = ERR_BUSY;
    else if (n <= 0)
        err = error_set(e, ERR_PEER, "the parent process has ended");
    else
        err = json_parse(text, (size_t)n, "message of the parent process", &message, e);
    free(text);
    if (err)
        return err;
    if (jget_bool(message, "drain", false))
        member->drain = true;
    if (jget(message, "gathered")) {
        json_decref(member->gathered);
        member->gathered = json_incref(jget(message, "gathered"));
    }
    json_decref(message);
    return 0;
}

int gang_all_gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_member *member = ctx;
    json_t *contribution = json_pack("{s:O}", "contribution", mine);
    int err = gang_send(member, contribution, e);
    json_decref(contribution);
    while (!err && !member->gathered) {
        err = receive_message(member, 0, e);
        if (err == ERR_BUSY)
            err = 0;
    }
    if (err)
        return err;
    *all = member->gathered;
    member->gathered = NULL;
    return 0;
}

bool gang_drain_requested(struct gang_member *member)
{
    char byte; // this runs after every step, so look for data before allocating a buffer
    while (!member->drain && recv(member->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        receive_message(member, MSG_DONTWAIT, NULL);
    return member->drain;
}

// If slots are GPUs, each rank uses one of the GPUs that this process may use, in turn. If there
// are more ranks than GPUs, ranks share them. NCCL allows that only for ranks on different
// machines, so such ranks get different host ids, and NCCL connects them by TCP. All of this
// happens before the CUDA driver is loaded, because the driver does not survive a fork.
#ifdef MUSTER_CUDA
static int count_gpus(void)
{
    glob_t found;
    int count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    globfree(&found);
    return count;
}

// The n-th entry of "0,1,2", counting round. Returns the number of entries.
static int nth_device(const char *list, int n, char out[GPU_NAME_MAX])
{
    int count = 1;
    for (const char *c = list; *c; c++)
        count += *c == ',';
    for (n %= count; n > 0; n--)
        list = strchr(list, ',') + 1;
    snprintf(out, GPU_NAME_MAX, "%.*s", (int)strcspn(list, ","), list);
    return count;
}

static void choose_gpu(int rank, int world)
{
    char name[GPU_NAME_MAX], host[32];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = visible ? nth_device(visible, rank, name) : count_gpus();
    if (world == 1 || count == 0)
        return;
    if (!visible)
        snprintf(name, sizeof name, "%d", rank % count);
    setenv("CUDA_VISIBLE_DEVICES", name, 1);
    snprintf(host, sizeof host, "rank-%d", rank / count);
    if (world > count)
        setenv("NCCL_HOSTID", host, 1);
}
#else
static void choose_gpu(int rank, int world)
{
    (void)rank, (void)world;
}
#endif

_Noreturn static void run_child(const struct gang_spec *spec, int rank, int fd, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGINT, SIG_IGN); // Ctrl-C reaches all processes of the terminal; the parent decides
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    choose_gpu(rank, spec->world);
    struct gang_member member = {.rank = rank, .world = spec->world, .fd = fd};
    int code = spec->rank(&member, spec->ctx);
    json_decref(member.gathered);
    fflush(NULL);
    _exit(code);
}

// --- the parent ----------------------------------------------------------------------------------

static int start_rank(struct gang_parent *g, int rank, struct error *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return error_set_errno(e, ERR_IO, errno, "cannot make a socket for rank %d", rank);
    fflush(NULL); // or parent and child would both write the buffered text
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return error_set_errno(e, ERR_IO, errno, "cannot start rank %d", rank);
    }
    if (pid == 0) {
        for (int i = 0; i <= g->spec->world; i++)
            if (g->polls[i].fd >= 0)
                close(g->polls[i].fd);
        close(ends[0]);
        run_child(g->spec, rank, ends[1], parent);
    }
    close(ends[1]);
    g->pids[rank] = pid;
    g->polls[rank].fd = ends[0];
    g->alive++;
    return 0;
}

static void signal_all(struct gang_parent *g, int signal_number)
{
    for (int i = 0; i < g->spec->world; i++)
        if (g->pids[i] > 0)
            kill(g->pids[i], signal_number);
}

static void finish_gather(struct gang_parent *g)
{
    int world = g->spec->world;
    for (int i = 0; i < world; i++)
        if (!g->contributions[i])
            return;
    json_t *all = json_array();
    for (int i = 0; i < world; i++) {
        json_array_append_new(all, g->contributions[i]);
        g->contributions[i] = NULL;
    }
    json_t *message = json_pack("{s:o}", "gathered", all);
    for (int i = 0; i < world; i++)
        if (g->polls[i].fd >= 0)
            send_message(g->polls[i].fd, message, NULL); // a dead rank is noticed at its socket
    json_decref(message);
}

static void reap_rank(struct gang_parent *g, int rank)
{
    int status = 0;
    while (waitpid(g->pids[rank], &status, 0) < 0 && errno == EINTR)
        ;
    close(g->polls[rank].fd);
    g->polls[rank].fd = -1;
    g->pids[rank] = 0;
    g->alive--;
    if (status == 0 || g->result->failed_rank >= 0 || g->terminated)
        return;
    g->result->failed_rank = rank;
    g->result->status = status;
    g->kill_at = clock_mono_us() + g->spec->grace_us;
}

static void handle_message(struct gang_parent *g, int rank)
{
    ssize_t n = recv(g->polls[rank].fd, g->buffer, GANG_MESSAGE_MAX, 0);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        reap_rank(g, rank);
        return;
    }
    json_t *message = NULL;
    if (json_parse(g->buffer, (size_t)n, "message of a rank", &message, NULL))
        return;
    json_t *contribution = json_object_get(message, "contribution"); // may be JSON null
    if (contribution) {
        json_decref(g->contributions[rank]);
        g->contributions[rank] = json_incref(contribution);
        finish_gather(g);
    } else {
        g->spec->message(g->spec->ctx, rank, message);
    }
    json_decref(message);
}

static void handle_signal(struct gang_parent *g)
{
    struct signalfd_siginfo info;
    if (read(g->polls[g->spec->world].fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (g->result->drain) {
        g->result->killed = true;
        g->kill_at = clock_mono_us();
    } else {
        json_t *message = json_pack("{s:b}", "drain", 1);
        g->result->drain = true;
        if (g->polls[0].fd >= 0)
            send_message(g->polls[0].fd, message, NULL);
        json_decref(message);
    }
    if (g->spec->signalled)
        g->spec->signalled(g->spec->ctx, !g->result->killed);
}

// Sends SIGTERM, then SIGKILL to the ranks that are still there five seconds later.
static void end_survivors(struct gang_parent *g)
{
    if (clock_mono_us() < g->kill_at)
        return;
    signal_all(g, g->terminated ? SIGKILL : SIGTERM);
    g->kill_at = g->terminated ? INT64_MAX : clock_mono_us() + KILL_GRACE_US;
    g->terminated = true;
}

static void serve_ranks(struct gang_parent *g)
{
    int world = g->spec->world;
    while (g->alive > 0) {
        int ready = poll(g->polls, (nfds_t)world + 1, TICK_MS);
        for (int i = 0; i < world && ready > 0; i++)
            if (g->polls[i].revents)
                handle_message(g, i);
        if (ready > 0 && g->polls[world].revents)
            handle_signal(g);
        end_survivors(g);
    }
}

static int watch_signals(struct gang_parent *g, sigset_t *before, struct error *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, before);
    g->polls[g->spec->world].fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (g->polls[g->spec->world].fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot watch signals");
    return 0;
}

int gang_run(const struct gang_spec *spec, struct gang_result *result, struct error *e)
{
    size_t world = (size_t)spec->world;
    *result = (struct gang_result){.failed_rank = -1};
    struct gang_parent g = {.spec = spec, .result = result, .kill_at = INT64_MAX};
    g.pids = xcalloc(world, sizeof *g.pids);
    g.polls = xcalloc(world + 1, sizeof *g.polls);
    g.contributions = xcalloc(world, sizeof *g.contributions);
    g.buffer = xcalloc(1, GANG_MESSAGE_MAX);
    for (size_t i = 0; i <= world; i++)
        g.polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    sigset_t before;
    int err = watch_signals(&g, &before, e);
    for (int i = 0; i < spec->world && !err; i++)
        err = start_rank(&g, i, e);
    if (err)
        signal_all(&g, SIGKILL);
    serve_ranks(&g);
    if (g.polls[world].fd >= 0)
        close(g.polls[world].fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < world; i++)
        json_decref(g.contributions[i]);
    free(g.buffer);
    free(g.contributions);
    free(g.polls);
    free(g.pids);
    return err;
}
