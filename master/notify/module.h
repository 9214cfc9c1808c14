// The notify module and its request handlers.
#ifndef MUSTER_MASTER_NOTIFY_MODULE_H
#define MUSTER_MASTER_NOTIFY_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module notify_module;

// Webhooks (webhooks.h); params[0] is the id. core_webhook_custom: an alert of a program.
core_handler core_webhooks, core_webhook, core_webhook_create, core_webhook_patch,
    core_webhook_delete, core_webhook_custom;

// Hooks in webhooks.c and change_data.c.
int webhooks_load(struct core *c, struct error *e);
void webhooks_free(struct core *c);
void changes_describe(struct core *c, struct changes *changes);

#endif
