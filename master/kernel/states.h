// The states of experiments, trials, allocations and agents, and their words in the store. Pure;
// any thread. The transitions between them are in master/lifecycle/machines.h.
#ifndef MUSTER_MASTER_KERNEL_STATES_H
#define MUSTER_MASTER_KERNEL_STATES_H

#include <stdbool.h>

// The state that its owner wants. People see ACTIVE as QUEUED, STARTING or RUNNING, depending on
// its allocations.
enum experiment_state {
    EXPERIMENT_ACTIVE,
    EXPERIMENT_PAUSED,
    EXPERIMENT_STOPPING_COMPLETED,
    EXPERIMENT_STOPPING_CANCELED,
    EXPERIMENT_STOPPING_KILLED,
    EXPERIMENT_STOPPING_ERROR,
    EXPERIMENT_COMPLETED,
    EXPERIMENT_CANCELED,
    EXPERIMENT_ERROR,
    EXPERIMENT_DELETING,
    EXPERIMENT_DELETE_FAILED,
    EXPERIMENT_STATES
};

enum trial_state {
    TRIAL_ACTIVE,
    TRIAL_PAUSED,
    TRIAL_STOPPING_COMPLETED,
    TRIAL_STOPPING_CANCELED,
    TRIAL_STOPPING_KILLED,
    TRIAL_STOPPING_ERROR,
    TRIAL_COMPLETED,
    TRIAL_CANCELED,
    TRIAL_ERROR,
    TRIAL_STATES
};

// An allocation is one start of a trial.
enum allocation_state {
    ALLOCATION_QUEUED,
    ALLOCATION_ASSIGNED,
    ALLOCATION_STARTING,
    ALLOCATION_RUNNING,
    ALLOCATION_TERMINATING,
    ALLOCATION_TERMINATED,
    ALLOCATION_STATES
};

enum agent_state {
    AGENT_AWAY, // not heard from; its tasks may still run
    AGENT_CONNECTED,
    AGENT_LOST, // given up
    AGENT_STATES
};

// Converts states to the words of the store (with a prefix, of the REST API), and back. False:
// there is no such word.
const char *experiment_state_word(enum experiment_state s);
const char *trial_state_word(enum trial_state s);
bool experiment_state_of(const char *word, enum experiment_state *out);
bool trial_state_of(const char *word, enum trial_state *out);
const char *allocation_state_word(enum allocation_state s);
bool allocation_state_of(const char *word, enum allocation_state *out);

static inline bool experiment_is_terminal(enum experiment_state s)
{
    return s >= EXPERIMENT_COMPLETED;
}
static inline bool trial_is_terminal(enum trial_state s)
{
    return s >= TRIAL_COMPLETED;
}

#endif
