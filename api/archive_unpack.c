// Unpacking: what an archive says of itself is not believed. Names stay inside the folder, only
// files and folders are made, bytes and entries are counted as they come.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/archive.h"
#include "api/archive_parts.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"

enum { BLOCK = 64 * 1024 }; // bytes read at a time

struct unpack {
    struct archive *from;
    const char *folder; // the one aside
    uint64_t room;      // bytes that may still come
    size_t entries;
};

static int make_parents(const char *path, struct error *e)
{
    char *parent = xstrdup(path);
    *strrchr(parent, '/') = '\0';
    int rc = dir_make(parent, 0755, e);
    free(parent);
    return rc;
}

static int copy_data(struct unpack *u, int fd, const char *name, struct error *e)
{
    int rc = 0;
    char *block = xcalloc(1, BLOCK);
    for (;;) {
        la_ssize_t n = archive_read_data(u->from, block, BLOCK);
        if (n == 0)
            break;
        if (n < 0)
            rc = archive_failed(u->from, e);
        else if ((uint64_t)n > u->room)
            rc = error_set(e, ERR_TOO_LARGE, "the archive holds more bytes than the limit (at %s)",
                           name);
        else if (file_write_all(fd, block, (size_t)n))
            rc = error_set_errno(e, ERR_IO, errno, "cannot write %s", name);
        if (rc)
            break;
        u->room -= (uint64_t)n;
    }
    free(block);
    return rc;
}

static int unpack_file(struct unpack *u, struct archive_entry *entry, const char *path,
                       const char *name, struct error *e)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = archive_entry_mtime(entry)}};
    int rc = make_parents(path, e);
    if (rc)
        return rc;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  archive_plain_mode(archive_entry_perm(entry), false));
    if (fd < 0 && errno == EEXIST)
        return error_set(e, ERR_INVALID, "the archive holds \"%.200s\" twice", name);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", path);
    rc = copy_data(u, fd, name, e);
    if (!rc && archive_entry_mtime_is_set(entry))
        futimens(fd, times); // a time that the file system cannot hold is no reason to fail
    if (close(fd) && !rc)
        rc = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    return rc;
}

static int unpack_entry(struct unpack *u, struct archive_entry *entry, struct error *e)
{
    char *name, *path = NULL;
    bool folder = archive_entry_filetype(entry) == AE_IFDIR;
    int rc = archive_entry_check(entry, &u->entries, &name, e);
    if (rc || !*name) // the folder itself
        goto out;
    path = path_join(u->folder, name);
    rc = folder ? dir_make(path, 0755, e) : unpack_file(u, entry, path, name, e);
out:
    free(path);
    free(name);
    return rc;
}

static int unpack_all(struct unpack *u, struct error *e)
{
    struct archive_entry *entry;
    int more = 1, rc = 0;
    while (!rc && more) {
        rc = archive_step(u->from, &entry, &more, e);
        if (!rc && more)
            rc = unpack_entry(u, entry, e);
    }
    return rc;
}

static int move_into_place(const char *aside, const char *folder, struct error *e)
{
    if (!rename(aside, folder))
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return error_set(e, ERR_CONFLICT, "%s is there already and not empty; choose another place",
                         folder);
    return error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", aside, folder);
}

// `opened` is what opening `from` gave; `from` is freed here.
static int unpack(struct archive *from, int opened, const char *folder, uint64_t limit,
                  struct error *e)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    char *place = xasprintf("%.*s", (int)len, folder);
    char *aside = xasprintf("%s.tmp", place);
    struct unpack u = {.from = from, .folder = aside, .room = limit};
    locale_t before = archive_locale_enter();
    int rc = opened < ARCHIVE_WARN ? archive_failed(from, e) : dir_remove_tree(aside, e);
    if (!rc)
        rc = dir_make(aside, 0755, e);
    if (!rc)
        rc = unpack_all(&u, e);
    if (!rc)
        rc = move_into_place(aside, place, e);
    if (rc)
        dir_remove_tree(aside, NULL);
    archive_read_free(from);
    archive_locale_leave(before);
    free(aside);
    free(place);
    return rc;
}

int archive_unpack(const void *tgz, size_t len, const char *folder, uint64_t limit, struct error *e)
{
    struct archive *a = archive_reader();
    return unpack(a, archive_read_open_memory(a, tgz, len), folder, limit, e);
}

int archive_unpack_fd(int fd, const char *folder, uint64_t limit, struct error *e)
{
    struct archive *a = archive_reader();
    return unpack(a, archive_read_open_fd(a, fd, BLOCK), folder, limit, e);
}
