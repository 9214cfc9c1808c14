#include "master/common/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

struct storage {
    char *own;
    struct allowed {
        char *path; // absolute, without a trailing slash
        char *real; // with all links resolved; NULL: it does not exist
    } * allowed;
    size_t count;
};

static char *path_trimmed(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return xasprintf("%.*s", (int)len, path);
}

static int allow_folder(struct storage *s, const char *path, struct error *e)
{
    if (*path != '/')
        return error_set(e, ERR_INVALID, "storage-allow: \"%.200s\" is no absolute folder", path);
    s->allowed[s->count++] = (struct allowed){path_trimmed(path), realpath(path, NULL)};
    return 0;
}

static int allow_own(struct storage *s, struct error *e)
{
    json_t *at = NULL;
    char *root = NULL;
    int rc = json_parse(s->own, strlen(s->own), "the default checkpoint storage", &at, e);
    if (!rc)
        rc = checkpoint_root(at, &root, e);
    if (!rc)
        rc = allow_folder(s, root, e);
    free(root);
    json_decref(at);
    return rc;
}

int storage_new(const char *own, const char *const *allowed, size_t count, struct storage **out,
                struct error *e)
{
    struct storage *s = xcalloc(1, sizeof *s);
    s->own = xstrdup(own);
    s->allowed = xcalloc(count + 1, sizeof *s->allowed);
    int rc = allow_own(s, e);
    for (size_t i = 0; !rc && i < count; i++)
        rc = allow_folder(s, allowed[i], e);
    if (rc) {
        storage_free(s);
        s = NULL;
    }
    *out = s;
    return rc;
}

void storage_free(struct storage *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->allowed[i].path);
        free(s->allowed[i].real);
    }
    free(s->allowed);
    free(s->own);
    free(s);
}

const char *storage_default(const struct storage *s)
{
    return s->own;
}

const char *storage_own(const struct storage *s)
{
    return s->allowed[0].path;
}

// --- the allowed folders -------------------------------------------------------------------------

// Returns the part of `path` below `folder`; NULL if `path` is not below it.
static const char *path_below(const char *folder, const char *path)
{
    size_t len = folder ? strlen(folder) : 0;
    if (!folder || strncmp(path, folder, len) || (len > 1 && path[len] && path[len] != '/'))
        return NULL;
    path += len;
    path += strspn(path, "/");
    return !*path || path_is_inside(path) ? path : NULL;
}

static const struct allowed *find_allowed(const struct storage *s, const char *path,
                                          const char **rest)
{
    for (size_t i = 0; i < s->count; i++)
        if ((*rest = path_below(s->allowed[i].path, path)) ||
            (*rest = path_below(s->allowed[i].real, path)))
            return &s->allowed[i];
    return NULL;
}

static int find_root(const struct storage *s, const json_t *at, char **root,
                     const struct allowed **allowed, const char **rest, struct error *e)
{
    char *named = NULL;
    int rc = checkpoint_root(at, &named, e);
    *root = rc ? NULL : path_trimmed(named);
    free(named);
    if (rc)
        return rc;
    if ((*allowed = find_allowed(s, *root, rest)))
        return 0;
    return error_set(e, ERR_FORBIDDEN,
                     "checkpoints may not be stored in %.200s; use a folder below %s, or ask the "
                     "administrator to start the master with --storage-allow %.200s",
                     *root, s->allowed[0].path, *root);
}

int storage_check(const struct storage *s, const json_t *at, struct error *e)
{
    const struct allowed *allowed;
    const char *rest;
    char *root;
    int rc = find_root(s, at, &root, &allowed, &rest, e);
    free(root);
    return rc;
}

// --- the way there -------------------------------------------------------------------------------

int storage_judge(int err, int dir, const char *path, const char *shown, struct error *e)
{
    if (err != ERR_IO || faccessat(dir, *path ? path : ".", R_OK, AT_EACCESS) == 0 ||
        errno != EACCES)
        return err;
    return error_set(e, ERR_FORBIDDEN,
                     "the master may not read %.500s; let its user read the file and its folders, "
                     "for example with umask 022 in the program",
                     shown);
}

// The administrator's folder may be a link; links below it are not followed.
static int open_root(const struct storage *s, const json_t *at, int *fd, char **root,
                     struct error *e)
{
    const struct allowed *allowed;
    const char *rest;
    int top = -1, rc = find_root(s, at, root, &allowed, &rest, e);
    if (!rc)
        rc = storage_judge(dir_open(allowed->path, &top, e), AT_FDCWD, allowed->path, *root, e);
    if (!rc)
        rc = storage_judge(dir_open_below(top, rest, *root, fd, e), top, rest, *root, e);
    if (top >= 0)
        close(top);
    if (rc == ERR_NOT_FOUND)
        rc = error_set(e, ERR_UNAVAILABLE, "the master does not see %s", *root);
    return rc;
}

int storage_open_root(const struct storage *s, const char *text, int *fd, char **shown,
                      struct error *e)
{
    json_t *at = NULL;
    char *root = NULL;
    int rc = json_parse(text, strlen(text), "checkpoint_storage", &at, e);
    if (!rc)
        rc = open_root(s, at, fd, &root, e);
    if (rc || !shown)
        free(root);
    if (shown)
        *shown = rc ? NULL : root;
    json_decref(at);
    return rc;
}

int storage_open(const struct storage *s, const char *at, const char *uuid, int *fd, char **shown,
                 struct error *e)
{
    char *root = NULL, *folder = NULL, lower[UUID_TEXT];
    int top = -1, rc = checkpoint_uuid(uuid, lower, e);
    if (!rc)
        rc = storage_open_root(s, at, &top, &root, e);
    if (!rc) {
        folder = path_join(root, uuid);
        rc = storage_judge(dir_open_below(top, uuid, folder, fd, e), top, uuid, folder, e);
    }
    if (rc == ERR_INVALID && folder)
        rc = error_set(e, ERR_NOT_FOUND,
                       "%s is no folder; symbolic links are not followed in checkpoint storage",
                       folder);
    if (top >= 0)
        close(top);
    free(root);
    if (rc || !shown)
        free(folder);
    if (shown)
        *shown = rc ? NULL : folder;
    return rc;
}

char *storage_text(const json_t *at)
{
    json_t *own = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)at, key, value)
    {
        if (!json_is_null(value))
            json_object_set(own, key, value);
    }
    char *text = json_dumps(own, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(own);
    return text;
}
