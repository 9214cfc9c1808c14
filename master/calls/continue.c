// Continues an experiment that has ended: its trial starts again from its newest checkpoint, with
// the old configuration and the caller's changes; in a search the trials that did not complete do.
// A worker reads and checks the configuration; the core thread makes the experiment active again.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/calls/submit.h"
#include "master/ingest/log_policies.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

struct continuation {
    struct work work; // first
    struct request *rq;
    int64_t id;
    json_t *config; // the complete configuration with the changes
    json_t *before; // the configuration that it had
    bool many;      // the experiment is a search with many trials
    bool completed; // it has completed, with all of its trials
    int err;
    struct error e;
};

static void continuation_free(struct work *work)
{
    struct continuation *n = (struct continuation *)work;
    json_decref(n->config);
    json_decref(n->before);
    free(n);
}

// --- on the worker -------------------------------------------------------------------------------

static int read_override(struct continuation *n, struct yaml_doc *doc)
{
    const char *text = jget_string(n->rq->body, "overrideConfig", "");
    if (strlen(text) > LIMIT_CONFIG)
        return error_set(&n->e, ERR_TOO_LARGE, "overrideConfig: more than %d bytes", LIMIT_CONFIG);
    if (!*text)
        return 0;
    int err = yaml_parse(text, strlen(text), "overrideConfig", doc, &n->e);
    if (!err && json_is_null(doc->root))
        return 0;
    if (!err && !json_is_object(doc->root))
        err = error_set(&n->e, ERR_INVALID, "overrideConfig: not a YAML mapping of keys to values");
    if (!err && (jget(doc->root, "workspace") || jget(doc->root, "project")))
        err = error_set(&n->e, ERR_INVALID,
                        "overrideConfig: workspace and project cannot be changed here; move the "
                        "experiment with POST /experiments/{id}/move");
    return err;
}

// Removes the location from a message about the merged configuration: it has no text with lines
// that the user could look up.
static void strip_location(struct error *e, const char *name)
{
    const char *colon = strstr(e->text, ": ");
    if (colon && !strncmp(e->text, name, strlen(name)))
        memmove(e->text, colon + 2, strlen(colon + 2) + 1);
}

static bool asks_for_more_trials(const struct continuation *n, const json_t *config)
{
    return jget_int(jget(config, "searcher"), "max_trials", 0) >
           jget_int(jget(n->before, "searcher"), "max_trials", 0);
}

// Which trials of a search ran, and how, follows from its configuration, so most of it stays.
static int check_search(struct continuation *n, const json_t *config)
{
    const char *name = jget_string(jget(config, "searcher"), "name", "");
    if (!n->many && !strcmp(name, "single"))
        return 0;
    int err = search_check_continue(n->before, config, &n->e);
    if (err)
        return error_prefix(&n->e, "overrideConfig");
    if (n->completed && !asks_for_more_trials(n, config))
        return error_set(&n->e, ERR_STATE,
                         "experiment %lld has been completed: all trials of its search have "
                         "completed, so there is nothing to continue unless searcher.max_trials "
                         "grows",
                         (long long)n->id);
    return 0;
}

// Checks the merged configuration like that of a submission.
static int check_merged_config(struct continuation *n, json_t *merged)
{
    struct yaml_doc doc = {0};
    char *text = json_text(merged);
    int err = expconf_parse(text, strlen(text), "the configuration", &doc, &n->e);
    free(text);
    if (err)
        strip_location(&n->e, "the configuration:");
    if (!err)
        err = check_search(n, doc.root);
    if (!err)
        err = log_policies_check(doc.root, NULL, &n->e);
    if (!err)
        n->config = json_incref(doc.root);
    yaml_doc_free(&doc);
    return err;
}

static int refuse_unmanaged(int64_t id, struct error *e)
{
    return error_set(e, ERR_STATE,
                     "experiment %lld is unmanaged: start its program again where it runs",
                     (long long)id);
}

// The searcher could not tell which of its trials they are.
static int refuse_foreign(int64_t id, struct error *e)
{
    return error_set(
        e, ERR_STATE,
        "experiment %lld was imported, and its search numbered its trials otherwise, so "
        "it cannot be continued; fork the experiment to search again",
        (long long)id);
}

