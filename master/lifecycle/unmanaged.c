#include "master/lifecycle/unmanaged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"
#include "master/teams/teams.h"

enum { SILENCE_US = LIMIT_UNMANAGED_SILENCE_S * 1000000 };

// --- creation ------------------------------------------------------------------------------------

static void silence_over(struct core *c, void *arg)
{
    char reason[80];
    snprintf(reason, sizeof reason, "its program has not reported for %d s",
             LIMIT_UNMANAGED_SILENCE_S);
    unmanaged_event(c, arg, UNMANAGED_EV_SILENT, reason);
}

void unmanaged_new(struct core *c, struct trial *t, const char *external_id)
{
    struct unmanaged_trial *d = xcalloc(1, sizeof *d);
    d->core = c;
    d->external_id = external_id && *external_id ? xstrdup(external_id) : NULL;
    d->resume_steps = -1;
    d->heard_at = c->wall;
    d->silence.fire = silence_over;
    d->silence.arg = t;
    t->unmanaged = d;
}

void unmanaged_free(struct trial *t)
{
    if (!t->unmanaged)
        return;
    timer_clear(&t->unmanaged->core->timers, &t->unmanaged->silence);
    free(t->unmanaged->external_id);
    free(t->unmanaged);
    t->unmanaged = NULL;
}

static void silence_timer_set(struct core *c, struct trial *t)
{
    timer_set(&c->timers, &t->unmanaged->silence, c->now + SILENCE_US);
}

static void unload_due(struct core *c, void *arg)
{
    unmanaged_forget(c, arg);
}

static void unload_timer_set(struct core *c, struct active_experiment *l)
{
    l->unload.fire = unload_due;
    l->unload.arg = l;
    timer_set(&c->timers, &l->unload, c->now + SILENCE_US);
}

void unmanaged_load(struct core *c, struct active_experiment *l)
{
    for (struct trial *t = l->trials; t; t = t->next)
        if (t->state == TRIAL_ACTIVE)
            silence_timer_set(c, t);
    if (experiment_is_terminal(l->experiment->state))
        unload_timer_set(c, l);
}

void unmanaged_forget(struct core *c, struct active_experiment *l)
{
    timer_clear(&c->timers, &l->unload);
    for (struct trial *t = l->trials; t; t = t->next)
        id_map_remove(&c->trials, t->id);
    l->experiment->active = NULL;
    l->ended_next = c->ended; // its trials may have metrics to write in this turn
    c->ended = l;
}

// --- states --------------------------------------------------------------------------------------

// A running trial makes the experiment run; else its best end counts; else it waits for a program
// to start.
static enum experiment_state state_of_trials(const struct active_experiment *l)
{
    static const int ranks[TRIAL_STATES] = {[TRIAL_PAUSED] = 1,
                                            [TRIAL_CANCELED] = 2,
                                            [TRIAL_ERROR] = 3,
                                            [TRIAL_COMPLETED] = 4,
                                            [TRIAL_ACTIVE] = 5};
    static const enum experiment_state states[] = {EXPERIMENT_PAUSED,    EXPERIMENT_PAUSED,
                                                   EXPERIMENT_CANCELED,  EXPERIMENT_ERROR,
                                                   EXPERIMENT_COMPLETED, EXPERIMENT_ACTIVE};
    int best = 0;
    for (const struct trial *t = l->trials; t; t = t->next)
        if (ranks[t->state] > best)
            best = ranks[t->state];
    return states[best];
}

static void experiment_set_state(struct core *c, struct active_experiment *l,
                                 enum experiment_state state)
{
    struct experiment *x = l->experiment;
    bool was = experiment_is_terminal(x->state), is = experiment_is_terminal(state);
    const char *word = state == EXPERIMENT_ACTIVE ? "RUNNING" : experiment_state_word(state);
    if (state == x->state)
        return;
    x->state = state;
    if (is)
        STORE(c, EXPERIMENT_END, word, c->wall, x->id);
    else if (was)
        STORE(c, EXPERIMENT_REOPEN, word, x->id);
    else
        STORE(c, EXPERIMENT_SET_STATE, word, x->id);
    CORE_DISPATCH(c, experiment_state_changed, c, x);
    if (is)
        unload_timer_set(c, l);
    else
        timer_clear(&c->timers, &l->unload);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
}

static void heartbeat_store(struct core *c, struct trial *t)
{
    t->unmanaged->heard_at = c->wall;
    STORE(c, TRIAL_SET_HEARTBEAT, c->wall, t->id);
    silence_timer_set(c, t);
}

