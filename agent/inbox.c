#include "agent/inbox.h"

#include <stdlib.h>

#include "base/arena.h"

static void send_message(struct inbox *inbox, const struct inbox_message *content)
{
    struct inbox_message *message = xcalloc(1, sizeof *message);
    *message = *content;
    if (mailbox_send_wait(inbox->box, message))
        inbox_message_free(message); // the loop has ended
    else
        inbox->wake(inbox->wake_ctx);
}

void inbox_send(struct inbox *inbox, enum inbox_message_kind kind, const char *id,
                const struct error *error)
{
    struct inbox_message message = {.kind = kind, .id = xstrdup(id)};
    if (error)
        message.error = *error;
    send_message(inbox, &message);
}

void inbox_send_fault(struct inbox *inbox, size_t slot, long long xid)
{
    send_message(inbox, &(struct inbox_message){.kind = INBOX_FAULT, .slot = slot, .xid = xid});
}

void inbox_send_usage(struct inbox *inbox, json_t *usage)
{
    send_message(inbox, &(struct inbox_message){.kind = INBOX_USAGE, .usage = usage});
}

struct inbox_message *inbox_receive(struct inbox *inbox)
{
    void *message = NULL;
    return mailbox_receive(inbox->box, &message, 1, 0) == 1 ? message : NULL;
}

void inbox_message_free(struct inbox_message *message)
{
    json_decref(message->usage);
    free(message->id);
    free(message);
}
