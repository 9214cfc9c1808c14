// The order matters: first everything that is to stay visible is taken out of the machine's view as
// a clone, then the covers are mounted, then the clones over them.
#include "agent/isolation/task_view.h"

#include <errno.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/isolation/attach.h"
#include "agent/isolation/devices.h"
#include "agent/isolation/mounts.h"
#include "agent/isolation/sandbox.h"
#include "agent/tasks/task_spec.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum { KEPT_MAX = 16 };

// The sockets of signed-in users. By that of their manager of services (systemd-run --user) a task
// that has such an account could start processes outside of it.
#define SESSIONS "/run/user"
// The bus of the machine: by logind there every account may ask for a manager of services that goes
// on without a session (loginctl enable-linger), and runs what ~/.config/systemd/user names.
#define SYSTEM_BUS "/run/dbus"

struct kept_path {
    char *path;
    int clone;
};

struct view_build {
    const struct task_view *v;
    struct mount_places places;
    char *work_dir; // of the agent
    struct kept_path kept[KEPT_MAX];
    size_t kept_count;
    int *sources;      // of the wished mounts
    int tmp_clones[2]; // the task's folder for temporary files, for /tmp and /var/tmp
};

// --- what stays visible --------------------------------------------------------------------------

static void add_path(json_t *list, const char *path)
{
    if (path && *path == '/')
        must(json_array_append_new(list, json_string(path)) == 0);
}

// Storage of type directory has its folder in container_path.
static void add_storage(json_t *list, const json_t *env)
{
    const char *text = jget_string(env, "DET_EXPERIMENT_CONFIG", NULL);
    json_t *config = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *storage = jget(config, "checkpoint_storage");
    add_path(list, jget_string(storage, "host_path", NULL));
    add_path(list, jget_string(storage, "container_path", NULL));
    json_decref(config);
}

json_t *task_view_named_paths(const json_t *spec)
{
    json_t *list = json_array();
    const json_t *env = jget(spec, "env");
    add_path(list, jget_string(env, "DET_MASTER_CERT_FILE", NULL));
    add_storage(list, env);
    return list;
}

static bool is_covered(const struct view_build *b, const char *path)
{
    bool temporary = task_view_has(b->v, PROTECTION_TEMPORARY) && mounts_is_temporary(path);
    return temporary || path_is_within(path, b->work_dir);
}

// Takes ownership of `clone`; -1: there is nothing to keep.
static void keep_clone(struct view_build *b, const char *path, int clone)
{
    if (clone >= 0 && b->kept_count < KEPT_MAX)
        b->kept[b->kept_count++] = (struct kept_path){xstrdup(path), clone};
    else if (clone >= 0)
        close(clone);
}

static void keep_path(struct view_build *b, const char *path, const char *source)
{
    keep_clone(b, path, attach_clone(source));
}

static void keep_programs(struct view_build *b)
{
    size_t i;
    json_t *path;
    json_array_foreach(jget(b->v->spec, "programs"), i, path)
    {
        char *real = realpath(json_string_value(path), NULL);
        bool hidden = real && (is_covered(b, real) || path_is_within(real, SESSIONS) ||
                               path_is_within(real, SYSTEM_BUS));
        if (hidden && !path_is_within(b->work_dir, real))
            keep_path(b, real, real);
        free(real);
    }
}

// Whether a path that a user has named may be shown: nothing in the agent's folder, and no folder
// that contains it.
static bool may_keep(const struct view_build *b, const char *real)
{
    return is_covered(b, real) && !path_is_within(real, b->work_dir) &&
           !path_is_within(b->work_dir, real);
}

static void keep_named_path(struct view_build *b, const char *path)
{
    char real[PATH_MAX];
    int fd = attach_open(path, b->places.account, real);
    if (fd >= 0 && may_keep(b, real))
        keep_clone(b, real, attach_clone_open(fd));
    else if (fd >= 0)
        close(fd);
}

static void keep_named_paths(struct view_build *b)
{
    size_t i;
    json_t *path, *list = task_view_named_paths(b->v->spec);
    json_array_foreach(list, i, path) keep_named_path(b, json_string_value(path));
    json_decref(list);
}

static void keep_part_of_folder(struct view_build *b, const char *name)
{
    char *path = path_join(b->v->dir, name);
    keep_path(b, path, path);
    free(path);
}

// The folder OWN comes first: the others are mounted in it.
static int keep_folder(struct view_build *b, struct error *e)
{
    char *own = path_join(b->v->dir, TASKDIR_OWN);
    keep_path(b, b->v->dir, own);
    keep_part_of_folder(b, TASKDIR_WORK);
    free(own);
    if (b->kept_count < 2)
        return error_set_errno(e, ERR_FORBIDDEN, errno,
                               "cannot show parts of %s (needs Linux 5.12)", b->v->dir);
    return 0;
}

