#include "master/ingest/module.h"

#include "master/ingest/experiment_metrics.h"
#include "master/ingest/log_policies.h"
#include "master/ingest/logs.h"
#include "master/ingest/reports.h"

static void ingest_init(struct core *c)
{
    c->metrics = metric_ingest_new();
    c->logs = logs_new();
}

static int ingest_load(struct core *c, struct error *e)
{
    int err = report_ids_load(c, e);
    return err ? err : compaction_load(c, e);
}

static void ingest_free(struct core *c)
{
    logs_free(c->logs);
    compaction_free(c);
    metric_ingest_free(c->metrics);
}

static void open_experiment(struct core *c, struct active_experiment *active)
{
    (void)c;
    active->log_policies = log_policies_new(active->config);
}

static void close_experiment(struct core *c, struct active_experiment *active)
{
    (void)c;
    log_policies_free(active->log_policies);
}

static int load_trial(struct core *c, struct trial *t, const struct stored_metrics *stored,
                      struct error *e)
{
    bool live = !trial_is_terminal(t->state);
    trial_metrics_load(t, stored);
    if (live)
        experiment_metrics_report(c, t); // the lists may lack the last reports before a kill
    int err = live ? trial_metrics_catch_up(c, t, stored->known, e) : 0;
    return err ? err : log_policies_load(c, t, e);
}

static void restart_run(struct core *c, struct trial *t, int64_t from)
{
    trial_metrics_restart(c, t, from);
    media_restart(c, t, from);
}

static void end_trial(struct core *c, struct trial *t)
{
    trial_metrics_end(c, t);
    experiment_metrics_end_trial(c, t);
}

static void close_trial(struct core *c, struct trial *t)
{
    (void)c;
    trial_metrics_forget(t);
}

const struct core_module ingest_module = {
    .name = "ingest",
    .init = ingest_init,
    .load = ingest_load,
    .free = ingest_free,
    .flush = trial_metrics_flush,
    .experiment_opened = open_experiment,
    .experiment_closed = close_experiment,
    .trial_loaded = load_trial,
    .trial_continued = log_policies_forget,
    .run_restarted = restart_run,
    .trial_ended = end_trial,
    .trial_closed = close_trial,
    .trial_message = logs_add_message,
    .machine_measured = metrics_report_from_agent,
};
