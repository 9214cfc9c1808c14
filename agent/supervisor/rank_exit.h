// Classifies how ranks end, to find the rank that caused the failure of a task. Pure; any thread.
#ifndef MUSTER_AGENT_SUPERVISOR_RANK_EXIT_H
#define MUSTER_AGENT_SUPERVISOR_RANK_EXIT_H

#include <stdbool.h>
#include <stddef.h>

// In this order: the rank with the highest value caused the failure; among equals, the first to
// end.
enum rank_exit {
    RANK_RUNNING,    // stopped or continued, not ended
    RANK_SUCCEEDED,  // exit 0
    RANK_TERMINATED, // by a signal of the supervisor or the master
    RANK_LOST_PEER,  // it failed because it lost a peer, by its exit code or last lines
    RANK_FAILED,     // by itself
};

// Classifies a status of waitpid(2). `asked_to_end`: the supervisor had asked the rank to end.
enum rank_exit rank_exit_classify(int wait_status, bool asked_to_end);

// Returns the exit code as a shell shows it: 128 and the number of the signal that ended the rank.
int rank_exit_code(int wait_status);

// Returns whether the last lines of a failed rank report a lost peer, as NCCL, Gloo and sockets do.
bool rank_exit_blames_peer(const char *last_lines);

// Returns whether the text reports that a rank waited in vain for another: a lost peer or a
// timeout.
bool rank_exit_lost_contact(const char *text);

#endif
