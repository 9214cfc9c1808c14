// The state machines of experiments and trials as tables: (state, event) to (next state, action).
// Pure data; any thread. experiments.c and trials.c carry out the actions. machines_run.h has the
// machines of allocations and agents.
//
// An event that means nothing in a state keeps the state and does nothing (action 0), so late,
// repeated and reordered events are harmless.
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
    EXPERIMENT_EV_SEARCH_COMPLETED, // the searcher has finished
    EXPERIMENT_EV_SEARCH_FAILED,
    EXPERIMENT_EV_SEARCH_CANCELED,
    EXPERIMENT_EV_TRIALS_ENDED, // no trial is active
    EXPERIMENT_EV_DELETE,
    EXPERIMENT_EV_DELETE_FAILED,
    EXPERIMENT_EV_CONTINUE, // an ended experiment goes on
    EXPERIMENT_EVENTS
};

enum experiment_action {
    EXPERIMENT_DO_NOTHING,
    EXPERIMENT_DO_REFUSE, // the caller gets a conflict
    EXPERIMENT_DO_ACTIVATE,
    EXPERIMENT_DO_PAUSE,
    EXPERIMENT_DO_STOP,   // ends the remaining trials as completed
    EXPERIMENT_DO_CANCEL, // drains the trials
    EXPERIMENT_DO_KILL,
    EXPERIMENT_DO_END,
    EXPERIMENT_DO_DELETE
};

enum trial_event {
    TRIAL_EV_ACTIVATE,
    TRIAL_EV_PAUSE,
    TRIAL_EV_STOP, // it has trained enough
    TRIAL_EV_CANCEL,
    TRIAL_EV_KILL,
    TRIAL_EV_INVALID,         // the program says that no restart can help
    TRIAL_EV_OUT_OF_RESTARTS, // follows from TRIAL_EV_FAILED
    TRIAL_EV_COMPLETED,       // the outcome of its allocation; also the next four
    TRIAL_EV_PREEMPTED,
    TRIAL_EV_FAILED,
    TRIAL_EV_LOST,
    TRIAL_EV_IDLE, // it had no allocation, or one that had not started
    TRIAL_EV_CONTINUE,
    TRIAL_EVENTS
};

enum trial_action {
    TRIAL_DO_NOTHING,
    TRIAL_DO_REQUEST, // request slots, unless it has an allocation
    TRIAL_DO_RETRY,   // count the failure, then request slots again if the trial is active
    TRIAL_DO_DRAIN,
    TRIAL_DO_KILL,
    TRIAL_DO_END
};

// A trial of an unmanaged experiment: its program reports the events. It is never STOPPING.
enum unmanaged_event {
    UNMANAGED_EV_START, // a program begins, or continues from a checkpoint
    UNMANAGED_EV_RUNS,
    UNMANAGED_EV_PAUSED,
    UNMANAGED_EV_COMPLETED,
    UNMANAGED_EV_FAILED,
    UNMANAGED_EV_CANCELED, // by a person
    UNMANAGED_EV_SILENT,   // not heard from for too long
    UNMANAGED_EVENTS
};

enum unmanaged_action {
    UNMANAGED_DO_NOTHING,
    UNMANAGED_DO_RUN,  // its program must report from now on
    UNMANAGED_DO_REST, // its program need not report any more
    UNMANAGED_DO_END
};

struct transition experiment_transition(enum experiment_state s, enum experiment_event ev);
struct transition trial_transition(enum trial_state s, enum trial_event ev);
struct transition unmanaged_transition(enum trial_state s, enum unmanaged_event ev);

#endif
