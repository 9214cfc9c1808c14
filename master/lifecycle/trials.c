// The actions of the trial's state machine.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/retries.h"
#include "master/lifecycle/unmanaged.h"

void trial_set_continued(struct trial *t, int64_t times)
{
    t->continued = times;
    int len = times ? snprintf(t->task_id, sizeof t->task_id, "%s-%lld", t->first_task_id,
                               (long long)times)
                    : snprintf(t->task_id, sizeof t->task_id, "%s", t->first_task_id);
    must(len < TASK_ID);
}

struct trial *trial_new(struct active_experiment *l, int64_t id, const char *request_id,
                        const char *task_id)
{
    struct trial *t = xcalloc(1, sizeof *t);
    t->id = id;
    t->active = l;
    t->searcher_steps = -1;
    snprintf(t->request_id, sizeof t->request_id, "%s", request_id);
    snprintf(t->first_task_id, sizeof t->first_task_id, "%s", task_id);
    trial_set_continued(t, 0);
    *l->trials_end = t;
    l->trials_end = &t->next;
    return t;
}

struct trial *trial_add(struct core *c, struct active_experiment *l, const char *request_id)
{
    char task[TASK_ID];
    int64_t id = c->next_trial++;
    if (l->experiment->kind == KIND_EXPERIMENT)
        task_id_make(task, c->options.cluster_id, l->experiment->id, id);
    else
        snprintf(task, sizeof task, "%lld.%s", (long long)l->experiment->id, l->job_id);
    return trial_new(l, id, request_id, task);
}

void trial_free(struct core *c, struct trial *t)
{
    if (t->allocation)
        allocation_free(t->allocation);
    CORE_DISPATCH(c, trial_closed, c, t);
    unmanaged_free(t);
    json_decref(t->hparams);
    free(t->exit_reason);
    free(t);
}

struct trial *trial_of_request(struct active_experiment *l, const char *request_id)
{
    for (struct trial *t = l->trials; t; t = t->next)
        if (!strcmp(t->request_id, request_id))
            return t;
    return NULL;
}

void trial_resume_point(const struct trial *t, char uuid[UUID_TEXT], int64_t *steps)
{
    memcpy(uuid, t->checkpoint[0] ? t->checkpoint : t->source_checkpoint, UUID_TEXT);
    *steps = t->checkpoint[0] ? t->checkpoint_steps : t->source_steps;
}

// The new trial continues the training of another one, with its own hyperparameters.
static void trial_set_source(struct core *c, struct trial *t, const char *request_id)
{
    struct trial *source = trial_of_request(t->active, request_id);
    char text[200];
    must(source && source != t);
    CORE_DISPATCH(c, trial_cloned, c, source);
    t->source = source->id;
    trial_resume_point(source, t->source_checkpoint, &t->source_steps);
    STORE(c, TRIAL_SET_SOURCE, t->source, t->source_checkpoint[0] ? t->source_checkpoint : NULL,
          t->source_steps, t->id);
    if (t->source_checkpoint[0])
        snprintf(text, sizeof text, "the search starts this trial from step %lld of trial %lld",
                 (long long)t->source_steps, (long long)t->source);
    else
        snprintf(text, sizeof text,
                 "the search wants to start this trial from trial %lld, but that trial has no "
                 "checkpoint, so this one starts from the beginning; save checkpoints more often",
                 (long long)t->source);
    CORE_DISPATCH(c, trial_message, c, t, "", t->source_checkpoint[0] ? "INFO" : "WARNING", text);
}

void trial_create(struct core *c, struct active_experiment *l, const struct search_command *command)
{
    struct experiment *x = l->experiment;
    struct trial *t = trial_add(c, l, command->request_id);
    char *hparams = json_text(command->hparams);
    t->hparams = json_incref(command->hparams);
    t->seed = command->seed;
    t->state = x->state == EXPERIMENT_PAUSED ? TRIAL_PAUSED : TRIAL_ACTIVE;
    id_map_put(&c->trials, t->id, t);
    l->active_trials++;
    STORE(c, TRIAL_INSERT, t->id, x->id, t->request_id, t->task_id, trial_state_word(t->state),
          hparams, t->seed, c->wall);
    if (*command->source)
        trial_set_source(c, t, command->source);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    change_mark(c, EVENT_TRIAL, x->id, t->id, NULL);
    free(hparams);
    if (t->state == TRIAL_ACTIVE)
        trial_event(c, t, TRIAL_EV_ACTIVATE);
}

