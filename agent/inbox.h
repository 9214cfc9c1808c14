// Notes from the agent's threads to its event loop: a mailbox that wakes the loop. Any thread
// sends, the loop receives.
#ifndef MUSTER_AGENT_INBOX_H
#define MUSTER_AGENT_INBOX_H

#include <jansson.h>

#include "base/error.h"
#include "base/os/mailbox.h"

enum note_kind {
    NOTE_FETCHED, // the working folder of `id` is ready, or not: error
    NOTE_SHIPPED, // every log line of `id` is with the master
    NOTE_FAULT,   // `slot` has met with `xid`
    NOTE_USE,     // `use` is how much the slots are used
};

struct note {
    enum note_kind kind;
    char *id;
    struct error error; // code 0: well
    size_t slot;
    long long xid;
    json_t *use; // {group, time, slots: [{name: value} or null]}
};

struct notes {
    struct mailbox *box;
    void (*wake)(void *ctx); // any thread
    void *wake_ctx;
};

void notes_send(struct notes *n, enum note_kind kind, const char *id, const struct error *error);
void notes_fault(struct notes *n, size_t slot, long long xid);
void notes_use(struct notes *n, json_t *use); // takes it
struct note *notes_take(struct notes *n);     // NULL: none; note_free() it
void note_free(struct note *note);

#endif
