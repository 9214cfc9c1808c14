// A data directory that was moved while no master ran. The store names checkpoint storage by full
// paths; at the start they are made to name the place where the storage lies now. Before the core's
// thread starts.
#ifndef MUSTER_MASTER_RELOCATE_H
#define MUSTER_MASTER_RELOCATE_H

#include "base/error.h"
#include "db/db.h"
#include "master/common/storage.h"

// For checkpoint storage within the data directory, which moves with the store. Compares the
// default storage with that of the last start. When the folder of the last start is there no more,
// all experiments and checkpoints that were in it are in the present one.
int moved_adjust(struct db *db, const struct storage *storage, struct error *e);

#endif