void trial_reopen(struct core *c, struct trial *t, json_t *hparams)
{
    must(t && trial_is_terminal(t->state));
    if (hparams) {
        json_decref(t->hparams);
        t->hparams = json_incref(hparams);
    }
    t->restarts = t->retry.failures = t->retry.same_failures = 0;
    t->exited_early = t->invalid = false;
    free(t->exit_reason);
    t->exit_reason = NULL;
    CORE_DISPATCH(c, trial_continued, c, t);
    trial_set_continued(t, t->continued + 1);
    STORE(c, TRIAL_CONTINUATION_INSERT, t->id, t->continued, c->wall);
    id_map_put(&c->trials, t->id, t);
    t->active->active_trials++;
    char *text = json_text(t->hparams);
    STORE(c, TRIAL_CONTINUE, text, t->checkpoint, t->id);
    free(text);
    trial_event(c, t, TRIAL_EV_CONTINUE);
    if (t->active->experiment->state == EXPERIMENT_PAUSED)
        trial_event(c, t, TRIAL_EV_PAUSE);
    STORE(c, TRIAL_REOPEN, trial_state_word(t->state), t->id);
}

void trial_set_reason(struct core *c, struct trial *t, const char *reason)
{
    if (t->exit_reason && !strcmp(t->exit_reason, reason))
        return;
    free(t->exit_reason);
    t->exit_reason = xstrdup(reason);
    STORE(c, TRIAL_SET_EXIT_REASON, reason, t->id);
    change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
}

static void slots_request(struct core *c, struct trial *t)
{
    retry_clear(c, t);
    if (t->state == TRIAL_ACTIVE && !t->allocation)
        allocation_request(c, t);
}

static void failure_retry(struct core *c, struct trial *t)
{
    change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
    if (t->restarts >= t->active->max_restarts || t->no_retries) {
        retry_give_up(c, t);
        trial_event(c, t, TRIAL_EV_OUT_OF_RESTARTS);
        return;
    }
    t->restarts++;
    meters_count(c->options.meters, METER_TRIAL_RESTARTS, 1);
    STORE(c, TRIAL_SET_RESTARTS, t->restarts, t->id);
    CORE_DISPATCH(c, trial_failed, c, t);
    if (!retry_wait(c, t))
        slots_request(c, t);
}

static enum search_end trial_search_end(const struct trial *t)
{
    if (t->state == TRIAL_COMPLETED)
        return SEARCH_END_COMPLETED;
    if (t->state == TRIAL_CANCELED)
        return SEARCH_END_CANCELED;
    return t->invalid ? SEARCH_END_INVALID_HP : SEARCH_END_ERROR;
}

static void trial_end(struct core *c, struct trial *t)
{
    struct active_experiment *l = t->active;
    must(!t->allocation);
    id_map_remove(&c->trials, t->id);
    l->active_trials--;
    STORE(c, TRIAL_END, trial_state_word(t->state), t->exit_reason ? t->exit_reason : "", c->wall,
          t->id);
    CORE_DISPATCH(c, trial_ended, c, t);
    core_notify_log(c, t->first_task_id);
    log_info("trial ended", "exp=%lld trial=%lld state=%s", (long long)l->experiment->id,
             (long long)t->id, trial_state_word(t->state));
    struct search_event ended = {.kind = SEARCH_TRIAL_ENDED,
                                 .request_id = t->request_id,
                                 .end = trial_search_end(t),
                                 .best = t->has_best ? t->best : NAN};
    experiment_search_event(c, l, &ended);
    l->ended_trials++;
    CORE_DISPATCH(c, search_continued, c, l);
    experiment_settle(c, l);
}

// Delivers an event to the allocation; without one the trial is idle at once.
static void allocation_pass_on(struct core *c, struct trial *t, enum allocation_event ev)
{
    if (!t->allocation)
        trial_event(c, t, TRIAL_EV_IDLE);
    else if (ev == ALLOCATION_EV_KILL)
        allocation_kill(c, t->allocation, OUTCOME_KILLED, "killed");
    else
        allocation_event(c, t->allocation, ev);
}

void trial_event(struct core *c, struct trial *t, enum trial_event ev)
{
    struct transition to = trial_transition(t->state, ev);
    if ((int)t->state != to.next) {
        t->state = (enum trial_state)to.next;
        change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
        if (t->state != TRIAL_ACTIVE)
            retry_clear(c, t);
        if (to.action != TRIAL_DO_END)
            STORE(c, TRIAL_SET_STATE, trial_state_word(t->state), t->id);
    }
    switch ((enum trial_action)to.action) {
    case TRIAL_DO_NOTHING:
        break;
    case TRIAL_DO_REQUEST:
        slots_request(c, t);
        break;
    case TRIAL_DO_RETRY:
        failure_retry(c, t);
        break;
    case TRIAL_DO_DRAIN:
        allocation_pass_on(c, t, ALLOCATION_EV_DRAIN);
        break;
    case TRIAL_DO_KILL:
        allocation_pass_on(c, t, ALLOCATION_EV_KILL);
        break;
    case TRIAL_DO_END:
        trial_end(c, t);
        break;
    }
}
