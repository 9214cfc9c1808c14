// Compares the desired state with the observed state and gives the actions that remove the
// difference. Pure.
//
// Every answer of the master is the complete desired state, so repeated, late and reordered answers
// are harmless: an allocation that was seen here in any state is never started again.
#ifndef MUSTER_AGENT_TASKS_RECONCILE_H
#define MUSTER_AGENT_TASKS_RECONCILE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/tasks/desired_state.h"

enum desired_action {
    DESIRED_NONE, // not in the desired state: it must not run
    DESIRED_RUN,
    DESIRED_KILL,
    DESIRED_FORGET, // the master has recorded its end
    DESIRED_COUNT
};

enum observed_state {
    OBSERVED_ABSENT,
    OBSERVED_RUNNING, // or starting
    OBSERVED_ENDING,  // it is being ended
    OBSERVED_EXITED,
    OBSERVED_FORGETTING, // the shipper sends its last log lines
    OBSERVED_COUNT
};

enum action_kind {
    ACTION_NONE,
    ACTION_START,
    ACTION_KILL,
    ACTION_DECLARE_GONE, // report a task that never started here as ended
    ACTION_FORGET,
};

enum action_kind reconcile_pair(enum desired_action desired, enum observed_state observed);

struct observed_task {
    const char *id;
    enum observed_state state; // not ABSENT
};

struct action {
    enum action_kind kind; // not NONE
    const char *id;
    const struct desired_task *wanted; // NULL: not in the desired state
};

// Fills `out`, which has room for desired->count + count actions; returns their number.
size_t reconcile(const struct desired_state *desired, const struct observed_task *observed,
                 size_t count, struct action *out);

#endif
