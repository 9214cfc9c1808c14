// Finds what a filter of Determined's web client (api/filter/filter_json.h) selects for a verb on
// many objects. A worker calls it.
#ifndef MUSTER_MASTER_CALLS_BULK_BULK_SELECT_H
#define MUSTER_MASTER_CALLS_BULK_BULK_SELECT_H

#include "api/filter/filter.h"
#include "db/db.h"
#include "master/common/request.h"

// Reads the ids of the experiments (FILTER_EXPERIMENTS) or trials (FILTER_RUNS) that the caller may
// see and that pass the filter, in the order of their ids. project 0: of every project. *ids is on
// the heap. ERR_INVALID: the filter is wrong; ERR_TOO_LARGE: it selects more than LIMIT_BULK.
int bulk_select(struct db_reader *db, const struct principal *who, enum filter_list list,
                const char *filter, int64_t project, int64_t **ids, size_t *count, struct error *e);

#endif