static void trial_run(struct core *c, struct trial *t, bool ended)
{
    free(t->exit_reason);
    t->exit_reason = NULL;
    if (ended)
        STORE(c, TRIAL_REOPEN, "RUNNING", t->id);
    else
        STORE(c, TRIAL_SET_STATE, "RUNNING", t->id);
    heartbeat_store(c, t);
}

static void trial_end(struct core *c, struct trial *t, enum unmanaged_event ev, const char *reason)
{
    int64_t at = ev == UNMANAGED_EV_SILENT ? t->unmanaged->heard_at : c->wall;
    timer_clear(&c->timers, &t->unmanaged->silence);
    trial_set_reason(c, t, reason);
    STORE(c, TRIAL_END, trial_state_word(t->state), reason, at, t->id);
    CORE_DISPATCH(c, trial_ended, c, t);
    core_notify_log(c, t->first_task_id);
    log_info("trial ended", "exp=%lld trial=%lld state=%s", (long long)t->active->experiment->id,
             (long long)t->id, trial_state_word(t->state));
}

void unmanaged_event(struct core *c, struct trial *t, enum unmanaged_event ev, const char *reason)
{
    struct transition to = unmanaged_transition(t->state, ev);
    bool ended = trial_is_terminal(t->state);
    t->state = (enum trial_state)to.next;
    switch ((enum unmanaged_action)to.action) {
    case UNMANAGED_DO_NOTHING:
        return;
    case UNMANAGED_DO_RUN:
        trial_run(c, t, ended);
        break;
    case UNMANAGED_DO_REST:
        timer_clear(&c->timers, &t->unmanaged->silence);
        STORE(c, TRIAL_SET_STATE, trial_state_word(t->state), t->id);
        break;
    case UNMANAGED_DO_END:
        trial_end(c, t, ev, reason);
        break;
    }
    change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
    experiment_set_state(c, t->active, state_of_trials(t->active));
}

int unmanaged_verb(struct core *c, struct experiment *x, enum experiment_event ev, struct error *e)
{
    struct active_experiment *l = x->active;
    if (ev != EXPERIMENT_EV_CANCEL && ev != EXPERIMENT_EV_KILL)
        return error_set(e, ERR_STATE,
                         "experiment %lld is unmanaged: its programs run elsewhere, so that the "
                         "master cannot start or pause them; do that where they run",
                         (long long)x->id);
    for (struct trial *t = l->trials; t; t = t->next)
        unmanaged_event(c, t, UNMANAGED_EV_CANCELED, "canceled");
    if (!l->trials)
        experiment_set_state(c, l, EXPERIMENT_CANCELED);
    return 0;
}

// --- reporters -----------------------------------------------------------------------------------

static struct trial *trial_of_active(const struct active_experiment *l, int64_t id)
{
    struct trial *t = l->trials;
    while (t && t->id != id)
        t = t->next;
    return t;
}

// Finds a trial that the caller may change. An ended experiment is loaded again. `managed`: a trial
// that this master runs will do, too.
static int trial_find_for(struct core *c, struct request *rq, int64_t id, bool managed,
                          struct trial **out, struct error *e)
{
    struct trial *t = core_trial_find(c, id);
    struct db_rows *rows = t ? NULL : DB_QUERY(c->reader, TRIAL_HOME, id);
    bool stored = rows && db_next(rows) > 0;
    bool unmanaged = t ? t->active->unmanaged : stored && DB_GET(rows, TRIAL_HOME, unmanaged);
    struct experiment *x = t ? t->active->experiment
                           : stored
                               ? core_experiment_find(c, DB_GET(rows, TRIAL_HOME, experiment_id))
                               : NULL;
    db_rows_close(rows);
    if (!x || !core_sees(c, rq, x))
        return error_not_found(e, "trial", "%lld", (long long)id);
    int err = core_may_change(c, rq, x, e);
    if (!err && !unmanaged && !managed)
        err = error_set(e, ERR_FORBIDDEN,
                        "trial %lld is run by this master: only its own task may report this for "
                        "it",
                        (long long)id);
    if (!err && !x->active)
        err = unmanaged ? active_experiment_restore(c, x, NULL, e)
                        : active_experiment_restore_briefly(c, x, e);
    if (err)
        return err;
    *out = trial_of_active(x->active, id);
    return *out ? 0 : error_not_found(e, "trial", "%lld", (long long)id);
}

