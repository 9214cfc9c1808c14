// The state of a process, as the kernel writes it to /proc/PID/stat. Pure; any thread.
#ifndef MUSTER_BASE_OS_PROC_STAT_H
#define MUSTER_BASE_OS_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    char state; // 'R' runs, 'S' sleeps, 'D' waits for a device, 'T' and 't' is stopped, ..
    bool dead;  // it is a zombie; other threads of it may still be dying
    pid_t parent, group, session;
    int threads;
    unsigned flags; // PF_* of the kernel
    int64_t cpu;    // processor time of all threads, in microseconds
};

// Reads the content of /proc/PID/stat. Returns whether it has all fields.
bool proc_stat_parse(const char *text, struct proc_stat *out);

#endif
