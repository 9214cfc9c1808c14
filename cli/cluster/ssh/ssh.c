#include "cli/cluster/ssh/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <libssh2.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "cli/cluster/ssh/known_hosts.h"

enum {
    CONNECT_MS = 10000,
    LOGIN_MS = 60000,
    SILENT_MS = 30000, // after which a dead machine ends its connection
    OUTPUT_MAX = 4 << 20,
    PIECE = 128 << 10,
    STDERR = 1,
};

struct ssh {
    LIBSSH2_SESSION *session;
    int fd;
    char *label;      // "root@gpu1"
    int64_t patience; // microseconds; see ssh_set_patience()
};

// --- connecting ----------------------------------------------------------------------------------

static void set_options(int fd)
{
    const int on = 1, idle_s = 10, gap_s = 5, tries = 4;
    const unsigned silent_ms = SILENT_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap_s, sizeof(gap_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
}

// Connects to one address. Returns 0 or an errno.
static int connect_address(const struct addrinfo *at, int *out)
{
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0)
        return errno;
    int fault = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (fault == EINPROGRESS) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof(fault);
        if (poll(&ready, 1, CONNECT_MS) != 1)
            fault = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &size);
    }
    if (fault) {
        close(fd);
        return fault;
    }
    set_options(fd);
    *out = fd;
    return 0;
}

static int connect_host(const struct ssh_options *o, int *fd, struct error *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[12];
    snprintf(port, sizeof(port), "%d", o->port);
    int rc = getaddrinfo(o->host, port, &hints, &list);
    if (rc)
        return error_set(e, ERR_UNAVAILABLE,
                         "the name %s has no address (%s); correct it in the hosts file, or add it "
                         "to /etc/hosts here",
                         o->host, gai_strerror(rc));
    int fault = ETIMEDOUT;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        fault = connect_address(at, fd);
        if (!fault)
            break;
    }
    freeaddrinfo(list);
    if (!fault)
        return 0;
    return error_set(e, ERR_UNAVAILABLE,
                     "port %d does not answer (%s); check that the machine is up, that sshd runs "
                     "there, and that no firewall closes the port",
                     o->port, strerror(fault));
}

static int report_session(struct ssh *s, const char *doing, struct error *e)
{
    char *text = NULL;
    if (libssh2_session_last_error(s->session, &text, NULL, 0) == LIBSSH2_ERROR_TIMEOUT)
        return error_set(e, ERR_UNAVAILABLE,
                         "%s: the machine has accepted the connection and does not answer; look "
                         "there for what hangs, such as a disk, a file server or nvidia-smi",
                         doing);
    return error_set(e, ERR_UNAVAILABLE, "%s: %s", doing, text && *text ? text : "no answer");
}

static int report_handshake(struct ssh *s, int port, struct error *e)
{
    int rc = libssh2_session_last_error(s->session, NULL, NULL, 0);
    if (rc != LIBSSH2_ERROR_BANNER_RECV && rc != LIBSSH2_ERROR_SOCKET_RECV &&
        rc != LIBSSH2_ERROR_SOCKET_DISCONNECT)
        return report_session(s, "the beginning of the SSH session", e);
    return error_set(e, ERR_UNAVAILABLE,
                     "what answers on port %d is no SSH server, or one that ends connections at "
                     "once; check ssh.port in the hosts file, and the log of sshd there",
                     port);
}

// --- signing in ----------------------------------------------------------------------------------

static bool try_agent(struct ssh *s, const char *user)
{
    LIBSSH2_AGENT *agent = getenv("SSH_AUTH_SOCK") ? libssh2_agent_init(s->session) : NULL;
    if (!agent)
        return false;
    bool in = false;
    struct libssh2_agent_publickey *key = NULL;
    if (libssh2_agent_connect(agent) == 0 && libssh2_agent_list_identities(agent) == 0)
        while (!in && libssh2_agent_get_identity(agent, &key, key) == 0)
            in = libssh2_agent_userauth(agent, user, key) == 0;
    libssh2_agent_free(agent);
    return in;
}

// Returns 0, or the code of libssh2.
static int try_file(struct ssh *s, const char *user, const char *path)
{
    return libssh2_userauth_publickey_fromfile_ex(s->session, user, (unsigned)strlen(user), NULL,
                                                  path, NULL);
}

