// Mailbox: a bounded queue of messages to the thread that owns some data. Many senders, one
// receiver. A message is a pointer; its ownership moves to the receiver.
#ifndef MUSTER_BASE_OS_MAILBOX_H
#define MUSTER_BASE_OS_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mailbox; // opaque

struct mailbox *mailbox_new(size_t limit);
void mailbox_free(struct mailbox *m); // must be empty
// ERR_BUSY: it is full. ERR_UNAVAILABLE: it is closed.
int mailbox_send(struct mailbox *m, void *message);
// Waits while it is full. ERR_UNAVAILABLE: it is closed.
int mailbox_send_wait(struct mailbox *m, void *message);
// Receives up to `max` messages. Waits for the first until `deadline` (clock_mono_us(); INT64_MAX:
// for ever). 0: the deadline has passed, or the mailbox is closed and empty (mailbox_closed()).
size_t mailbox_receive(struct mailbox *m, void **out, size_t max, int64_t deadline);
void mailbox_close(struct mailbox *m); // ends sending; the receiver gets the messages that remain
bool mailbox_closed(const struct mailbox *m);
size_t mailbox_length(const struct mailbox *m);

#endif
