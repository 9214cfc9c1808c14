// Webhooks send events to URLs outside the cluster. An event is put into the outbox table in the
// batch of the change itself, so neither exists without the other; webhook_delivery.h sends it.
// Core thread; the core owns them.
//
// A webhook of a workspace receives events of the workspace's experiments, one of the cluster those
// of all experiments, and one of mode SPECIFIC only those of experiments that name it:
//
//   integrations: {webhooks: {webhook_name: [NAME], webhook_id: [ID], exclude: false}}
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOKS_H
#define MUSTER_MASTER_NOTIFY_WEBHOOKS_H

#include "db/metrics/series.h"
#include "master/ingest/log_patterns.h"
#include "master/kernel/state.h"

enum trigger_kind {
    TRIGGER_STATE,
    TRIGGER_METRIC,
    TRIGGER_LINE,
    TRIGGER_CUSTOM,
    TRIGGER_ALERT, // of webhooks of the cluster alone
    TRIGGER_KINDS
};
// Words of the store; TRIGGER_TYPE_.. in the API.
extern const char *const trigger_words[TRIGGER_KINDS];

// --- results of requests, in the request's arena (master/registry/webhook_test.c writes them)
// -----------

struct webhook_snapshot {
    int64_t id, workspace; // workspace: 0: of the cluster
    const char *name, *url;
    bool slack, specific;
    const struct webhook_trigger_snapshot {
        int64_t id;
        enum trigger_kind kind;
        const json_t *condition;
    } * triggers;
    size_t trigger_count;
};

struct webhooks_snapshot {
    int64_t offset, limit, shown, total; // limit 0: all
    const struct webhook_snapshot *items;
};

// --- events --------------------------------------------------------------------------------------

// The experiment has a new state.
void webhooks_experiment_state(struct core *c, const struct experiment *x);

// webhooks_add_patterns() adds the patterns of webhooks for a trial's log. webhooks_log_matched()
// fires the trigger whose pattern matched, once for a task.
void webhooks_add_patterns(struct core *c, const struct trial *t, struct log_pattern_list *w);
void webhooks_log_matched(struct core *c, const struct trial *t, const char *agent, int64_t trigger,
                          const char *line);

// Report `at` of the block is a validation; each trigger fires once for a trial.
void webhooks_validation(struct core *c, const struct trial *t, const struct series_block *b,
                         size_t at);

// An alert of the cluster begins or ends.
struct cluster_alert {
    int64_t id;
    const char *kind, *subject, *text; // the kind in the words of the store
    int64_t began_at;                  // wall
    bool ended;
};
void webhooks_alert(struct core *c, const struct cluster_alert *alert);

// The workspace is deleted, and its webhooks with it.
void webhooks_workspace_removed(struct core *c, const struct workspace *ws);

#endif
