// Regular backups: a thread copies the store every given number of hours to FOLDER/muster-TIME.db
// and keeps the newest copies. The first is made at the start, unless the newest copy is recent
// enough. The main thread creates and stops it.
#ifndef MUSTER_MASTER_BACKUPS_H
#define MUSTER_MASTER_BACKUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "master/common/free_space.h"

struct backups; // opaque

// `store`: the file that the master has open.
int backups_start(const char *store, const char *folder, const struct free_space *free_space,
                  int64_t every_us, int keep, struct backups **out, struct error *e);
// The time of the newest copy in seconds since 1970, 0 if there is none; b is the struct backups.
int64_t backups_newest(void *b);
void backups_stop(struct backups *b); // aborts a running backup, then frees; accepts NULL

// The times of the copies in a folder, in seconds since 1970, newest first; the caller frees the
// list. For tests.
int64_t *backups_found(const char *folder, size_t *count);

#endif
