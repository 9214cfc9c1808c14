// The actions of the experiment's state machine, and the searcher behind it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/common/storage.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"
#include "master/lifecycle/unmanaged.h"
#include "master/teams/teams.h"

// --- creation ------------------------------------------------------------------------------------

// Sets the fields that follow from the configuration; the caller sets the others.
struct active_experiment *active_experiment_new(struct core *c, struct experiment *x,
                                                json_t *config)
{
    struct active_experiment *l = xcalloc(1, sizeof *l);
    const json_t *resources = jget(config, "resources");
    const json_t *storage = jget(config, "checkpoint_storage");
    const char *launch = jget_string(config, "launch", "per_machine");
    l->experiment = x;
    l->config = config;
    l->config_text = json_text(config);
    l->storage = storage_text(storage);
    l->trials_end = &l->trials;
    l->job = SCHED_NONE;
    l->pool = core_pool_get(c, jget_string(resources, "resource_pool", ""));
    l->priority = (int)jget_int(resources, "priority", pool_default_priority(l->pool));
    l->slots_per_trial = (int)jget_int(resources, "slots_per_trial", 1);
    l->min_slots = (int)jget_int(resources, "min_slots", l->slots_per_trial);
    l->weight = jget_double(resources, "weight", 1);
    l->order = x->id * ORDER_STEP;
    l->max_slots = jget_int(resources, "max_slots", 0);
    l->native = jget(config, "trainer") != NULL;
    l->per_slot = l->native || !strcmp(launch, "per_slot");
    l->one_agent = jget_bool(resources, "is_single_node", false);
    l->max_restarts = jget_int(config, "max_restarts", 5);
    l->preemption_timeout_us = jget_int(config, "preemption_timeout", 0) * 1000000;
    x->active = l;
    CORE_DISPATCH(c, experiment_opened, c, l);
    return l;
}

void active_experiment_free(struct core *c, struct active_experiment *l)
{
    while (l->trials) {
        struct trial *next = l->trials->next;
        trial_free(c, l->trials);
        l->trials = next;
    }
    search_free(l->search);
    CORE_DISPATCH(c, experiment_closed, c, l);
    free(l->ancestors);
    json_decref(l->config);
    free(l->config_text);
    free(l->storage);
    free(l->owner);
    free(l->job_id);
    free(l);
}

bool active_experiment_runs_once(const struct active_experiment *l)
{
    enum kind kind = l->experiment->kind;
    return kind != KIND_EXPERIMENT && (kind != KIND_GENERIC || l->no_pause);
}

void active_experiment_write_name(const struct active_experiment *l, struct buf *out)
{
    const struct experiment *x = l->experiment;
    buf_printf(out, "%s %lld", kind_words[x->kind].noun, (long long)x->id);
}

static struct sched_job_spec experiment_job(struct core *c, const struct active_experiment *l)
{
    const struct experiment *x = l->experiment;
    int64_t weight = llround(l->weight * SCHED_WEIGHT_ONE);
    double service = (l->service + usage_of_active(c, l)) * 1e6;
    return (struct sched_job_spec){.pool = l->pool->handle,
                                   .team = core_team(c, core_workspace_of(c, x)->id, x->user_id),
                                   .priority = l->priority,
                                   .order = l->order,
                                   .limit = l->max_slots,
                                   .weight = weight < 1 ? 1 : weight,
                                   .service = service < 1e18 ? (int64_t)service : (int64_t)1e18};
}

void active_experiment_schedule(struct core *c, struct active_experiment *l)
{
    if (l->unmanaged)
        return;
    const struct sched_job_spec job = experiment_job(c, l);
    l->job = sched_job_add(c->sched, &job);
}

void active_experiment_changed(struct core *c, struct active_experiment *l)
{
    if (l->unmanaged)
        return;
    const struct sched_job_spec job = experiment_job(c, l);
    sched_job_set(c->sched, l->job, &job);
    c->sched_due = true;
}

void experiments_free_ended(struct core *c)
{
    while (c->ended) {
        struct active_experiment *l = c->ended;
        c->ended = l->ended_next;
        if (l->experiment->active == l)
            l->experiment->active = NULL;
        active_experiment_free(c, l);
    }
}

// --- events --------------------------------------------------------------------------------------

static void trials_event(struct core *c, struct active_experiment *l, enum trial_event ev)
{
    for (struct trial *t = l->trials; t; t = t->next)
        trial_event(c, t, ev);
    experiment_settle(c, l);
}

static void experiment_end(struct core *c, struct experiment *x)
{
    STORE(c, EXPERIMENT_END, experiment_state_word(x->state), c->wall, x->id);
    CORE_DISPATCH(c, experiment_state_changed, c, x);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    CORE_DISPATCH(c, experiment_ended, c, x);
    sched_job_remove(c->sched, x->active->job);
    x->active->ended_next = c->ended;
    c->ended = x->active;
    x->ended_in = c->submitted + 1;
    log_info("experiment ended", "exp=%lld state=%s", (long long)x->id,
             experiment_state_word(x->state));
}

static int event_refuse(const struct experiment *x, enum experiment_event ev, struct error *e)
{
    static const char *const verbs[EXPERIMENT_EVENTS] = {
        [EXPERIMENT_EV_ACTIVATE] = "activated",
        [EXPERIMENT_EV_PAUSE] = "paused",
        [EXPERIMENT_EV_DELETE] = "deleted before it has ended; kill it first",
        [EXPERIMENT_EV_CONTINUE] = "continued before it has ended",
    };
    return error_set(e, ERR_STATE, "experiment %lld is %s: it cannot be %s", (long long)x->id,
                     experiment_state_word(x->state), verbs[ev]);
}

