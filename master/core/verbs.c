// Experiments by the hand of a person: their verbs and their settings.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/limits.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/steer.h"
#include "master/core/teams.h"

// Experiment of params[0], which the caller may change.
static int own(struct core *c, struct request *rq, struct experiment **x, struct error *e)
{
    int err = core_param_experiment(c, rq, x, e);
    return err ? err : core_may_change(c, rq, *x, e);
}

static int tell(struct core *c, struct request *rq, enum experiment_event ev, struct error *e)
{
    struct experiment *x;
    int err = own(c, rq, &x, e);
    return err ? err : experiment_event(c, x, ev, e);
}

int core_experiment_activate(struct core *c, struct request *rq, struct error *e)
{
    return tell(c, rq, EXPERIMENT_EV_ACTIVATE, e);
}

int core_experiment_pause(struct core *c, struct request *rq, struct error *e)
{
    return tell(c, rq, EXPERIMENT_EV_PAUSE, e);
}

int core_experiment_cancel(struct core *c, struct request *rq, struct error *e)
{
    return tell(c, rq, EXPERIMENT_EV_CANCEL, e);
}

int core_experiment_kill(struct core *c, struct request *rq, struct error *e)
{
    return tell(c, rq, EXPERIMENT_EV_KILL, e);
}

int core_experiment_delete(struct core *c, struct request *rq, struct error *e)
{
    return tell(c, rq, EXPERIMENT_EV_DELETE, e);
}

static int set_archived(struct core *c, struct request *rq, bool archived, struct error *e)
{
    struct experiment *x;
    int err = own(c, rq, &x, e);
    if (err)
        return err;
    if (!experiment_is_terminal(x->state))
        return error_set(e, ERR_CONFLICT,
                         "experiment %lld is %s: it can be archived when it has ended",
                         (long long)x->id, experiment_state_word(x->state));
    x->archived = archived;
    STORE(c, EXPERIMENT_SET_ARCHIVED, "ii", (int64_t)archived, x->id);
    core_event(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    return 0;
}

int core_experiment_archive(struct core *c, struct request *rq, struct error *e)
{
    return set_archived(c, rq, true, e);
}

int core_experiment_unarchive(struct core *c, struct request *rq, struct error *e)
{
    return set_archived(c, rq, false, e);
}

// Of one that has ended it is in the store alone. False: none yet.
static bool best_metric(struct core *c, const struct experiment *x, double *out)
{
    if (x->live) {
        *out = x->live->best;
        return x->live->has_best;
    }
    struct db_rows *rows = db_query(c->reader, STMT_EXPERIMENT_BEST, "i", x->id);
    bool found = db_next(rows) > 0 && !db_is_null(rows, 0);
    *out = found ? db_double(rows, 0) : 0;
    db_rows_close(rows);
    return found;
}

int core_experiment_best_metric(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct json_writer w;
    double best;
    int err = core_param_experiment(c, rq, &x, e);
    if (err)
        return err;
    if (!best_metric(c, x, &best))
        return error_set(e, ERR_NOT_FOUND, "experiment %lld has no validation yet",
                         (long long)x->id);
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_kv_double(&w, "metric", best);
    jw_object_end(&w);
    return 0;
}

// --- settings ------------------------------------------------------------------------------------

struct settings { // NULL: as it is
    const char *name, *description, *notes;
    const json_t *labels;
    struct steer steer;
};

static bool lives(const struct experiment *x)
{
    return x->live && !experiment_is_terminal(x->state);
}

static int read_text(const json_t *body, const char *key, size_t limit, const char **out,
                     struct error *e)
{
    *out = jget_string(body, key, NULL);
    if (*out && strlen(*out) > limit)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %zu bytes", key, limit);
    return 0;
}

static int read_labels(const json_t *body, const json_t **out, struct error *e)
{
    size_t i;
    json_t *label;
    *out = jget(body, "labels");
    if (*out && !json_is_array(*out))
        return error_set(e, ERR_INVALID, "labels: not a list of words");
    json_array_foreach(*out, i, label)
    {
        if (!json_is_string(label) || json_string_length(label) > LIMIT_NAME)
            return error_set(e, ERR_INVALID, "labels.%zu: not a word of at most %d bytes", i,
                             LIMIT_NAME);
    }
    return 0;
}

static int read_resources(struct core *c, const struct request *rq, const struct experiment *x,
                          struct settings *s, struct error *e)
{
    int err = steer_read(c, rq, x, jget(rq->body, "resources"), "resources", &s->steer, e);
    if (err)
        return err;
    if (!steer_is_empty(&s->steer) && !lives(x))
        return error_set(e, ERR_CONFLICT, "experiment %lld has ended: its resources stay",
                         (long long)x->id);
    if (jget(rq->body, "checkpointStorage"))
        return error_set(e, ERR_INVALID,
                         "checkpointStorage: this master keeps every checkpoint "
                         "until its experiment is deleted");
    return 0;
}

static int read_settings(const json_t *body, struct settings *s, struct error *e)
{
    int err = read_text(body, "name", LIMIT_NAME, &s->name, e);
    if (!err)
        err = read_text(body, "description", LIMIT_DESCRIPTION, &s->description, e);
    if (!err)
        err = read_text(body, "notes", LIMIT_BODY_SMALL, &s->notes, e);
    if (!err)
        err = read_labels(body, &s->labels, e);
    if (!err && s->name && !*s->name)
        err = error_set(e, ERR_INVALID, "name: empty");
    return err;
}

static void put(json_t *config, const char *key, json_t *value)
{
    must(!json_object_set_new(config, key, value));
}

// The complete configuration with the settings in it.
static void change_live(struct core *c, struct live *l, const struct settings *s)
{
    if (s->name)
        put(l->config, "name", json_string(s->name));
    if (s->description)
        put(l->config, "description", json_string(s->description));
    if (s->labels)
        put(l->config, "labels", json_deep_copy(s->labels));
    steer_apply(c, l, &s->steer);
}

// Of one that has ended the columns alone change: its configuration is what it ran with.
int core_experiment_patch(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct settings s;
    int err = own(c, rq, &x, e);
    if (!err)
        err = read_settings(rq->body, &s, e);
    if (!err)
        err = read_resources(c, rq, x, &s, e);
    if (err)
        return err;
    if (lives(x))
        change_live(c, x->live, &s);
    char *labels = s.labels ? json_text(s.labels) : NULL;
    STORE(c, EXPERIMENT_PATCH, "ssssisi", s.name, s.description, s.notes, labels, s.steer.priority,
          lives(x) ? x->live->config_text : NULL, x->id);
    core_event(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    free(labels);
    return 0;
}
