// Measures a folder that a program fills: bytes on disk and number of files. A folder may have
// millions of files, so a walk goes in steps. It follows no links, stays on one file system and
// skips what it may not read. Each walk belongs to one thread.
#ifndef MUSTER_AGENT_QUOTAS_FOLDER_WALK_H
#define MUSTER_AGENT_QUOTAS_FOLDER_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct folder_use {
    uint64_t bytes;  // on disk; a file with n links counts as its n-th part at each of them
    uint64_t files;  // entries of any kind, folders included
    bool unreadable; // it has a folder that cannot be opened; an owner's rights are restored
    bool too_deep;   // it is nested deeper than LIMIT_TASK_FOLDER_DEPTH; the rest is not counted
};

struct folder_walk; // opaque

// The folder `name` of the folder of descriptor `parent`. NULL: it is no folder, or not readable.
struct folder_walk *folder_walk_open(int parent, const char *name);
// Counts at most `entries` more. True: the walk is complete.
bool folder_walk_step(struct folder_walk *w, size_t entries);
const struct folder_use *folder_walk_use(const struct folder_walk *w); // so far
void folder_walk_close(struct folder_walk *w);                         // accepts NULL

#endif
