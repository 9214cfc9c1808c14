// One call of an import, for the sources of this folder. Core thread.
#ifndef MUSTER_MASTER_IMPORTS_INTERNAL_H
#define MUSTER_MASTER_IMPORTS_INTERNAL_H

#include <jansson.h>

#include "base/hash.h"
#include "master/kernel/state.h"

struct import_prepared { // the costly parts of a record, made on a worker
    char digest[SHA256_HEX];
    void *files; // the archive of an experiment's files; NULL: none
    size_t files_len;
    char files_hash[SHA256_HEX]; // "": none
};

struct import_call {
    struct core *c;
    struct request *rq;
    const struct import_prepared *prepared; // of the current record
    int64_t id;                             // of the import
    int64_t last_experiment, last_trial;    // ids up to these are kept; 0: none
};

enum import_outcome { IMPORT_NEW, IMPORT_EXISTING, IMPORT_CHANGED, IMPORT_SKIPPED };

struct import_result { // of one record
    enum import_outcome outcome;
    int64_t id;       // of the object here; 0: none
    struct error why; // of a skipped one
};

struct imported { // what an earlier call has stored about an old id
    bool found, open;
    int64_t id;
    char digest[SHA256_HEX];
};

// The handler of a kind fills *r, which begins as {IMPORT_NEW}.
typedef void import_record(struct import_call *m, const json_t *record, struct import_result *r);
import_record import_user, import_workspace, import_project, import_model, import_model_version;
import_record import_experiment, import_trial, import_checkpoint;
import_record import_metrics_begin, import_metrics_end;

// imports.c
bool import_row_exists(struct db_rows *rows); // closes them
struct imported import_find(struct import_call *m, const char *kind, const char *old);
// The id of the object that the record names under `key`. False: it was not imported, and *r says
// so.
bool import_reference(struct import_call *m, const json_t *record, const char *key,
                      const char *kind, struct import_result *r, int64_t *id);
void import_keep(struct import_call *m, const char *kind, const char *old, int64_t id, bool open,
                 const char *digest);
void import_skip(struct import_result *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *import_text(const json_t *record, const char *key); // "" if it is absent
int64_t import_time(const json_t *record, const char *key); // microseconds; 0: absent or no time
char *import_json(const json_t *record, const char *key, const char *fallback); // heap

// metrics.c: stores the posts of the body.
int import_metrics_store(struct import_call *m, struct error *e);

#endif
