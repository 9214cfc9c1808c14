// Fires webhooks: state changes, log lines, metrics and alerts become rows of the outbox.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/notify/module.h"
#include "master/notify/webhook_internal.h"
#include "master/teams/teams.h"

enum {
    FIRED_MAX = 100000, // trials that one trigger remembers; the store knows the others
    ALERT_REPEAT_US = 10 * 1000000,
};

// --- subscriptions -------------------------------------------------------------------------------

static bool config_names(const json_t *config, const struct webhook *w)
{
    size_t i;
    json_t *entry;
    json_array_foreach(jget(config, "webhook_id"), i, entry)
    {
        if (json_is_integer(entry) && json_integer_value(entry) == w->id)
            return true;
    }
    json_array_foreach(jget(config, "webhook_name"), i, entry)
    {
        if (json_is_string(entry) && !strcmp(json_string_value(entry), w->name))
            return true;
    }
    return false;
}

static bool is_subscribed(struct core *c, const struct webhook *w, const struct experiment *x)
{
    const json_t *config = jget(jget(x->active->config, "integrations"), "webhooks");
    if (jget_bool(config, "exclude", false))
        return false;
    if (w->workspace && w->workspace != core_workspace_of(c, x)->id)
        return false;
    return !w->specific || config_names(config, w);
}

static void outbox_append(struct core *c, const struct webhook_trigger *t,
                          const struct webhook_subject *s)
{
    char event[UUID_TEXT];
    char *text = webhook_payload(c, t, s, event);
    STORE(c, OUTBOX_INSERT, t->hook->id, event, text, c->wall);
    core_notify_outbox(c);
    free(text);
}

// Fires at most once for each task, also across restarts of the master.
static void outbox_append_once(struct core *c, struct webhook_trigger *t,
                               const struct webhook_subject *s)
{
    char event[UUID_TEXT];
    if (id_map_find(&t->fired, s->trial))
        return;
    if (t->fired.count >= FIRED_MAX)
        t->fired.count = 0;
    id_map_put(&t->fired, s->trial, t);
    char *text = webhook_payload(c, t, s, event);
    STORE(c, OUTBOX_INSERT_ONCE, t->hook->id, event, text, c->wall, s->task, t->id);
    STORE(c, WEBHOOK_FIRED, s->task, t->id);
    core_notify_outbox(c);
    free(text);
}

// --- triggers ------------------------------------------------------------------------------------

// Iterates over the triggers of a kind that are subscribed to an experiment. NULL: no more.
static struct webhook_trigger *next_trigger(struct core *c, enum trigger_kind kind,
                                            const struct experiment *x,
                                            struct webhook_trigger *after)
{
    struct webhook *w = after ? after->hook : c->webhooks->first;
    size_t i = after ? (size_t)(after - w->triggers) + 1 : 0;
    if (!c->webhooks->of_kind[kind] || !x->active)
        return NULL;
    for (; w; w = w->next, i = 0) {
        if (!is_subscribed(c, w, x))
            continue;
        for (; i < w->trigger_count; i++)
            if (w->triggers[i].kind == kind)
                return &w->triggers[i];
    }
    return NULL;
}

void webhooks_experiment_state(struct core *c, const struct experiment *x)
{
    const char *state = experiment_state_word(x->state);
    const struct webhook_subject s = {.x = x};
    if (x->kind != KIND_EXPERIMENT)
        return;
    struct webhook_trigger *t = NULL;
    while ((t = next_trigger(c, TRIGGER_STATE, x, t)))
        if (!strcmp(t->state, state))
            outbox_append(c, t, &s);
}

void webhooks_add_patterns(struct core *c, const struct trial *trial, struct log_pattern_list *w)
{
    struct webhook_trigger *t = NULL;
    while ((t = next_trigger(c, TRIGGER_LINE, trial->active->experiment, t)))
        if (!id_map_find(&t->fired, trial->id) && !t->unusable)
            log_patterns_add(w, t->pattern, -1, t->id);
}

void webhooks_log_matched(struct core *c, const struct trial *trial, const char *agent,
                          int64_t trigger, const char *line)
{
    const struct experiment *x = trial->active->experiment;
    const struct webhook_subject s = {
        .x = x, .trial = trial->id, .task = trial->task_id, .agent = agent, .line = line};
    struct webhook_trigger *t = NULL;
    while ((t = next_trigger(c, TRIGGER_LINE, x, t))) // it may have been deleted meanwhile
        if (t->id == trigger)
            outbox_append_once(c, t, &s);
}

