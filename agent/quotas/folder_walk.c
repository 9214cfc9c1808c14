#include "agent/quotas/folder_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"

enum { BLOCK_BYTES = 512 }; // of st_blocks

struct folder_walk {
    struct folder_use use;
    dev_t device;
    int depth; // of open folders
    DIR *open[LIMIT_TASK_FOLDER_DEPTH];
};

// A folder that the program has replaced meanwhile by a link or a mount is skipped.
static void enter_folder(struct folder_walk *w, int parent, const char *name)
{
    struct stat st;
    if (w->depth == LIMIT_TASK_FOLDER_DEPTH) {
        w->use.too_deep = true;
        return;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, ".", R_OK | X_OK, AT_EACCESS) != 0) {
        if (fd >= 0)
            close(fd);
        fd = dir_open_owned(parent, name, 0500); // O_NOATIME needs the owner's rights
        w->use.unreadable |= fd < 0 && errno == EACCES;
    }
    bool good = fd >= 0 && fstat(fd, &st) == 0 && (w->depth == 0 || st.st_dev == w->device);
    DIR *folder = good ? fdopendir(fd) : NULL;
    if (folder) {
        w->device = st.st_dev;
        w->open[w->depth++] = folder;
    } else if (fd >= 0) {
        close(fd);
    }
}

static void count_entry(struct folder_walk *w, DIR *folder, const char *name)
{
    struct stat st;
    if (fstatat(dirfd(folder), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return; // removed meanwhile
    uint64_t bytes = (uint64_t)st.st_blocks * BLOCK_BYTES;
    bool is_folder = S_ISDIR(st.st_mode); // its links are its own folders
    w->use.files++;
    w->use.bytes += is_folder || st.st_nlink == 0 ? bytes : bytes / st.st_nlink;
    if (is_folder)
        enter_folder(w, dirfd(folder), name);
}

struct folder_walk *folder_walk_open(int parent, const char *name)
{
    struct folder_walk *w = xcalloc(1, sizeof *w);
    enter_folder(w, parent, name);
    if (w->depth > 0)
        return w;
    free(w);
    return NULL;
}

bool folder_walk_step(struct folder_walk *w, size_t entries)
{
    while (w->depth > 0 && entries > 0) {
        DIR *folder = w->open[w->depth - 1];
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            closedir(folder);
            w->depth--;
        } else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            count_entry(w, folder, entry->d_name);
            entries--;
        }
    }
    return w->depth == 0;
}

const struct folder_use *folder_walk_use(const struct folder_walk *w)
{
    return &w->use;
}

void folder_walk_close(struct folder_walk *w)
{
    if (!w)
        return;
    while (w->depth > 0)
        closedir(w->open[--w->depth]);
    free(w);
}
