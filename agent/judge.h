// How ranks end, and which of them is the cause when a task fails. Pure; any thread.
#ifndef MUSTER_AGENT_JUDGE_H
#define MUSTER_AGENT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

// From harmless to guilty: of several ranks the worst one, and of equals the first to end, is the
// cause of the task's failure.
enum verdict {
    VERDICT_RUNS,   // the status is not that of an end: stopped, continued
    VERDICT_WELL,   // exit 0
    VERDICT_ENDED,  // by what ends all ranks after one, or when the master says so
    VERDICT_BEREFT, // it failed because it had lost its peers, by its exit code or last lines
    VERDICT_FAILED, // by itself
};

// Of waitpid(2). `told`: the rank had been told to end.
enum verdict judge_status(int wait_status, bool told);

// Whether the last lines of a rank that failed speak of a lost peer (of NCCL, gloo, a socket).
bool judge_blames_peers(const char *words);

#endif
