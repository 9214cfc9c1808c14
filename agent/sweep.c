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

enum { ENVIRONMENT_MAX = 16 << 20, CHUNK = 64 * 1024 };

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

// proc(5): pid (name) state ppid pgrp session ..; the name may hold anything.
static bool is_the_tasks(int proc_fd, const struct sweep *s, struct buf *text)
{
    char state = 'Z';
    int parent = 0, session = 0;
    const char *fields = read_all(proc_fd, "stat", text) ? strrchr(buf_str(text), ')') : NULL;
    if (!fields || sscanf(fields, ") %c %d %*d %d", &state, &parent, &session) != 3)
        return false;
    if (state == 'Z' || state == 'X')
        return false;
    if ((s->parent != 0 && parent == s->parent) || (s->session != 0 && session == s->session))
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
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            strtol(entry->d_name, NULL, 10) == (long)getpid())
            continue;
        // A descriptor of /proc/PID stays with this process and is as good as a pidfd.
        int fd = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (is_the_tasks(fd, s, &text)) {
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
