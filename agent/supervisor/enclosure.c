#include "agent/supervisor/enclosure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/isolation/mounts.h"
#include "agent/isolation/sandbox.h"
#include "agent/isolation/system_calls.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum { TREE_DEPTH_MAX = 256 }; // nested folders; each needs an open descriptor

// --- the specification ---------------------------------------------------------------------------

// The entry of a protection in the list; NULL: an agent of an older release has written it.
static const json_t *find_protection(const json_t *spec, enum protection_id id)
{
    size_t i;
    json_t *entry;
    json_array_foreach(jget(spec, "protections"), i, entry)
    {
        if (!strcmp(jget_string(entry, "name", ""), protection_name(id)))
            return entry;
    }
    return NULL;
}

unsigned enclosure_protections(const json_t *spec)
{
    unsigned active = 0;
    for (enum protection_id id = 0; id < PROTECTION_COUNT; id++)
        if (jget_bool(find_protection(spec, id), "active", false))
            active |= 1u << id;
    return active;
}

// --- the folder of the task ----------------------------------------------------------------------

static int cannot_give(const char *path, struct error *e)
{
    return error_set_errno(e, ERR_IO, errno, "cannot give %s to the account of the task", path);
}

// Gives the folder of descriptor `fd` with all it holds to the account. It has just been unpacked,
// and no process of the task runs, so nobody changes it meanwhile. Closes `fd`.
static int give_tree(int fd, const char *label, int depth, const struct task_account *a,
                     struct error *e)
{
    int err = 0;
    DIR *folder = NULL;
    if (depth > TREE_DEPTH_MAX)
        err = error_set(e, ERR_INVALID, "%s holds folders that are nested deeper than %d levels",
                        label, TREE_DEPTH_MAX);
    else if (fchown(fd, a->uid, a->gid) != 0 || !(folder = fdopendir(fd)))
        err = cannot_give(label, e);
    if (err) {
        close(fd);
        return err;
    }
    for (struct dirent *entry; !err && (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        int sub = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0)
            err = give_tree(sub, label, depth + 1, a, e);
        else if ((errno != ENOTDIR && errno != ELOOP) ||
                 fchownat(fd, entry->d_name, a->uid, a->gid, AT_SYMLINK_NOFOLLOW) != 0)
            err = cannot_give(entry->d_name, e);
    }
    closedir(folder);
    return err;
}

static int give_work(const char *dir, const struct task_account *a, struct error *e)
{
    int fd = -1;
    char *path = path_join(dir, TASKDIR_WORK);
    int err = dir_open(path, &fd, e);
    if (!err)
        err = give_tree(fd, path, 0, a, e);
    free(path);
    return err;
}

static int make_folder(const char *dir, const char *name, const struct task_account *a,
                       struct error *e)
{
    char *path = path_join(dir, name);
    int err = dir_make(path, 0700, e);
    if (!err && a->switches && chown(path, a->uid, a->gid) != 0)
        err = cannot_give(path, e);
    free(path);
    return err;
}

// The socket of the agent stays closed to the task, that for reports is its own.
static int give_sockets(const char *dir, const struct task_account *a, struct error *e)
{
    char *path = path_join(dir, TASKDIR_REPORT_SOCKET);
    int err = 0;
    if ((chmod(path, 0600) != 0 || (a->switches && chown(path, a->uid, a->gid) != 0)) &&
        errno != ENOENT)
        err = cannot_give(path, e);
    free(path);
    return err;
}

// The account passes through the folders, but cannot list them.
static int open_way(const char *dir, struct error *e)
{
    char *path = xstrdup(dir);
    for (int i = 0; i < 3; i++) { // DIR, tasks, the agent's folder
        if (chmod(path, 0711) != 0) {
            int err = error_set_errno(e, ERR_IO, errno, "cannot open %s for the account", path);
            free(path);
            return err;
        }
        *strrchr(path, '/') = '\0';
    }
    free(path);
    return 0;
}

// Whether the home folder of the agent is hidden from its tasks.
static bool home_is_hidden(const char *dir, const json_t *spec)
{
    const char *home = jget_string(jget(spec, "env"), "HOME", "");
    char *work = taskdir_work_dir(dir);
    bool hidden = path_is_within(home, work);
    free(work);
    return hidden;
}

