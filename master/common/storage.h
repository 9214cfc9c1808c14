// The folders in which checkpoints may lie, as the administrator allows, and the way from there to
// the folder of a checkpoint. main() makes it, nothing changes it afterwards; any thread.
//
// Tasks write to these folders, and users name the storage, so neither is trusted. A storage
// outside all allowed folders is refused, and below an allowed folder no link is followed: the
// master goes from descriptor to descriptor and opens nothing by a full path.
#ifndef MUSTER_MASTER_COMMON_STORAGE_H
#define MUSTER_MASTER_COMMON_STORAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct storage; // opaque

// `own` is the default checkpoint_storage (JSON), whose folder is allowed; `allowed` are absolute
// folders beside it. ERR_INVALID names the one that is not absolute.
int storage_new(const char *own, const char *const *allowed, size_t count, struct storage **out,
                struct error *e);
void storage_free(struct storage *s);                 // NULL is fine
const char *storage_default(const struct storage *s); // JSON, for experiments that name none
const char *storage_own(const struct storage *s);     // its folder

// Whether the master may go to the folder of a checkpoint_storage object. ERR_INVALID: its type is
// no folder; ERR_FORBIDDEN: no allowed folder holds it, and what to do.
int storage_check(const struct storage *s, const json_t *at, struct error *e);

// Opens the folder of checkpoint `uuid` in the storage `at` (JSON text); *shown, where wanted, is
// its path on the heap, for messages. Also ERR_UNAVAILABLE: the storage is not there;
// ERR_NOT_FOUND: the checkpoint is not, or something else has its name.
int storage_open(const struct storage *s, const char *at, const char *uuid, int *fd, char **shown,
                 struct error *e);

// The same for the folder that holds it: what is removed is removed there, by its name.
int storage_open_root(const struct storage *s, const char *at, int *fd, char **shown,
                      struct error *e);

#endif
