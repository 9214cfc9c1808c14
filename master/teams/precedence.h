// Decides whether a caller may put a job before others. Pure, any thread; the core asks it for
// every submission and every change of a priority, a weight or a place in a queue (core/steer.c).
//
// A user may set what is the user's own as long as nobody else's job loses by it; an administrator
// of a workspace may do so for all jobs of that workspace, as long as no job of another workspace
// loses. Only an administrator of the cluster may put a job before one of another workspace, or
// above the pool's max_user_priority. At a submission the default priority and those below it are
// everybody's, whoever else chose to stand lower. A pool whose max_user_priority is 1 has none of
// these limits.
#ifndef MUSTER_MASTER_TEAMS_PRECEDENCE_H
#define MUSTER_MASTER_TEAMS_PRECEDENCE_H

#include "master/teams/roles.h"

enum loser { LOSES_NOBODY, LOSES_TEAMMATE, LOSES_OTHER_TEAM, LOSERS };

struct claim {
    enum role role;   // of the caller in the job's workspace
    bool own;         // the job is the caller's
    bool unlimited;   // the pool's max_user_priority is 1
    bool above;       // its priority is above max_user_priority, or its weight above 1
    enum loser loser; // whose job it would pass, beside the caller's own
};

enum precedence {
    PRECEDENCE_GRANTED,
    PRECEDENCE_NO_CHANGE,  // the caller may not change the job at all
    PRECEDENCE_ABOVE,      // this takes an administrator of the cluster
    PRECEDENCE_OTHER_TEAM, // the same
    PRECEDENCE_TEAMMATE,   // this takes an administrator of the workspace
};

enum precedence precedence_judge(const struct claim *claim);

#endif
