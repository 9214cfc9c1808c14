#include "agent/isolation/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum value_kind { TEXT, OPTIONAL_TEXT, INTEGER, JSON };

struct info_field { // a member of an info file
    const char *name, *variable;
    enum value_kind kind;
};

static const struct info_field cluster_fields[] = {
    {"master_url", "DET_MASTER", TEXT},
    {"cluster_id", "DET_CLUSTER_ID", TEXT},
    {"agent_id", "DET_AGENT_ID", TEXT},
    {"slot_ids", "DET_SLOT_IDS", JSON},
    {"task_id", "DET_TASK_ID", TEXT},
    {"allocation_id", "DET_ALLOCATION_ID", TEXT},
    {"session_token", "DET_SESSION_TOKEN", TEXT},
    {"task_type", "DET_TASK_TYPE", TEXT},
    {"master_cert_name", "DET_MASTER_CERT_NAME", OPTIONAL_TEXT},
    {"master_cert_file", "DET_MASTER_CERT_FILE", OPTIONAL_TEXT},
    {"latest_checkpoint", "DET_LATEST_CHECKPOINT", OPTIONAL_TEXT},
    {NULL, NULL, TEXT},
};

static const struct info_field trial_fields[] = {
    {"trial_id", "DET_TRIAL_ID", INTEGER},
    {"experiment_id", "DET_EXPERIMENT_ID", INTEGER},
    {"trial_seed", "DET_TRIAL_SEED", INTEGER},
    {"hparams", "DET_HPARAMS", JSON},
    {"config", "DET_EXPERIMENT_CONFIG", JSON},
    {"steps_completed", "DET_STEPS_COMPLETED", INTEGER},
    {"trial_run_id", "DET_TRIAL_RUN_ID", INTEGER},
    {"inter_node_network_interface", "DET_INTER_NODE_NETWORK_INTERFACE", OPTIONAL_TEXT},
    {NULL, NULL, TEXT},
};

// NULL: the environment has no valid value.
static json_t *read_value(const struct info_field *f, const json_t *env)
{
    const char *text = json_string_value(json_object_get(env, f->variable));
    if (f->kind == OPTIONAL_TEXT)
        return text ? json_string(text) : json_null();
    if (!text)
        return NULL;
    if (f->kind == TEXT)
        return json_string(text);
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (f->kind == INTEGER && !json_is_integer(value)) {
        json_decref(value);
        return NULL;
    }
    return value;
}

// NULL: a value is missing.
static json_t *read_fields(const struct info_field *fields, const json_t *env)
{
    json_t *info = json_object();
    for (const struct info_field *f = fields; f->name; f++) {
        if (json_object_set_new(info, f->name, read_value(f, env)) != 0) {
            json_decref(info);
            return NULL;
        }
    }
    return info;
}

static json_t *trial_info(const json_t *env)
{
    json_t *info = read_fields(trial_fields, env);
    if (info) {
        bool debug = jget_bool(jget(info, "config"), "debug", false);
        json_object_set_new(info, "debug", json_boolean(debug));
    }
    return info;
}

static json_t *resources_info(const json_t *env)
{
    json_t *uuids = json_array();
    const char *at = jget_string(env, "CUDA_VISIBLE_DEVICES", "");
    while (*at) {
        size_t len = strcspn(at, ",");
        json_array_append_new(uuids, json_stringn(at, len));
        at += len + (at[len] == ',');
    }
    return json_pack("{s:o}", "gpu_uuids", uuids);
}

static json_t *rendezvous_info(const json_t *spec)
{
    const json_t *r = jget(spec, "rendezvous");
    return json_pack("{s:O*, s:I, s:O*}", "container_addrs", jget(r, "addresses"), "container_rank",
                     (json_int_t)jget_int(r, "rank", 0), "container_slot_counts", jget(r, "slots"));
}

static int give(int fd, const char *path, const struct task_account *a, struct error *e)
{
    int done = !a->switches ? 0
               : fd >= 0    ? fchown(fd, a->uid, a->gid)
                            : lchown(path, a->uid, a->gid);
    return done == 0 ? 0 : error_set_errno(e, ERR_FORBIDDEN, errno, "cannot give away %s", path);
}

static int write_info(const char *name, json_t *info, const struct task_account *a, struct error *e)
{
    if (!info)
        return 0;
    char *path = path_join(SANDBOX_RUN "/info", name), *text = json_text(info);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), err = 0;
    if (fd < 0 || file_write_all(fd, text, strlen(text)) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    err = err ? err : give(fd, path, a, e);
    if (fd >= 0)
        close(fd);
    free(text);
    free(path);
    json_decref(info);
    return err;
}

static int make_folders(const struct task_account *a, struct error *e)
{
    static const char *const folders[] = {SANDBOX_RUN "/info", SANDBOX_RUN "/train",
                                          SANDBOX_RUN "/train/logs"};
    int err = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !err; i++) {
        err = dir_make(folders[i], 0700, e);
        err = err ? err : give(-1, folders[i], a, e);
    }
    return err;
}

static int link_model(const char *dir, struct error *e)
{
    char *work = path_join(dir, TASKDIR_WORK);
    int err = 0;
    if (symlink(work, SANDBOX_RUN "/train/model") != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot link " SANDBOX_RUN "/train/model");
    free(work);
    return err;
}

int sandbox_write_info(const char *dir, const json_t *spec, const json_t *env,
                       const struct task_account *account, struct error *e)
{
    int err = make_folders(account, e);
    if (!err)
        err = write_info("cluster.json", read_fields(cluster_fields, env), account, e);
    if (!err)
        err = write_info("trial.json", trial_info(env), account, e);
    if (!err)
        err = write_info("resources.json", resources_info(env), account, e);
    if (!err)
        err = write_info("rendezvous.json", rendezvous_info(spec), account, e);
    return err ? err : link_model(dir, e);
}

static int write_map(const char *path, const char *text, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && file_write_all(fd, text, strlen(text)) == 0;
    int err = ok ? 0 : error_set_errno(e, ERR_FORBIDDEN, errno, "cannot write %s", path);
    if (fd >= 0)
        close(fd);
    return err;
}

int sandbox_enter_user_namespace(struct error *e)
{
    char users[64], groups[64];
    if (geteuid() == 0)
        return 0;
    snprintf(users, sizeof users, "%u %u 1\n", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1\n", getegid(), getegid());
    if (unshare(CLONE_NEWUSER) != 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot enter a user namespace");
    int err = write_map("/proc/self/setgroups", "deny", e);
    if (!err)
        err = write_map("/proc/self/uid_map", users, e);
    if (!err)
        err = write_map("/proc/self/gid_map", groups, e);
    return err;
}

int sandbox_enter_mount_namespace(struct error *e)
{
    int err = 0;
    if (unshare(CLONE_NEWNS) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot enter a mount namespace");
    // New mounts of the machine appear here, but mounts made here do not appear outside.
    if (!err && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make the mounts private");
    return err;
}

static bool has_mount_point(void)
{
    struct stat st;
    if (mkdir(SANDBOX_RUN, 0755) != 0 && errno != EEXIST)
        return false;
    return stat(SANDBOX_RUN, &st) == 0 && S_ISDIR(st.st_mode);
}

int sandbox_mount_run(const struct task_account *account, struct error *e)
{
    if (!has_mount_point())
        return error_set(e, ERR_FORBIDDEN, "cannot create " SANDBOX_RUN);
    if (mount("muster", SANDBOX_RUN, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=0700") != 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over " SANDBOX_RUN);
    return give(-1, SANDBOX_RUN, account, e);
}
