#include "agent/failures/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT_MAX = 1024 };

struct process {
    pid_t pid;
    char state;
    int group, session;
    int64_t cpu; // microseconds
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

// proc(5): pid (name) state ppid pgrp session tty tpgid flags 4 faults utime stime; the name may
// contain any character.
static bool read_process(pid_t pid, struct process *out)
{
    char text[TEXT_MAX];
    unsigned long user, system;
    const char *fields = read_file(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    *out = (struct process){.pid = pid};
    if (!fields || sscanf(fields, ") %c %*d %d %d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &out->state,
                          &out->group, &out->session, &user, &system) != 5)
        return false;
    out->cpu = (int64_t)(user + system) * 1000000 / sysconf(_SC_CLK_TCK);
    return out->state != 'Z' && out->state != 'X';
}

// Reads the next process; false: there are no more.
static bool next_process(DIR *proc, struct process *out)
{
    for (struct dirent *entry; (entry = readdir(proc));)
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process((pid_t)strtol(entry->d_name, NULL, 10), out))
            return true;
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
    if (p->state == 'T' || p->state == 't') {
        snprintf(out, cap, "is stopped by a signal or a debugger");
    } else if (p->state == 'D') {
        read_file(p->pid, "wchan", channel, sizeof channel);
        snprintf(out, cap, "waits for a disk, a device or a network file system (%s)", channel);
    } else if (p->state == 'R') {
        snprintf(out, cap, "runs, but hardly");
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

void processes_describe(pid_t group, char *out, size_t cap)
{
    struct process p, best = {0};
    bool found = false;
    DIR *proc = opendir("/proc");
    snprintf(out, cap, "has no process");
    while (proc && next_process(proc, &p)) {
        if (p.group != group)
            continue;
        bool better = !found || (waits_for_child(best.pid) && !waits_for_child(p.pid)) ||
                      (p.cpu > best.cpu && !waits_for_child(p.pid));
        best = better ? p : best;
        found = true;
    }
    if (proc)
        closedir(proc);
    if (found)
        describe_process(&best, out, cap);
}
