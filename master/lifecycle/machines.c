// A machine is a list of rules: in one of these states, on this event, go to that state and do that
// action. A pair without a rule keeps the state and does nothing. No pair has two rules
// (test_core_machines.c).
#include "master/lifecycle/machines_run.h"

#include <stddef.h>
#include <string.h>

enum { SAME = -1 }; // the next state is the old one

struct machine_rule {
    unsigned states; // bits
    int event;
    int next;
    int action;
};

#define IN(state) (1u << (state))

// The names of each machine's states, events and actions are written without their prefix.
#define S(name) IN(MACHINE(name))
#define ON(states, event, next, action)                                                            \
    {                                                                                              \
        (states), MACHINE(EV_##event), next, MACHINE(DO_##action)                                  \
    }
#define TO(name) MACHINE(name)

// clang-format off
#define MACHINE(name) EXPERIMENT_##name
enum {
    X_LIVE = S(ACTIVE) | S(PAUSED),
    X_STOPPING = S(STOPPING_COMPLETED) | S(STOPPING_CANCELED) | S(STOPPING_KILLED) |
                 S(STOPPING_ERROR),
    X_ENDED = S(COMPLETED) | S(CANCELED) | S(ERROR),
};

static const struct machine_rule experiment_rules[] = {
    ON(S(PAUSED),             ACTIVATE,         TO(ACTIVE),             ACTIVATE),
    ON(S(ACTIVE),             PAUSE,            TO(PAUSED),             PAUSE),
    ON(X_LIVE,                CANCEL,           TO(STOPPING_CANCELED),  CANCEL),
    ON(X_LIVE,                KILL,             TO(STOPPING_KILLED),    KILL),
    ON(X_LIVE,                SEARCH_COMPLETED, TO(STOPPING_COMPLETED), STOP),
    ON(X_LIVE,                SEARCH_FAILED,    TO(STOPPING_ERROR),     CANCEL),
    ON(X_LIVE,                SEARCH_CANCELED,  TO(STOPPING_CANCELED),  CANCEL),

    ON(S(STOPPING_COMPLETED), CANCEL,           TO(STOPPING_CANCELED),  CANCEL),
    ON(S(STOPPING_COMPLETED) | S(STOPPING_CANCELED) | S(STOPPING_ERROR),
                              KILL,             TO(STOPPING_KILLED),    KILL),
    ON(S(STOPPING_COMPLETED), TRIALS_ENDED,     TO(COMPLETED),          END),
    ON(S(STOPPING_CANCELED) | S(STOPPING_KILLED),
                              TRIALS_ENDED,     TO(CANCELED),           END),
    ON(S(STOPPING_ERROR),     TRIALS_ENDED,     TO(ERROR),              END),

    ON(X_ENDED | S(DELETE_FAILED), DELETE,      TO(DELETING),           DELETE),
    ON(S(DELETING),           DELETE_FAILED,    TO(DELETE_FAILED),      NOTHING),

    ON(X_ENDED,               CONTINUE,         TO(ACTIVE),             ACTIVATE),

    // Requests of people that are refused. Cancel and kill of an ended experiment are done already.
    ON(X_LIVE | X_STOPPING,   DELETE,           SAME,                   REFUSE),
    ON(X_STOPPING | X_ENDED | S(DELETING) | S(DELETE_FAILED),
                              ACTIVATE,         SAME,                   REFUSE),
    ON(X_STOPPING | X_ENDED | S(DELETING) | S(DELETE_FAILED),
                              PAUSE,            SAME,                   REFUSE),
    ON(X_LIVE | X_STOPPING | S(DELETING) | S(DELETE_FAILED),
                              CONTINUE,         SAME,                   REFUSE),
};
#undef MACHINE

#define MACHINE(name) TRIAL_##name
enum {
    T_LIVE = S(ACTIVE) | S(PAUSED),
    T_CANCELING = S(STOPPING_CANCELED) | S(STOPPING_KILLED),
    T_ENDED = S(COMPLETED) | S(CANCELED) | S(ERROR),
};

static const struct machine_rule trial_rules[] = {
    ON(T_LIVE,                ACTIVATE,         TO(ACTIVE),             REQUEST),
    ON(S(ACTIVE),             PAUSE,            TO(PAUSED),             DRAIN),
    ON(T_LIVE,                STOP,             TO(STOPPING_COMPLETED), DRAIN),
    ON(T_LIVE | S(STOPPING_COMPLETED),
                              CANCEL,           TO(STOPPING_CANCELED),  DRAIN),
    ON(T_LIVE | S(STOPPING_COMPLETED) | S(STOPPING_CANCELED),
                              KILL,             TO(STOPPING_KILLED),    KILL),
    ON(T_LIVE,                INVALID,          TO(STOPPING_ERROR),     DRAIN),

    ON(T_LIVE,                COMPLETED,        TO(COMPLETED),          END),
    ON(T_LIVE,                FAILED,           SAME,                   RETRY),
    ON(T_LIVE,                OUT_OF_RESTARTS,  TO(ERROR),              END),
    ON(S(ACTIVE),             PREEMPTED,        SAME,                   REQUEST),
    ON(S(ACTIVE),             LOST,             SAME,                   REQUEST),
    ON(S(ACTIVE),             IDLE,             SAME,                   REQUEST),

    // A trial that is stopping ends as its owner meant it to, however its last allocation ended.
    ON(S(STOPPING_COMPLETED), COMPLETED,        TO(COMPLETED),          END),
    ON(S(STOPPING_COMPLETED), PREEMPTED,        TO(COMPLETED),          END),
    ON(S(STOPPING_COMPLETED), FAILED,           TO(COMPLETED),          END),
    ON(S(STOPPING_COMPLETED), LOST,             TO(COMPLETED),          END),
    ON(S(STOPPING_COMPLETED), IDLE,             TO(COMPLETED),          END),
    ON(T_CANCELING,           COMPLETED,        TO(CANCELED),           END),
    ON(T_CANCELING,           PREEMPTED,        TO(CANCELED),           END),
    ON(T_CANCELING,           FAILED,           TO(CANCELED),           END),
    ON(T_CANCELING,           LOST,             TO(CANCELED),           END),
    ON(T_CANCELING,           IDLE,             TO(CANCELED),           END),
    ON(S(STOPPING_ERROR),     COMPLETED,        TO(ERROR),              END),
    ON(S(STOPPING_ERROR),     PREEMPTED,        TO(ERROR),              END),
    ON(S(STOPPING_ERROR),     FAILED,           TO(ERROR),              END),
    ON(S(STOPPING_ERROR),     LOST,             TO(ERROR),              END),
    ON(S(STOPPING_ERROR),     IDLE,             TO(ERROR),              END),

    ON(T_ENDED,               CONTINUE,         TO(ACTIVE),             REQUEST),
};

// The program's last report counts, but a canceled or completed trial stays so until it is started
// again; one that fell silent may be heard from again.
#define SAYS(states, event, next, action)                                                          \
    {                                                                                              \
        (states), UNMANAGED_EV_##event, TO(next), UNMANAGED_DO_##action                              \
    }
static const struct machine_rule unmanaged_rules[] = {
    SAYS(T_LIVE | T_ENDED,    START,            ACTIVE,                 RUN),
    SAYS(S(PAUSED) | S(ERROR),
                              RUNS,             ACTIVE,                 RUN),
    SAYS(S(ACTIVE),           PAUSED,           PAUSED,                 REST),
    SAYS(T_LIVE | S(ERROR),   COMPLETED,        COMPLETED,              END),
    SAYS(T_LIVE,              FAILED,           ERROR,                  END),
    SAYS(T_LIVE,              CANCELED,         CANCELED,               END),
    SAYS(S(ACTIVE),           SILENT,           ERROR,                  END),
};
#undef MACHINE

#define MACHINE(name) ALLOCATION_##name
enum { A_LIVE = S(ASSIGNED) | S(STARTING) | S(RUNNING) };

static const struct machine_rule allocation_rules[] = {
    ON(S(QUEUED),                  PLACED,      TO(ASSIGNED),           LAUNCH),
    ON(S(QUEUED),                  DRAIN,       TO(TERMINATED),         WITHDRAW),
    ON(S(QUEUED),                  KILL,        TO(TERMINATED),         WITHDRAW),
    ON(S(ASSIGNED),                STARTING,    TO(STARTING),           SHOW),
    ON(S(ASSIGNED) | S(STARTING),  RUNNING,     TO(RUNNING),            SHOW),
    ON(S(ASSIGNED),                DRAIN,       TO(TERMINATING),        KILL), // no work yet
    ON(S(STARTING) | S(RUNNING),   DRAIN,       SAME,                   SIGNAL),
    ON(A_LIVE,                     ACK,         SAME,                   ACK),
    ON(A_LIVE,                     KILL,        TO(TERMINATING),        KILL),
    ON(A_LIVE,                     PART_FAILED, TO(TERMINATING),        KILL),
    ON(A_LIVE | S(TERMINATING),    GONE,        TO(TERMINATED),         END),
};
#undef MACHINE

#define MACHINE(name) AGENT_##name
static const struct machine_rule agent_rules[] = {
    ON(S(AWAY) | S(LOST),          POLL,        TO(CONNECTED),          RETURN),
    ON(S(AWAY) | S(CONNECTED) | S(LOST),
                                   NEW_SESSION, TO(CONNECTED),          RECONCILE),
    ON(S(CONNECTED),               SILENT,      TO(AWAY),               LEAVE),
    ON(S(AWAY),                    GRACE_OVER,  TO(LOST),               GIVE_UP),
};
#undef MACHINE
// clang-format on

static struct transition rule_find(const struct machine_rule *rules, size_t count, int state,
                                   int event)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].states & IN(state) && rules[i].event == event)
            return (struct transition){rules[i].next == SAME ? state : rules[i].next,
                                       rules[i].action};
    return (struct transition){state, 0};
}

#define FIND(rules) rule_find(rules, sizeof(rules) / sizeof *(rules), (int)s, (int)ev)

struct transition experiment_transition(enum experiment_state s, enum experiment_event ev)
{
    return FIND(experiment_rules);
}

struct transition trial_transition(enum trial_state s, enum trial_event ev)
{
    return FIND(trial_rules);
}

struct transition unmanaged_transition(enum trial_state s, enum unmanaged_event ev)
{
    return FIND(unmanaged_rules);
}

struct transition allocation_transition(enum allocation_state s, enum allocation_event ev)
{
    return FIND(allocation_rules);
}

struct transition agent_transition(enum agent_state s, enum agent_event ev)
{
    return FIND(agent_rules);
}
