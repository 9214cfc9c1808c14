#include "agent/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    for (; at < end; at += strlen(at) + 1) {
        if (strcmp(at, marker) == 0)
            return true;
    }
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
    for (size_t i = 0; i < s->known_count; i++) {
        if (s->known[i] == pid)
            return true;
    }
    return false;
}

static bool is_the_tasks(int proc_fd, pid_t pid, const struct sweep *s, struct buf *text)
{
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

size_t sweep_processes(const struct sweep *s, int signal)
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
        if (is_the_tasks(fd, pid, s, &text)) {
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
