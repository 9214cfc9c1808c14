// Verbs, settings and labels of one experiment.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/external_ids.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/calls/submit.h"
#include "master/calls/verbs.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/retention/gc.h"
#include "master/retention/log_expiry.h"
#include "master/teams/teams.h"

// --- verbs ---------------------------------------------------------------------------------------

static int apply_event(struct core *c, struct experiment *x, enum experiment_event ev,
                       struct error *e)
{
    bool detached = x->active && x->active->unmanaged && !experiment_is_terminal(x->state);
    if (ev == EXPERIMENT_EV_DELETE)
        return removal_begin(c, x, e);
    return detached ? unmanaged_verb(c, x, ev, e) : experiment_event(c, x, ev, e);
}

static int set_archived(struct core *c, struct experiment *x, bool archived, struct error *e)
{
    if (!experiment_is_terminal(x->state))
        return error_set(e, ERR_STATE,
                         "experiment %lld is %s; only experiments that have ended can be archived",
                         (long long)x->id, experiment_state_word(x->state));
    x->archived = archived;
    STORE(c, EXPERIMENT_SET_ARCHIVED, archived, x->id);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    return 0;
}

// Moves an experiment to a project where the caller may submit. Its slots then count for the
// workspace of that project.
static int move_experiment(struct core *c, const struct request *rq, struct experiment *x,
                           int64_t project, struct error *e)
{
    struct project *from = core_project(c, x->project_id), *to = core_project(c, project);
    int err = core_may_submit(c, rq, project, e);
    if (!err && from->archived)
        err = error_set(e, ERR_STATE, "project %lld is archived; unarchive it first",
                        (long long)from->id);
    if (!err && x->active && !x->active->unmanaged)
        err = feasibility_check(c, x->active->config, to->workspace, x->user_id, e);
    if (!err)
        err = external_id_check_move(c, x, to->workspace, e);
    if (err || from == to)
        return err;
    if (from->workspace != to->workspace)
        change_mark_left(c, x);
    from->experiments--;
    to->experiments++;
    x->project_id = project;
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    STORE(c, EXPERIMENT_SET_PROJECT, project, x->id);
    if (x->active && !experiment_is_terminal(x->state))
        active_experiment_changed(c, x->active);
    return 0;
}

int experiment_verb_apply(struct core *c, const struct request *rq, struct experiment *x,
                          enum experiment_verb verb, int64_t argument, struct error *e)
{
    static const enum experiment_event events[] = {
        [VERB_ACTIVATE] = EXPERIMENT_EV_ACTIVATE, [VERB_PAUSE] = EXPERIMENT_EV_PAUSE,
        [VERB_CANCEL] = EXPERIMENT_EV_CANCEL,     [VERB_KILL] = EXPERIMENT_EV_KILL,
        [VERB_DELETE] = EXPERIMENT_EV_DELETE,
    };
    int err = core_may_change(c, rq, x, e);
    if (err)
        return err;
    switch (verb) {
    case VERB_ARCHIVE:
    case VERB_UNARCHIVE:
        return set_archived(c, x, verb == VERB_ARCHIVE, e);
    case VERB_MOVE:
        return move_experiment(c, rq, x, argument, e);
    case VERB_RETAIN_LOGS:
        log_retention_set(c, x, argument);
        return 0;
    default:
        return apply_event(c, x, events[verb], e);
    }
}

static int apply_to_one(struct core *c, struct request *rq, enum experiment_verb verb,
                        struct error *e)
{
    struct experiment *x;
    int err = core_param_experiment(c, rq, &x, e);
    return err ? err
               : experiment_verb_apply(c, rq, x, verb,
                                       jget_int(rq->body, "destinationProjectId", 0), e);
}

int core_experiment_activate(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_ACTIVATE, e);
}

int core_experiment_pause(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_PAUSE, e);
}

int core_experiment_cancel(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_CANCEL, e);
}

int core_experiment_kill(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_KILL, e);
}

int core_experiment_delete(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_DELETE, e);
}

int core_experiment_archive(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_ARCHIVE, e);
}

int core_experiment_unarchive(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_UNARCHIVE, e);
}

int core_experiment_move(struct core *c, struct request *rq, struct error *e)
{
    return apply_to_one(c, rq, VERB_MOVE, e);
}

// The best value of the searcher's metric. False: no validation was reported yet.
static bool best_metric(struct core *c, const struct experiment *x, double *out)
{
    if (x->active) {
        *out = x->active->best;
        return x->active->has_best;
    }
    struct db_rows *rows = DB_QUERY(c->reader, EXPERIMENT_BEST, x->id);
    bool found = db_next(rows) > 0 && !DB_IS_NULL(rows, EXPERIMENT_BEST, best_metric);
    *out = found ? DB_GET(rows, EXPERIMENT_BEST, best_metric) : 0;
    db_rows_close(rows);
    return found;
}

