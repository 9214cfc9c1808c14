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

// `what` is the phase ("copying", "verifying"); `done` and `total` are bytes, and total is an
// estimate (0: not known). False ends the operation with ERR_TIMEOUT.
struct backup_watch {
    bool (*show)(void *ctx, const char *what, int64_t done,
                 int64_t total); // NULL: progress is not shown
    void *ctx;
};

// Copies the store at `from` (a folder or a file) to the file `to`. The copy is verified and
// flushed before it gets that name. ERR_CONFLICT: `to` exists and `replace` is not set.
int backup_make(const char *from, const char *to, bool replace, const struct backup_watch *watch,
                struct backup_report *out, struct error *e);

// Makes a copy that is read at once and then removed: it may not be flushed yet, and it replaces an
// existing file.
int backup_spool(const char *from, const char *to, const struct backup_watch *watch,
                 struct error *e);

// Opens a copy and checks all of it. ERR_VERSION: a newer program made it; ERR_CORRUPT: it is
// damaged, or not a store.
int backup_verify(const char *file, const struct backup_watch *watch, struct backup_report *out,
                  struct error *e);

// Verifies a downloaded copy at `aside`, flushes it and renames it.
int backup_accept(const char *aside, const char *path, const struct backup_watch *watch,
                  struct backup_report *out, struct error *e);

// Restores the store of folder `dir` from a copy of `file`. No master may use the folder
// (ERR_CONFLICT). The old store stays beside the new one; *kept is its path and belongs to the
// caller, NULL: there was no store. Ids and start numbers of trials continue far above those of the
// copy, so that none that was given since is given again.
int backup_restore(const char *file, const char *dir, const struct backup_watch *watch,
                   struct backup_report *out, char **kept, struct error *e);

#endif
