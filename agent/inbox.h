// The inbox of the agent's event loop: a mailbox whose messages wake the loop. Any thread sends;
// only the loop receives.
#ifndef MUSTER_AGENT_INBOX_H
#define MUSTER_AGENT_INBOX_H

#include <jansson.h>

#include "base/error.h"
#include "base/os/mailbox.h"

enum inbox_message_kind {
    INBOX_FETCHED,  // the files of task `id` were fetched, or `error` says why not
    INBOX_SHIPPED,  // the master has every log line of task `id`
    INBOX_REPORTED, // the master has every report of task `id`, or has refused it
    INBOX_QUOTA,    // task `id` must end for the reason in `error`; ERR_FULL: at once
    INBOX_FAULT,    // `slot` has reported `xid`
    INBOX_USAGE,    // `usage` is a new sample of all slots
};

struct inbox_message {
    enum inbox_message_kind kind;
    char *id;           // of a task (its allocation)
    struct error error; // code 0: success
    size_t slot;
    long long xid;
    json_t *usage; // {group, time, slots: [{name: value} or null]}
};

struct inbox {
    struct mailbox *box;
    void (*wake)(void *ctx); // any thread
    void *wake_ctx;
};

void inbox_send(struct inbox *inbox, enum inbox_message_kind kind, const char *id,
                const struct error *error);
void inbox_send_fault(struct inbox *inbox, size_t slot, long long xid);
void inbox_send_usage(struct inbox *inbox, json_t *usage); // takes ownership
struct inbox_message *inbox_receive(struct inbox *inbox);  // NULL: empty; inbox_message_free() it
void inbox_message_free(struct inbox_message *message);

#endif