int core_experiment_best_metric(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    double best;
    int err = core_param_experiment(c, rq, &x, e);
    if (err)
        return err;
    if (!best_metric(c, x, &best))
        return error_set(e, ERR_NOT_FOUND, "experiment %lld has reported no validation yet",
                         (long long)x->id);
    request_answer(rq, ANSWER_DOUBLE("metric", best));
    return 0;
}

// --- settings ------------------------------------------------------------------------------------

struct experiment_settings { // NULL: unchanged
    const char *name, *description, *notes;
    const json_t *labels;
    struct queue_move move;
    struct resize resize;
    int64_t kept[3]; // checkpoints: best of the experiment, best and latest of each trial; -1:
                     // unchanged
};

static const char *const retention_wire_keys[3] = {"saveExperimentBest", "saveTrialBest",
                                                   "saveTrialLatest"};
static const char *const retention_config_keys[3] = {"save_experiment_best", "save_trial_best",
                                                     "save_trial_latest"};

static bool is_active(const struct experiment *x)
{
    return x->active && !experiment_is_terminal(x->state);
}

static int read_text(const json_t *body, const char *key, size_t limit, const char **out,
                     struct error *e)
{
    *out = jget_string(body, key, NULL);
    if (*out && strlen(*out) > limit)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %zu bytes", key, limit);
    return 0;
}

static int check_label(const json_t *label, const char *where, struct error *e)
{
    if (json_string_length(label) && json_string_length(label) <= LIMIT_NAME)
        return 0;
    return error_set(e, ERR_INVALID, "%s: not a label of 1 to %d bytes", where, LIMIT_NAME);
}

static int read_labels(const json_t *body, const json_t **out, struct error *e)
{
    size_t i;
    json_t *label;
    char where[32];
    *out = jget(body, "labels");
    if (*out && !json_is_array(*out))
        return error_set(e, ERR_INVALID, "labels: not a list of words");
    if (json_array_size(*out) > LIMIT_LABELS)
        return error_set(e, ERR_TOO_LARGE, "labels: more than %d", LIMIT_LABELS);
    json_array_foreach(*out, i, label)
    {
        snprintf(where, sizeof where, "labels.%zu", i);
        if (check_label(label, where, e))
            return ERR_INVALID;
    }
    return 0;
}

static int read_retention(const json_t *body, struct experiment_settings *s, struct error *e)
{
    const json_t *storage = jget(body, "checkpointStorage");
    for (int i = 0; i < 3; i++) {
        const json_t *value = jget(storage, retention_wire_keys[i]);
        s->kept[i] = value ? jget_int(storage, retention_wire_keys[i], -1) : -1;
        if (value && (s->kept[i] < 0 || s->kept[i] > INT32_MAX))
            return error_set(e, ERR_INVALID,
                             "checkpointStorage.%s: not a number of checkpoints (0 or more)",
                             retention_wire_keys[i]);
    }
    return 0;
}

static int read_resources(struct core *c, const struct request *rq, const struct experiment *x,
                          struct experiment_settings *s, struct error *e)
{
    const json_t *given = jget(rq->body, "resources");
    int err = queue_move_read(c, x, given, "resources", &s->move, e);
    bool resizes = jget(given, "slotsPerTrial") || jget(given, "minSlots");
    s->resize = (struct resize){-1, -1};
    if (err || (queue_move_is_empty(&s->move) && !resizes))
        return err;
    if (!is_active(x))
        return error_set(e, ERR_STATE,
                         "experiment %lld has ended; its resources cannot be changed. To run it "
                         "again with other resources, fork it",
                         (long long)x->id);
    if (x->active->unmanaged)
        return error_set(e, ERR_STATE,
                         "experiment %lld is unmanaged: it uses no resources of this cluster",
                         (long long)x->id);
    err = resize_read(x->active, given, "resources", &s->resize, e);
    if (!err && resizes)
        err = resize_check(c, x->active, &s->resize, "resources", e);
    if (!err && !queue_move_is_empty(&s->move))
        err = queue_move_check(c, rq, x->active, &s->move, "resources", e);
    return err;
}

static int read_settings(const json_t *body, struct experiment_settings *s, struct error *e)
{
    int err = read_text(body, "name", LIMIT_NAME, &s->name, e);
    if (!err)
        err = read_text(body, "description", LIMIT_DESCRIPTION, &s->description, e);
    if (!err)
        err = read_text(body, "notes", LIMIT_BODY_SMALL, &s->notes, e);
    if (!err)
        err = read_labels(body, &s->labels, e);
    if (!err)
        err = read_retention(body, s, e);
    if (!err && s->name && !s->name[strspn(s->name, " \t\r\n")])
        err = error_set(e, ERR_INVALID, "name: empty");
    return err;
}

static void set_config(json_t *config, const char *key, json_t *value)
{
    must(!json_object_set_new(config, key, value));
}

static bool changes_retention(const struct experiment_settings *s)
{
    return s->kept[0] >= 0 || s->kept[1] >= 0 || s->kept[2] >= 0;
}

