#include "cli/cluster/ssh/known_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "cli/cluster/ssh/known_hosts_line.h"

enum { FILE_MAX = 16 << 20, LIST_MAX = 256 };

// Kinds of host keys in the order of preference, which is that of OpenSSH.
static const struct {
    int type; // LIBSSH2_HOSTKEY_TYPE_*
    int mask; // LIBSSH2_KNOWNHOST_KEY_*
    const char *name;
} kinds[] = {
    {LIBSSH2_HOSTKEY_TYPE_ED25519, LIBSSH2_KNOWNHOST_KEY_ED25519, "ssh-ed25519"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_256, LIBSSH2_KNOWNHOST_KEY_ECDSA_256, "ecdsa-sha2-nistp256"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_384, LIBSSH2_KNOWNHOST_KEY_ECDSA_384, "ecdsa-sha2-nistp384"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_521, LIBSSH2_KNOWNHOST_KEY_ECDSA_521, "ecdsa-sha2-nistp521"},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

// Keys of these kinds are not used, but a host that has one in the file is not unknown.
static const int unused_kinds[] = {LIBSSH2_KNOWNHOST_KEY_SSHRSA, LIBSSH2_KNOWNHOST_KEY_SSHDSS};
enum { UNUSED_KINDS = sizeof(unused_kinds) / sizeof(unused_kinds[0]) };

static char *user_file(void)
{
    const char *home = getenv("HOME");
    return path_join(home ? home : "/", ".ssh/known_hosts");
}

// libssh2 passes over lines with markers and does not understand patterns (known_hosts_line.h).
static void read_file(LIBSSH2_KNOWNHOSTS *list, const char *path)
{
    char *text = NULL;
    size_t len = 0;
    if (file_read(path, FILE_MAX, &text, &len, NULL) == 0) {
        for (const char *line = text; *line;) {
            size_t size = strcspn(line, "\n");
            if (size > 0 && *line != '@' && *line != '#')
                libssh2_knownhost_readline(list, line, size + (line[size] == '\n'),
                                           LIBSSH2_KNOWNHOST_FILE_OPENSSH);
            line += size + (line[size] == '\n');
        }
    }
    free(text);
}

static LIBSSH2_KNOWNHOSTS *read_known(LIBSSH2_SESSION *s)
{
    LIBSSH2_KNOWNHOSTS *list = libssh2_knownhost_init(s);
    if (list) {
        char *path = user_file();
        read_file(list, path);
        read_file(list, "/etc/ssh/ssh_known_hosts");
        free(path);
    }
    return list;
}

// The name in the file: "[HOST]:PORT" unless the port is 22.
static char *name_in_file(const char *host, int port)
{
    return port == 22 ? xstrdup(host) : xasprintf("[%s]:%d", host, port);
}

// Reads the lines of a file. The highest value counts.
static enum known_line search_file(const char *path, const char *name, const char *key)
{
    char *text = NULL, *rest = NULL;
    size_t len = 0;
    enum known_line result = LINE_OTHER_HOST;
    if (file_read(path, FILE_MAX, &text, &len, NULL) == 0) {
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            enum known_line found = known_hosts_line_read(line, name, key);
            result = found > result ? found : result;
        }
    }
    free(text);
    return result;
}

static enum known_line search_files(const char *host, int port, const char *key, size_t len)
{
    char *user = user_file(), *name = name_in_file(host, port), *encoded = base64_encode(key, len);
    enum known_line own = search_file(user, name, encoded);
    enum known_line all = search_file("/etc/ssh/ssh_known_hosts", name, encoded);
    free(encoded);
    free(name);
    free(user);
    return own > all ? own : all;
}

static int check_key(LIBSSH2_KNOWNHOSTS *list, const char *host, int port, const char *key,
                     size_t len, int mask)
{
    struct libssh2_knownhost *found = NULL;
    return libssh2_knownhost_checkp(
        list, host, port, key, len,
        LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_RAW | mask, &found);
}

void known_hosts_prefer(LIBSSH2_SESSION *s, const char *host, int port)
{
    LIBSSH2_KNOWNHOSTS *list = read_known(s);
    char names[LIST_MAX] = "";
    for (int known = 1; known >= 0; known--) { // first the kinds that are known for the host
        for (size_t i = 0; i < KINDS; i++) {
            bool is_known = list && check_key(list, host, port, "?", 1, kinds[i].mask) !=
                                        LIBSSH2_KNOWNHOST_CHECK_NOTFOUND;
            size_t used = strlen(names);
            if (is_known == (known == 1))
                snprintf(names + used, sizeof(names) - used, "%s%s", used ? "," : "",
                         kinds[i].name);
        }
    }
    libssh2_session_method_pref(s, LIBSSH2_METHOD_HOSTKEY, names);
    if (list)
        libssh2_knownhost_free(list);
}

