// Removes files of checkpoints. Tasks can write into a checkpoint's folder, so links are never
// followed, not even in the middle of a path.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "master/retention/gc.h"
#include "master/retention/path_patterns.h"

static bool matches_any(const json_t *patterns, const char *path)
{
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
    {
        if (path_pattern_match(json_string_value(pattern), path))
            return true;
    }
    return false;
}

static bool removes_all(const json_t *patterns)
{
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
    {
        if (!strcmp(json_string_value(pattern), "**"))
            return true;
    }
    return false;
}

// Removes `path`, relative to the folder `top`.
static int unlink_below(int top, const char *path, struct error *e)
{
    char *copy = xstrdup(path), *name = copy, *slash;
    int dir = dup(top);
    while (dir >= 0 && (slash = strchr(name, '/'))) {
        *slash = '\0';
        int inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(dir);
        dir = inner;
        name = slash + 1;
    }
    int err = 0;
    if ((dir < 0 || unlinkat(dir, name, 0)) && errno != ENOENT)
        err = error_set_errno(e, ERR_IO, errno, "%s cannot be removed", path);
    if (dir >= 0)
        close(dir);
    free(copy);
    return err;
}

static int remove_matched(int top, const char *shown, const json_t *patterns, json_t *files,
                          struct error *e)
{
    const char *path;
    json_t *size;
    void *next;
    int err = 0;
    json_object_foreach_safe(files, next, path, size)
    {
        if (err || !matches_any(patterns, path))
            continue;
        err = unlink_below(top, path, e);
        if (!err)
            json_object_del(files, path);
    }
    return err ? error_prefix(e, "%s", shown) : 0;
}

// `root` is the folder that contains the checkpoint's folder.
static int remove_partly(int root, const char *uuid, const json_t *patterns, char **resources,
                         struct error *e)
{
    json_t *files = NULL;
    int top, err = dir_open_below(root, uuid, uuid, &top, e);
    if (err && err != ERR_NOT_FOUND &&
        err != ERR_INVALID) // a link or a file in place of the folder counts as missing
        return err;
    if (!err) {
        err = checkpoint_resources_foreign(top, uuid, &files, e);
        if (!err)
            err = remove_matched(top, uuid, patterns, files, e);
        close(top);
    } else {
        err = 0;
    }
    if (!err && !json_object_size(files))
        err = dir_remove_tree_at(root, uuid, e);
    if (!err)
        *resources = files ? json_text(files) : xstrdup("{}");
    json_decref(files);
    return err;
}

int gc_remove_files(const struct storage *storage, const char *uuid, const char *at,
                    const char *patterns_text, char **resources, struct error *e)
{
    json_t *patterns = NULL;
    char *shown = NULL, lower[UUID_TEXT];
    int root = -1;
    *resources = NULL;
    int err = checkpoint_uuid(uuid, lower, e);
    if (!err)
        err = json_parse(patterns_text, strlen(patterns_text), "removal", &patterns, e);
    if (!err)
        err = storage_open_root(storage, at, &root, &shown, e);
    if (!err) {
        err = removes_all(patterns) ? dir_remove_tree_at(root, uuid, e)
                                    : remove_partly(root, uuid, patterns, resources, e);
        if (!err && fsync(root))
            err = error_set_errno(e, ERR_IO, errno, "the folder cannot be synced");
        if (err)
            error_prefix(e, "%s", shown);
        close(root);
    }
    free(shown);
    json_decref(patterns);
    return err;
}
