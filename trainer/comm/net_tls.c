#include "trainer/comm/net_tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/log.h"

enum {
    RECORD = 16384,     // plain bytes of the largest record of TLS
    TURN = 16 * RECORD, // bytes that one call moves at most, so that every machine gets its turn
};

// X25519 and AES-128-GCM where nothing speaks against them; P-256 is for machines in FIPS mode.
#define PRIORITY                                                                                   \
    "NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+SIGN-ALL:+ECDHE-PSK:+GROUP-X25519:+GROUP-SECP256R1"
#define IDENTITY "ranks"

struct net_tls {
    gnutls_session_t session;
    gnutls_psk_client_credentials_t calling; // one of these two is set
    gnutls_psk_server_credentials_t called;
    uint8_t key[NET_KEY];
    int fd;
    int socket_error; // errno of the last call on the socket
    int failure;      // errno of the failure that ended the session; it comes again in every call
    int last;         // what GnuTLS called an EBADMSG
    size_t pending;   // plain bytes of a record that GnuTLS could send in part only
    unsigned char record[RECORD];
};

// --- the library ---------------------------------------------------------------------------------

// GnuTLS is loaded by trainings that encrypt: with its dependencies it is eight libraries.
#define CALLS(X)                                                                                   \
    X(gnutls_cipher_get)                                                                           \
    X(gnutls_cipher_get_name)                                                                      \
    X(gnutls_credentials_set)                                                                      \
    X(gnutls_deinit)                                                                               \
    X(gnutls_handshake)                                                                            \
    X(gnutls_init)                                                                                 \
    X(gnutls_priority_set_direct)                                                                  \
    X(gnutls_psk_allocate_client_credentials)                                                      \
    X(gnutls_psk_allocate_server_credentials)                                                      \
    X(gnutls_psk_free_client_credentials)                                                          \
    X(gnutls_psk_free_server_credentials)                                                          \
    X(gnutls_psk_set_client_credentials)                                                           \
    X(gnutls_psk_set_server_credentials_function)                                                  \
    X(gnutls_record_get_direction)                                                                 \
    X(gnutls_record_recv)                                                                          \
    X(gnutls_record_send)                                                                          \
    X(gnutls_session_get_ptr)                                                                      \
    X(gnutls_session_set_ptr)                                                                      \
    X(gnutls_strerror)                                                                             \
    X(gnutls_transport_set_errno)                                                                  \
    X(gnutls_transport_set_ptr)                                                                    \
    X(gnutls_transport_set_pull_function)                                                          \
    X(gnutls_transport_set_push_function)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
#undef MEMBER
    gnutls_alloc_function *allocate;
    bool complete;
} library;

static void load_gnutls(void)
{
    void *handle = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_LOCAL);
    bool complete = handle != NULL;
#define FIND(name)                                                                                 \
    if (complete) {                                                                                \
        library.name = (__typeof__(name) *)dlsym(handle, #name);                                   \
        complete = library.name != NULL;                                                           \
    }
    CALLS(FIND)
#undef FIND
    if (complete)
        library.allocate = (gnutls_alloc_function *)dlsym(handle, "gnutls_malloc");
    library.complete = complete && library.allocate;
}

static bool have_gnutls(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_gnutls);
    return library.complete;
}

// --- the socket ----------------------------------------------------------------------------------

static ssize_t note_socket(struct net_tls *t, ssize_t moved)
{
    t->socket_error = moved < 0 ? errno : 0;
    if (moved < 0)
        library.gnutls_transport_set_errno(t->session, errno);
    return moved;
}

static ssize_t push(gnutls_transport_ptr_t ctx, const void *data, size_t bytes)
{
    struct net_tls *t = ctx;
    return note_socket(t, send(t->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT));
}

static ssize_t pull(gnutls_transport_ptr_t ctx, void *into, size_t bytes)
{
    struct net_tls *t = ctx;
    return note_socket(t, recv(t->fd, into, bytes, MSG_DONTWAIT));
}

// Keeps the first failure, because GnuTLS calls every later call invalid. 0 as the result of
// receiving is the peer's end of the connection.
static void note_failure(struct net_tls *t, ssize_t code)
{
    switch (code) {
    case GNUTLS_E_AGAIN:
    case GNUTLS_E_INTERRUPTED:
        break;
    case 0:
    case GNUTLS_E_PREMATURE_TERMINATION:
        t->failure = ECONNRESET;
        break;
    case GNUTLS_E_PUSH_ERROR:
    case GNUTLS_E_PULL_ERROR:
        t->failure = t->socket_error ? t->socket_error : ECONNRESET;
        break;
    default:
        t->failure = EBADMSG;
        t->last = (int)code;
    }
}

// The result of a call that has moved `moved` bytes.
static ssize_t result_of(const struct net_tls *t, size_t moved)
{
    if (moved > 0)
        return (ssize_t)moved;
    errno = t->failure ? t->failure : EAGAIN;
    return -1;
}

// --- the session ---------------------------------------------------------------------------------

static int find_key(gnutls_session_t session, const char *identity, gnutls_datum_t *key)
{
    const struct net_tls *t = library.gnutls_session_get_ptr(session);
    (void)identity; // the key depends on the connection alone
    key->data = (*library.allocate)(NET_KEY);
    if (!key->data)
        return -1;
    key->size = NET_KEY;
    memcpy(key->data, t->key, NET_KEY);
    return 0;
}

