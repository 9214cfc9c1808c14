// Applies a template to a submission. Any thread that has a reader.
#ifndef MUSTER_MASTER_REGISTRY_TEMPLATE_APPLY_H
#define MUSTER_MASTER_REGISTRY_TEMPLATE_APPLY_H

#include "db/db.h"
#include "master/common/request.h"

// Completes the configuration with the template of that name (rules: api/config/template.h).
// `workspace`: of the submission; its template comes first. ERR_NOT_FOUND: the caller may see none;
// ERR_CONFLICT: the name is ambiguous.
int template_merge(struct db_reader *db, const struct principal *who, const char *name,
                   int64_t workspace, json_t *config, struct error *e);

#endif
