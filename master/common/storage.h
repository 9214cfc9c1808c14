// The folders in which checkpoints may be, as the administrator allows, and safe access to the
// folder of a checkpoint. main() creates it, and it never changes; any thread.
//
// Tasks write to these folders and users name the storage, so neither is trusted. A storage outside
// all allowed folders is refused, and below an allowed folder no link is followed: the master goes
// from descriptor to descriptor and never opens a full path.
#ifndef MUSTER_MASTER_COMMON_STORAGE_H
#define MUSTER_MASTER_COMMON_STORAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct storage; // opaque

// `own` is the default checkpoint_storage (JSON), whose folder is allowed; `allowed` are further
// absolute folders. ERR_INVALID names the one that is not absolute.
int storage_new(const char *own, const char *const *allowed, size_t count, struct storage **out,
                struct error *e);
void storage_free(struct storage *s);                 // accepts NULL
const char *storage_default(const struct storage *s); // JSON, for experiments that name none
const char *storage_own(const struct storage *s);     // its folder

// Checks whether the master may access the folder of a checkpoint_storage object. ERR_INVALID: its
// type is not a folder; ERR_FORBIDDEN: it is in no allowed folder; the text says what to do.
int storage_check(const struct storage *s, const json_t *at, struct error *e);

// Explains an error of a call that opens `path` below `dir`, or passes it on: ERR_FORBIDDEN if the
// master may not read it. `shown` is its path, for messages.
int storage_judge(int err, int dir, const char *path, const char *shown, struct error *e);

// Opens the folder of checkpoint `uuid` in the storage `at` (JSON text). *shown, if wanted, is its
// path on the heap, for messages. Also ERR_UNAVAILABLE: the storage does not exist; ERR_NOT_FOUND:
// the checkpoint does not exist, or its name belongs to something else.
int storage_open(const struct storage *s, const char *at, const char *uuid, int *fd, char **shown,
                 struct error *e);

// The same for its parent folder, from which the caller removes the checkpoint by name.
int storage_open_root(const struct storage *s, const char *at, int *fd, char **shown,
                      struct error *e);

// The JSON text of a checkpoint_storage object, on the heap: without nulls and with sorted keys, so
// that the store has the same storage once. NULL: "{}".
char *storage_text(const json_t *at);

#endif
