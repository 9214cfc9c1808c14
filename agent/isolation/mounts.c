#include "agent/isolation/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/isolation/attach.h"
#include "agent/isolation/sandbox.h"
#include "agent/tasks/taskdir.h"
#include "api/config/mounts.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

// Bytes of a line of /proc/self/mounts: a device, a path and options of 4 KiB, each byte as up to
// four.
enum { MOUNT_LINE = 64 << 10 };

// --- what may be covered -------------------------------------------------------------------------

static bool overlaps(const char *a, const char *b)
{
    return path_is_within(a, b) || path_is_within(b, a);
}

// Whether the path lies in the agent's work folder or is its token, or has one of them below it.
static bool overlaps_agent(const char *path, const struct mount_places *places)
{
    char *work = taskdir_work_dir(places->dir);
    bool found = overlaps(path, work) || (places->token_file && overlaps(path, places->token_file));
    free(work);
    return found;
}

int mounts_check_target(const char *target, const struct mount_places *places, struct error *e)
{
    static const char *const system[] = {"/proc", SANDBOX_RUN};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        if (overlaps(target, system[i]))
            return error_set(e, ERR_FORBIDDEN, "it would cover %s", system[i]);
    char *own = path_join(places->dir, TASKDIR_WORK);
    bool mine = path_is_within(target, own) && strcmp(target, own) != 0;
    free(own);
    if (mine || !overlaps_agent(target, places))
        return 0;
    return error_set(e, ERR_FORBIDDEN, "it would cover a folder of the agent");
}

// --- sources -------------------------------------------------------------------------------------

bool mounts_is_temporary(const char *path)
{
    return path_is_within(path, "/tmp") || path_is_within(path, "/var/tmp");
}

// A folder that contains the agent's folder or token would show it.
static bool opens_early(const char *source, const struct mount_places *places)
{
    return mounts_is_temporary(source) && !overlaps_agent(source, places);
}

int *mounts_open_sources(const json_t *mounts, const struct mount_places *places)
{
    size_t i;
    json_t *m;
    int *sources = xcalloc(json_array_size(mounts) + 1, sizeof *sources);
    json_array_foreach(mounts, i, m)
    {
        char real[PATH_MAX];
        int fd = attach_open(jget_string(m, "source", ""), places->account, real);
        bool early = fd >= 0 && opens_early(real, places);
        if (fd >= 0 && !early)
            close(fd);
        sources[i] = early ? attach_clone_open(fd) : -1;
    }
    return sources;
}

// --- a mount -------------------------------------------------------------------------------------

// Opens the target, and checks where it is once all links are resolved.
static int open_target(const char *target, const struct mount_places *places, int *fd,
                       char real[PATH_MAX], struct error *e)
{
    *fd = open(target, O_PATH | O_CLOEXEC);
    if (*fd < 0 || !attach_path(*fd, real))
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot open %s", target);
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
    char real[PATH_MAX];
    int fd = -1, err = open_target(target, places, &fd, real, e);
    bool nothing = !err && is_same_file(source, fd) && !jget_bool(m, "readOnly", false);
    if (fd >= 0)
        close(fd);
    if (err || nothing)
        return err;
    err = attach_at(source, real, 0, e);
    return err ? err : set_flags(real, m, e);
}

// Root would create files in any folder of the machine for a task.
static int make_target(const char *target, bool folder, const struct task_account *a,
                       struct error *e)
{
    if (!a->switches || !strcmp(target, SHARED_FS_MOUNT))
        return attach_make_point(target, folder, e);
    int err = account_enter_files(a)
                  ? attach_make_point(target, folder, e)
                  : error_set_errno(e, ERR_FORBIDDEN, errno, "cannot act as the task's account");
    account_leave_files(a);
    return err;
}

static int open_late(const char *source, const struct task_account *a)
{
    char real[PATH_MAX];
    int fd = attach_open(source, a, real);
    return fd >= 0 ? attach_clone_open(fd) : -1;
}

static int missing_source(const char *source, struct error *e)
{
    if (errno == EACCES)
        return error_set(e, ERR_FORBIDDEN, "the account of the task may not reach %s", source);
    return error_set_errno(e, ERR_NOT_FOUND, errno, "this machine has no %s", source);
}

// `fd`: the open source; -1: it is not open yet.
static int make_mount(const json_t *m, int fd, const struct mount_places *places, struct error *e)
{
    const char *source = jget_string(m, "source", ""), *given = jget_string(m, "target", "");
    char *work = path_join(places->dir, TASKDIR_WORK);
    char *target = *given == '/' ? xstrdup(given) : path_join(work, given);
    struct stat st = {0};
    if (fd < 0)
        fd = open_late(source, places->account);
    int err = fd >= 0 && fstat(fd, &st) == 0 ? mounts_check_target(target, places, e)
                                             : missing_source(source, e);
    err = err ? err : make_target(target, S_ISDIR(st.st_mode), places->account, e);
    err = err ? err : bind_target(fd, target, m, places, e);
    if (fd >= 0)
        close(fd);
    free(target);
    free(work);
    return err ? error_prefix(e, "cannot show %s as %s", source, given) : 0;
}

int mounts_make(const json_t *mounts, const int *sources, const struct mount_places *places,
                struct error *e)
{
    size_t i;
    json_t *m;
    int err = 0;
    json_array_foreach(mounts, i, m)
    {
        if (!err)
            err = make_mount(m, sources[i], places, e);
        else if (sources[i] >= 0)
            close(sources[i]);
    }
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

// --- control groups ------------------------------------------------------------------------------

// A mount point that another mount hides cannot be reached, and needs no protection.
static int protect_cgroup_at(const char *path, struct error *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (mount_setattr(AT_FDCWD, path, 0, &attr, sizeof attr) == 0 || errno == ENOENT ||
        errno == EINVAL || errno == EACCES || errno == ENOTDIR)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make %s read-only (needs Linux 5.12)",
                           path);
}

// The kernel writes blanks and backslashes of a path as numbers, which getmntent(3) decodes.
int mounts_protect_cgroups(struct error *e)
{
    FILE *list = setmntent("/proc/self/mounts", "re");
    if (!list)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot read /proc/self/mounts");
    char *line = xcalloc(1, MOUNT_LINE);
    struct mntent entry;
    int err = 0;
    while (!err && getmntent_r(list, &entry, line, MOUNT_LINE))
        if (!strcmp(entry.mnt_type, "cgroup2") || !strcmp(entry.mnt_type, "cgroup"))
            err = protect_cgroup_at(entry.mnt_dir, e);
    free(line);
    endmntent(list);
    return err;
}

// --- the abilities of this machine ---------------------------------------------------------------

int mounts_probe(struct error *e)
{
    struct stat st;
    bool exists = stat(SHARED_FS_MOUNT, &st) == 0 && S_ISDIR(st.st_mode);
    if (exists || faccessat(AT_FDCWD, "/", W_OK, AT_EACCESS) == 0)
        return 0;
    return error_set(e, ERR_FORBIDDEN,
                     "there is no folder " SHARED_FS_MOUNT
                     ", and the agent may not create it: run mkdir " SHARED_FS_MOUNT
                     " there as root, and start the agent again");
}
