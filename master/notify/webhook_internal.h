// The inside of the core's webhooks, shared by its sources: webhooks.c (calls that make and change
// them), webhook_fire.c (when they fire), webhook_text.c (what they send). Core thread alone.
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOK_INTERNAL_H
#define MUSTER_MASTER_NOTIFY_WEBHOOK_INTERNAL_H

#include "master/notify/webhooks.h"

struct trigger {
    int64_t id;
    enum trigger_kind kind;
    json_t *condition;
    const char *state;   // of TRIGGER_STATE: a word of the store
    const char *pattern; // of TRIGGER_LINE; in the condition
    bool unusable;       // .. which does not compile here: it never fires
    const char *metric;  // of TRIGGER_METRIC; in the condition
    double limit;        // ..
    bool above;          // .. else below
    struct id_map fired; // trials, for those that fire once; the store knows too
    struct webhook *hook;
};

struct webhook {
    int64_t id, workspace; // 0: of the cluster
    char *name, *url;
    bool slack, specific;
    struct trigger *triggers;
    size_t trigger_count;
    struct webhook *next;
};

enum { ALERTS_REMEMBERED = 64 };

struct webhooks {
    struct webhook *first, **end; // by id
    size_t count;
    int64_t next_hook, next_trigger;
    int of_kind[TRIGGER_KINDS]; // how many triggers there are
    struct alert {              // of those that were sent last, to know a repetition
        uint64_t hash;
        int64_t at;
    } alerts[ALERTS_REMEMBERED];
    size_t alert_next;
};

void trigger_free(struct trigger *t);
// Reads what the kind needs of its condition. ERR_INVALID.
int trigger_set(struct trigger *t, const char *where, struct error *e);

// --- what is sent --------------------------------------------------------------------------------

struct subject {                // of an event
    const struct experiment *x; // live
    int64_t trial;              // 0: none
    const char *task;           // NULL: none, and the next two
    const char *agent, *line;
    int64_t steps; // of a metric
    double value;
    const char *title, *description, *level; // of an alert; NULL: none
};

// The body for one trigger, a heap string, and the event's id.
char *webhook_text(struct core *c, const struct trigger *t, const struct subject *s, char *event);

#endif
