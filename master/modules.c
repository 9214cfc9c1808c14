#include "master/modules.h"

#include "master/calls/bulk/container_removal.h"
#include "master/calls/module.h"
#include "master/ingest/module.h"
#include "master/lifecycle/module.h"
#include "master/notify/module.h"
#include "master/retention/module.h"
#include "master/teams/module.h"

const struct core_module *const master_modules[] = {
    &teams_module,  &lifecycle_module, &retention_module,         &ingest_module,
    &notify_module, &calls_module,     &container_removal_module, NULL,
};
