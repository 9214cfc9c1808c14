// Loads libssh2 at the first call of one of its functions, as api/http/curl.c does with libcurl:
// only `muster cluster` needs it, and with it OpenSSL. The functions here have the names and types
// of libssh2's header and forward to the library.
#include <libssh2.h>

#include <dlfcn.h>
#include <pthread.h>

#include "base/log.h"
#include "base/os/library.h"

#define CALLS(X)                                                                                   \
    X(libssh2_agent_connect)                                                                       \
    X(libssh2_agent_free)                                                                          \
    X(libssh2_agent_get_identity)                                                                  \
    X(libssh2_agent_init)                                                                          \
    X(libssh2_agent_list_identities)                                                               \
    X(libssh2_agent_userauth)                                                                      \
    X(libssh2_channel_close)                                                                       \
    X(libssh2_channel_free)                                                                        \
    X(libssh2_channel_get_exit_status)                                                             \
    X(libssh2_channel_open_ex)                                                                     \
    X(libssh2_channel_process_startup)                                                             \
    X(libssh2_channel_read_ex)                                                                     \
    X(libssh2_channel_send_eof)                                                                    \
    X(libssh2_channel_wait_closed)                                                                 \
    X(libssh2_channel_write_ex)                                                                    \
    X(libssh2_init)                                                                                \
    X(libssh2_knownhost_checkp)                                                                    \
    X(libssh2_knownhost_free)                                                                      \
    X(libssh2_knownhost_init)                                                                      \
    X(libssh2_knownhost_readline)                                                                  \
    X(libssh2_session_free)                                                                        \
    X(libssh2_session_handshake)                                                                   \
    X(libssh2_session_hostkey)                                                                     \
    X(libssh2_session_init_ex)                                                                     \
    X(libssh2_session_last_error)                                                                  \
    X(libssh2_session_method_pref)                                                                 \
    X(libssh2_session_set_blocking)                                                                \
    X(libssh2_session_set_timeout)                                                                 \
    X(libssh2_userauth_list)                                                                       \
    X(libssh2_userauth_publickey_fromfile_ex)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
#undef MEMBER
} library;

