#include "master/notify/module.h"

#include "master/notify/webhooks.h"

const struct core_module notify_module = {
    .name = "notify",
    .load = webhooks_load,
    .free = webhooks_free,
    .describe = changes_describe,
    .workspace_removed = webhooks_workspace_removed,
    .experiment_state_changed = webhooks_experiment_state,
    .log_patterns_wanted = webhooks_add_patterns,
    .log_line_matched = webhooks_log_matched,
    .validation_reported = webhooks_validation,
};
