// What a person asks of an experiment, singly or of many (verbs.c, bulk.c). Core thread alone.
#ifndef MUSTER_MASTER_CALLS_EXPERIMENT_VERBS_H
#define MUSTER_MASTER_CALLS_EXPERIMENT_VERBS_H

#include "master/kernel/state.h"

enum verb {
    VERB_ACTIVATE,
    VERB_PAUSE,
    VERB_CANCEL,
    VERB_KILL,
    VERB_DELETE,
    VERB_ARCHIVE,
    VERB_UNARCHIVE,
    VERB_MOVE,        // to another project
    VERB_RETAIN_LOGS, // for so many days
};

// Checks what the caller may. `argument`: the project of VERB_MOVE, the days of VERB_RETAIN_LOGS.
int verb_do(struct core *c, const struct request *rq, struct experiment *x, enum verb verb,
            int64_t argument, struct error *e);

#endif