static int prepare_folder(const char *dir, json_t *spec, const struct enclosure *c, struct error *e)
{
    const struct task_account *a = &c->confinement.account;
    bool given = jget_bool(spec, "userHome", false);
    bool needs_home = a->switches ? !given && !*a->home : home_is_hidden(dir, spec);
    int err = give_sockets(dir, a, e);
    if (!err && a->switches)
        err = give_work(dir, a, e);
    if (!err && a->switches && !(c->protections & 1u << PROTECTION_FILES))
        err = open_way(dir, e);
    if (!err && c->protections & 1u << PROTECTION_FILES)
        err = make_folder(dir, TASKDIR_OWN, a, e);
    if (!err && c->protections & 1u << PROTECTION_TEMPORARY)
        err = make_folder(dir, TASKDIR_TMP, a, e);
    if (!err && needs_home)
        err = make_folder(dir, TASKDIR_HOME, a, e);
    char *home = path_join(dir, TASKDIR_HOME);
    account_set_environment(a, given ? NULL : home, jget(spec, "env"));
    if (needs_home && !a->switches)
        json_object_set_new(jget(spec, "env"), "HOME", json_string(home));
    free(home);
    return err;
}

// --- the processes -------------------------------------------------------------------------------

static int fill_confinement(const json_t *spec, struct enclosure *c, struct error *e)
{
    struct confinement *out = &c->confinement;
    int err = account_choose(spec, geteuid(), &out->account, e);
    if (!err)
        err = account_complete(spec, &out->account, e);
    out->no_privileges = c->protections & 1u << PROTECTION_PRIVILEGES;
    out->keeps_root = geteuid() == 0 && !out->account.switches;
    if (!err && c->protections & 1u << PROTECTION_SYSTEM_CALLS)
        err = system_calls_filter(&out->filter, e);
    return err;
}

// A machine without namespaces for tasks: only a task that needs one of its mounts fails.
static int do_without_view(const json_t *spec, struct enclosure *c, struct error *e)
{
    const json_t *mounts = jget(spec, "mounts");
    const char *why = jget_string(find_protection(spec, PROTECTION_FILES), "reason", "unknown");
    if (mounts_required(mounts))
        return error_set(e, ERR_FORBIDDEN,
                         "this machine cannot show checkpoint_storage of type shared_fs to the "
                         "program (%.700s); use type directory",
                         why);
    snprintf(c->warning, sizeof c->warning,
             "the task sees all files of this machine (%.700s): no private " SANDBOX_RUN
             "%s; programs find their settings only in the environment",
             why, json_array_size(mounts) ? ", and bind_mounts have no effect" : "");
    return 0;
}

static int start_init(const char *dir, const json_t *spec, struct enclosure *c, struct error *e)
{
    struct view_report report;
    const struct task_view view = {dir, spec, &c->confinement.account, c->protections,
                                   TASK_INIT_PATIENCE_S};
    if (!task_view_has(&view, PROTECTION_FILES))
        return do_without_view(spec, c, e);
    int err = task_init_start(&view, &c->init, &report, e);
    c->confinement.mount_namespace = c->init.mount_namespace;
    snprintf(c->warning, sizeof c->warning, "%s", report.warning);
    if (err && report.failed < PROTECTION_COUNT)
        err = error_prefix(e, "the protection \"%s\" cannot be applied",
                           protection_name(report.failed));
    return err;
}

int enclosure_open(const char *dir, json_t *spec, struct enclosure *out, struct error *e)
{
    *out = (struct enclosure){
        .confinement = {.mount_namespace = -1},
        .init = {.control = -1, .mount_namespace = -1},
        .protections = enclosure_protections(spec),
    };
    int err = fill_confinement(spec, out, e);
    if (!err)
        err = prepare_folder(dir, spec, out, e);
    return err ? err : start_init(dir, spec, out, e);
}

void enclosure_close(struct enclosure *c)
{
    task_init_close(&c->init);
    free(c->confinement.filter.filter);
    c->confinement.filter = (struct sock_fprog){0};
}