static int report_refused(const struct ssh_options *o, const char *path, struct error *e)
{
    return error_set(e, ERR_AUTH,
                     "%s refuses the key %s for the user %s; allow it: ssh-copy-id -i %s.pub -p %d "
                     "%s@%s",
                     o->host, path, o->user, path, o->port, o->user, o->host);
}

static int sign_in_by_key(struct ssh *s, const struct ssh_options *o, struct error *e)
{
    if (access(o->key, R_OK) != 0)
        return error_set_errno(e, ERR_NOT_FOUND, errno,
                               "the key %s cannot be read; correct ssh.key in the hosts file",
                               o->key);
    int rc = try_file(s, o->user, o->key);
    if (rc == 0 || try_agent(s, o->user))
        return 0;
    if (rc == LIBSSH2_ERROR_AUTHENTICATION_FAILED || rc == LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED)
        return report_refused(o, o->key, e);
    return error_set(e, ERR_AUTH,
                     "the key %s cannot be used: it must be an ed25519 or ECDSA key; if it has a "
                     "passphrase, run: ssh-add %s",
                     o->key, o->key);
}

static int sign_in(struct ssh *s, const struct ssh_options *o, struct error *e)
{
    static const char *const usual[] = {".ssh/id_ed25519", ".ssh/id_ecdsa"};
    char *methods = libssh2_userauth_list(s->session, o->user, (unsigned)strlen(o->user));
    if (methods && !strstr(methods, "publickey"))
        return error_set(e, ERR_AUTH,
                         "the SSH server accepts no keys, only %s; set PubkeyAuthentication yes "
                         "there, in /etc/ssh/sshd_config",
                         methods);
    if (!methods)
        return report_session(s, "sign-in", e);
    if (o->key)
        return sign_in_by_key(s, o, e);
    bool in = try_agent(s, o->user);
    const char *home = getenv("HOME");
    char *tried = NULL;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]) && !in; i++) {
        char *path = path_join(home ? home : "/", usual[i]);
        bool there = access(path, R_OK) == 0;
        in = there && try_file(s, o->user, path) == 0;
        if (there && !in && !tried)
            tried = xstrdup(path);
        free(path);
    }
    int err = 0;
    if (!in && tried)
        err = report_refused(o, tried, e);
    else if (!in)
        err = error_set(e, ERR_AUTH,
                        "there is no key to sign in with: ssh-agent holds none that %s accepts, "
                        "and ~/.ssh has no id_ed25519; make one with ssh-keygen -t ed25519, or "
                        "name one as ssh.key in the hosts file",
                        o->host);
    free(tried);
    return err;
}

int ssh_open(const struct ssh_options *o, struct ssh **out, struct error *e)
{
    struct ssh *s = xcalloc(1, sizeof(*s));
    s->fd = -1;
    s->label = xasprintf("%s@%s", o->user, o->host);
    int err = connect_host(o, &s->fd, e);
    if (!err) {
        s->session = libssh2_session_init_ex(NULL, NULL, NULL, NULL);
        if (!s->session)
            err = error_set(e, ERR_NO_MEMORY, "libssh2 has no memory for a session");
    }
    if (!err) {
        libssh2_session_set_blocking(s->session, 1);
        libssh2_session_set_timeout(s->session, LOGIN_MS);
        known_hosts_prefer(s->session, o->host, o->port);
        if (libssh2_session_handshake(s->session, s->fd) != 0)
            err = report_handshake(s, o->port, e);
    }
    err = err ? err : known_hosts_check(s->session, o->host, o->port, o->accept_new, e);
    err = err ? err : sign_in(s, o, e);
    if (err) {
        ssh_close(s);
        s = NULL;
    }
    *out = s;
    return err;
}

// The connection is closed without a farewell: that would wait for a machine that does not answer.
void ssh_close(struct ssh *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        shutdown(s->fd, SHUT_RDWR);
    if (s->session)
        libssh2_session_free(s->session);
    if (s->fd >= 0)
        close(s->fd);
    free(s->label);
    free(s);
}

// --- commands ------------------------------------------------------------------------------------

void ssh_set_patience(struct ssh *s, int seconds)
{
    libssh2_session_set_timeout(s->session, seconds * 1000L);
    s->patience = seconds * INT64_C(1000000);
}

