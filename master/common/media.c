#include "master/common/media.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/os/file.h"

static int check_size(int fd, const char *path, int64_t size, struct error *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_set_errno(e, ERR_IO, errno, "%s", path);
    if (st.st_size != size)
        return error_set(e, ERR_NOT_FOUND,
                         "%s has %lld bytes, not %lld; write it under another name and rename it "
                         "when it is complete",
                         path, (long long)st.st_size, (long long)size);
    return 0;
}

int media_check_digest(int fd, const char *digest, struct error *e)
{
    enum { PIECE = 256 * 1024 };
    uint8_t hash[SHA256_BYTES];
    char found[SHA256_HEX], *piece = xcalloc(1, PIECE);
    struct sha256 *sha = sha256_new();
    int64_t at = 0;
    ssize_t n = 0;
    // A task may make its file longer meanwhile.
    while (at <= LIMIT_MEDIA_ITEM && (n = pread(fd, piece, PIECE, (off_t)at)) > 0) {
        sha256_update(sha, piece, (size_t)n);
        at += n;
    }
    int saved = errno;
    sha256_final(sha, hash);
    hex_encode(hash, sizeof hash, found);
    free(piece);
    if (n < 0)
        return error_set_errno(e, ERR_IO, saved, "reading the content %s", digest);
    if (strcmp(found, digest) == 0)
        return 0;
    return error_set(e, ERR_NOT_FOUND,
                     "the file %s has another content: its SHA-256 is %s; write the content again, "
                     "and report it with the digest of what was written",
                     digest, found);
}

int media_open(const struct media_folder *folder, const char *digest, int64_t size, int *fd,
               struct error *e)
{
    char *shown = NULL;
    int root = -1, dir = -1;
    char *relative = xasprintf("media/%s/%lld", folder->cluster_id, (long long)folder->experiment);
    int err = storage_open_root(folder->storage, folder->at, &root, &shown, e);
    char *path = xasprintf("%s/%s/%s", err ? "" : shown, relative, digest);
    *fd = -1;
    if (!err)
        err = storage_judge(dir_open_below(root, relative, path, &dir, e), root, relative, path, e);
    if (!err)
        err = storage_judge(file_open_regular(dir, digest, path, fd, e), dir, digest, path, e);
    if (err == ERR_NOT_FOUND)
        err = error_set(e, ERR_NOT_FOUND, "%s does not exist; write the content before its report",
                        path);
    if (!err)
        err = check_size(*fd, path, size, e);
    if (err && *fd >= 0)
        close(*fd);
    if (dir >= 0)
        close(dir);
    if (root >= 0)
        close(root);
    free(path);
    free(relative);
    free(shown);
    return err;
}

int media_remove(const struct media_folder *folder, struct error *e)
{
    int root = -1, dir = -1;
    char *name = xasprintf("%lld", (long long)folder->experiment);
    char *parent = xasprintf("media/%s", folder->cluster_id);
    int err = storage_open_root(folder->storage, folder->at, &root, NULL, e);
    bool absent = false;
    if (!err) {
        err = dir_open_below(root, parent, parent, &dir, e);
        absent = err == ERR_NOT_FOUND;
    }
    if (!err)
        err = dir_remove_tree_at(dir, name, e);
    if (dir >= 0)
        close(dir);
    if (root >= 0)
        close(root);
    free(parent);
    free(name);
    return absent ? 0 : err;
}