int experiment_event(struct core *c, struct experiment *x, enum experiment_event ev,
                     struct error *e)
{
    struct transition to = experiment_transition(x->state, ev);
    if (to.action == EXPERIMENT_DO_REFUSE)
        return event_refuse(x, ev, e);
    if ((int)x->state != to.next) {
        x->state = (enum experiment_state)to.next;
        change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
        if (to.action != EXPERIMENT_DO_END) {
            STORE(c, EXPERIMENT_SET_STATE, experiment_state_word(x->state), x->id);
            CORE_DISPATCH(c, experiment_state_changed, c, x);
        }
    }
    switch ((enum experiment_action)to.action) {
    case EXPERIMENT_DO_NOTHING:
    case EXPERIMENT_DO_REFUSE:
        break;
    case EXPERIMENT_DO_ACTIVATE:
        trials_event(c, x->active, TRIAL_EV_ACTIVATE);
        break;
    case EXPERIMENT_DO_PAUSE:
        trials_event(c, x->active, TRIAL_EV_PAUSE);
        break;
    case EXPERIMENT_DO_STOP:
        trials_event(c, x->active, TRIAL_EV_STOP);
        break;
    case EXPERIMENT_DO_CANCEL:
        trials_event(c, x->active, TRIAL_EV_CANCEL);
        break;
    case EXPERIMENT_DO_KILL:
        trials_event(c, x->active, TRIAL_EV_KILL);
        break;
    case EXPERIMENT_DO_END:
        experiment_end(c, x);
        break;
    case EXPERIMENT_DO_DELETE:
        if (x->active && x->active->unmanaged)
            unmanaged_forget(c, x->active);
        break;
    }
    return 0;
}

void experiment_settle(struct core *c, struct active_experiment *l)
{
    if (!l->active_trials)
        experiment_event(c, l->experiment, EXPERIMENT_EV_TRIALS_ENDED, NULL);
}

// --- the searcher --------------------------------------------------------------------------------

static enum experiment_event search_end_event(enum search_end outcome)
{
    if (outcome == SEARCH_END_COMPLETED)
        return EXPERIMENT_EV_SEARCH_COMPLETED;
    return outcome == SEARCH_END_CANCELED ? EXPERIMENT_EV_SEARCH_CANCELED
                                          : EXPERIMENT_EV_SEARCH_FAILED;
}

static void search_command_run(struct core *c, struct active_experiment *l,
                               const struct search_command *command)
{
    struct experiment *x = l->experiment;
    switch (command->kind) {
    case SEARCH_CREATE:
        if (x->state == EXPERIMENT_ACTIVE || x->state == EXPERIMENT_PAUSED)
            trial_create(c, l, command);
        break;
    case SEARCH_RESTART:
        if (x->state == EXPERIMENT_ACTIVE || x->state == EXPERIMENT_PAUSED)
            trial_reopen(c, trial_of_request(l, command->request_id), command->hparams);
        break;
    case SEARCH_STOP: {
        struct trial *t = trial_of_request(l, command->request_id);
        if (t)
            trial_event(c, t, TRIAL_EV_STOP);
        break;
    }
    case SEARCH_SHUTDOWN:
        experiment_event(c, x, search_end_event(command->outcome), NULL);
        break;
    }
}

static void progress_set(struct core *c, struct active_experiment *l, double progress)
{
    if (progress == l->progress)
        return;
    l->progress = progress;
    STORE(c, EXPERIMENT_SET_PROGRESS, progress, l->experiment->id);
    change_mark(c, EVENT_EXPERIMENT, l->experiment->id, 0, NULL);
}

// A canceled or failed search leaves work undone, so its progress does not change. Nor does it
// change when trials end because the experiment is stopped, or when the search ends without a
// completed trial.
static bool progress_counts(const struct active_experiment *l,
                            const struct search_commands *commands)
{
    enum experiment_state state = l->experiment->state;
    for (size_t i = 0; i < commands->count; i++)
        if (commands->items[i].kind == SEARCH_SHUTDOWN &&
            commands->items[i].outcome != SEARCH_END_COMPLETED)
            return false;
    return state == EXPERIMENT_ACTIVE || state == EXPERIMENT_PAUSED;
}

void experiment_search_event(struct core *c, struct active_experiment *l,
                             const struct search_event *event)
{
    struct search_commands commands;
    if (l->unmanaged) { // its trials are created by callers
        if (event->kind == SEARCH_PROGRESS && !l->trials->next)
            progress_set(c, l, event->fraction);
        return;
    }
    // The search stays as it is when a person ends its experiment, so that it can continue.
    enum experiment_state state = l->experiment->state;
    if (event->kind == SEARCH_TRIAL_ENDED &&
        (state == EXPERIMENT_STOPPING_CANCELED || state == EXPERIMENT_STOPPING_KILLED))
        return;
    search_handle_event(l->search, event, &commands);
    if (search_changed(l->search)) {
        char *snapshot = search_snapshot(l->search);
        STORE(c, EXPERIMENT_SET_SEARCHER, snapshot, l->experiment->id);
        free(snapshot);
    }
    if (progress_counts(l, &commands))
        progress_set(c, l, search_progress(l->search));
    for (size_t i = 0; i < commands.count; i++)
        search_command_run(c, l, &commands.items[i]);
    search_commands_free(&commands);
}
