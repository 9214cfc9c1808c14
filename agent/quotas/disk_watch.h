// Watches what tasks write to the machine's disk: a thread that measures the folders of all tasks,
// one after the other and slowly, and the free space of their file system. It asks the agent's loop
// to end a task that exceeds its quota, and, when the disk is nearly full, the one that has used
// most of it. The supervisor cannot do this, because the choice needs all tasks.
#ifndef MUSTER_AGENT_QUOTAS_DISK_WATCH_H
#define MUSTER_AGENT_QUOTAS_DISK_WATCH_H

#include "agent/inbox.h"
#include "agent/quotas/disk_rules.h"
#include "base/error.h"

struct disk_watch; // opaque

// `folder`: of the tasks' folders (tasks/taskdir.h), absolute. Sends INBOX_QUOTA with the task's id
// and the reason as its error: ERR_TOO_LARGE, maybe again and again, or ERR_FULL if the task must
// end at once.
int disk_watch_start(const char *folder, const struct disk_rules *rules, struct inbox *inbox,
                     struct disk_watch **out, struct error *e);
void disk_watch_stop(struct disk_watch *w); // waits for the thread; accepts NULL

#endif
