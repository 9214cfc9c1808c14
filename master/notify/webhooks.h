// Webhooks: addresses outside the cluster that are told when something happens. What happens is
// put into the outbox, a table, in the batch of the change itself, so neither is ever there without
// the other; master/notify/webhook_delivery.h sends what lies there. Core thread alone; the core
// owns them.
//
// One of a workspace hears of its experiments, one of the cluster of all; of mode SPECIFIC of those
// alone whose configuration names it:
//
//   integrations: {webhooks: {webhook_name: [NAME], webhook_id: [ID], exclude: false}}
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOKS_H
#define MUSTER_MASTER_NOTIFY_WEBHOOKS_H

#include "db/metrics/series.h"
#include "master/ingest/log_patterns.h"
#include "master/kernel/state.h"

enum trigger_kind { TRIGGER_STATE, TRIGGER_METRIC, TRIGGER_LINE, TRIGGER_CUSTOM, TRIGGER_KINDS };
extern const char *const trigger_words[TRIGGER_KINDS]; // of the store; on the wire TRIGGER_TYPE_..

// The experiment has another state now.
void webhooks_state(struct core *c, const struct experiment *x);

// webhooks_wish(): adds the patterns of webhooks for the lines of a trial's log. The other function
// is called when one has matched. Each trigger fires once for a task.
void webhooks_wish(struct core *c, const struct trial *t, struct log_watched *w);
void webhooks_line(struct core *c, const struct trial *t, const char *agent, int64_t trigger,
                   const char *line);

// A validation: report `at` of the block; each trigger fires once for a trial.
void webhooks_validation(struct core *c, const struct trial *t, const struct series_block *b,
                         size_t at);

// The workspace goes, and its webhooks with it.
void webhooks_forget(struct core *c, const struct workspace *ws);

#endif
