// How ranks end, and which of them is the cause when a task fails. Pure; any thread.
#ifndef MUSTER_AGENT_SUPERVISOR_RANK_EXIT_H
#define MUSTER_AGENT_SUPERVISOR_RANK_EXIT_H

#include <stdbool.h>
#include <stddef.h>

// In order of guilt: the rank with the highest verdict is the cause of the task's failure; among
// equals, the rank that ended first.
enum verdict {
    VERDICT_RUNS,      // the status is not that of an end: stopped, continued
    VERDICT_WELL,      // exit 0
    VERDICT_ENDED,     // a signal that the supervisor or the master sent
    VERDICT_LOST_PEER, // it failed because it lost a peer, by its exit code or last lines
    VERDICT_FAILED,    // by itself
};

// Judges a status from waitpid(2). `told`: the supervisor had told the rank to end.
enum verdict judge_status(int wait_status, bool told);

// Whether the last lines of a failed rank report a lost peer, as NCCL, gloo and sockets do.
bool judge_blames_peers(const char *words);

#endif