static int open_clones(struct view_build *b, struct error *e)
{
    int err = keep_folder(b, e);
    if (err)
        return err;
    keep_part_of_folder(b, TASKDIR_HOME);
    keep_part_of_folder(b, TASKDIR_REPORT_SOCKET);
    keep_programs(b);
    keep_part_of_folder(b, TASKDIR_AUTHORITY);
    keep_named_paths(b);
    b->sources = mounts_open_sources(jget(b->v->spec, "mounts"), &b->places);
    char *tmp = path_join(b->v->dir, TASKDIR_TMP);
    for (int i = 0; i < 2 && task_view_has(b->v, PROTECTION_TEMPORARY); i++)
        b->tmp_clones[i] = attach_clone(tmp);
    free(tmp);
    return 0;
}

// --- covers --------------------------------------------------------------------------------------

static int cover_temporary(struct view_build *b, struct error *e)
{
    static const char *const paths[] = {"/tmp", "/var/tmp"};
    int err = 0;
    for (int i = 0; i < 2 && !err; i++)
        if (i == 0 || path_exists(paths[i]))
            err = attach_at(b->tmp_clones[i], paths[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);
    if (!err && !task_view_has(b->v, PROTECTION_DEVICES) && path_exists("/dev/shm"))
        err = devices_mount_shm(e);
    return err;
}

static int cover_processes(struct error *e)
{
    if (mount("muster", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount a /proc of its own");
}

static int cover_sessions(struct error *e)
{
    static const char *const folders[] = {SESSIONS, SYSTEM_BUS};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (path_exists(folders[i]) &&
            mount("muster", folders[i], "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") != 0)
            return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over %s", folders[i]);
    return 0;
}

static int cover_work_dir(struct view_build *b, struct error *e)
{
    int err = attach_make_point(b->work_dir, true, e);
    if (!err &&
        mount("muster", b->work_dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over %s", b->work_dir);
    return err;
}

static int show_kept(struct view_build *b, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < b->kept_count && !err; i++)
        err = attach_at(b->kept[i].clone, b->kept[i].path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);
    if (!err && mount(NULL, b->work_dir, NULL,
                      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make %s read-only", b->work_dir);
    return err;
}

static int hide_token(const char *path, struct error *e)
{
    if (!path || mount("/dev/null", path, NULL, MS_BIND, NULL) == 0 || errno == ENOENT ||
        errno == ENOTDIR)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over %s", path);
}

// --- the view ------------------------------------------------------------------------------------

// Without these files a program finds its settings only in the environment.
static void show_settings(const struct task_view *v, struct view_report *report)
{
    struct error e = {0};
    json_t *env = task_spec_environment(v->spec, json_array_get(jget(v->spec, "ranks"), 0));
    if (sandbox_mount_run(v->account, &e) != 0 ||
        sandbox_write_info(v->dir, v->spec, env, v->account, &e) != 0)
        snprintf(report->warning, sizeof report->warning,
                 "no private " SANDBOX_RUN " (%.700s); programs find their settings only in the "
                 "environment",
                 e.text);
    json_decref(env);
}

static int cover_all(struct view_build *b, struct view_report *report, struct error *e)
{
    const struct task_view *v = b->v;
    int err = 0;
    report->failed = PROTECTION_TEMPORARY;
    if (task_view_has(v, PROTECTION_TEMPORARY))
        err = cover_temporary(b, e);
    report->failed = err ? report->failed : PROTECTION_PROCESSES;
    if (!err && task_view_has(v, PROTECTION_PROCESSES))
        err = cover_processes(e);
    report->failed = err ? report->failed : PROTECTION_DEVICES;
    if (!err && task_view_has(v, PROTECTION_DEVICES))
        err = devices_mount(jget(v->spec, "gpus"), e);
    report->failed = err ? report->failed : PROTECTION_FILES;
    err = err ? err : cover_sessions(e);
    err = err ? err : cover_work_dir(b, e);
    err = err ? err : show_kept(b, e);
    return err ? err : hide_token(b->places.token_file, e);
}

static void view_release(struct view_build *b)
{
    for (size_t i = 0; i < b->kept_count; i++) {
        close(b->kept[i].clone);
        free(b->kept[i].path);
    }
    for (int i = 0; i < 2; i++)
        if (b->tmp_clones[i] >= 0)
            close(b->tmp_clones[i]);
    free(b->sources);
    free(b->work_dir);
}

int task_view_build(const struct task_view *v, struct view_report *report, struct error *e)
{
    struct view_build b = {
        .v = v,
        .places = {v->dir, jget_string(v->spec, "tokenFile", NULL), v->account},
        .work_dir = taskdir_work_dir(v->dir),
        .tmp_clones = {-1, -1},
    };
    *report = (struct view_report){.failed = PROTECTION_FILES};
    umask(022);
    int err = sandbox_enter_mount_namespace(e);
    err = err ? err : open_clones(&b, e);
    err = err ? err : cover_all(&b, report, e);
    report->failed = err ? report->failed : PROTECTION_COUNT;
    if (!err && !jget_bool(v->spec, "native", false))
        show_settings(v, report);
    if (!err)
        err = mounts_make(jget(v->spec, "mounts"), b.sources, &b.places, e);
    if (!err && (err = mounts_protect_cgroups(e)) != 0) // also those that a wished mount shows
        report->failed = PROTECTION_FILES;
    view_release(&b);
    return err;
}
