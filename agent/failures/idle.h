// Notices that a task hangs: for a while it has printed and reported nothing and has used almost no
// processor time. Pure; one thread for each object.
#ifndef MUSTER_AGENT_FAILURES_IDLE_H
#define MUSTER_AGENT_FAILURES_IDLE_H

#include <stdbool.h>
#include <stdint.h>

enum { IDLE_CPU_PERCENT = 1 }; // of one processor; a task that uses more works

struct idle_watch { // times in microseconds, of the monotonic clock
    int64_t since;  // the task has done nothing since then
    int64_t cpu;    // processor time of the task then
    int64_t looked_at;
    bool known; // `cpu` was measured
};

// The task has just printed or reported something, or one of its ranks has ended.
void idle_note_activity(struct idle_watch *w, int64_t now);

// Returns whether the task's processor time is needed now, to find out within `limit` that it
// hangs.
bool idle_is_due(const struct idle_watch *w, int64_t now, int64_t limit);

// `cpu`: processor time of the task's processes, which falls when one of them ends. Returns for how
// long the task has done nothing.
int64_t idle_look(struct idle_watch *w, int64_t now, int64_t cpu);

#endif
