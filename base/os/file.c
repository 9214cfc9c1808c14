#include "base/os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"

enum {
    INSIDE_MAX = 1024,    // bytes of a name that comes from outside
    TREE_DEPTH_MAX = 256, // folders within folders; one open descriptor each
    READ_FIRST = 4096,    // for files that do not tell their size (/proc)
};

int file_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ERR_IO;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

// The folder part of `path`; heap string.
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xasprintf("%.*s", (int)(slash - path), path);
}

int file_sync_dir(const char *dir, struct error *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open folder %s", dir);
    int err = fsync(fd) == 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot sync folder %s", dir);
    close(fd);
    return err;
}

// Writes and syncs a new file; fchmod, because the mode is meant whatever the umask is.
static int write_synced(const char *path, const void *data, size_t len, unsigned mode,
                        struct error *e)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, flags, mode & 0600);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", path);
    int err = 0;
    if (fchmod(fd, mode) != 0 || file_write_all(fd, data, len) != 0 || fsync(fd) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    if (close(fd) != 0 && !err)
        err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    return err;
}

int file_write_durable(const char *path, const void *data, size_t len, unsigned mode,
                       struct error *e)
{
    char *aside = xasprintf("%s.tmp.%d", path, (int)getpid());
    char *dir = parent_of(path);
    int err = write_synced(aside, data, len, mode, e);
    if (!err && rename(aside, path) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", aside, path);
    if (err)
        unlink(aside);
    else
        err = file_sync_dir(dir, e);
    free(dir);
    free(aside);
    return err;
}

// Reads to the end of the file or one byte past the limit, whichever comes first.
static int read_to_end(int fd, size_t limit, size_t expected, char **out, size_t *len)
{
    size_t cap = expected < limit ? expected + 1 : limit + 1;
    size_t used = 0;
    char *data = xrealloc(NULL, cap + 1);
    while (used <= limit) {
        if (used == cap) {
            cap = cap > limit / 2 ? limit + 1 : cap * 2;
            data = xrealloc(data, cap + 1);
        }
        ssize_t n = read(fd, data + used, cap - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            data[used] = '\0';
            *out = data;
            *len = used;
            return n < 0 ? ERR_IO : 0;
        }
        used += (size_t)n;
    }
    *out = data;
    return ERR_TOO_LARGE;
}

int file_read_fd(int fd, const char *shown, size_t limit, char **out, size_t *len, struct error *e)
{
    size_t used = 0;
    char *data = NULL;
    struct stat st;
    *out = NULL;
    bool sized = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    int err = read_to_end(fd, limit, sized ? (size_t)st.st_size : READ_FIRST, &data, &used);
    if (err == ERR_TOO_LARGE)
        error_set(e, err, "%s is larger than the %zu bytes allowed", shown, limit);
    else if (err)
        error_set_errno(e, err, errno, "cannot read %s", shown);
    if (err) {
        free(data);
        return err;
    }
    *out = data;
    if (len)
        *len = used;
    return 0;
}

int file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
        return error_set_errno(e, code, errno, "cannot open %s", path);
    }
    int err = file_read_fd(fd, path, limit, out, len, e);
    close(fd);
    return err;
}

int file_open_plain(int dir, const char *name, const char *shown, int *out, struct error *e)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool odd = fd < 0 ? errno == ELOOP || errno == ENXIO : fstat(fd, &st) || !S_ISREG(st.st_mode);
    if (fd >= 0 && !odd) {
        *out = fd;
        return 0;
    }
    int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    if (odd)
        error_set(e, code = ERR_INVALID, "%s is no regular file; links and pipes are not read",
                  shown);
    else
        error_set_errno(e, code, errno, "cannot open %s", shown);
    if (fd >= 0)
        close(fd);
    return code;
}

