// The worker: a thread for what takes its time, so that the event loop never waits: bringing a
// task's files into its working folder, and removing folders. One job after the other.
#ifndef MUSTER_AGENT_TASKS_FILE_WORKER_H
#define MUSTER_AGENT_TASKS_FILE_WORKER_H

#include "agent/inbox.h"
#include "agent/master_client.h"
#include "base/error.h"

struct worker; // opaque

int worker_start(const struct master_link *master, struct notes *notes, struct worker **out,
                 struct error *e);
void worker_stop(struct worker *w); // ends the present job within a second, joins

// Fills DIR/work from the master's archive at `url`. One try, answered
// with NOTE_FETCHED.
void worker_fetch(struct worker *w, const char *id, const char *dir, const char *url);
// Removes the whole folder. No answer.
void worker_remove(struct worker *w, const char *folder);

#endif
