// Finds the folder of a checkpoint, and lists and hashes its files.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/walk.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"

static int add_resource(void *ctx, const struct walk_entry *entry, struct error *e)
{
    json_t *resources = ctx;
    char size[24];
    if (entry->is_folder)
        return 0;
    if (json_object_size(resources) >= LIMIT_CHECKPOINT_FILES)
        return error_set(e, ERR_TOO_LARGE, "%s: the checkpoint has more than %d files", entry->path,
                         LIMIT_CHECKPOINT_FILES);
    snprintf(size, sizeof(size), "%lld", (long long)entry->size);
    if (json_object_set_new(resources, entry->relative, json_string(size)))
        return error_set(e, ERR_INVALID, "%s: the name is not UTF-8", entry->path);
    return 0;
}

// Returns the resources, or frees them after an error.
static int finish_resources(int rc, json_t *resources, json_t **out)
{
    *out = rc ? NULL : resources;
    if (rc)
        json_decref(resources);
    return rc;
}

int checkpoint_resources(const char *folder, json_t **out, struct error *e)
{
    json_t *resources = json_object();
    return finish_resources(walk_folder(folder, add_resource, resources, e), resources, out);
}

int checkpoint_resources_foreign(int dir, const char *shown, json_t **out, struct error *e)
{
    json_t *resources = json_object();
    return finish_resources(walk_foreign(dir, shown, add_resource, resources, e), resources, out);
}

struct files_digest {
    struct sha256 *all;
    int64_t count;
};

static int hash_file(int fd, const char *path, uint8_t out[SHA256_BYTES], struct error *e)
{
    enum { PIECE = 1 << 20 };
    struct sha256 *s = sha256_new();
    char *piece = xcalloc(1, PIECE);
    ssize_t n;
    while ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            sha256_update(s, piece, (size_t)n);
    int err = n < 0 ? error_set_errno(e, ERR_IO, errno, "%s", path) : 0;
    sha256_final(s, out);
    free(piece);
    return err;
}

static int add_file(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct files_digest *d = ctx;
    uint8_t digest[SHA256_BYTES];
    int fd;
    if (entry->is_folder)
        return 0;
    int err = walk_open(entry, &fd, e);
    if (err)
        return err;
    err = hash_file(fd, entry->path, digest, e);
    close(fd);
    sha256_update(d->all, entry->relative, strlen(entry->relative) + 1);
    sha256_update(d->all, digest, sizeof digest);
    d->count++;
    return err;
}

int checkpoint_files_digest(const char *folder, char out[SHA256_HEX], int64_t *count,
                            struct error *e)
{
    struct files_digest d = {.all = sha256_new()};
    uint8_t digest[SHA256_BYTES];
    int err = walk_folder(folder, add_file, &d, e);
    sha256_final(d.all, digest);
    hex_encode(digest, sizeof digest, out);
    *count = d.count;
    if (!err && !d.count)
        err = error_set(e, ERR_NOT_FOUND, "%s: not a checkpoint (the folder has no files)", folder);
    return err;
}

int checkpoint_uuid(const char *text, char out[UUID_TEXT], struct error *e)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    _Static_assert(sizeof form == UUID_TEXT, "the form of a UUID");
    size_t i = 0;
    for (; form[i] && text[i]; i++) {
        if (form[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            break;
        out[i] = (char)tolower((unsigned char)text[i]);
    }
    out[i] = '\0';
    if (!form[i] && !text[i])
        return 0;
    return error_set(e, ERR_INVALID, "\"%.64s\" is not the id of a checkpoint (a UUID)", text);
}

static int absolute_folder(const json_t *storage, const char *key, const char **out,
                           struct error *e)
{
    *out = jget_string(storage, key, NULL);
    if (!*out)
        return error_set(e, ERR_INVALID, "type %s needs %s, an absolute folder",
                         jget_string(storage, "type", ""), key);
    if (**out != '/')
        return error_set(e, ERR_INVALID, "%s \"%.200s\" is not an absolute path", key, *out);
    return 0;
}

// storage_path below host_path; an absolute storage_path must be inside host_path.
static int shared_folder(const json_t *storage, char **out, struct error *e)
{
    const char *host, *below = jget_string(storage, "storage_path", "");
    int rc = absolute_folder(storage, "host_path", &host, e);
    if (rc)
        return rc;
    size_t prefix = strlen(host);
    while (prefix && host[prefix - 1] == '/')
        prefix--;
    if (*below == '/' && !strncmp(below, host, prefix) && (below[prefix] == '/' || !below[prefix]))
        below += prefix + strspn(below + prefix, "/");
    if (*below && !path_is_inside(below))
        return error_set(e, ERR_INVALID, "storage_path \"%.200s\" is not below host_path", below);
    *out = *below ? path_join(host, below) : xstrdup(host);
    return 0;
}

int checkpoint_root(const json_t *storage, char **out, struct error *e)
{
    const char *type = jget_string(storage, "type", ""), *container;
    *out = NULL;
    if (!strcmp(type, "shared_fs"))
        return shared_folder(storage, out, e);
    if (strcmp(type, "directory"))
        return error_set(e, ERR_INVALID,
                         "checkpoint storage of type \"%.64s\" is not a folder; use directory or "
                         "shared_fs",
                         type);
    int rc = absolute_folder(storage, "container_path", &container, e);
    *out = rc ? NULL : xstrdup(container);
    return rc;
}

int checkpoint_folder(const json_t *storage, const char *uuid, char **out, struct error *e)
{
    char *root = NULL, lower[UUID_TEXT];
    *out = NULL;
    int rc = checkpoint_uuid(uuid, lower, e);
    if (!rc)
        rc = checkpoint_root(storage, &root, e);
    if (!rc)
        *out = path_join(root, uuid);
    free(root);
    return rc;
}