void ssh_result_free(struct ssh_result *r)
{
    buf_free(&r->out);
    buf_free(&r->err);
}

// After a fault the machine may not answer, and libssh2 would wait for its farewell in vain.
static void end_channel(struct ssh *s, LIBSSH2_CHANNEL *channel, int err)
{
    if (err)
        shutdown(s->fd, SHUT_RDWR);
    libssh2_channel_free(channel);
}

static LIBSSH2_CHANNEL *open_channel(struct ssh *s, const char *command, struct error *e)
{
    LIBSSH2_CHANNEL *channel =
        libssh2_channel_open_ex(s->session, "session", 7, LIBSSH2_CHANNEL_WINDOW_DEFAULT,
                                LIBSSH2_CHANNEL_PACKET_DEFAULT, NULL, 0);
    if (channel && libssh2_channel_process_startup(channel, "exec", 4, command,
                                                   (unsigned)strlen(command)) == 0)
        return channel;
    report_session(s, s->label, e);
    if (channel)
        end_channel(s, channel, ERR_UNAVAILABLE);
    return NULL;
}

static int write_all(struct ssh *s, LIBSSH2_CHANNEL *channel, const char *data, size_t len,
                     struct error *e)
{
    while (len > 0) {
        ssize_t n = libssh2_channel_write_ex(channel, 0, data, len);
        if (n < 0)
            return report_session(s, s->label, e);
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_stream(struct ssh *s, LIBSSH2_CHANNEL *channel, int stream, struct buf *out,
                       struct error *e)
{
    char piece[8192];
    ssize_t n;
    int64_t until = clock_mono_us() + s->patience;
    while ((n = libssh2_channel_read_ex(channel, stream, piece, sizeof(piece))) > 0) {
        if (buf_append(out, piece, (size_t)n) || clock_mono_us() > until)
            return error_set(e, ERR_UNAVAILABLE,
                             "%s prints without end; look what the shell of this user does at its "
                             "start",
                             s->label);
    }
    return n < 0 ? report_session(s, s->label, e) : 0;
}

// Ends the input, reads all output, and closes the channel.
static int finish(struct ssh *s, LIBSSH2_CHANNEL *channel, struct ssh_result *out, struct error *e)
{
    int err = libssh2_channel_send_eof(channel) < 0 ? report_session(s, s->label, e) : 0;
    err = err ? err : read_stream(s, channel, 0, &out->out, e);
    err = err ? err : read_stream(s, channel, STDERR, &out->err, e);
    if (!err && (libssh2_channel_close(channel) < 0 || libssh2_channel_wait_closed(channel) < 0))
        err = report_session(s, s->label, e);
    out->exit_code = err ? -1 : libssh2_channel_get_exit_status(channel);
    return err;
}

static void begin_result(struct ssh_result *out)
{
    *out = (struct ssh_result){.exit_code = -1};
    buf_init(&out->out, OUTPUT_MAX);
    buf_init(&out->err, OUTPUT_MAX);
}

int ssh_run(struct ssh *s, const char *command, const char *input, size_t len,
            struct ssh_result *out, struct error *e)
{
    begin_result(out);
    LIBSSH2_CHANNEL *channel = open_channel(s, command, e);
    if (!channel)
        return ERR_UNAVAILABLE;
    int err = write_all(s, channel, input, len, e);
    err = err ? err : finish(s, channel, out, e);
    end_channel(s, channel, err);
    return err;
}

int ssh_send_file(struct ssh *s, const char *command, int fd,
                  void (*on_sent)(void *arg, int64_t bytes), void *arg, struct ssh_result *out,
                  struct error *e)
{
    begin_result(out);
    LIBSSH2_CHANNEL *channel = open_channel(s, command, e);
    if (!channel)
        return ERR_UNAVAILABLE;
    char *piece = xcalloc(1, PIECE);
    ssize_t n = 0;
    int err = 0;
    for (int64_t sent = 0; !err && (n = read(fd, piece, PIECE)) > 0;) {
        err = write_all(s, channel, piece, (size_t)n, e);
        sent += n;
        on_sent(arg, sent);
    }
    if (n < 0)
        err = error_set_errno(e, ERR_IO, errno, "the file to send");
    err = err ? err : finish(s, channel, out, e);
    free(piece);
    end_channel(s, channel, err);
    return err;
}
