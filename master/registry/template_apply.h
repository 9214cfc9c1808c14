// Templates at a submission. Any thread that has a reader.
#ifndef MUSTER_MASTER_REGISTRY_TEMPLATE_APPLY_H
#define MUSTER_MASTER_REGISTRY_TEMPLATE_APPLY_H

#include "db/db.h"
#include "master/common/request.h"

// Completes the configuration, as it was written, by the template of that name
// (api/config/template.h has the rules). `workspace`: of the submission, whose template comes
// first. ERR_NOT_FOUND: there is none, for this caller; ERR_CONFLICT: it is not clear which is
// meant.
int template_merge(struct db_reader *db, const struct principal *who, const char *name,
                   int64_t workspace, json_t *config, struct error *e);

#endif
