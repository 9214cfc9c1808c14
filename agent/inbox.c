#include "agent/inbox.h"

#include <stdlib.h>

#include "base/arena.h"

static void send(struct notes *n, const struct note *filled)
{
    struct note *note = xcalloc(1, sizeof *note);
    *note = *filled;
    if (mailbox_send_wait(n->box, note) != 0)
        note_free(note); // the loop has ended
    else
        n->wake(n->wake_ctx);
}

void notes_send(struct notes *n, enum note_kind kind, const char *id, const struct error *error)
{
    struct note note = {.kind = kind, .id = xstrdup(id)};
    if (error)
        note.error = *error;
    send(n, &note);
}

void notes_fault(struct notes *n, size_t slot, long long xid)
{
    send(n, &(struct note){.kind = NOTE_FAULT, .slot = slot, .xid = xid});
}

void notes_use(struct notes *n, json_t *use)
{
    send(n, &(struct note){.kind = NOTE_USE, .use = use});
}

struct note *notes_take(struct notes *n)
{
    void *note = NULL;
    return mailbox_receive(n->box, &note, 1, 0) == 1 ? note : NULL;
}

void note_free(struct note *note)
{
    json_decref(note->use);
    free(note->id);
    free(note);
}
