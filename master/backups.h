// Backups that the master makes by itself: a thread that copies the store every so many hours to
// FOLDER/muster-TIME.db and keeps the newest. The first is made at the start, unless the newest one
// there is young enough. Made and stopped by the main thread.
#ifndef MUSTER_MASTER_BACKUPS_H
#define MUSTER_MASTER_BACKUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "master/common/free_space.h"

struct backups; // opaque

// `store`: the file that the master has open.
int backups_start(const char *store, const char *folder, const struct room *room, int64_t every_us,
                  int keep, struct backups **out, struct error *e);
void backups_stop(struct backups *b); // ends one that is being made; NULL is fine; frees

// The times, in seconds since 1970, of the copies in a folder, newest first; the caller's. Pure but
// for reading the folder; for tests.
int64_t *backups_found(const char *folder, size_t *count);

#endif
