// The state machines of experiment and trial as tables: (state, event) to (next state, action).
// Pure data; any thread. What an action does stands in experiments.c and trials.c; the machines of
// what runs, allocation and agent, in machines_run.h.
//
// An event that means nothing in a state keeps it and does nothing (action 0), so late, repeated
// and reordered events are harmless.
#ifndef MUSTER_MASTER_LIFECYCLE_MACHINES_H
#define MUSTER_MASTER_LIFECYCLE_MACHINES_H

#include "master/kernel/states.h"

struct transition {
    int next;
    int action;
};

enum experiment_event {
    EXPERIMENT_EV_ACTIVATE,
    EXPERIMENT_EV_PAUSE,
    EXPERIMENT_EV_CANCEL,
    EXPERIMENT_EV_KILL,
    EXPERIMENT_EV_SEARCH_COMPLETED, // the searcher shut down
    EXPERIMENT_EV_SEARCH_FAILED,
    EXPERIMENT_EV_SEARCH_CANCELED,
    EXPERIMENT_EV_TRIALS_ENDED, // no trial is live
    EXPERIMENT_EV_DELETE,
    EXPERIMENT_EV_DELETE_FAILED,
    EXPERIMENT_EV_CONTINUE, // it has ended, and shall go on
    EXPERIMENT_EVENTS
};

enum experiment_action {
    EXPERIMENT_DO_NOTHING,
    EXPERIMENT_DO_REFUSE, // the caller gets a conflict
    EXPERIMENT_DO_ACTIVATE,
    EXPERIMENT_DO_PAUSE,
    EXPERIMENT_DO_STOP,   // end the trials that are left as completed
    EXPERIMENT_DO_CANCEL, // drain the trials
    EXPERIMENT_DO_KILL,
    EXPERIMENT_DO_END,
    EXPERIMENT_DO_DELETE
};

enum trial_event {
    TRIAL_EV_ACTIVATE,
    TRIAL_EV_PAUSE,
    TRIAL_EV_STOP, // trained enough
    TRIAL_EV_CANCEL,
    TRIAL_EV_KILL,
    TRIAL_EV_INVALID,         // the program says that no restart can help
    TRIAL_EV_OUT_OF_RESTARTS, // follows from TRIAL_EV_FAILED
    TRIAL_EV_COMPLETED,       // its allocation ended so; this and the next four
    TRIAL_EV_PREEMPTED,
    TRIAL_EV_FAILED,
    TRIAL_EV_LOST,
    TRIAL_EV_IDLE, // it had none, or one that had not started
    TRIAL_EV_CONTINUE,
    TRIAL_EVENTS
};

enum trial_action {
    TRIAL_DO_NOTHING,
    TRIAL_DO_REQUEST, // ask for slots, unless an allocation lives
    TRIAL_DO_RETRY,   // count the failure, then ask again if the trial is active
    TRIAL_DO_DRAIN,
    TRIAL_DO_KILL,
    TRIAL_DO_END
};

// A trial of an unmanaged experiment: what its program says of itself. It is never STOPPING.
enum detached_event {
    DETACHED_EV_START, // a program begins, or goes on from a checkpoint
    DETACHED_EV_RUNS,
    DETACHED_EV_PAUSED,
    DETACHED_EV_COMPLETED,
    DETACHED_EV_FAILED,
    DETACHED_EV_CANCELED, // by a person
    DETACHED_EV_SILENT,   // not heard for too long
    DETACHED_EVENTS
};

enum detached_action {
    DETACHED_DO_NOTHING,
    DETACHED_DO_RUN,  // it is expected to be heard from now on
    DETACHED_DO_REST, // .. no more
    DETACHED_DO_END
};

struct transition experiment_transition(enum experiment_state s, enum experiment_event ev);
struct transition trial_transition(enum trial_state s, enum trial_event ev);
struct transition detached_transition(enum trial_state s, enum detached_event ev);

#endif
