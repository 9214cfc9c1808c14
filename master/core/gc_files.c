// The files of a checkpoint on their way out. Whoever may write into a checkpoint's folder is not
// trusted: links are not followed, on the way to a file either.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "master/core/gc.h"
#include "master/core/globs.h"

static bool is_matched(const json_t *patterns, const char *path)
{
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
    {
        if (glob_match(json_string_value(pattern), path))
            return true;
    }
    return false;
}

static bool has_all(const json_t *patterns)
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

// `path` below the folder that `top` is open on.
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

static int remove_matched(const char *folder, const json_t *patterns, json_t *files,
                          struct error *e)
{
    const char *path;
    json_t *size;
    void *next;
    int err = 0;
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", folder);
    json_object_foreach_safe(files, next, path, size)
    {
        if (err || !is_matched(patterns, path))
            continue;
        err = unlink_below(top, path, e);
        if (!err)
            json_object_del(files, path);
    }
    close(top);
    return err ? error_prefix(e, "%s", folder) : 0;
}

static int remove_some(const char *folder, const json_t *patterns, char **resources,
                       struct error *e)
{
    json_t *files = NULL;
    int err = path_exists(folder) ? checkpoint_resources(folder, &files, e) : 0;
    if (!err && files)
        err = remove_matched(folder, patterns, files, e);
    if (!err && !json_object_size(files))
        err = dir_remove_tree(folder, e);
    if (!err)
        *resources = files ? json_text(files) : xstrdup("{}");
    json_decref(files);
    return err;
}

int gc_remove_files(const char *uuid, const char *storage_text, const char *patterns_text,
                    char **resources, struct error *e)
{
    json_t *storage = NULL, *patterns = NULL;
    char *folder = NULL, *root = NULL;
    *resources = NULL;
    int err = json_parse(storage_text, strlen(storage_text), "storage", &storage, e);
    if (!err)
        err = json_parse(patterns_text, strlen(patterns_text), "removal", &patterns, e);
    if (!err)
        err = checkpoint_folder(storage, uuid, &folder, e);
    if (!err) {
        root = xasprintf("%.*s", (int)(strrchr(folder, '/') - folder), folder);
        if (!path_exists(root))
            err = error_set(e, ERR_UNAVAILABLE, "the master does not see %s", root);
    }
    if (!err)
        err = has_all(patterns) ? dir_remove_tree(folder, e)
                                : remove_some(folder, patterns, resources, e);
    if (!err)
        err = file_sync_dir(root, e);
    free(root);
    free(folder);
    json_decref(patterns);
    json_decref(storage);
    return err;
}
