// Templates at a submission. Any thread that has a reader.
#ifndef MUSTER_MASTER_CORE_TEMPLATES_H
#define MUSTER_MASTER_CORE_TEMPLATES_H

#include "db/db.h"
#include "master/request.h"

// Completes the configuration, as it was written, by the template of that name (api/template.h has
// the rules). ERR_NOT_FOUND: there is none, for this caller.
int template_merge(struct db_reader *db, const struct principal *who, const char *name,
                   json_t *config, struct error *e);

#endif
