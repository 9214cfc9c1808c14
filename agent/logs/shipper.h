// The log shipper: one thread that brings the spools of all tasks to the master, a batch after the
// other, a fifth of a second behind what the programs write.
//
// A task's cursor is moved, durably, after the master has acknowledged a batch; a batch that is
// sent again after a crash carries the same sequence numbers and adds nothing there. What the
// master refuses for good (a task that it does not know) is left out and counted in the agent's
// log. Memory is one batch, whatever waits in the spools.
#ifndef MUSTER_AGENT_LOGS_SHIPPER_H
#define MUSTER_AGENT_LOGS_SHIPPER_H

#include "agent/inbox.h"
#include "agent/master_client.h"
#include "base/error.h"

struct shipper; // opaque

int shipper_start(const struct master_link *master, struct notes *notes, struct shipper **out,
                  struct error *e);
void shipper_stop(struct shipper *s); // gives up what is under way within a second, joins

// Follows the spool of the task in DIR, whose spec.json is written.
void shipper_add(struct shipper *s, const char *dir);
// Nothing more will be written to it: ships the rest, forgets it, answers with NOTE_SHIPPED.
void shipper_finish(struct shipper *s, const char *id);

#endif
