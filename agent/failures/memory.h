// Facts of the machine that explain failures for lack of memory. Reads /proc and /sys/fs/cgroup;
// any thread.
#ifndef MUSTER_AGENT_FAILURES_MEMORY_H
#define MUSTER_AGENT_FAILURES_MEMORY_H

#include <stdint.h>

// How often the kernel has killed a process for lack of memory; -1: the kernel does not say. Only
// whether a number grows has a meaning. The number of the machine is used only where the kernel
// does not count for the cgroup.
struct memory_kills {
    int64_t cgroup;  // of the caller's cgroup
    int64_t machine; // of the whole machine, tasks of others included
};
struct memory_kills memory_count_kills(void);

enum memory_verdict {
    MEMORY_NOT_KILLED,
    MEMORY_MAYBE_KILLED, // only known: it has killed some process of the machine meanwhile
    MEMORY_KILLED,       // it has killed a process of the caller's cgroup
};
enum memory_verdict memory_judge(const struct memory_kills *before,
                                 const struct memory_kills *after);

// The memory of the caller's cgroup or of the machine, whichever is smaller, in bytes; 0: unknown.
int64_t memory_bytes(void);

// For the two above and their tests: reads a number that follows `name` at the start of a line, or
// the number that the text begins with if `name` is "". -1: there is none.
int64_t memory_read_field(const char *text, const char *name);

#endif
