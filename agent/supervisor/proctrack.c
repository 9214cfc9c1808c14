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

#include "base/arena.h"
#include "base/buf.h"
#include "base/os/proc_stat.h"

enum {
    ENVIRONMENT_MAX = 16 << 20,
    CHUNK = 64 * 1024,
    FLAG_EXITING = 4, // PF_EXITING in the flags of /proc/PID/stat
};

static bool read_proc_file(int proc_fd, const char *name, struct buf *out)
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

static bool read_stat(int proc_fd, struct proc_stat *out, struct buf *text)
{
    return read_proc_file(proc_fd, "stat", text) && proc_stat_parse(buf_str(text), out);
}

// The first thread may be dead while other threads are dying.
static bool is_alive(const struct proc_stat *line)
{
    return !line->dead || line->threads > 1;
}

static bool is_known(const struct process_filter *filter, pid_t pid)
{
    for (size_t i = 0; i < filter->known_count; i++)
        if (filter->known[i] == pid)
            return true;
    return false;
}

static bool is_in_namespace(int proc_fd, ino_t pid_namespace)
{
    struct stat st;
    return pid_namespace != 0 && fstatat(proc_fd, "ns/pid", &st, 0) == 0 &&
           st.st_ino == pid_namespace;
}

// A program may have made an environment of 16 MiB in each of its processes. Processes in another
// pid namespace end with its first process, and nobody needs to look for their mark.
static bool is_in_own_namespace(int proc_fd)
{
    struct stat own;
    return stat("/proc/self/ns/pid", &own) == 0 && is_in_namespace(proc_fd, own.st_ino);
}

static bool is_task_process(int proc_fd, pid_t pid, const void *ctx, struct buf *text)
{
    const struct process_filter *filter = ctx;
    struct proc_stat line;
    if (pid == filter->init || !read_stat(proc_fd, &line, text))
        return false;
    if (line.flags & FLAG_EXITING && is_alive(&line) && is_known(filter, pid))
        return true;
    if (line.dead)
        return false;
    if ((filter->parent != 0 && line.parent == filter->parent) ||
        (filter->session != 0 && line.session == filter->session) ||
        is_in_namespace(proc_fd, filter->pid_namespace))
        return true;
    if ((filter->init || filter->pid_namespace) && !is_in_own_namespace(proc_fd))
        return false;
    return read_proc_file(proc_fd, "environ", text) && has_marker(text, filter->marker);
}

// Returns whether a process matches; `proc_fd` is its folder in /proc.
typedef bool match_fn(int proc_fd, pid_t pid, const void *ctx, struct buf *text);

// `cpu`: adds up the processor time of the matches; NULL: it is not needed.
static size_t signal_matches(match_fn *matches, const void *ctx, int signal, int64_t *cpu)
{
    struct buf text;
    struct proc_stat line;
    size_t count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    buf_init(&text, ENVIRONMENT_MAX);
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || pid == getpid())
            continue;
        // A descriptor of /proc/PID refers to this process for ever, as a pidfd does.
        int fd = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (matches(fd, pid, ctx, &text)) {
            count++;
            if (cpu && read_stat(fd, &line, &text))
                *cpu += line.cpu;
            if (signal != 0)
                syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
        }
        close(fd);
    }
    closedir(proc);
    buf_free(&text);
    return count;
}

size_t proctrack_signal(const struct process_filter *filter, int signal)
{
    return signal_matches(is_task_process, filter, signal, NULL);
}

struct ending_namespace {
    pid_t init;
    ino_t inode;
};

static bool is_live_member(int proc_fd, pid_t pid, const void *ctx, struct buf *text)
{
    const struct ending_namespace *ns = ctx;
    struct proc_stat line;
    return pid != ns->init && is_in_namespace(proc_fd, ns->inode) &&
           read_stat(proc_fd, &line, text) && is_alive(&line);
}

size_t proctrack_count_ending(pid_t init)
{
    char path[64];
    struct buf text;
    struct proc_stat line;
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", init);
    int fd = init > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    buf_init(&text, ENVIRONMENT_MAX);
    bool ending = read_stat(fd, &line, &text) && line.flags & FLAG_EXITING && !line.dead;
    bool readable = fstatat(fd, "ns/pid", &st, 0) == 0;
    close(fd);
    buf_free(&text);
    if (!ending || !readable)
        return ending;
    const struct ending_namespace ns = {.init = init, .inode = st.st_ino};
    return signal_matches(is_live_member, &ns, 0, NULL);
}

int64_t proctrack_cpu(const struct process_filter *filter)
{
    int64_t sum = 0;
    signal_matches(is_task_process, filter, 0, &sum);
    return sum;
}

// Returns the task folder that the environment names, if it lies in `folder`, else NULL.
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

// Returns whether the absolute path `folder` is missing below the root folder `root`. A mount may
// keep a deleted folder, which then has no links.
static bool is_missing(int root, const char *folder)
{
    struct stat there;
    return fstatat(root, folder + 1, &there, AT_SYMLINK_NOFOLLOW) != 0 ? errno == ENOENT
                                                                       : there.st_nlink == 0;
}

// Looks in both views: in the container of another agent the same path may be that agent's folder,
// and in the view of a task of this agent only its working folder is the one outside.
static bool is_orphan(int proc_fd, pid_t pid, const void *ctx, struct buf *text)
{
    struct proc_stat line;
    (void)pid;
    if (!read_stat(proc_fd, &line, text) || line.dead || !is_in_own_namespace(proc_fd) ||
        !read_proc_file(proc_fd, "environ", text))
        return false;
    const char *dir = marked_folder(text, ctx);
    char *work = dir ? xasprintf("%s/work", dir) : NULL;
    int root = dir ? openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int own = root >= 0 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    bool orphan = own >= 0 && is_missing(root, work) && is_missing(own, dir);
    free(work);
    if (own >= 0)
        close(own);
    if (root >= 0)
        close(root);
    return orphan;
}

size_t proctrack_kill_orphans(const char *folder)
{
    return signal_matches(is_orphan, folder, SIGKILL, NULL);
}
