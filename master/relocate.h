// Handles a data directory that was moved while no master ran. The store names checkpoint storage
// by full paths; at the start these paths are changed to the present place of the storage. Runs
// before the core's thread starts.
#ifndef MUSTER_MASTER_RELOCATE_H
#define MUSTER_MASTER_RELOCATE_H

#include "base/error.h"
#include "db/db.h"
#include "master/common/storage.h"

// Handles checkpoint storage within the data directory, which moves with the store. Compares the
// default storage with that of the last start. If the folder of the last start no longer exists,
// all experiments and checkpoints in it are assigned to the present one.
int relocate_checkpoints(struct db *db, const struct storage *storage, struct error *e);

#endif
