// The core's webhooks, shared by webhooks.c (requests), webhook_fire.c (when they fire) and
// webhook_payload.c (bodies). Core thread.
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOK_INTERNAL_H
#define MUSTER_MASTER_NOTIFY_WEBHOOK_INTERNAL_H

#include "master/notify/webhooks.h"

struct webhook_trigger {
    int64_t id;
    enum trigger_kind kind;
    json_t *condition;
    const char *state;   // TRIGGER_STATE: a word of the store
    const char *pattern; // TRIGGER_LINE; points into the condition
    bool unusable;       // .. the pattern does not compile here: it never fires
    const char *metric;  // TRIGGER_METRIC; points into the condition
    double limit;        // .. the threshold
    bool above;          // .. the direction; false: below
    struct id_map fired; // trials of triggers that fire once; the store knows too
    struct webhook *hook;
};

struct webhook {
    int64_t id, workspace; // workspace: 0: of the cluster
    char *name, *url;
    bool slack, specific;
    struct webhook_trigger *triggers;
    size_t trigger_count;
    struct webhook *next;
};

enum { ALERTS_REMEMBERED = 64 };

struct webhooks {
    struct webhook *first, **end; // ordered by id
    size_t count;
    int64_t next_hook, next_trigger;
    int of_kind[TRIGGER_KINDS]; // number of triggers of each kind
    struct webhook_alert {      // the last alerts, to recognize repetitions
        uint64_t hash;
        int64_t at;
    } alerts[ALERTS_REMEMBERED];
    size_t alert_next;
};

// --- bodies --------------------------------------------------------------------------------------

struct webhook_subject {               // what an event is about
    const struct experiment *x;        // live; NULL: the event is about the cluster
    const struct cluster_alert *alert; // NULL: the event is about an experiment
    int64_t trial;                     // 0: none
    const char *task;                  // NULL: none, then also agent and line
    const char *agent, *line;
    int64_t steps; // of a metric
    double value;
    const char *title, *description, *level; // of an alert of a program; NULL: none
};

// The body for one trigger, on the heap. `event` receives the id of the event.
char *webhook_payload(struct core *c, const struct webhook_trigger *t,
                      const struct webhook_subject *s, char *event);

#endif
