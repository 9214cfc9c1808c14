#include "cli/task/own_storage.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/task/own_task.h"

static const char SHARED_FS[] = "/determined_shared_fs";
// In the folder of the task, the id of the newest checkpoint. The Python package writes it, too.
static const char LATEST[] = "checkpoint.latest";

// --- storage -------------------------------------------------------------------------------------

// Storage of type shared_fs lies elsewhere for the task than for the machine.
static const char *path_in_task(struct cli *c, const json_t *storage, const char *root)
{
    const char *host = jget_string(storage, "host_path", "");
    size_t len = strlen(host);
    while (len > 0 && host[len - 1] == '/')
        len--;
    bool shared = strcmp(jget_string(storage, "type", ""), "shared_fs") == 0 &&
                  path_exists(SHARED_FS) && strncmp(root, host, len) == 0;
    return shared ? arena_printf(&c->arena, "%s%s", SHARED_FS, root + len)
                  : arena_strdup(&c->arena, root);
}

int own_task_storage(struct cli *c, const char **folder, struct error *e)
{
    const char *text;
    json_t *config = NULL;
    char *root = NULL;
    int err = own_task_variable("DET_EXPERIMENT_CONFIG", &text, e);
    err = err ? err : json_parse(text, strlen(text), "DET_EXPERIMENT_CONFIG", &config, e);
    const json_t *storage = jget(config, "checkpoint_storage");
    if (!err && checkpoint_root(storage, &root, e) != 0)
        err = error_prefix(e, "checkpoint_storage");
    if (!err)
        *folder = path_in_task(c, storage, root);
    free(root);
    json_decref(config);
    return err;
}

// --- temporary folders ---------------------------------------------------------------------------

// Whether `name` is .ALLOCATION-UUID.tmp with an earlier allocation, TASK.EPOCH, of the same task.
// The Python package uses the same names.
static bool is_leftover(const char *name, const char *allocation)
{
    const char *dot = strrchr(allocation, '.');
    size_t task = dot ? (size_t)(dot + 1 - allocation) : 0;
    char uuid[UUID_TEXT] = "", *rest;
    if (task == 0 || name[0] != '.' || strncmp(name + 1, allocation, task) != 0 ||
        !isdigit((unsigned char)name[1 + task]))
        return false;
    long long epoch = strtoll(name + 1 + task, &rest, 10);
    if (epoch >= strtoll(dot + 1, NULL, 10) || rest[0] != '-' || strlen(rest) < UUID_TEXT)
        return false;
    memcpy(uuid, rest + 1, UUID_TEXT - 1);
    return checkpoint_uuid(uuid, uuid, NULL) == 0 && strcmp(rest + UUID_TEXT, ".tmp") == 0;
}

// The processes of an earlier start have ended, or the cluster refuses their checkpoints.
static void remove_leftovers(const char *storage, const char *allocation)
{
    DIR *dir = opendir(storage);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_leftover(entry->d_name, allocation))
            dir_remove_tree_at(dirfd(dir), entry->d_name, NULL);
    if (dir)
        closedir(dir);
}

int own_task_temporary(struct cli *c, const char *storage, const char *uuid, const char **folder,
                       struct error *e)
{
    const char *allocation;
    int err = own_task_variable("DET_ALLOCATION_ID", &allocation, e);
    if (err)
        return err;
    remove_leftovers(storage, allocation);
    *folder = arena_printf(&c->arena, "%s/.%s-%s.tmp", storage, allocation, uuid);
    return 0;
}

// --- the newest checkpoint -----------------------------------------------------------------------

static char *latest_file(void)
{
    const char *dir = getenv("MUSTER_RUN_DIR");
    return dir ? path_join(dir, LATEST) : NULL;
}

const char *own_task_latest(struct cli *c)
{
    char *path = latest_file(), *text = NULL, uuid[UUID_TEXT];
    size_t len = 0;
    const char *found = NULL;
    if (path && file_read(path, UUID_TEXT, &text, &len, NULL) == 0 &&
        checkpoint_uuid(text, uuid, NULL) == 0)
        found = arena_strdup(&c->arena, uuid);
    free(text);
    free(path);
    return found ? found : getenv("DET_LATEST_CHECKPOINT");
}

int own_task_set_latest(const char *uuid, struct error *e)
{
    char *path = latest_file();
    int err = path ? file_write_durable(path, uuid, strlen(uuid), 0600, e) : 0;
    free(path);
    return err;
}
