#include "agent/failures/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/proc_stat.h"

enum { TEXT_MAX = 1024, PROCESSES_FIRST = 256 };

struct process {
    pid_t pid;
    struct proc_stat stat;
};

struct process_list { // of the machine, ordered by pid
    struct process *at;
    size_t count;
};

// --- /proc ---------------------------------------------------------------------------------------

static bool read_file(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(out, 1, cap - 1, file);
    out[len] = '\0';
    fclose(file);
    return len > 0;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t one = ((const struct process *)a)->pid, other = ((const struct process *)b)->pid;
    return one < other ? -1 : one > other;
}

static void list_processes(struct process_list *out)
{
    char text[TEXT_MAX];
    size_t room = 0;
    DIR *proc = opendir("/proc");
    *out = (struct process_list){0};
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        struct process p = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !read_file(p.pid, "stat", text, sizeof text) || !proc_stat_parse(text, &p.stat))
            continue;
        if (out->count == room) {
            room = room ? 2 * room : PROCESSES_FIRST;
            out->at = xrealloc(out->at, room * sizeof *out->at);
        }
        out->at[out->count++] = p;
    }
    if (proc)
        closedir(proc);
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, compare_pids);
}

// The list is no snapshot of one moment, so the parents may form a circle.
static bool descends_from(const struct process_list *list, const struct process *p, pid_t ancestor)
{
    for (size_t i = 0; p && i < list->count; i++) {
        if (p->pid == ancestor)
            return true;
        const struct process parent = {.pid = p->stat.parent};
        p = bsearch(&parent, list->at, list->count, sizeof *list->at, compare_pids);
    }
    return false;
}

// --- what they wait for --------------------------------------------------------------------------

enum wait_kind { WAIT_FILE, WAIT_SLEEP, WAIT_LOCK, WAIT_CHILD, WAIT_EVENTS, WAIT_CONNECT };

struct system_call {
    long number;
    const char *name;
    enum wait_kind kind;
};

// The calls in which programs wait. Not every architecture has all of them.
static const struct system_call calls[] = {
    {SYS_read, "read", WAIT_FILE},
    {SYS_write, "write", WAIT_FILE},
    {SYS_openat, "openat", WAIT_FILE},
    {SYS_fsync, "fsync", WAIT_FILE},
    {SYS_flock, "flock", WAIT_LOCK},
    {SYS_futex, "futex", WAIT_LOCK},
    {SYS_recvfrom, "recvfrom", WAIT_FILE},
    {SYS_recvmsg, "recvmsg", WAIT_FILE},
    {SYS_sendto, "sendto", WAIT_FILE},
    {SYS_sendmsg, "sendmsg", WAIT_FILE},
    {SYS_accept, "accept", WAIT_CONNECT},
    {SYS_accept4, "accept4", WAIT_CONNECT},
    {SYS_connect, "connect", WAIT_CONNECT},
    {SYS_wait4, "wait4", WAIT_CHILD},
    {SYS_waitid, "waitid", WAIT_CHILD},
    {SYS_nanosleep, "nanosleep", WAIT_SLEEP},
    {SYS_clock_nanosleep, "clock_nanosleep", WAIT_SLEEP},
    {SYS_ppoll, "ppoll", WAIT_EVENTS},
    {SYS_pselect6, "pselect6", WAIT_EVENTS},
    {SYS_epoll_pwait, "epoll_pwait", WAIT_EVENTS},
#ifdef SYS_poll
    {SYS_poll, "poll", WAIT_EVENTS},
    {SYS_select, "select", WAIT_EVENTS},
    {SYS_epoll_wait, "epoll_wait", WAIT_EVENTS},
    {SYS_pause, "pause", WAIT_SLEEP},
#endif
};

// Returns the call in which the process waits; NULL: none of the table, or it may not be read.
// `first`: its first argument, often a descriptor.
static const struct system_call *find_call(pid_t pid, long *first)
{
    char text[TEXT_MAX];
    char *end;
    if (!read_file(pid, "syscall", text, sizeof text) || !isdigit((unsigned char)text[0]))
        return NULL;
    long number = strtol(text, &end, 10);
    *first = (long)strtoul(end, NULL, 16);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

// Names the file, pipe or socket behind a descriptor of the process.
static void name_file(pid_t pid, long fd, char *out, size_t cap)
{
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)pid, fd);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len > 0 ? len : 0] = '\0';
    if (strncmp(target, "socket:", 7) == 0)
        snprintf(out, cap, "a socket");
    else if (strncmp(target, "pipe:", 5) == 0)
        snprintf(out, cap, "a pipe");
    else if (target[0] == '/')
        snprintf(out, cap, "%.200s", target);
    else
        snprintf(out, cap, "a file");
}

static void describe_call(pid_t pid, const struct system_call *call, long fd, char *out, size_t cap)
{
    char file[256];
    switch (call->kind) {
    case WAIT_FILE:
        name_file(pid, fd, file, sizeof file);
        snprintf(out, cap, "waits for %s (%s)", file, call->name);
        break;
    case WAIT_CONNECT:
        snprintf(out, cap, "waits for a connection (%s)", call->name);
        break;
    case WAIT_SLEEP:
        snprintf(out, cap, "sleeps (%s)", call->name);
        break;
    case WAIT_LOCK:
        snprintf(out, cap, "waits for a lock or another thread (%s)", call->name);
        break;
    case WAIT_CHILD:
        snprintf(out, cap, "waits for a child process (%s)", call->name);
        break;
    case WAIT_EVENTS:
        snprintf(out, cap, "waits for events, such as data of a connection (%s)", call->name);
        break;
    }
}

static void describe_process(const struct process *p, char *out, size_t cap)
{
    char channel[64] = "";
    long first = 0;
    const struct system_call *call = find_call(p->pid, &first);
    if (p->stat.state == 'T' || p->stat.state == 't') {
        snprintf(out, cap, "is stopped by a signal or a debugger");
    } else if (p->stat.state == 'D') {
        read_file(p->pid, "wchan", channel, sizeof channel);
        snprintf(out, cap, "waits for a disk, a device or a network file system (%s)", channel);
    } else if (p->stat.state == 'R') {
        snprintf(out, cap, "runs, but uses almost no processor time");
    } else if (call) {
        describe_call(p->pid, call, first, out, cap);
    } else {
        read_file(p->pid, "wchan", channel, sizeof channel);
        snprintf(out, cap, "waits in the kernel (%s)", channel[0] ? channel : "unknown");
    }
}

static bool waits_for_child(pid_t pid)
{
    long first;
    const struct system_call *call = find_call(pid, &first);
    return call && call->kind == WAIT_CHILD;
}

void processes_describe(pid_t rank, char *out, size_t cap)
{
    struct process_list list;
    const struct process *best = NULL;
    list_processes(&list);
    for (size_t i = 0; i < list.count; i++) {
        const struct process *p = &list.at[i];
        // A process whose parent has ended still has the group.
        if (p->stat.dead || (p->stat.group != rank && !descends_from(&list, p, rank)))
            continue;
        if (!best || (waits_for_child(best->pid) && !waits_for_child(p->pid)) ||
            (p->stat.cpu > best->stat.cpu && !waits_for_child(p->pid)))
            best = p;
    }
    if (best)
        describe_process(best, out, cap);
    else
        snprintf(out, cap, "has no process");
    free(list.at);
}