static void load_libssh2(void)
{
    void *handle = library_load(SSH2_LIBRARY, "libssh2");
#define FIND(name)                                                                                 \
    library.name = (__typeof__(name) *)dlsym(handle, #name);                                       \
    must(library.name);
    CALLS(FIND)
#undef FIND
    must(library.libssh2_init(0) == 0);
}

#define REAL(name) (pthread_once(&once, load_libssh2), library.name)
static pthread_once_t once = PTHREAD_ONCE_INIT;

LIBSSH2_SESSION *libssh2_session_init_ex(LIBSSH2_ALLOC_FUNC((*make)), LIBSSH2_FREE_FUNC((*release)),
                                         LIBSSH2_REALLOC_FUNC((*grow)), void *arg)
{
    return REAL(libssh2_session_init_ex)(make, release, grow, arg);
}

int libssh2_session_free(LIBSSH2_SESSION *s)
{
    return REAL(libssh2_session_free)(s);
}

void libssh2_session_set_blocking(LIBSSH2_SESSION *s, int blocking)
{
    REAL(libssh2_session_set_blocking)(s, blocking);
}

void libssh2_session_set_timeout(LIBSSH2_SESSION *s, long ms)
{
    REAL(libssh2_session_set_timeout)(s, ms);
}

int libssh2_session_method_pref(LIBSSH2_SESSION *s, int type, const char *names)
{
    return REAL(libssh2_session_method_pref)(s, type, names);
}

int libssh2_session_handshake(LIBSSH2_SESSION *s, libssh2_socket_t fd)
{
    return REAL(libssh2_session_handshake)(s, fd);
}

const char *libssh2_session_hostkey(LIBSSH2_SESSION *s, size_t *len, int *type)
{
    return REAL(libssh2_session_hostkey)(s, len, type);
}

int libssh2_session_last_error(LIBSSH2_SESSION *s, char **text, int *len, int copy)
{
    return REAL(libssh2_session_last_error)(s, text, len, copy);
}

LIBSSH2_KNOWNHOSTS *libssh2_knownhost_init(LIBSSH2_SESSION *s)
{
    return REAL(libssh2_knownhost_init)(s);
}

int libssh2_knownhost_readline(LIBSSH2_KNOWNHOSTS *hosts, const char *line, size_t len, int type)
{
    return REAL(libssh2_knownhost_readline)(hosts, line, len, type);
}

int libssh2_knownhost_checkp(LIBSSH2_KNOWNHOSTS *hosts, const char *host, int port, const char *key,
                             size_t len, int mask, struct libssh2_knownhost **found)
{
    return REAL(libssh2_knownhost_checkp)(hosts, host, port, key, len, mask, found);
}

void libssh2_knownhost_free(LIBSSH2_KNOWNHOSTS *hosts)
{
    REAL(libssh2_knownhost_free)(hosts);
}

char *libssh2_userauth_list(LIBSSH2_SESSION *s, const char *user, unsigned len)
{
    return REAL(libssh2_userauth_list)(s, user, len);
}

int libssh2_userauth_publickey_fromfile_ex(LIBSSH2_SESSION *s, const char *user, unsigned len,
                                           const char *public, const char *private,
                                           const char *passphrase)
{
    return REAL(libssh2_userauth_publickey_fromfile_ex)(s, user, len, public, private, passphrase);
}

LIBSSH2_AGENT *libssh2_agent_init(LIBSSH2_SESSION *s)
{
    return REAL(libssh2_agent_init)(s);
}

int libssh2_agent_connect(LIBSSH2_AGENT *a)
{
    return REAL(libssh2_agent_connect)(a);
}

int libssh2_agent_list_identities(LIBSSH2_AGENT *a)
{
    return REAL(libssh2_agent_list_identities)(a);
}

int libssh2_agent_get_identity(LIBSSH2_AGENT *a, struct libssh2_agent_publickey **out,
                               struct libssh2_agent_publickey *before)
{
    return REAL(libssh2_agent_get_identity)(a, out, before);
}

int libssh2_agent_userauth(LIBSSH2_AGENT *a, const char *user, struct libssh2_agent_publickey *key)
{
    return REAL(libssh2_agent_userauth)(a, user, key);
}

void libssh2_agent_free(LIBSSH2_AGENT *a)
{
    REAL(libssh2_agent_free)(a);
}

LIBSSH2_CHANNEL *libssh2_channel_open_ex(LIBSSH2_SESSION *s, const char *type, unsigned type_len,
                                         unsigned window, unsigned packet, const char *message,
                                         unsigned message_len)
{
    return REAL(libssh2_channel_open_ex)(s, type, type_len, window, packet, message, message_len);
}

int libssh2_channel_process_startup(LIBSSH2_CHANNEL *c, const char *request, unsigned request_len,
                                    const char *message, unsigned message_len)
{
    return REAL(libssh2_channel_process_startup)(c, request, request_len, message, message_len);
}

ssize_t libssh2_channel_read_ex(LIBSSH2_CHANNEL *c, int stream, char *out, size_t cap)
{
    return REAL(libssh2_channel_read_ex)(c, stream, out, cap);
}

ssize_t libssh2_channel_write_ex(LIBSSH2_CHANNEL *c, int stream, const char *data, size_t len)
{
    return REAL(libssh2_channel_write_ex)(c, stream, data, len);
}

int libssh2_channel_send_eof(LIBSSH2_CHANNEL *c)
{
    return REAL(libssh2_channel_send_eof)(c);
}

int libssh2_channel_close(LIBSSH2_CHANNEL *c)
{
    return REAL(libssh2_channel_close)(c);
}

int libssh2_channel_wait_closed(LIBSSH2_CHANNEL *c)
{
    return REAL(libssh2_channel_wait_closed)(c);
}

int libssh2_channel_get_exit_status(LIBSSH2_CHANNEL *c)
{
    return REAL(libssh2_channel_get_exit_status)(c);
}

int libssh2_channel_free(LIBSSH2_CHANNEL *c)
{
    return REAL(libssh2_channel_free)(c);
}
