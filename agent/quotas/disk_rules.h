// The rules for the files that tasks leave on a machine's disk: what a task may use, and which task
// ends when the disk runs full. Pure; any thread.
#ifndef MUSTER_AGENT_QUOTAS_DISK_RULES_H
#define MUSTER_AGENT_QUOTAS_DISK_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/quotas/folder_walk.h"
#include "base/error.h"
#include "base/text/size.h"

struct disk_rules {
    struct disk_size task;  // that a task may use; 0: no quota
    uint64_t task_files;    // 0: no quota
    struct disk_size floor; // of free space; 0: none
};

struct disk_state { // of the file system with the folders of the tasks
    uint64_t free, total;
    uint64_t free_files, total_files; // total_files 0: it has no limit of files
};

// A task that exceeds its quota: ERR_TOO_LARGE, and the text says which one and what to do. 0:
// none.
int disk_rules_check_task(const struct disk_rules *rules, const struct disk_state *disk,
                          const struct folder_use *use, struct error *e);

// Whether less is free than the floor, or less than a hundredth of the files.
bool disk_rules_is_low(const struct disk_rules *rules, const struct disk_state *disk);

struct task_use {
    struct folder_use use;
    bool ending; // it was told to end before; its files are counted as free
};

// The task that must end because the disk is low: the one that has used most of what is short,
// unless the end of others will suffice. A task that uses less than what shall be free has not
// filled the disk, however little is missing: another program that fills it slowly must not end one
// task after the other. -1: none. `e`: the reason for the task, ERR_FULL.
int disk_rules_choose(const struct disk_rules *rules, const struct disk_state *disk,
                      const struct task_use *tasks, size_t count, struct error *e);

#endif