static void apply_retention(struct active_experiment *active, const struct experiment_settings *s)
{
    json_t *storage = json_object_get(active->config, "checkpoint_storage");
    for (int i = 0; i < 3; i++)
        if (s->kept[i] >= 0)
            set_config(storage, retention_config_keys[i], json_integer(s->kept[i]));
    free(active->storage);
    active->storage = json_text(storage);
}

// Changes the complete configuration of an active experiment.
static void apply_settings(struct core *c, struct active_experiment *active,
                           const struct experiment_settings *s)
{
    if (s->name)
        set_config(active->config, "name", json_string(s->name));
    if (s->description)
        set_config(active->config, "description", json_string(s->description));
    if (s->labels)
        set_config(active->config, "labels", json_deep_copy(s->labels));
    if (changes_retention(s))
        apply_retention(active, s);
    if (!resize_is_empty(&s->resize))
        resize_apply(c, active, &s->resize);
    queue_move_apply(c, active, &s->move);
}

static void store_settings(struct core *c, const struct experiment *x,
                           const struct experiment_settings *s)
{
    char *labels = s->labels ? json_text(s->labels) : NULL;
    STORE(c, EXPERIMENT_PATCH, s->name, s->description, s->notes, labels, s->move.priority,
          is_active(x) ? x->active->config_text : NULL, x->id);
    if (changes_retention(s))
        STORE(c, EXPERIMENT_SET_KEPT, s->kept[0], s->kept[1], s->kept[2], x->id);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    free(labels);
}

// An experiment that has ended changes in the store only. Its configuration stays as it ran, except
// for the number of checkpoints that are kept.
int core_experiment_patch(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct experiment_settings s;
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err)
        err = read_settings(rq->body, &s, e);
    if (!err)
        err = read_resources(c, rq, x, &s, e);
    if (err)
        return err;
    if (is_active(x))
        apply_settings(c, x->active, &s);
    if (!resize_is_empty(&s.resize)) // it may wait for slots that do not exist
        submission_warn(c, rq, x->active->config);
    store_settings(c, x, &s);
    if (changes_retention(&s))
        gc_collect_experiment(c, x);
    return 0;
}

// --- labels --------------------------------------------------------------------------------------

// The present labels; the caller frees them.
static json_t *current_labels(struct core *c, const struct experiment *x)
{
    json_t *labels = NULL;
    if (is_active(x)) {
        labels = jget(x->active->config, "labels");
        return labels ? json_deep_copy(labels) : json_array();
    }
    struct db_rows *rows = DB_QUERY(c->reader, EXPERIMENT_LABELS, x->id);
    const char *text = db_next(rows) > 0 ? DB_GET(rows, EXPERIMENT_LABELS, labels) : "[]";
    if (json_parse(text, strlen(text), "labels", &labels, NULL))
        labels = json_array();
    db_rows_close(rows);
    return labels;
}

static size_t find_label(const json_t *labels, const char *label)
{
    size_t i;
    const json_t *value;
    json_array_foreach(labels, i, value) if (!strcmp(json_string_value(value), label)) break;
    return i;
}

static void store_labels_in_config(struct core *c, struct experiment *x, json_t *labels)
{
    if (!is_active(x))
        return;
    set_config(x->active->config, "labels", json_deep_copy(labels));
    free(x->active->config_text);
    x->active->config_text = json_text(x->active->config);
    STORE(c, EXPERIMENT_PATCH, NULL, NULL, NULL, NULL, -1, x->active->config_text, x->id);
}

// The store adds or removes the one label itself, so that labels in uncommitted rows are not lost.
static int change_label(struct core *c, struct request *rq, bool add, struct error *e)
{
    struct experiment *x;
    const char *label = rq->params[1];
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err && (!*label || strlen(label) > LIMIT_NAME))
        err = error_set(e, ERR_INVALID, "the label has not 1 to %d bytes", LIMIT_NAME);
    if (err)
        return err;
    json_t *labels = current_labels(c, x);
    size_t at = find_label(labels, label);
    if (add && at == json_array_size(labels))
        json_array_append_new(labels, json_string(label));
    else if (!add)
        json_array_remove(labels, at);
    if (json_array_size(labels) > LIMIT_LABELS) {
        err = error_set(e, ERR_TOO_LARGE, "experiment %lld has %d labels already", (long long)x->id,
                        LIMIT_LABELS);
    } else {
        if (add)
            STORE(c, EXPERIMENT_ADD_LABEL, label, x->id);
        else
            STORE(c, EXPERIMENT_REMOVE_LABEL, label, x->id);
        store_labels_in_config(c, x, labels);
        change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
        request_answer(rq, ANSWER_JSON("labels", labels));
    }
    json_decref(labels);
    return err;
}

int core_experiment_add_label(struct core *c, struct request *rq, struct error *e)
{
    return change_label(c, rq, true, e);
}

int core_experiment_remove_label(struct core *c, struct request *rq, struct error *e)
{
    return change_label(c, rq, false, e);
}