static int reporter_find(struct core *c, struct request *rq, int64_t id, bool managed,
                         struct trial **t, struct error *e)
{
    struct allocation *a = core_calling_allocation(c, rq);
    if (rq->principal.kind == PRINCIPAL_USER && !(a && a->trial->id == id)) {
        int err = trial_find_for(c, rq, id, managed, t, e);
        if (!err && (*t)->active->unmanaged && (*t)->state == TRIAL_ACTIVE)
            silence_timer_set(c, *t); // a report is a sign of life
        return err;
    }
    if (!a)
        return error_set(e, ERR_FORBIDDEN, "allocation has ended");
    *t = a->trial;
    if (id && a->trial->id != id)
        return error_set(e, ERR_FORBIDDEN, "allocation %s is of trial %lld, not of trial %lld",
                         a->id, (long long)a->trial->id, (long long)id);
    return 0;
}

int core_reporter(struct core *c, struct request *rq, int64_t id, struct trial **t, struct error *e)
{
    return reporter_find(c, rq, id, false, t, e);
}

int core_metric_reporter(struct core *c, struct request *rq, struct trial **t, struct error *e)
{
    int err = request_param_int(rq, 0, &rq->id, e);
    return err ? err : reporter_find(c, rq, rq->id, true, t, e);
}

int core_reporter_of_trial(struct core *c, struct request *rq, struct trial **t, struct error *e)
{
    int err = request_param_int(rq, 0, &rq->id, e);
    return err ? err : core_reporter(c, rq, rq->id, t, e);
}

// --- POST and PUT trials -------------------------------------------------------------------------

static struct trial *trial_of_external_id(const struct active_experiment *l,
                                          const char *external_id)
{
    for (struct trial *t = l->trials; t; t = t->next)
        if (t->unmanaged->external_id && !strcmp(t->unmanaged->external_id, external_id))
            return t;
    return NULL;
}

static struct trial *unmanaged_add(struct core *c, struct active_experiment *l, const json_t *body,
                                   const char *external_id)
{
    char request_id[SEARCH_REQUEST_ID];
    const json_t *hparams = jget(body, "hparams");
    snprintf(request_id, sizeof request_id, "%lld", (long long)c->next_trial);
    struct trial *t = trial_add(c, l, request_id);
    t->hparams = hparams ? json_deep_copy(hparams) : json_object();
    t->state = TRIAL_PAUSED;
    unmanaged_new(c, t, external_id);
    id_map_put(&c->trials, t->id, t);
    char *text = json_text(t->hparams);
    STORE(c, TRIAL_INSERT, t->id, l->experiment->id, t->request_id, t->task_id,
          trial_state_word(t->state), text, t->seed, c->wall);
    free(text);
    if (t->unmanaged->external_id)
        STORE(c, TRIAL_SET_EXTERNAL, t->unmanaged->external_id, t->id);
    change_mark(c, EVENT_EXPERIMENT, l->experiment->id, 0, NULL);
    change_mark(c, EVENT_TRIAL, l->experiment->id, t->id, NULL);
    return t;
}

static int unmanaged_refuse(const struct experiment *x, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "experiment %lld is run by this master, which makes its trials itself; "
                     "submit an unmanaged one for programs that run elsewhere",
                     (long long)x->id);
}

// Finds the unmanaged experiment that the body names, and loads it if it has ended.
static int experiment_find_for(struct core *c, struct request *rq, const json_t *body,
                               struct active_experiment **out, struct error *e)
{
    int64_t id = jget_int(body, "experimentId", 0);
    struct experiment *x = core_experiment_find(c, id);
    if (!x || !core_sees(c, rq, x))
        return error_set(e, ERR_NOT_FOUND, "experimentId: experiment '%lld' not found",
                         (long long)id);
    int err = core_may_change(c, rq, x, e);
    if (!err && (x->state == EXPERIMENT_DELETING || x->state == EXPERIMENT_DELETE_FAILED))
        err = error_set(e, ERR_STATE, "experiment %lld is being deleted", (long long)id);
    if (!err && !x->active)
        err = active_experiment_restore(c, x, NULL, e);
    if (!err && !x->active->unmanaged)
        err = unmanaged_refuse(x, e);
    if (!err)
        *out = x->active;
    return err;
}

static size_t trials_count(const struct active_experiment *l)
{
    size_t count = 0;
    for (const struct trial *t = l->trials; t; t = t->next)
        count++;
    return count;
}