// Without a checkpoint the trial would start at step 0, which voids its reports; those of other
// experiments come again, but not those of a program that ran elsewhere.
static int refuse_loss(int64_t id, struct error *e)
{
    return error_set(
        e, ERR_STATE,
        "experiment %lld was imported and a trial of it has no checkpoint, so it would "
        "start at step 0 and its imported metrics would be lost; fork the experiment "
        "instead",
        (long long)id);
}

// An imported search compares trials at rungs by what it has seen, which was not imported.
static int check_covered(struct continuation *n, const json_t *config, struct db_rows *rows)
{
    struct search *s = NULL;
    int err = search_restore(config, DB_GET(rows, EXPERIMENT_TO_CONTINUE, seed),
                             DB_GET(rows, EXPERIMENT_TO_CONTINUE, searcher_state), &s, &n->e);
    if (!err && !search_covers(s, (size_t)DB_GET(rows, EXPERIMENT_TO_CONTINUE, trials)))
        err = error_set(&n->e, ERR_STATE,
                        "experiment %lld was imported without the state of its search, so it "
                        "cannot be continued; fork the experiment to search again",
                        (long long)n->id);
    search_free(s);
    return err;
}

static int read_trials(struct continuation *n, struct db_reader *db, const json_t *config)
{
    int err = 0;
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_TO_CONTINUE, n->id);
    if (db_next(rows) <= 0)
        err = error_not_found(&n->e, "experiment", "%lld", (long long)n->id);
    else if (!DB_GET(rows, EXPERIMENT_TO_CONTINUE, numbered))
        err = refuse_foreign(n->id, &n->e);
    else if (DB_GET(rows, EXPERIMENT_TO_CONTINUE, loses_metrics))
        err = refuse_loss(n->id, &n->e);
    else
        err = check_covered(n, config, rows);
    n->completed = !err && DB_GET(rows, EXPERIMENT_TO_CONTINUE, completed);
    db_rows_close(rows);
    return err;
}

static void read_continuation(struct work *work, struct db_reader *db)
{
    struct continuation *n = (struct continuation *)work;
    struct yaml_doc over = {0};
    json_t *config = NULL;
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_SOURCE, n->id);
    if (db_next(rows) <= 0)
        n->err = error_not_found(&n->e, "experiment", "%lld", (long long)n->id);
    else if (DB_GET(rows, EXPERIMENT_SOURCE, unmanaged))
        n->err = refuse_unmanaged(n->id, &n->e);
    else
        n->err = json_parse(DB_GET(rows, EXPERIMENT_SOURCE, config),
                            strlen(DB_GET(rows, EXPERIMENT_SOURCE, config)), "the configuration",
                            &config, &n->e);
    db_rows_close(rows);
    if (!n->err)
        n->err = read_trials(n, db, config);
    if (!n->err)
        n->err = read_override(n, &over);
    n->many = strcmp(jget_string(jget(config, "searcher"), "name", ""), "single") != 0;
    n->before = config ? json_deep_copy(config) : NULL;
    if (!n->err && json_object_size(over.root))
        json_deep_merge(config, over.root);
    if (!n->err)
        n->err = check_merged_config(n, config);
    json_decref(config);
    yaml_doc_free(&over);
}

// --- on the core thread --------------------------------------------------------------------------

// The end of the experiment must be committed, because the experiment is read from the store.
static int check_continuation(struct core *c, const struct request *rq, const struct experiment *x,
                              struct error *e)
{
    int err = core_may_change(c, rq, x, e);
    if (!err)
        err = core_may_submit(c, rq, x->project_id, e);
    if (!err &&
        experiment_transition(x->state, EXPERIMENT_EV_CONTINUE).action == EXPERIMENT_DO_REFUSE)
        err = error_set(e, ERR_STATE,
                        "experiment %lld is %s; only experiments that have ended can be continued",
                        (long long)x->id, experiment_state_word(x->state));
    if (!err && x->archived)
        err = error_set(e, ERR_STATE, "experiment %lld is archived; unarchive it first",
                        (long long)x->id);
    if (!err && x->active && x->active->unmanaged)
        err = refuse_unmanaged(x->id, e);
    if (!err && (x->active || x->ended_in > atomic_load(&c->committed)))
        err = error_set(e, ERR_BUSY, "experiment %lld has just ended; try again in a moment",
                        (long long)x->id);
    if (!err && *jget_string(rq->body, "overrideConfig", "") && rq->principal.user_id != x->user_id)
        err = error_set(e, ERR_FORBIDDEN,
                        "overrideConfig: experiment %lld runs as its owner, so only the owner may "
                        "change its configuration; fork it to run a changed copy",
                        (long long)x->id);
    return err;
}

