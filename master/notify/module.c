#include "master/notify/module.h"

#include "master/notify/webhooks.h"

const struct core_module notify_module = {
    .name = "notify",
    .load = webhooks_load,
    .free = webhooks_free,
    .describe = changes_describe,
    .workspace_removed = webhooks_forget,
    .experiment_state_changed = webhooks_state,
    .log_patterns_wanted = webhooks_wish,
    .log_line_matched = webhooks_line,
    .validation_reported = webhooks_validation,
};
