#include "agent/supervisor/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/sandbox.h"
#include "agent/tasks/taskdir.h"
#include "api/config/mounts.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

// --- what may be covered -------------------------------------------------------------------------

static bool overlaps(const char *a, const char *b)
{
    return path_is_within(a, b) || path_is_within(b, a);
}

int mounts_check_target(const char *target, const struct mount_places *places, struct error *e)
{
    static const char *const system[] = {"/proc", SANDBOX_RUN};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        if (overlaps(target, system[i]))
            return error_set(e, ERR_FORBIDDEN, "it would cover %s", system[i]);
    char *own = path_join(places->dir, TASKDIR_WORK);
    char *tasks = xasprintf("%.*s", (int)(strrchr(places->dir, '/') - places->dir), places->dir);
    *strrchr(tasks, '/') = '\0'; // the agent's work folder
    bool mine = path_is_within(target, own) && strcmp(target, own) != 0;
    bool bad = (!mine && overlaps(target, tasks)) ||
               (places->token_file && overlaps(target, places->token_file));
    free(tasks);
    free(own);
    return bad ? error_set(e, ERR_FORBIDDEN, "it would cover a folder of the agent") : 0;
}

// --- a mount -------------------------------------------------------------------------------------

static int make_target(const char *target, bool folder, struct error *e)
{
    struct stat st;
    if (stat(target, &st) == 0)
        return 0;
    char *parent = xasprintf("%.*s", (int)(strrchr(target, '/') - target), target);
    int err = folder ? dir_make(target, 0755, e) : *parent ? dir_make(parent, 0755, e) : 0;
    int fd = err || folder ? -1 : open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (!err && !folder && fd < 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot create %s", target);
    if (fd >= 0)
        close(fd);
    free(parent);
    return err;
}

// Opens the target, and checks where it is once all links are resolved.
static int open_target(const char *target, const struct mount_places *places, int *fd,
                       char real[PATH_MAX], struct error *e)
{
    char link[32];
    *fd = open(target, O_PATH | O_CLOEXEC);
    snprintf(link, sizeof link, "/proc/self/fd/%d", *fd);
    ssize_t len = *fd < 0 ? -1 : readlink(link, real, PATH_MAX - 1);
    if (len < 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot open %s", target);
    real[len] = '\0';
    return mounts_check_target(real, places, e);
}

static int set_flags(const char *target, const json_t *m, struct error *e)
{
    const char *propagation = jget_string(m, "propagation", "");
    struct mount_attr attr = {
        .attr_set = jget_bool(m, "readOnly", false) ? MOUNT_ATTR_RDONLY : 0,
        .propagation = strstr(propagation, "private") ? MS_PRIVATE : 0,
    };
    if (!attr.attr_set && !attr.propagation)
        return 0;
    if (mount_setattr(AT_FDCWD, target, AT_RECURSIVE, &attr, sizeof attr) == 0)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make it %s (needs Linux 5.12)",
                           attr.attr_set ? "read-only" : "private");
}

static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static int bind_target(int source, const char *target, const json_t *m,
                       const struct mount_places *places, struct error *e)
{
    char real[PATH_MAX], from[32], to[32];
    int fd = -1, err = open_target(target, places, &fd, real, e);
    bool nothing = !err && is_same_file(source, fd) && !jget_bool(m, "readOnly", false);
    snprintf(from, sizeof from, "/proc/self/fd/%d", source);
    snprintf(to, sizeof to, "/proc/self/fd/%d", fd);
    if (!err && !nothing && mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount");
    if (!err && !nothing)
        err = set_flags(real, m, e);
    if (fd >= 0)
        close(fd);
    return err;
}

static int make_mount(const json_t *m, const struct mount_places *places, struct error *e)
{
    const char *source = jget_string(m, "source", ""), *given = jget_string(m, "target", "");
    char *work = path_join(places->dir, TASKDIR_WORK);
    char *target = *given == '/' ? xstrdup(given) : path_join(work, given);
    struct stat st = {0};
    int fd = open(source, O_PATH | O_CLOEXEC);
    int err = fd >= 0 && fstat(fd, &st) == 0
                  ? mounts_check_target(target, places, e)
                  : error_set_errno(e, ERR_NOT_FOUND, errno, "this machine has no %s", source);
    err = err ? err : make_target(target, S_ISDIR(st.st_mode), e);
    err = err ? err : bind_target(fd, target, m, places, e);
    if (fd >= 0)
        close(fd);
    free(target);
    free(work);
    return err ? error_prefix(e, "cannot show %s as %s", source, given) : 0;
}

int mounts_make(const json_t *mounts, const struct mount_places *places, struct error *e)
{
    size_t i;
    json_t *m;
    int err = 0;
    json_array_foreach(mounts, i, m) err = err ? err : make_mount(m, places, e);
    return err;
}

bool mounts_required(const json_t *mounts)
{
    size_t i;
    json_t *m;
    json_array_foreach(mounts, i, m)
    {
        if (jget_bool(m, "required", false))
            return true;
    }
    return false;
}

// --- the abilities of this machine ---------------------------------------------------------------

static int look(struct error *e)
{
    struct stat st;
    bool exists = stat(SHARED_FS_MOUNT, &st) == 0 && S_ISDIR(st.st_mode);
    if (!exists && faccessat(AT_FDCWD, "/", W_OK, AT_EACCESS) != 0)
        return error_set(e, ERR_FORBIDDEN,
                         "there is no folder " SHARED_FS_MOUNT
                         ", and the agent may not create it: run mkdir " SHARED_FS_MOUNT
                         " there as root, and start the agent again");
    return sandbox_enter(e);
}

int mounts_probe(struct error *e)
{
    int fds[2], status = 0;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create a pipe");
    pid_t child = fork();
    if (child == 0) {
        struct error why = {0};
        int err = look(&why);
        _exit(err && write(fds[1], why.text, strlen(why.text)) >= 0 ? 1 : 0);
    }
    close(fds[1]);
    char text[ERROR_TEXT_MAX] = "";
    ssize_t len = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || len < 0)
        return error_set(e, ERR_IO, "cannot look for mount namespaces");
    return status ? error_set(e, ERR_FORBIDDEN, "%s", text) : 0;
}
