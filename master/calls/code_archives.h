// The archives of submissions' files in the store. A small one is in the row of its definition. A
// large one lies in parts, which are written ahead of that row, each by a batch of its own, so that
// nobody's commit waits for more than one part. Parts that no definition owns (a submission that
// failed, the same files once more, a deleted experiment) are removed likewise.
#ifndef MUSTER_MASTER_CALLS_CODE_ARCHIVES_H
#define MUSTER_MASTER_CALLS_CODE_ARCHIVES_H

#include "base/buf.h"
#include "base/hash.h"
#include "db/db.h"
#include "master/kernel/state.h"

struct files { // on their way into the store
    struct db *db;
    int64_t archive; // the number of its parts, if it becomes any
    int64_t parts;   // that are written; 0: all of it is in `rest`
    struct buf rest;
    char hash[SHA256_HEX]; // of the archive
};

// Any thread but the core's and the writer's. The JSON list of files as an archive; `texts` as for
// archive_pack_list_to(). files_free() also after an error.
int files_pack(struct files *f, struct db *db, int64_t archive, const json_t *list,
               const char *texts, struct error *e);
void files_free(struct files *f);

// Core thread.
void files_store(struct core *c, const struct files *f); // the definition, into this turn's batch
void files_check(struct core *c, int64_t archive); // after this turn's commit; 0: nothing to check

#endif
