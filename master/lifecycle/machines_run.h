// The state machines of allocations and agents, in the manner of machines.h. allocations.c and
// agents.c carry out the actions.
#ifndef MUSTER_MASTER_LIFECYCLE_MACHINES_RUN_H
#define MUSTER_MASTER_LIFECYCLE_MACHINES_RUN_H

#include "master/lifecycle/machines.h"

enum allocation_event {
    ALLOCATION_EV_PLACED,
    ALLOCATION_EV_STARTING, // an agent has begun
    ALLOCATION_EV_RUNNING,  // every part runs
    ALLOCATION_EV_DRAIN,
    ALLOCATION_EV_ACK, // the program has acknowledged the drain
    ALLOCATION_EV_KILL,
    ALLOCATION_EV_PART_FAILED, // on one machine, by exit or loss
    ALLOCATION_EV_GONE,        // on every machine
    ALLOCATION_EVENTS
};

enum allocation_action {
    ALLOCATION_DO_NOTHING,
    ALLOCATION_DO_SHOW, // store the new state
    ALLOCATION_DO_LAUNCH,
    ALLOCATION_DO_SIGNAL, // ask the program to leave, and enforce it
    ALLOCATION_DO_ACK,
    ALLOCATION_DO_KILL,
    ALLOCATION_DO_WITHDRAW, // it never ran
    ALLOCATION_DO_END
};

enum agent_event {
    AGENT_EV_POLL,
    AGENT_EV_NEW_SESSION, // another process of it than before
    AGENT_EV_SILENT,
    AGENT_EV_GRACE_OVER,
    AGENT_EVENTS
};

enum agent_action {
    AGENT_DO_NOTHING,
    AGENT_DO_RETURN,    // it is back
    AGENT_DO_RECONCILE, // it is back, and what it does not report is gone
    AGENT_DO_LEAVE,
    AGENT_DO_GIVE_UP, // its tasks are lost
};

struct transition allocation_transition(enum allocation_state s, enum allocation_event ev);
struct transition agent_transition(enum agent_state s, enum agent_event ev);

#endif
