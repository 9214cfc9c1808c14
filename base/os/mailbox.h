// Mailbox: the bounded queue by which one thread hands messages to the thread that owns a datum.
// Many senders, one receiver. Messages are pointers; ownership moves with them.
#ifndef MUSTER_BASE_OS_MAILBOX_H
#define MUSTER_BASE_OS_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mailbox; // opaque

struct mailbox *mailbox_new(size_t limit);
void mailbox_free(struct mailbox *m); // must be empty
int mailbox_send(struct mailbox *m,
                 void *message); // ERR_BUSY when full, ERR_UNAVAILABLE when closed
int mailbox_send_wait(struct mailbox *m,
                      void *message); // waits for room; ERR_UNAVAILABLE when closed
// Takes up to `max` messages; waits until mono_us `deadline` (INT64_MAX: for ever) for the first.
// 0: deadline passed, or closed and empty (mailbox_closed() tells).
size_t mailbox_receive(struct mailbox *m, void **out, size_t max, int64_t deadline);
void mailbox_close(struct mailbox *m); // no more sends; the receiver drains what is there
bool mailbox_closed(const struct mailbox *m);
size_t mailbox_length(const struct mailbox *m);

#endif