void webhooks_validation(struct core *c, const struct trial *trial, const struct series_block *b,
                         size_t at)
{
    const struct experiment *x = trial->active->experiment;
    struct webhook_trigger *t = NULL;
    while ((t = next_trigger(c, TRIGGER_METRIC, x, t))) {
        struct webhook_subject s = {
            .x = x, .trial = trial->id, .task = trial->task_id, .steps = b->steps[at]};
        if (series_value(b, at, t->metric, &s.value) &&
            (t->above ? s.value > t->limit : s.value < t->limit))
            outbox_append_once(c, t, &s);
    }
}

// --- alerts of the cluster -----------------------------------------------------------------------

void webhooks_alert(struct core *c, const struct cluster_alert *alert)
{
    const struct webhook_subject s = {.alert = alert};
    for (struct webhook *w = c->webhooks->first; w; w = w->next)
        for (size_t i = 0; i < w->trigger_count; i++)
            if (w->triggers[i].kind == TRIGGER_ALERT)
                outbox_append(c, &w->triggers[i], &s);
}

// --- alerts of programs --------------------------------------------------------------------------

// A client that lost the connection repeats its alert at once.
static bool is_repeated(struct core *c, const struct webhook_subject *s)
{
    struct webhooks *all = c->webhooks;
    uint64_t hash = hash64(s->title, strlen(s->title)) * 31 +
                    hash64(s->description, strlen(s->description)) * 17 +
                    hash64(s->level, strlen(s->level)) + (uint64_t)s->x->id * 7 +
                    (uint64_t)s->trial;
    for (size_t i = 0; i < ALERTS_REMEMBERED; i++)
        if (all->alerts[i].hash == hash && all->alerts[i].at &&
            c->now - all->alerts[i].at < ALERT_REPEAT_US)
            return true;
    all->alerts[all->alert_next] = (struct webhook_alert){hash, c->now};
    all->alert_next = (all->alert_next + 1) % ALERTS_REMEMBERED;
    return false;
}

static int read_alert(const json_t *body, struct webhook_subject *s, struct error *e)
{
    const json_t *data = jget(body, "data");
    const char *level = wire_word(WIRE_LOG_LEVEL, jget_string(data, "level", "INFO"));
    s->title = jget_string(data, "title", "");
    s->description = jget_string(data, "description", "");
    s->level = level ? level : "INFO";
    s->trial = jget_int(body, "trialId", 0);
    if (strlen(s->title) > LIMIT_NAME || strlen(s->description) > LIMIT_DESCRIPTION)
        return error_set(e, ERR_TOO_LARGE, "data: a title has at most %d bytes, a description %d",
                         LIMIT_NAME, LIMIT_DESCRIPTION);
    return 0;
}

// The experiment of the alert: a task's own, or one that the user may change.
static int find_alerting_experiment(struct core *c, struct request *rq, struct experiment **out,
                                    struct error *e)
{
    int64_t id = jget_int(rq->body, "experimentId", rq->principal.experiment_id);
    if (rq->principal.kind == PRINCIPAL_TASK && id != rq->principal.experiment_id)
        return error_set(e, ERR_FORBIDDEN, "experimentId: this token belongs to experiment %lld",
                         (long long)rq->principal.experiment_id);
    *out = core_experiment_find(c, id);
    if (!*out)
        return error_not_found(e, "experiment", "%lld", (long long)id);
    int rc = rq->principal.kind == PRINCIPAL_TASK ? 0 : core_may_change(c, rq, *out, e);
    if (!rc && !(*out)->active)
        rc = error_set(e, ERR_STATE, "experiment %lld has ended", (long long)id);
    return rc;
}

int core_webhook_custom(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x = NULL;
    struct webhook_subject s = {0};
    int rc = find_alerting_experiment(c, rq, &x, e);
    if (!rc)
        rc = read_alert(rq->body, &s, e);
    if (rc)
        return rc;
    s.x = x;
    if (is_repeated(c, &s))
        return 0;
    struct webhook_trigger *t = NULL;
    while ((t = next_trigger(c, TRIGGER_CUSTOM, x, t)))
        outbox_append(c, t, &s);
    return 0;
}
