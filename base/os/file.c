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
    INSIDE_MAX = 1024,    // bytes of an untrusted path
    TREE_DEPTH_MAX = 256, // nested folders; each needs an open descriptor
    READ_FIRST = 4096,    // bytes; for files without a size (/proc)
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

// Returns the folder of `path` as a heap string.
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

// Writes and syncs a new file. fchmod() sets the mode independently of the umask.
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
    char *temporary = xasprintf("%s.tmp.%d", path, (int)getpid());
    char *dir = parent_of(path);
    int err = write_synced(temporary, data, len, mode, e);
    if (!err && rename(temporary, path) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", temporary, path);
    if (err)
        unlink(temporary);
    else
        err = file_sync_dir(dir, e);
    free(dir);
    free(temporary);
    return err;
}

// Reads to the end of the file, at most one byte past the limit.
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

int file_read_fd(int fd, const char *label, size_t limit, char **out, size_t *len, struct error *e)
{
    size_t used = 0;
    char *data = NULL;
    struct stat st;
    *out = NULL;
    bool sized = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    int err = read_to_end(fd, limit, sized ? (size_t)st.st_size : READ_FIRST, &data, &used);
    if (err == ERR_TOO_LARGE)
        error_set(e, err, "%s is larger than %zu bytes, which is the limit", label, limit);
    else if (err)
        error_set_errno(e, err, errno, "cannot read %s", label);
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

int file_open_regular(int dir, const char *name, const char *label, int *out, struct error *e)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool irregular =
        fd < 0 ? errno == ELOOP || errno == ENXIO : fstat(fd, &st) || !S_ISREG(st.st_mode);
    if (fd >= 0 && !irregular) {
        *out = fd;
        return 0;
    }
    int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    if (irregular)
        error_set(e, code = ERR_INVALID, "%s is not a regular file; links and pipes are not read",
                  label);
    else
        error_set_errno(e, code, errno, "cannot open %s", label);
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
    return error_set_errno(e, ERR_IO, saved, "cannot create folder %s", path);
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

static int cannot_open(const char *label, struct error *e)
{
    if (errno == ENOTDIR || errno == ELOOP)
        return error_set(
            e, ERR_INVALID,
            "%s is not a folder, or its path contains a symbolic link, which is not followed",
            label);
    return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "cannot open %s",
                           label);
}

int dir_open(const char *path, int *fd, struct error *e)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0)
        return 0;
    if (errno == ENOTDIR)
        return error_set(e, ERR_INVALID, "%s is not a folder", path);
    return cannot_open(path, e);
}

// Opens one component after the other, for kernels (before 5.6) and containers without openat2().
static int open_by_components(int root, const char *relative)
{
    enum { PATH_FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    char *copy = xstrdup(relative), *part = copy, *slash;
    int at = openat(root, ".", PATH_FLAGS);
    while (at >= 0 && part) {
        slash = strchr(part, '/');
        if (slash)
            *slash = '\0';
        int next =
            openat(at, part, slash ? PATH_FLAGS : O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        part = slash ? slash + 1 : NULL;
    }
    free(copy);
    return at;
}

int dir_open_below(int root, const char *relative, const char *label, int *fd, struct error *e)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (*relative && !path_is_inside(relative))
        return error_set(e, ERR_INVALID, "\"%.200s\" does not stay below its folder", relative);
    const char *name = *relative ? relative : ".";
    *fd = (int)syscall(SYS_openat2, root, name, &how, sizeof how);
    if (*fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN || errno == EINVAL))
        *fd = open_by_components(root, name);
    return *fd < 0 ? cannot_open(label, e) : 0;
}

// A descriptor of O_PATH has no mode to change, except by its name in /proc.
static int open_closed_folder(int parent, const char *name, unsigned rights)
{
    char link[32];
    struct stat st;
    int at = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    if (at < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    if (fstat(at, &st) == 0 && st.st_uid == geteuid() &&
        chmod(link, (st.st_mode & 07777) | rights) == 0)
        fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        errno = EACCES;
    int saved = errno;
    close(at);
    errno = saved;
    return fd;
}

int dir_open_owned(int parent, const char *name, unsigned rights)
{
    struct stat st;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? open_closed_folder(parent, name, rights) : -1;
    bool lacks = fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & rights) != rights;
    if (!lacks || fchmod(fd, (st.st_mode & 07777) | rights) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

// --- removing ------------------------------------------------------------------------------------

struct tree_removal {
    int top;        // descriptor of the folder that is removed
    unsigned moved; // folders that were moved there because they were nested too deep
};

static int remove_at(struct tree_removal *r, int parent, const char *name, int depth,
                     struct error *e);

// A program may leave folders that are nested deeper than descriptors permit.
static int move_to_top(struct tree_removal *r, int parent, const char *name, struct error *e)
{
    char unique[32];
    int rc;
    do {
        snprintf(unique, sizeof unique, "moved.%u", r->moved++);
        rc = renameat2(parent, name, r->top, unique, RENAME_NOREPLACE);
    } while (rc != 0 && errno == EEXIST);
    return rc == 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot move folder %s", name);
}

// Empties the folder of descriptor `fd` and closes `fd`.
static int remove_contents(struct tree_removal *r, int fd, const char *name, int depth,
                           struct error *e)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int saved = errno;
        close(fd);
        return error_set_errno(e, ERR_IO, saved, "cannot read folder %s", name);
    }
    int err = 0;
    unsigned moved;
    struct dirent *entry;
    if (depth == 0)
        r->top = fd;
    do {
        moved = r->moved;
        rewinddir(dir);
        while (!err && (errno = 0, entry = readdir(dir)))
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                err = remove_at(r, fd, entry->d_name, depth + 1, e);
    } while (!err && errno == 0 && depth == 0 && r->moved != moved);
    if (!err && errno != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot read folder %s", name);
    closedir(dir);
    return err;
}

// Works by descriptor and name, so that nobody can replace a folder by a link meanwhile: the first
// call unlinks a link, and O_NOFOLLOW refuses one that appears later.
static int remove_at(struct tree_removal *r, int parent, const char *name, int depth,
                     struct error *e)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT || errno == ENOTDIR)
        return 0;
    if (errno != EISDIR && errno != EPERM) // a folder, by Linux and by POSIX
        return error_set_errno(e, ERR_IO, errno, "cannot remove %s", name);
    if (depth >= TREE_DEPTH_MAX)
        return move_to_top(r, parent, name, e);
    int fd = dir_open_owned(parent, name, 0700);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open folder %s", name);
    int err = remove_contents(r, fd, name, depth, e);
    if (!err && unlinkat(parent, name, AT_REMOVEDIR) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot remove folder %s", name);
    return err;
}

int dir_remove_tree(const char *path, struct error *e)
{
    struct tree_removal r = {.top = -1};
    int err = remove_at(&r, AT_FDCWD, path, 0, e);
    if (err)
        error_prefix(e, "removing %s", path);
    return err;
}

int dir_remove_tree_at(int parent, const char *name, struct error *e)
{
    struct tree_removal r = {.top = -1};
    return remove_at(&r, parent, name, 0, e);
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

bool path_is_within(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    if (len == 1)
        return true; // "/"
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}
