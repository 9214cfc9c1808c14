#include "agent/notes.h"

#include <stdlib.h>

#include "base/arena.h"

void notes_send(struct notes *n, enum note_kind kind, const char *id, const struct error *error)
{
    struct note *note = xcalloc(1, sizeof *note);
    note->kind = kind;
    note->id = xstrdup(id);
    if (error)
        note->error = *error;
    if (mailbox_send_wait(n->box, note) != 0)
        note_free(note); // the loop has ended
    else
        n->wake(n->wake_ctx);
}

struct note *notes_take(struct notes *n)
{
    void *note = NULL;
    return mailbox_receive(n->box, &note, 1, 0) == 1 ? note : NULL;
}

void note_free(struct note *note)
{
    free(note->id);
    free(note);
}
