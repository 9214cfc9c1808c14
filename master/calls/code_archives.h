// Archives of submitted files in the store. A small archive is stored in the row of its model
// definition. A large one is stored as parts ahead of that row, in one batch for each part, so that
// no other commit waits for more than one part. Parts without a model definition (of a refused
// submission, of files that were stored before, of a deleted experiment) are deleted in small
// batches, too.
#ifndef MUSTER_MASTER_CALLS_CODE_ARCHIVES_H
#define MUSTER_MASTER_CALLS_CODE_ARCHIVES_H

#include "base/buf.h"
#include "base/hash.h"
#include "db/db.h"
#include "master/kernel/state.h"

struct code_archive { // while it is written to the store
    struct db *db;
    int64_t archive; // the number of its parts, if it has any
    int64_t parts;   // that are written; 0: all bytes are in `rest`
    struct buf rest;
    char hash[SHA256_HEX]; // of the archive
};

// Packs a JSON list of files; `texts` as for archive_pack_list_to(). Any thread but the core's and
// the writer's. Call code_archive_free() also after an error.
int code_archive_pack(struct code_archive *f, struct db *db, int64_t archive, const json_t *list,
                      const char *texts, struct error *e);
void code_archive_free(struct code_archive *f);

// Core thread. code_archive_store() adds the definition to this turn's batch. code_archives_check()
// deletes the parts of an archive after the commit of this turn if no definition owns them; 0:
// there is nothing to check.
void code_archive_store(struct core *c, const struct code_archive *f);
void code_archives_check(struct core *c, int64_t archive);

#endif