static int trial_find_or_add(struct core *c, struct request *rq, const json_t *body,
                             const char *external_id, struct error *e)
{
    struct active_experiment *l = NULL;
    const json_t *hparams = jget(body, "hparams");
    int err = experiment_find_for(c, rq, body, &l, e);
    if (err)
        return err;
    if (hparams && !json_is_object(hparams))
        return error_set(e, ERR_INVALID, "hparams: not an object");
    if (external_id && strlen(external_id) > LIMIT_NAME)
        return error_set(e, ERR_TOO_LARGE, "externalTrialId: more than %d bytes", LIMIT_NAME);
    struct trial *t = external_id ? trial_of_external_id(l, external_id) : NULL;
    if (!t && trials_count(l) >= LIMIT_UNMANAGED_TRIALS)
        return error_set(e, ERR_TOO_LARGE, "an unmanaged experiment has at most %d trials",
                         LIMIT_UNMANAGED_TRIALS);
    if (!t)
        t = unmanaged_add(c, l, body, external_id);
    rq->id = t->id;
    return 0;
}

int core_trial_create(struct core *c, struct request *rq, struct error *e)
{
    return trial_find_or_add(c, rq, rq->body, jget_string(rq->body, "externalTrialId", NULL), e);
}

int core_trial_put(struct core *c, struct request *rq, struct error *e)
{
    const char *external_id = jget_string(rq->body, "externalTrialId", "");
    if (!*external_id)
        return error_set(e, ERR_INVALID, "externalTrialId: missing");
    return trial_find_or_add(c, rq, jget(rq->body, "createTrialRequest"), external_id, e);
}

// --- POST trials/{t}/start, PATCH trials/{t} -----------------------------------------------------

// Whether this repeats a call whose answer was lost: the run that it began has reported nothing.
static bool start_is_repeated(const struct trial *t)
{
    return t->run == 1 && t->state == TRIAL_ACTIVE && !t->steps && !t->checkpoint[0] &&
           !t->training.text && !t->validation.text;
}

static void run_begin(struct core *c, struct trial *t)
{
    t->run++;
    t->exited_early = t->invalid = false;
    t->unmanaged->resume_steps = t->run > 1 && t->checkpoint[0] ? t->checkpoint_steps : -1;
    STORE(c, TRIAL_SET_RUN, t->run, t->id);
    if (t->run > 1)
        CORE_DISPATCH(c, run_restarted, c, t, t->unmanaged->resume_steps);
}

int core_trial_start(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    bool resume = jget_bool(rq->body, "resume", false);
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (!err && !t->unmanaged)
        err = error_set(e, ERR_FORBIDDEN, "only the master starts a managed trial");
    if (!err && !resume && t->run && !start_is_repeated(t))
        err = error_set(e, ERR_CONFLICT,
                        "trial %lld has been started already; start it with resume to go on from "
                        "its newest checkpoint",
                        (long long)t->id);
    if (err)
        return err;
    if (resume || !t->run)
        run_begin(c, t);
    unmanaged_event(c, t, UNMANAGED_EV_START, "");
    bool resumed = t->unmanaged->resume_steps >= 0;
    request_answer(rq, ANSWER_INT("trialRunId", t->run),
                   ANSWER_STRING("latestCheckpoint", resumed ? t->checkpoint : NULL),
                   ANSWER_INT("stepsCompleted", resumed ? t->unmanaged->resume_steps : 0));
    return 0;
}

static int event_read(const json_t *body, enum unmanaged_event *out, struct error *e)
{
    static const struct {
        const char *state;
        enum unmanaged_event event;
    } events[] = {
        {"STATE_RUNNING", UNMANAGED_EV_RUNS},        {"STATE_PAUSED", UNMANAGED_EV_PAUSED},
        {"STATE_ACTIVE", UNMANAGED_EV_RUNS},         {"STATE_ERROR", UNMANAGED_EV_FAILED},
        {"STATE_COMPLETED", UNMANAGED_EV_COMPLETED}, {"STATE_CANCELED", UNMANAGED_EV_CANCELED}};
    const char *state = jget_string(body, "state", "");
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (!strcmp(events[i].state, state)) {
            *out = events[i].event;
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "state: \"%.64s\" is not one of STATE_RUNNING, STATE_PAUSED, STATE_COMPLETED, "
                     "STATE_CANCELED and STATE_ERROR",
                     state);
}

// Without a state it is a heartbeat.
int core_trial_patch(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    enum unmanaged_event ev = UNMANAGED_EVENTS;
    bool says = jget(rq->body, "state");
    int err = says ? event_read(rq->body, &ev, e) : 0;
    if (!err)
        err = core_reporter_of_trial(c, rq, &t, e);
    if (!err && !t->unmanaged)
        err = error_set(e, ERR_FORBIDDEN, "only the master sets the state of a managed trial");
    if (err)
        return err;
    if (says)
        unmanaged_event(c, t, ev, ev == UNMANAGED_EV_FAILED ? "its program reports an error" : "");
    if (t->state == TRIAL_ACTIVE)
        heartbeat_store(c, t);
    return 0;
}
