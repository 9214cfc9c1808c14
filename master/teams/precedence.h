// Decides whether a caller may put a job before others. Pure, any thread. The core calls it for
// every submission and for every change of a priority, a weight or a queue position
// (master/calls/queue_moves.c).
//
// A user may change the user's own jobs as long as no other user's job is delayed by it. An
// administrator of a workspace may do so for all jobs of the workspace, as long as no job of
// another workspace is delayed. Only an administrator of the cluster may put a job before a job of
// another workspace, or above the pool's max_user_priority. At a submission every user may choose
// the default priority or a lower one, even before jobs whose users chose a still lower one. A pool
// with max_user_priority 1 has none of these limits.
#ifndef MUSTER_MASTER_TEAMS_PRECEDENCE_H
#define MUSTER_MASTER_TEAMS_PRECEDENCE_H

#include "master/teams/roles.h"

enum displaced { DISPLACES_NOBODY, DISPLACES_TEAMMATE, DISPLACES_OTHER_TEAM, DISPLACED_COUNT };

struct precedence_claim {
    enum role role;           // of the caller in the job's workspace
    bool own;                 // the job belongs to the caller
    bool unlimited;           // the pool's max_user_priority is 1
    bool above;               // its priority is above max_user_priority, or its weight above 1
    enum displaced displaces; // whose job it would pass, besides the caller's
};

enum precedence {
    PRECEDENCE_GRANTED,
    PRECEDENCE_NO_CHANGE,  // the caller may not change the job at all
    PRECEDENCE_ABOVE,      // only an administrator of the cluster may do this
    PRECEDENCE_OTHER_TEAM, // only an administrator of the cluster may do this
    PRECEDENCE_TEAMMATE,   // only an administrator of the workspace may do this
};

enum precedence precedence_judge(const struct precedence_claim *claim);

#endif
