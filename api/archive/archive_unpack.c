// Unpacks archives without trusting them. Names stay inside the folder, only files and folders are
// created, bytes and entries are counted. Everything is created relative to the descriptor of the
// temporary folder, so replacing a folder by a link meanwhile has no effect.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/archive/archive_parts.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"

enum { BLOCK = 64 * 1024 }; // bytes read at a time

struct unpacking {
    struct archive *from;
    const char *folder; // as given by the caller
    int dir;            // descriptor of the temporary folder
    uint64_t room;      // bytes that are still allowed
    size_t entries;
};

// Opens a folder below the temporary one and creates missing ones. Each part is opened relative to
// its parent, so that no link is followed.
static int open_made(struct unpacking *u, const char *name, int *fd, struct error *e)
{
    char *names = xstrdup(name), *slash;
    int at, rc = dir_open_below(u->dir, "", u->folder, &at, e);
    for (char *part = names; !rc && part; part = slash ? slash + 1 : NULL) {
        int next = -1;
        slash = strchr(part, '/');
        if (slash)
            *slash = '\0';
        if (mkdirat(at, part, 0755) && errno != EEXIST)
            rc = error_set_errno(e, ERR_IO, errno, "cannot make %s in %s", name, u->folder);
        else
            rc = dir_open_below(at, part, name, &next, e);
        close(at);
        at = next;
    }
    free(names);
    *fd = at;
    return rc;
}

// Opens the parent folder of `name` and returns the last part of the name.
static int open_parent(struct unpacking *u, const char *name, int *fd, const char **last,
                       struct error *e)
{
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    if (!slash)
        return dir_open_below(u->dir, "", u->folder, fd, e);
    char *parent = xasprintf("%.*s", (int)(slash - name), name);
    struct error absent = {0};
    int rc = dir_open_below(u->dir, parent, parent, fd, &absent);
    if (rc)
        rc =
            rc == ERR_NOT_FOUND ? open_made(u, parent, fd, e) : error_set(e, rc, "%s", absent.text);
    free(parent);
    return rc;
}

static int copy_data(struct unpacking *u, int fd, const char *name, struct error *e)
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
            rc = error_set(e, ERR_TOO_LARGE, "the archive has more bytes than the limit (at %s)",
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

static int unpack_file(struct unpacking *u, struct archive_entry *entry, const char *name,
                       struct error *e)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = archive_entry_mtime(entry)}};
    const char *last;
    int parent, rc = open_parent(u, name, &parent, &last, e);
    if (rc)
        return rc;
    int fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    archive_plain_mode(archive_entry_perm(entry), false));
    int saved = errno;
    close(parent);
    if (fd < 0 && saved == EEXIST)
        return error_set(e, ERR_INVALID, "the archive contains \"%.200s\" twice", name);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, saved, "cannot create %s in %s", name, u->folder);
    rc = copy_data(u, fd, name, e);
    if (!rc && archive_entry_mtime_is_set(entry))
        futimens(fd, times); // ignored: the file system may not support this time
    if (close(fd) && !rc)
        rc = error_set_errno(e, ERR_IO, errno, "cannot write %s in %s", name, u->folder);
    return rc;
}

static int unpack_entry(struct unpacking *u, struct archive_entry *entry, struct error *e)
{
    char *name;
    int fd = -1, rc = archive_entry_check(entry, &u->entries, &name, e);
    if (rc || !*name) // the folder itself
        goto out;
    if (archive_entry_filetype(entry) == AE_IFDIR)
        rc = open_made(u, name, &fd, e);
    else
        rc = unpack_file(u, entry, name, e);
out:
    if (fd >= 0)
        close(fd);
    free(name);
    return rc;
}

static int unpack_all(struct unpacking *u, struct error *e)
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

// The place of the new folder. All operations are relative to the descriptor of its parent.
struct place {
    char *path, *parent, *aside; // aside: temporary name next to it
    const char *name;            // its name in the parent
    int dir;                     // descriptor of the parent
};

static int open_place(struct place *p, const char *folder, struct error *e)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    p->path = xasprintf("%.*s", (int)len, folder);
    char *slash = strrchr(p->path, '/');
    p->name = slash ? slash + 1 : p->path;
    p->parent = slash ? xasprintf("%.*s", (int)(slash - p->path) + (slash == p->path), p->path)
                      : xstrdup(".");
    p->aside = xasprintf("%s.tmp", p->name);
    int rc = dir_make(p->parent, 0755, e);
    return rc ? rc : dir_open(p->parent, &p->dir, e);
}

static void close_place(struct place *p)
{
    if (p->dir >= 0)
        close(p->dir);
    free(p->aside);
    free(p->parent);
    free(p->path);
}

static int open_aside(struct place *p, int *fd, struct error *e)
{
    int rc = dir_remove_tree_at(p->dir, p->aside, e);
    if (!rc && mkdirat(p->dir, p->aside, 0755))
        rc = error_set_errno(e, ERR_IO, errno, "cannot make folder %s in %s", p->aside, p->parent);
    return rc ? rc : dir_open_below(p->dir, p->aside, p->aside, fd, e);
}

static int move_into_place(struct place *p, struct error *e)
{
    if (!renameat(p->dir, p->aside, p->dir, p->name))
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return error_set(e, ERR_CONFLICT,
                         "%s exists already and is not empty; choose another folder", p->path);
    return error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", p->aside, p->path);
}

// `opened` is the result of opening `from`; `from` is freed here.
static int unpack_reader(struct archive *from, int opened, const char *folder, uint64_t limit,
                         struct error *e)
{
    struct place p = {.dir = -1};
    struct unpacking u = {.from = from, .dir = -1, .room = limit};
    locale_t before = archive_locale_enter();
    int rc = opened < ARCHIVE_WARN ? archive_failed(from, e) : open_place(&p, folder, e);
    if (!rc)
        rc = open_aside(&p, &u.dir, e);
    u.folder = p.path;
    if (!rc)
        rc = unpack_all(&u, e);
    if (!rc)
        rc = move_into_place(&p, e);
    if (rc && p.dir >= 0)
        dir_remove_tree_at(p.dir, p.aside, NULL);
    if (u.dir >= 0)
        close(u.dir);
    archive_read_free(from);
    archive_locale_leave(before);
    close_place(&p);
    return rc;
}

int archive_unpack(const void *tgz, size_t len, const char *folder, uint64_t limit, struct error *e)
{
    struct archive *a = archive_reader();
    return unpack_reader(a, archive_read_open_memory(a, tgz, len), folder, limit, e);
}

int archive_unpack_fd(int fd, const char *folder, uint64_t limit, struct error *e)
{
    struct archive *a = archive_reader();
    return unpack_reader(a, archive_read_open_fd(a, fd, BLOCK), folder, limit, e);
}
