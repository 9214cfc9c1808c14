// The file worker: a thread for slow file operations, so that the event loop never waits. It
// fetches the files of tasks and removes folders, one job after the other.
#ifndef MUSTER_AGENT_TASKS_FILE_WORKER_H
#define MUSTER_AGENT_TASKS_FILE_WORKER_H

#include "agent/inbox.h"
#include "agent/master_client.h"
#include "base/error.h"

struct file_worker; // opaque

int file_worker_start(const struct master_endpoint *master, struct inbox *inbox,
                      struct file_worker **out, struct error *e);
// Ends the present job within a second and waits for the thread.
void file_worker_stop(struct file_worker *w);

// Downloads the archive at the master's `url` and unpacks it to DIR/work. Tries once and sends
// INBOX_FETCHED.
void file_worker_fetch(struct file_worker *w, const char *id, const char *dir, const char *url);
// Removes the folder. Sends no message.
void file_worker_remove(struct file_worker *w, const char *folder);

#endif
