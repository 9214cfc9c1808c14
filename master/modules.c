#include "master/modules.h"

#include "master/calls/bulk/workspace_removal.h"
#include "master/calls/module.h"
#include "master/ingest/module.h"
#include "master/lifecycle/module.h"
#include "master/notify/module.h"
#include "master/retention/module.h"
#include "master/teams/module.h"
#include "master/watch/module.h"

const struct core_module *const master_modules[] = {
    &teams_module, &lifecycle_module,         &retention_module, &ingest_module, &notify_module,
    &calls_module, &workspace_removal_module, &watch_module,     NULL,
};