// Whether the file ends within a line, as an editor may leave it.
static bool ends_within_line(int fd)
{
    char last = '\n';
    off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

// Appends one line, so that several programs can do so at once.
static int add_key(const char *host, int port, const char *kind, const char *key, size_t len,
                   struct error *e)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char *path = user_file(), *encoded = base64_encode(key, len), *name = name_in_file(host, port);
    char *line = xasprintf("\n%s %s %s\n", name, kind, encoded), *slash = strrchr(path, '/');
    *slash = '\0';
    int err = dir_make(path, 0700, e);
    *slash = '/';
    pthread_mutex_lock(&lock);
    int fd = err ? -1 : open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char *text = fd >= 0 && ends_within_line(fd) ? line : line + 1;
    if (!err && (fd < 0 || file_write_all(fd, text, strlen(text)) != 0))
        err = error_set_errno(e, ERR_IO, errno, "%s", path);
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&lock);
    free(line);
    free(name);
    free(encoded);
    free(path);
    return err;
}

static int report_key(const char *host, int port, const char *kind, const char *key, size_t len,
                      bool changed, struct error *e)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 *hash = sha256_new();
    sha256_update(hash, key, len);
    sha256_final(hash, digest);
    char *print = base64_encode(digest, sizeof(digest)), *name = name_in_file(host, port);
    print[strcspn(print, "=")] = '\0'; // as OpenSSH shows it
    if (changed)
        error_set(e, ERR_FORBIDDEN,
                  "the host key has changed (now %s SHA256:%s): another machine may answer in its "
                  "place; if it was installed anew, forget the old key: ssh-keygen -R '%s'",
                  kind, print, name);
    else
        error_set(e, ERR_FORBIDDEN,
                  "the host key is not known (%s SHA256:%s); compare it with that of the machine "
                  "and accept it: ssh -p %d %s, or give --accept-new to accept the keys of all new "
                  "machines",
                  kind, print, port, host);
    free(name);
    free(print);
    return ERR_FORBIDDEN;
}

int known_hosts_check(LIBSSH2_SESSION *s, const char *host, int port, bool accept_new,
                      struct error *e)
{
    size_t len = 0, kind = 0;
    int type = 0;
    const char *key = libssh2_session_hostkey(s, &len, &type);
    while (kind < KINDS && kinds[kind].type != type)
        kind++;
    if (!key || kind == KINDS)
        return error_set(e, ERR_FORBIDDEN,
                         "the SSH server has no ed25519 or ECDSA host key; make one there: "
                         "ssh-keygen -A");
    LIBSSH2_KNOWNHOSTS *list = read_known(s);
    if (!list)
        return error_set(e, ERR_NO_MEMORY, "libssh2 has no memory for host keys");
    int found = check_key(list, host, port, key, len, kinds[kind].mask);
    bool other_kind = false; // then the server hides the key that is known
    for (size_t i = 0; i < KINDS && found == LIBSSH2_KNOWNHOST_CHECK_NOTFOUND; i++)
        other_kind |=
            check_key(list, host, port, "?", 1, kinds[i].mask) != LIBSSH2_KNOWNHOST_CHECK_NOTFOUND;
    for (size_t i = 0; i < UNUSED_KINDS; i++)
        other_kind |= check_key(list, host, port, "?", 1, unused_kinds[i]) !=
                      LIBSSH2_KNOWNHOST_CHECK_NOTFOUND;
    libssh2_knownhost_free(list);
    enum known_line line = search_files(host, port, key, len);
    if (line == LINE_REVOKED)
        return error_set(
            e, ERR_FORBIDDEN,
            "its host key is marked as @revoked in known_hosts, so another machine may "
            "answer in its place: give the machine a new host key");
    if (found == LIBSSH2_KNOWNHOST_CHECK_MATCH || line == LINE_KEY)
        return 0;
    bool is_new =
        found == LIBSSH2_KNOWNHOST_CHECK_NOTFOUND && !other_kind && line != LINE_OTHER_KEY;
    if (is_new && accept_new)
        return add_key(host, port, kinds[kind].name, key, len, e);
    return report_key(host, port, kinds[kind].name, key, len, !is_new, e);
}
