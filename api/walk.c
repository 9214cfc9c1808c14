#include "api/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/os/file.h"

enum { PATH_BYTES = 64 * 1024, NAMES_FIRST = 64 };

struct walk_state {
    bool others;     // visit links and special files instead of regular files
    bool foreign;    // other processes write to the folder
    uid_t owner;     // owner of the folder
    struct buf path; // path of the visited entry, after the folder's own
    size_t prefix;   // length of the folder's own path and the slash
    walk_visit *visit;
    void *ctx;
};

struct walk_names {
    char **items;
    size_t count, cap;
};

static void free_names(struct walk_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct walk_names *names, const char *name, const char *shown, struct error *e)
{
    if (names->count >= LIMIT_FOLDER_ENTRIES)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %d entries in one folder", shown,
                         LIMIT_FOLDER_ENTRIES);
    if (names->count == names->cap) {
        names->cap = names->cap ? 2 * names->cap : NAMES_FIRST;
        names->items = xrealloc(names->items, names->cap * sizeof *names->items);
    }
    names->items[names->count++] = xstrdup(name);
    return 0;
}

// Lists the names in the folder, sorted. The stream has a descriptor of its own.
static int read_names(int fd, const char *shown, struct walk_names *out, struct error *e)
{
    int rc = 0, own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    struct dirent *entry;
    if (!dir) {
        rc = error_set_errno(e, ERR_IO, errno, "cannot read %s", shown);
        if (own >= 0)
            close(own);
        return rc;
    }
    while (!rc && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = add_name(out, entry->d_name, shown, e);
    if (!rc && errno)
        rc = error_set_errno(e, ERR_IO, errno, "cannot read %s", shown);
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_name);
    return rc;
}

static bool is_wanted(const struct walk_state *w, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        return true;
    if (w->others)
        return !S_ISREG(st->st_mode);
    return S_ISREG(st->st_mode) && (!w->foreign || st->st_nlink < 2 || st->st_uid == w->owner);
}

static int walk_names(struct walk_state *w, int fd, int depth, struct error *e);

static int walk_enter_folder(struct walk_state *w, const struct walk_entry *entry, int depth,
                             struct error *e)
{
    int fd = openat(entry->place.dir, entry->place.name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return error_set(e, ERR_IO, "%s was replaced while it was read", entry->path);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read %s", entry->path);
    int rc = walk_names(w, fd, depth + 1, e);
    close(fd);
    return rc;
}

static int walk_visit_entry(struct walk_state *w, int fd, const char *name, int depth,
                            struct error *e)
{
    const char *path = buf_str(&w->path);
    struct stat st;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "cannot read %s",
                               path);
    if (!is_wanted(w, &st))
        return 0;
    if (depth > LIMIT_JSON_DEPTH)
        return error_set(e, ERR_TOO_LARGE, "%s: folders are nested more than %d deep", path,
                         LIMIT_JSON_DEPTH);
    struct walk_entry entry = {.path = path,
                               .relative = path + w->prefix,
                               .is_folder = S_ISDIR(st.st_mode),
                               .is_link = S_ISLNK(st.st_mode),
                               .mode = st.st_mode & 0777,
                               .size = S_ISREG(st.st_mode) ? st.st_size : 0,
                               .mtime = st.st_mtime,
                               .place = {fd, name, st.st_dev, st.st_ino}};
    int rc = w->visit(w->ctx, &entry, e);
    if (!rc && entry.is_folder)
        rc = walk_enter_folder(w, &entry, depth, e);
    return rc < 0 ? rc : 0;
}

static int walk_names(struct walk_state *w, int fd, int depth, struct error *e)
{
    struct walk_names names = {0};
    size_t len = w->path.len;
    int rc = read_names(fd, buf_str(&w->path), &names, e);
    for (size_t i = 0; !rc && i < names.count; i++) {
        buf_puts(&w->path, "/");
        if (buf_puts(&w->path, names.items[i]))
            rc = error_set(e, ERR_TOO_LARGE, "%s: the path is too long", buf_str(&w->path));
        else
            rc = walk_visit_entry(w, fd, names.items[i], depth, e);
        w->path.len = len;
        w->path.data[len] = '\0';
    }
    free_names(&names);
    return rc;
}

// Starts a walk: the caller set the mode fields of `w`.
static int walk_run(struct walk_state *w, int fd, const char *shown, struct error *e)
{
    struct stat st;
    size_t len = strlen(shown);
    if (fstat(fd, &st))
        return error_set_errno(e, ERR_IO, errno, "cannot read %s", shown);
    while (len > 1 && shown[len - 1] == '/')
        len--;
    w->owner = st.st_uid;
    buf_init(&w->path, PATH_BYTES);
    int rc = buf_append(&w->path, shown, len)
                 ? error_set(e, ERR_TOO_LARGE, "%.200s..: the path is too long", shown)
                 : 0;
    w->prefix = len + 1;
    if (!rc)
        rc = walk_names(w, fd, 1, e);
    buf_free(&w->path);
    return rc;
}

static int walk_own(const char *folder, bool others, walk_visit *visit, void *ctx, struct error *e)
{
    struct walk_state w = {.others = others, .visit = visit, .ctx = ctx};
    int fd, rc = dir_open(folder, &fd, e);
    if (rc)
        return rc;
    rc = walk_run(&w, fd, folder, e);
    close(fd);
    return rc;
}

int walk_folder(const char *folder, walk_visit *visit, void *ctx, struct error *e)
{
    return walk_own(folder, false, visit, ctx, e);
}

int walk_others(const char *folder, walk_visit *visit, void *ctx, struct error *e)
{
    return walk_own(folder, true, visit, ctx, e);
}

int walk_foreign(int fd, const char *shown, walk_visit *visit, void *ctx, struct error *e)
{
    struct walk_state w = {.foreign = true, .visit = visit, .ctx = ctx};
    return walk_run(&w, fd, shown, e);
}

int walk_open(const struct walk_entry *entry, int *fd, struct error *e)
{
    struct stat st;
    int rc = file_open_regular(entry->place.dir, entry->place.name, entry->path, fd, e);
    if (rc)
        return rc == ERR_INVALID
                   ? error_set(e, ERR_IO, "%s was replaced while it was read", entry->path)
                   : rc;
    if (!fstat(*fd, &st) && st.st_dev == entry->place.device && st.st_ino == entry->place.inode)
        return 0;
    close(*fd);
    *fd = -1;
    return error_set(e, ERR_IO, "%s was replaced while it was read", entry->path);
}
