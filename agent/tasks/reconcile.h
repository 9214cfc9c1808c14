// The difference between what the master wants on this machine and what is there, as actions. Pure.
//
// Every answer of the master is the whole desired set, so repeated, late or reordered answers do no
// harm: an allocation that was seen here in any state is never started again.
#ifndef MUSTER_AGENT_TASKS_RECONCILE_H
#define MUSTER_AGENT_TASKS_RECONCILE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/tasks/desired_state.h"

enum wish {
    WISH_NOTHING, // the master does not name it: it must not run
    WISH_RUN,
    WISH_KILL,
    WISH_FORGET, // its end is recorded
    WISH_COUNT
};

enum observed_state {
    OBSERVED_ABSENT,
    OBSERVED_LIVE,   // being started, or running
    OBSERVED_ENDING, // told to end
    OBSERVED_EXITED,
    OBSERVED_FORGETTING, // its last log lines are being sent
    OBSERVED_COUNT
};

enum action_kind {
    ACTION_NONE,
    ACTION_START,
    ACTION_KILL,
    ACTION_DECLARE_GONE, // report as ended what never came here, so that the master can go on
    ACTION_FORGET,
};

enum action_kind reconcile_pair(enum wish wish, enum observed_state observed);

struct observed_task {
    const char *id;
    enum observed_state state; // not ABSENT
};

struct action {
    enum action_kind kind; // not NONE
    const char *id;
    const struct desired_task *wanted; // NULL: not named by the master
};

// Fills `out`, which has room for desired->count + count; gives the number of actions.
size_t reconcile(const struct desired *desired, const struct observed_task *observed, size_t count,
                 struct action *out);

#endif