// Starts the search again: the trials that have not completed run again, and those that it has not
// created yet are created. A single trial runs again in any case.
static void search_restart(struct core *c, struct active_experiment *active)
{
    size_t count = 0;
    for (const struct trial *t = active->trials; t; t = t->next)
        count++;
    bool *completed = xcalloc(count + 1, sizeof *completed);
    double *bests = xcalloc(count + 1, sizeof *bests);
    for (const struct trial *t = active->trials; t; t = t->next) {
        int64_t number = strtoll(t->request_id, NULL, 10);
        if (number < 1 || number > (int64_t)count)
            continue;
        completed[number - 1] = t->state == TRIAL_COMPLETED;
        bests[number - 1] = t->has_best ? t->best : NAN;
    }
    const struct search_event event = {
        .kind = SEARCH_CONTINUE, .completed = completed, .bests = bests, .trials = count};
    STORE(c, EXPERIMENT_CONTINUE, active->config_text, active->experiment->id);
    experiment_search_event(c, active, &event);
    free(completed);
    free(bests);
}

static int continue_experiment(struct core *c, struct experiment *x, struct continuation *n)
{
    int err = active_experiment_restore(c, x, json_incref(n->config), &n->e);
    if (err)
        return err;
    struct active_experiment *active = x->active;
    active->progress = 0;
    active->priority = (int)jget_int(jget(active->config, "resources"), "priority",
                                     pool_default_priority(active->pool));
    STORE(c, EXPERIMENT_PATCH, NULL, NULL, NULL, NULL, active->priority, NULL, x->id);
    queue_move_to_end(c, active);
    active_experiment_schedule(c, active);
    experiment_event(c, x, EXPERIMENT_EV_CONTINUE, NULL);
    STORE(c, EXPERIMENT_REOPEN, experiment_state_word(x->state), x->id);
    search_restart(c, active);
    log_info("experiment continued", "exp=%lld user=%s", (long long)x->id,
             n->rq->principal.username);
    return 0;
}

static void continuation_ready(struct core *c, struct work *work)
{
    struct continuation *n = (struct continuation *)work;
    struct request *rq = n->rq;
    struct experiment *x = core_experiment_find(c, n->id);
    if (!n->err && !x)
        n->err = error_not_found(&n->e, "experiment", "%lld", (long long)n->id);
    if (!n->err)
        n->err = check_continuation(c, rq, x, &n->e);
    if (!n->err)
        n->err = feasibility_check(c, n->config, core_workspace_of(c, x), x->user_id, &n->e);
    if (!n->err)
        n->err = feasibility_check_storage(c, n->config, &n->e);
    if (!n->err)
        n->err = queue_check_submission(c, rq, core_workspace_of(c, x), n->config, &n->e);
    if (!n->err)
        n->err = continue_experiment(c, x, n);
    if (n->err) {
        core_refuse(c, rq, &n->e);
    } else {
        submission_warn(c, rq, n->config);
        core_complete(c, rq);
    }
    continuation_free(work);
}

int core_experiment_continue(struct core *c, struct request *rq, struct error *e)
{
    int64_t id = jget_int(rq->body, "id", 0);
    struct experiment *x = core_experiment_find(c, id);
    rq->id = id;
    if (!x || x->kind != KIND_EXPERIMENT || !core_sees(c, rq, x))
        return error_set(e, ERR_NOT_FOUND, "id: experiment '%lld' not found", (long long)id);
    int err = check_continuation(c, rq, x, e);
    if (err)
        return err;
    struct continuation *n = xcalloc(1, sizeof *n);
    n->work = (struct work){
        .run = read_continuation, .done = continuation_ready, .drop = continuation_free};
    n->rq = rq;
    n->id = id;
    err = workers_send(c->workers, &n->work, WORK_QUICK, e);
    if (err)
        continuation_free(&n->work);
    return err ? err : REQUEST_PARKED;
}
