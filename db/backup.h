// Makes copies of a store (also while a master writes it), verifies them, and restores them. Any
// thread; each call opens its own connections.
#ifndef MUSTER_DB_BACKUP_H
#define MUSTER_DB_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct backup_report { // the contents of a copy
    int64_t bytes, version, tables, rows;
    int64_t experiments, trials, checkpoints;
};

// `what` is happening ("copying", "verifying"), so many bytes of about so many (0: not known).
// False: it is to end (ERR_TIMEOUT).
struct backup_watch {
    bool (*show)(void *ctx, const char *what, int64_t done, int64_t total); // NULL: nobody looks
    void *ctx;
};

// Copies the store at `from` (its folder, or the file) to the file `to`, verified and on the disk
// before it has that name. ERR_CONFLICT: `to` is there already and `replace` is not set.
int backup_make(const char *from, const char *to, bool replace, const struct backup_watch *watch,
                struct backup_report *out, struct error *e);

// The same for a copy that is read at once and removed: it may not be on the disk yet, and replaces
// what was there.
int backup_spool(const char *from, const char *to, const struct backup_watch *watch,
                 struct error *e);

// Opens a copy and checks all of it. ERR_VERSION: of a newer program; ERR_CORRUPT: damaged, or no
// store.
int backup_verify(const char *file, const struct backup_watch *watch, struct backup_report *out,
                  struct error *e);

// Verifies a copy that was fetched to `aside`, and gives it its name when it is on the disk.
int backup_accept(const char *aside, const char *path, const struct backup_watch *watch,
                  struct backup_report *out, struct error *e);

// Puts a copy of `file` in the place of the store of folder `dir`, which no master may use
// (ERR_CONFLICT). What was there stays beside it; *kept is its path, the caller's, NULL: nothing
// was. Ids and starts of trials go on far beyond those of the copy, so that what has been given
// since is not given again.
int backup_restore(const char *file, const char *dir, const struct backup_watch *watch,
                   struct backup_report *out, char **kept, struct error *e);

#endif