static int set_key(struct net_tls *t, bool callee)
{
    const gnutls_datum_t key = {t->key, NET_KEY};
    int rc = callee ? library.gnutls_psk_allocate_server_credentials(&t->called)
                    : library.gnutls_psk_allocate_client_credentials(&t->calling);
    if (rc)
        return rc;
    if (callee) {
        library.gnutls_psk_set_server_credentials_function(t->called, find_key);
        return library.gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->called);
    }
    rc = library.gnutls_psk_set_client_credentials(t->calling, IDENTITY, &key, GNUTLS_PSK_KEY_RAW);
    return rc ? rc : library.gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->calling);
}

int net_tls_new(int fd, bool callee, const uint8_t key[NET_KEY], struct net_tls **out,
                struct error *e)
{
    if (!have_gnutls())
        return error_set(e, ERR_INTERNAL,
                         "trainer.encrypt_network needs GnuTLS (libgnutls.so.30), which cannot be "
                         "loaded on this machine: install the package libgnutls30");
    struct net_tls *t = xcalloc(1, sizeof *t);
    t->fd = fd;
    memcpy(t->key, key, NET_KEY);
    int rc = library.gnutls_init(&t->session, (callee ? GNUTLS_SERVER : GNUTLS_CLIENT) |
                                                  GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL |
                                                  GNUTLS_NO_TICKETS);
    if (!rc)
        rc = library.gnutls_priority_set_direct(t->session, PRIORITY, NULL);
    if (!rc)
        rc = set_key(t, callee);
    if (rc) {
        net_tls_free(t);
        return error_set(e, ERR_INTERNAL, "GnuTLS cannot encrypt the ranks' connections: %s",
                         library.gnutls_strerror(rc));
    }
    library.gnutls_session_set_ptr(t->session, t);
    library.gnutls_transport_set_ptr(t->session, t);
    library.gnutls_transport_set_push_function(t->session, push);
    library.gnutls_transport_set_pull_function(t->session, pull);
    *out = t;
    return 0;
}

void net_tls_free(struct net_tls *t)
{
    if (!t)
        return;
    if (t->session)
        library.gnutls_deinit(t->session);
    if (t->calling)
        library.gnutls_psk_free_client_credentials(t->calling);
    if (t->called)
        library.gnutls_psk_free_server_credentials(t->called);
    explicit_bzero(t, sizeof *t);
    free(t);
}

int net_tls_shake_hands(struct net_tls *t)
{
    int rc = t->failure ? -1 : library.gnutls_handshake(t->session);
    if (rc == 0)
        return 0;
    if (!t->failure)
        note_failure(t, rc);
    return (int)result_of(t, 0);
}

short net_tls_awaits(const struct net_tls *t)
{
    return library.gnutls_record_get_direction(t->session) ? POLLOUT : POLLIN;
}

const char *net_tls_why(const struct net_tls *t)
{
    return library.gnutls_strerror(t->last);
}

const char *net_tls_cipher(const struct net_tls *t)
{
    return library.gnutls_cipher_get_name(library.gnutls_cipher_get(t->session));
}

// --- bytes ---------------------------------------------------------------------------------------

// A place in a list of buffers.
struct cursor {
    const struct iovec *list;
    int count, at;
    size_t offset; // in list[at]
};

static void cursor_advance(struct cursor *c, size_t bytes)
{
    c->offset += bytes;
    while (c->at < c->count && c->offset >= c->list[c->at].iov_len) {
        c->offset -= c->list[c->at].iov_len;
        c->at++;
    }
}

static size_t cursor_left(const struct cursor *c) // of the buffer at the cursor
{
    return c->list[c->at].iov_len - c->offset;
}

static char *cursor_data(const struct cursor *c)
{
    return (char *)c->list[c->at].iov_base + c->offset;
}

// The plain bytes of the next record: as much of one buffer as a record holds, or several small
// buffers in one record, because every record costs a system call and 22 bytes.
static const void *next_record(struct net_tls *t, struct cursor c, size_t *bytes)
{
    size_t got = 0;
    if (cursor_left(&c) >= RECORD) {
        *bytes = RECORD;
        return cursor_data(&c);
    }
    while (c.at < c.count && got < RECORD) {
        size_t left = cursor_left(&c), room = RECORD - got, n = left < room ? left : room;
        memcpy(t->record + got, cursor_data(&c), n);
        got += n;
        cursor_advance(&c, n);
    }
    *bytes = got;
    return t->record;
}

ssize_t net_tls_send(struct net_tls *t, const struct iovec *list, int count)
{
    struct cursor c = {.list = list, .count = count};
    size_t sent = 0;
    while (c.at < c.count && sent < TURN && !t->failure) {
        const void *data = NULL; // stands for the record that GnuTLS has kept
        size_t bytes = 0;
        if (!t->pending)
            data = next_record(t, c, &bytes);
        ssize_t rc = library.gnutls_record_send(t->session, data, bytes);
        t->pending = data ? bytes : t->pending;
        if (rc < 0) {
            note_failure(t, rc);
            break;
        }
        sent += t->pending;
        cursor_advance(&c, t->pending);
        t->pending = 0;
    }
    return result_of(t, sent);
}

ssize_t net_tls_receive(struct net_tls *t, const struct iovec *list, int count)
{
    struct cursor c = {.list = list, .count = count};
    size_t got = 0;
    while (c.at < c.count && got < TURN && !t->failure) {
        ssize_t rc = library.gnutls_record_recv(t->session, cursor_data(&c), cursor_left(&c));
        if (rc <= 0) {
            note_failure(t, rc);
            break;
        }
        got += (size_t)rc;
        cursor_advance(&c, (size_t)rc);
    }
    return result_of(t, got);
}
