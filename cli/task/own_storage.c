#include "cli/task/own_storage.h"

#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/task/own_task.h"

static const char SHARED_FS[] = "/determined_shared_fs";
static const char LATEST[] = "checkpoint.latest"; // in the folder of the task

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

int own_task_set_latest(struct cli *c, const char *uuid, struct error *e)
{
    char *path = latest_file();
    (void)c;
    int err = path ? file_write_durable(path, uuid, strlen(uuid), 0600, e) : 0;
    free(path);
    return err;
}
