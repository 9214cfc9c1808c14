#include "agent/supervisor/proctrack.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"

enum {
    ENVIRONMENT_MAX = 16 << 20,
    CHUNK = 64 * 1024,
    FLAG_EXITING = 4, // of the kernel's flags word, PF_EXITING
};

static bool read_all(int proc_fd, const char *name, struct buf *out)
{
    buf_reset(out);
    int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char chunk[CHUNK];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0 && buf_append(out, chunk, (size_t)n) == 0)
        ;
    close(fd);
    return n == 0;
}

static bool has_marker(const struct buf *environment, const char *marker)
{
    const char *at = buf_str(environment), *end = at + environment->len;
    for (; at < end; at += strlen(at) + 1)
        if (strcmp(at, marker) == 0)
            return true;
    return false;
}

struct stat_line {
    char state;
    int parent, session, threads;
    unsigned flags;
};

// proc(5): pid (name) state ppid pgrp session tty tpgid flags .. num_threads ..; the name may hold
// anything.
static bool read_stat(int proc_fd, struct stat_line *out, struct buf *text)
{
    const char *fields = read_all(proc_fd, "stat", text) ? strrchr(buf_str(text), ')') : NULL;
    return fields &&
           sscanf(fields, ") %c %d %*d %d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
                  &out->state, &out->parent, &out->session, &out->flags, &out->threads) == 5;
}

static bool is_known(const struct sweep *s, pid_t pid)
{
    for (size_t i = 0; i < s->known_count; i++)
        if (s->known[i] == pid)
            return true;
    return false;
}

static bool is_the_tasks(int proc_fd, pid_t pid, const void *ctx, struct buf *text)
{
    const struct sweep *s = ctx;
    struct stat_line line;
    if (!read_stat(proc_fd, &line, text))
        return false;
    bool dead = line.state == 'Z' || line.state == 'X';
    // The first thread of a process may be dead while others of it are dying.
    if (line.flags & FLAG_EXITING && (!dead || line.threads > 1) && is_known(s, pid))
        return true;
    if (dead)
        return false;
    if ((s->parent != 0 && line.parent == s->parent) ||
        (s->session != 0 && line.session == s->session))
        return true;
    return read_all(proc_fd, "environ", text) && has_marker(text, s->marker);
}

// Whether a process is meant; `proc_fd` is its folder in /proc.
typedef bool match_fn(int proc_fd, pid_t pid, const void *ctx, struct buf *text);

static size_t signal_matches(match_fn *matches, const void *ctx, int signal)
{
    struct buf text;
    size_t count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    buf_init(&text, ENVIRONMENT_MAX);
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || pid == getpid())
            continue;
        // A descriptor of /proc/PID stays with this process and is as good as a pidfd.
        int fd = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (matches(fd, pid, ctx, &text)) {
            count++;
            if (signal != 0)
                syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
        }
        close(fd);
    }
    closedir(proc);
    buf_free(&text);
    return count;
}

size_t sweep_processes(const struct sweep *s, int signal)
{
    return signal_matches(is_the_tasks, s, signal);
}

// The folder of the task that the environment names, if it lies in `folder`; NULL: none does.
static const char *marked_folder(const struct buf *environment, const char *folder)
{
    static const char name[] = "MUSTER_RUN_DIR=";
    const char *at = buf_str(environment), *end = at + environment->len;
    size_t len = strlen(folder);
    for (; at < end; at += strlen(at) + 1) {
        const char *dir = at + sizeof name - 1;
        if (strncmp(at, name, sizeof name - 1) == 0)
            return strncmp(dir, folder, len) == 0 && dir[len] == '/' ? dir : NULL;
    }
    return NULL;
}

// `folder` is absolute and `root` the folder that "/" means. A folder that was deleted may be held
// by a mount.
static bool is_missing(int root, const char *folder)
{
    struct stat there;
    return fstatat(root, folder + 1, &there, AT_SYMLINK_NOFOLLOW) != 0 ? errno == ENOENT
                                                                       : there.st_nlink == 0;
}

// In the container of another agent the same path may be that agent's folder. In a chroot or
// sandbox of a task of this agent the folder is often not there, although this agent watches over
// it.
static bool is_stray(int proc_fd, pid_t pid, const void *ctx, struct buf *text)
{
    struct stat_line line;
    (void)pid;
    if (!read_stat(proc_fd, &line, text) || line.state == 'Z' || line.state == 'X' ||
        !read_all(proc_fd, "environ", text))
        return false;
    const char *dir = marked_folder(text, ctx);
    int root = dir ? openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int own = root >= 0 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    bool stray = own >= 0 && is_missing(root, dir) && is_missing(own, dir);
    if (own >= 0)
        close(own);
    if (root >= 0)
        close(root);
    return stray;
}

size_t sweep_strays(const char *folder)
{
    return signal_matches(is_stray, folder, SIGKILL);
}
