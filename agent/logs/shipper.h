// The log shipper: a thread that sends the log spools of all tasks to the master in batches, a
// fifth of a second behind the programs.
//
// The cursor of a task moves, durably, after the master has acknowledged a batch. A batch that is
// sent again after a crash has the same sequence numbers, so the master ignores it. Lines that the
// master refuses permanently (of a task that it does not know) are skipped, with a warning in the
// agent's log. The shipper holds one batch in memory.
#ifndef MUSTER_AGENT_LOGS_SHIPPER_H
#define MUSTER_AGENT_LOGS_SHIPPER_H

#include "agent/inbox.h"
#include "agent/master_client.h"
#include "base/error.h"

struct shipper; // opaque

int shipper_start(const struct master_endpoint *master, struct inbox *inbox, struct shipper **out,
                  struct error *e);
void shipper_stop(struct shipper *s); // cancels a call within a second and waits for the thread

// Starts to ship the spool of the task in DIR, whose specification is written.
void shipper_add(struct shipper *s, const char *dir);
// Ships the rest of a spool that is complete, then sends INBOX_SHIPPED.
void shipper_finish(struct shipper *s, const char *id);

#endif
