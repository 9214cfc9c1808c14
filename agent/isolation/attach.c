#include "agent/isolation/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"

int attach_clone(const char *path)
{
    return open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

bool attach_path(int fd, char real[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, real, PATH_MAX - 1);
    if (len >= 0)
        real[len] = '\0';
    return len >= 0;
}

// open_tree(2) also mounts what an automounter has there, unlike open(2) with O_PATH.
int attach_open(const char *path, const struct task_account *account, char real[PATH_MAX])
{
    int fd = -1;
    if (account_enter_files(account))
        fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLOEXEC);
    int saved = errno;
    account_leave_files(account);
    errno = saved;
    if (fd < 0 || attach_path(fd, real))
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int attach_clone_open(int fd)
{
    int flags = AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    int clone = open_tree(fd, "", (unsigned)flags), saved = errno;
    close(fd);
    errno = saved;
    return clone;
}

int attach_make_point(const char *path, bool folder, struct error *e)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return 0;
    if (folder)
        return dir_make(path, 0755, e);
    char *parent = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    int err = *parent ? dir_make(parent, 0755, e) : 0;
    // A pipe that appears there meanwhile does not keep the first process of the task waiting.
    int fd = err ? -1 : open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
    if (!err && fd < 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot create %s", path);
    if (fd >= 0)
        close(fd);
    free(parent);
    return err;
}

int attach_at(int clone, const char *path, uint64_t attributes, struct error *e)
{
    struct stat st;
    struct mount_attr attr = {.attr_set = attributes};
    if (fstat(clone, &st) != 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot look at what to show as %s", path);
    int err = attach_make_point(path, S_ISDIR(st.st_mode), e);
    if (!err && attributes &&
        mount_setattr(clone, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) != 0)
        err =
            error_set_errno(e, ERR_FORBIDDEN, errno, "cannot protect %s (needs Linux 5.12)", path);
    if (!err && move_mount(clone, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over %s", path);
    return err;
}
