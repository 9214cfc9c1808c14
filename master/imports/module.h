// The request handlers of this folder.
#ifndef MUSTER_MASTER_IMPORTS_MODULE_H
#define MUSTER_MASTER_IMPORTS_MODULE_H

#include "master/kernel/core.h"

// POST /imports: begins or continues the import of a cluster. The id and whether ids are kept are
// the result.
core_handler core_import_begin;
// POST /imports/{id}/records: {"records": [{"kind", "old", ..}]}; the result has one entry for
// each.
core_handler core_import_records;
// POST /imports/{id}/metrics: {"posts": [..]}, reports of trials whose metrics were begun.
core_handler core_import_metrics;
int import_metrics_read(struct request *rq, char *text, size_t len, struct error *e); // its body

#endif
