#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

int file_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno != EINTR) {
            return ERR_IO;
        }
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

// The folder a path stands in; heap string.
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return xstrdup(".");
    }
    return slash == path ? xstrdup("/") : strndup(path, (size_t)(slash - path));
}

int file_sync_dir(const char *dir, struct error *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return error_set_errno(e, ERR_IO, errno, "%s: cannot open the folder", dir);
    }
    int err = fsync(fd) == 0 ? 0 : error_set_errno(e, ERR_IO, errno, "%s: cannot sync", dir);
    close(fd);
    return err;
}

static int write_synced(const char *path, const void *data, size_t len, unsigned mode,
                        struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        return error_set_errno(e, ERR_IO, errno, "%s: cannot write", path);
    }
    int err = 0;
    if (file_write_all(fd, data, len) != 0 || fchmod(fd, mode) != 0 || fsync(fd) != 0) {
        err = error_set_errno(e, ERR_IO, errno, "%s: cannot write", path);
    }
    close(fd);
    return err;
}

int file_write_durable(const char *path, const void *data, size_t len, unsigned mode,
                       struct error *e)
{
    char *aside = xasprintf("%s.tmp.%d", path, (int)getpid());
    char *parent = parent_of(path);
    int err = write_synced(aside, data, len, mode, e);
    if (err == 0 && rename(aside, path) != 0) {
        err = error_set_errno(e, ERR_IO, errno, "%s: cannot rename into place", path);
    }
    if (err == 0) {
        err = file_sync_dir(parent, e);
    } else {
        unlink(aside);
    }
    free(parent);
    free(aside);
    return err;
}

static int read_fd(int fd, const char *path, size_t limit, char **out, size_t *len, struct error *e)
{
    size_t cap = 4096, used = 0;
    char *data = xrealloc(NULL, cap);
    for (;;) {
        if (used + 1 == cap) {
            cap *= 2;
            data = xrealloc(data, cap);
        }
        ssize_t n = read(fd, data + used, cap - used - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 || used + (size_t)n > limit) {
            int err = n < 0 ? error_set_errno(e, ERR_IO, errno, "%s: cannot read", path)
                            : error_set(e, ERR_TOO_LARGE, "%s: larger than %zu bytes", path, limit);
            free(data);
            return err;
        }
        if (n == 0) {
            break;
        }
        used += (size_t)n;
    }
    data[used] = '\0';
    *out = data;
    if (len != NULL) {
        *len = used;
    }
    return 0;
}

int file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
        return error_set_errno(e, code, errno, "%s: cannot open", path);
    }
    int err = read_fd(fd, path, limit, out, len, e);
    close(fd);
    return err;
}

int dir_make(const char *path, unsigned mode, struct error *e)
{
    char *partial = xstrdup(path);
    int err = 0;
    for (char *p = partial + 1; err == 0; p++) {
        if (*p != '/' && *p != '\0') {
            continue;
        }
        bool last = *p == '\0';
        *p = '\0';
        struct stat st;
        if (mkdir(partial, mode) != 0 &&
            (errno != EEXIST || stat(partial, &st) != 0 || !S_ISDIR(st.st_mode))) {
            int saved = errno == EEXIST ? ENOTDIR : errno;
            err = error_set_errno(e, ERR_IO, saved, "%s: cannot make the folder", partial);
        }
        if (last) {
            break;
        }
        *p = '/';
    }
    free(partial);
    return err;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int dir_remove_tree(const char *path, struct error *e)
{
    enum { OPEN_DIRS = 16 };
    if (nftw(path, remove_entry, OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 ||
        errno == ENOENT) {
        return 0;
    }
    return error_set_errno(e, ERR_IO, errno, "%s: cannot remove", path);
}

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

char *path_join(const char *a, const char *b)
{
    size_t n = strlen(a);
    return xasprintf("%s%s%s", a, n > 0 && a[n - 1] != '/' ? "/" : "", b);
}

bool path_is_inside(const char *relative)
{
    enum { PATH_LIMIT = 1024 };
    if (relative[0] == '\0' || strnlen(relative, PATH_LIMIT + 1) > PATH_LIMIT) {
        return false;
    }
    for (const char *part = relative;;) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && memcmp(part, "..", 2) == 0) || n > NAME_MAX) {
            return false;
        }
        if (part[n] == '\0') {
            return true;
        }
        part += n + 1;
    }
}