static int make_one_dir(const char *path, unsigned mode, struct error *e)
{
    if (mkdir(path, mode) == 0)
        return 0;
    int saved = errno;
    struct stat st;
    if (saved == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return error_set_errno(e, ERR_IO, saved, "cannot make folder %s", path);
}

int dir_make(const char *path, unsigned mode, struct error *e)
{
    char *prefix = xstrdup(path);
    int err = 0;
    for (char *slash = strchr(prefix + (*prefix == '/'), '/'); slash && !err;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        err = make_one_dir(prefix, mode, e);
        *slash = '/';
    }
    if (!err)
        err = make_one_dir(path, mode, e);
    free(prefix);
    return err;
}

// --- folders that others write to ----------------------------------------------------------------

static int cannot_open(const char *shown, struct error *e)
{
    if (errno == ENOTDIR || errno == ELOOP)
        return error_set(e, ERR_INVALID,
                         "%s is no folder, or a symbolic link leads there, which is not followed",
                         shown);
    return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "cannot open %s",
                           shown);
}

int dir_open(const char *path, int *fd, struct error *e)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0)
        return 0;
    if (errno == ENOTDIR)
        return error_set(e, ERR_INVALID, "%s is no folder", path);
    return cannot_open(path, e);
}

// One part after the other, where the kernel (before 5.6) or a container has no openat2().
static int open_by_parts(int root, const char *relative)
{
    enum { WAY = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    char *copy = xstrdup(relative), *part = copy, *slash;
    int at = openat(root, ".", WAY);
    while (at >= 0 && part) {
        slash = strchr(part, '/');
        if (slash)
            *slash = '\0';
        int next = openat(at, part, slash ? WAY : O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        part = slash ? slash + 1 : NULL;
    }
    free(copy);
    return at;
}

int dir_open_below(int root, const char *relative, const char *shown, int *fd, struct error *e)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (*relative && !path_is_inside(relative))
        return error_set(e, ERR_INVALID, "\"%.200s\" does not stay below its folder", relative);
    const char *name = *relative ? relative : ".";
    *fd = (int)syscall(SYS_openat2, root, name, &how, sizeof how);
    if (*fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN || errno == EINVAL))
        *fd = open_by_parts(root, name);
    return *fd < 0 ? cannot_open(shown, e) : 0;
}

// --- removing ------------------------------------------------------------------------------------

static int remove_at(int parent, const char *name, int depth, struct error *e);

// Empties the folder of descriptor `fd`, which it closes.
static int empty_dir(int fd, const char *name, int depth, struct error *e)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int saved = errno;
        close(fd);
        return error_set_errno(e, ERR_IO, saved, "cannot read folder %s", name);
    }
    int err = 0;
    struct dirent *entry;
    while (!err && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            err = remove_at(dirfd(dir), entry->d_name, depth + 1, e);
    if (!err && errno != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot read folder %s", name);
    closedir(dir);
    return err;
}

// By descriptor and name, so that nobody can swap a folder for a link under our hands: a link is
// unlinked by the first call, and O_NOFOLLOW refuses one that comes after.
static int remove_at(int parent, const char *name, int depth, struct error *e)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT || errno == ENOTDIR)
        return 0;
    if (errno != EISDIR && errno != EPERM) // Linux and POSIX say "a folder" differently
        return error_set_errno(e, ERR_IO, errno, "cannot remove %s", name);
    if (depth >= TREE_DEPTH_MAX)
        return error_set(e, ERR_TOO_LARGE, "cannot remove %s: more than %d folders deep", name,
                         TREE_DEPTH_MAX);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open folder %s", name);
    int err = empty_dir(fd, name, depth, e);
    if (!err && unlinkat(parent, name, AT_REMOVEDIR) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot remove folder %s", name);
    return err;
}

int dir_remove_tree(const char *path, struct error *e)
{
    int err = remove_at(AT_FDCWD, path, 0, e);
    if (err)
        error_prefix(e, "removing %s", path);
    return err;
}

int dir_remove_tree_at(int parent, const char *name, struct error *e)
{
    return remove_at(parent, name, 0, e);
}

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

char *path_join(const char *a, const char *b)
{
    size_t len = strlen(a);
    if (len == 0)
        return xstrdup(b);
    while (len > 0 && a[len - 1] == '/')
        len--;
    while (*b == '/')
        b++;
    return xasprintf("%.*s/%s", (int)len, a, b);
}

bool path_is_inside(const char *relative)
{
    if (strlen(relative) > INSIDE_MAX)
        return false;
    for (const char *part = relative;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 2 && strncmp(part, "..", 2) == 0))
            return false;
        part += len;
        if (*part == '\0')
            return true;
    }
}
