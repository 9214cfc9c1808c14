// What an allocation does on its events: from asking for slots to the end of its last process.
//
// It ends when its part on every machine has: exited there, or been given up with its machine. The
// first cause of an end counts: a rank that failed, a machine that was lost, a kill. (Ranks that
// say their peers were lost are heard first, and are no cause where there is another.) Without one
// it has completed, or, when the program had acknowledged a drain, was preempted.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"
#include "master/lifecycle/retries.h"

enum { ROOM_LOOK_US = 1000 * 1000 }; // between two checks whether trials may start again

static const char *const outcome_words[OUTCOMES] = {"",     "COMPLETED", "PREEMPTED", "FAILED",
                                                    "PEER", "LOST",      "KILLED"};

const char *outcome_word(enum outcome outcome)
{
    return outcome_words[outcome];
}

// --- made and freed ------------------------------------------------------------------------------

static void drain_overdue(struct core *c, void *arg)
{
    struct allocation *a = arg;
    char span[32], reason[160];
    if (!a->trial->active->preemption_timeout_us) {
        allocation_kill(c, a, OUTCOME_KILLED, a->leave ? a->leave : "paused");
        return;
    }
    snprintf(reason, sizeof reason,
             "did not leave within %s of being asked to save its work (preemption_timeout)",
             duration_format(a->trial->active->preemption_timeout_us, span, sizeof span));
    allocation_kill(c, a, OUTCOME_KILLED, reason);
}

struct allocation *allocation_new(struct trial *t, int64_t epoch)
{
    struct allocation *a = xcalloc(1, sizeof *a);
    must(!t->allocation);
    a->trial = t;
    a->epoch = epoch;
    a->gang = SCHED_NONE;
    a->drain_timer.fire = drain_overdue;
    a->drain_timer.arg = a;
    snprintf(a->id, sizeof a->id, "%s.%lld", t->task_id, (long long)epoch);
    t->allocation = a;
    return a;
}

void allocation_free(struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        free(a->parts[i].slots);
    free(a->parts);
    free(a->leave);
    free(a->reason);
    free(a->words);
    signals_free(a);
    free(a);
}

static int64_t waited(const struct core *c, const struct allocation *a)
{
    return c->wall > a->queued_at ? c->wall - a->queued_at : 0;
}

void allocation_enqueue(struct core *c, struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    struct sched_gang_spec gang = {.job = l->job,
                                   .min_slots = l->least,
                                   .max_slots = l->slots,
                                   .one_agent = l->one_agent,
                                   .non_preemptible = active_experiment_runs_once(l),
                                   .waited = a->trial->waited + waited(c, a),
                                   .tag = a->trial->id};
    for (int i = 0; i < a->trial->excluded_count; i++)
        if (a->trial->excluded[i]->handle != SCHED_NONE)
            gang.excluded[gang.excluded_count++] = a->trial->excluded[i]->handle;
    a->gang = sched_gang_add(c->sched, &gang, c->now);
    c->sched_due = true;
}

void allocation_request(struct core *c, struct trial *t)
{
    const struct active_experiment *l = t->active;
    struct allocation *a = allocation_new(t, ++t->run);
    a->queued_at = c->wall;
    a->pool = l->pool;
    a->slots = l->slots;
    allocation_enqueue(c, a);
    STORE(c, TRIAL_SET_RUN, t->run, t->id);
    STORE(c, ALLOCATION_INSERT, a->id, t->id, a->epoch, allocation_state_word(a->state), a->slots,
          a->pool->name, a->queued_at);
    if (l->least < l->slots)
        STORE(c, ALLOCATION_SET_MIN_SLOTS, l->least, a->id);
}

// --- start ---------------------------------------------------------------------------------------

static int count_agents(const struct sched_place *places, size_t count)
{
    int agents = 0;
    for (size_t i = 0; i < count; i++)
        agents += !i || places[i].agent != places[i - 1].agent;
    return agents;
}

// Ranks follow the places: agent by agent, slot by slot.
static void make_parts(struct core *c, struct allocation *a, const struct sched_place *places,
                       size_t count)
{
    bool per_slot = a->trial->active->per_slot;
    int held = 0;
    a->parts = xcalloc((size_t)count_agents(places, count), sizeof *a->parts);
    for (size_t i = 0; i < count; i++) {
        struct part *p = &a->parts[a->part_count];
        p->allocation = a;
        p->agent = c->agent_of_handle[places[i].agent];
        p->slots = xrealloc(p->slots, ((size_t)p->slot_count + 1) * sizeof *p->slots);
        if (places[i].slot != SCHED_NONE)
            p->slots[p->slot_count++] = places[i].slot, held++;
        if (i + 1 < count && places[i + 1].agent == places[i].agent)
            continue;
        p->first_rank = a->world_size;
        p->rank_count = per_slot && p->slot_count ? p->slot_count : 1;
        a->world_size += p->rank_count;
        a->part_count++;
    }
    a->slots = held;
}

static void launch(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    a->launched_here = true;
    a->started_at = c->wall;
    t->waited += waited(c, a);
    memcpy(a->resume, t->checkpoint, sizeof a->resume);
    a->resume_steps = t->checkpoint_steps;
    a->measured_at = c->now;
    a->measured = t->progress;
    char *placement = launch_placement(a);
    STORE(c, ALLOCATION_PLACE, allocation_state_word(a->state), placement, a->started_at, a->slots,
          a->id);
    free(placement);
    launch_token(c, a);
    if (a->epoch > 1)
        CORE_DISPATCH(c, run_restarted, c, t, a->resume[0] ? a->resume_steps : -1);
    for (int i = 0; i < a->part_count; i++) {
        struct part *p = &a->parts[i];
        p->next_on_agent = p->agent->parts;
        p->agent->parts = p;
        agent_changed(c, p->agent);
    }
    log_info("allocation placed", "exp=%lld trial=%lld alloc=%s ranks=%d machines=%d agent=%s",
             (long long)t->active->experiment->id, (long long)t->id, a->id, a->world_size,
             a->part_count, a->parts[0].agent->id);
}

// --- the scheduler's will ------------------------------------------------------------------------

static void decide(struct core *c)
{
    const struct sched_command *commands;
    c->sched_due = false;
    c->sched_last = c->now;
    size_t count = sched_pass(c->sched, c->now, &commands);
    for (size_t i = 0; i < count; i++) { // nothing in here may change the scheduler's state
        const struct sched_command *command = &commands[i];
        struct allocation *a = core_trial_find(c, command->tag)->allocation;
        if (command->kind == SCHED_START) {
            make_parts(c, a, command->places, command->count);
            allocation_event(c, a, ALLOCATION_EV_PLACED);
        } else {
            leave_order(c, a, command);
            allocation_event(c, a, ALLOCATION_EV_DRAIN);
        }
    }
}

static void pass_due(struct core *c, void *arg)
{
    (void)arg;
    c->sched_due = true;
}

static void tell_queues(struct core *c)
{
    for (size_t i = 0; i < c->pool_count; i++) {
        struct pool *pool = c->pools[i];
        struct sched_pool_view now;
        sched_pool_inspect(c->sched, pool->handle, &now);
        if (!memcmp(&now, &pool->told, sizeof now))
            continue;
        pool->told = now;
        core_event(c, EVENT_QUEUE, 0, 0, pool->name);
    }
}

// At once, unless a pass was just made: what happens shortly after one is decided together.
void allocations_schedule(struct core *c)
{
    int64_t gap = c->options.schedule_gap_us > 0 ? c->options.schedule_gap_us : 0;
    int64_t next = c->sched_last + gap;
    c->sched_timer.fire = pass_due;
    if (room_is_low(c->options.room, ROOM_CHECKPOINTS)) {
        next = c->now + ROOM_LOOK_US; // no trial starts, as it could not save its work
    } else if (c->now >= next) {
        decide(c);
        tell_queues(c);
        next = c->sched_due ? c->now : sched_next_pass(c->sched);
        next = next > c->now + gap ? next : c->now + (gap ? gap : 1);
    }
    if (next == INT64_MAX)
        timer_clear(&c->timers, &c->sched_timer);
    else
        timer_set(&c->timers, &c->sched_timer, next);
}

// --- end -----------------------------------------------------------------------------------------

static void set_outcome(struct core *c, struct allocation *a, enum outcome outcome,
                        const char *reason)
{
    bool is_open = a->outcome == OUTCOME_NONE || a->outcome == OUTCOME_PREEMPTED;
    bool is_cause = outcome == OUTCOME_FAILED || outcome == OUTCOME_LOST;
    if (!is_open && !(a->outcome == OUTCOME_PEER && is_cause))
        return;
    free(a->words);
    a->words = NULL;
    a->outcome = outcome;
    free(a->reason);
    a->reason = xstrdup(reason);
    STORE(c, ALLOCATION_SET_OUTCOME, outcome_word(outcome), reason, a->id);
}

void allocation_kill(struct core *c, struct allocation *a, enum outcome outcome, const char *reason)
{
    if (a->state != ALLOCATION_QUEUED)
        set_outcome(c, a, outcome, reason);
    allocation_event(c, a, ALLOCATION_EV_KILL);
}

static void leave_agent(struct core *c, struct part *p)
{
    struct part **link = &p->agent->parts;
    while (*link != p)
        link = &(*link)->next_on_agent;
    *link = p->next_on_agent;
    agent_changed(c, p->agent);
    agent_refresh(c, p->agent);
}

static bool did_nothing(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (!a->parts[i].idle)
            return false;
    return true;
}

// What runs once does not start again once it has begun, whyever it ended.
static enum trial_event event_of(const struct allocation *a)
{
    static const enum trial_event events[OUTCOMES] = {
        [OUTCOME_NONE] = TRIAL_EV_IDLE,           [OUTCOME_COMPLETED] = TRIAL_EV_COMPLETED,
        [OUTCOME_PREEMPTED] = TRIAL_EV_PREEMPTED, [OUTCOME_FAILED] = TRIAL_EV_FAILED,
        [OUTCOME_PEER] = TRIAL_EV_FAILED,         [OUTCOME_LOST] = TRIAL_EV_LOST,
        [OUTCOME_KILLED] = TRIAL_EV_LOST,
    };
    enum trial_event event = events[a->outcome];
    if (!active_experiment_runs_once(a->trial->active) || did_nothing(a))
        return event;
    if (event == TRIAL_EV_LOST)
        return TRIAL_EV_FAILED;
    return event == TRIAL_EV_PREEMPTED ? TRIAL_EV_COMPLETED : event;
}

// Of what runs once, when not a person but the cluster has ended it.
static void tell_what_follows(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    static const char once[] =
        "it may have done part of its work, so it is not started again by itself";
    if (a->outcome < OUTCOME_LOST || !active_experiment_runs_once(t->active) ||
        t->state != TRIAL_ACTIVE)
        return;
    if (did_nothing(a)) {
        CORE_DISPATCH(c, trial_message, c, t, a->id, "INFO",
                      "it had not begun, and waits for slots again");
        return;
    }
    char *reason = xasprintf("%s; %s", a->reason, once);
    trial_set_reason(c, t, reason);
    CORE_DISPATCH(c, trial_message, c, t, a->id, "ERROR", once);
    free(reason);
}

// The end of its life: rows, slots, token, waiters; then the trial goes on from there.
static void finish(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    enum outcome outcome = a->outcome;
    STORE(c, ALLOCATION_END, a->reason ? a->reason : "", c->wall, a->id);
    STORE(c, TOKENS_DELETE_ALLOCATION, a->id);
    usage_add(c, a);
    if (outcome == OUTCOME_FAILED || outcome == OUTCOME_PEER)
        retry_judge(c, a);
    if (outcome >= OUTCOME_FAILED && !t->invalid) { // else it has said why itself
        trial_set_reason(c, t, a->reason);
        STORE(c, TRIAL_SET_LAST_WORDS, a->words ? a->words : "", t->id);
    }
    tell_what_follows(c, a);
    log_info("allocation ended", "exp=%lld trial=%lld alloc=%s outcome=%s",
             (long long)t->active->experiment->id, (long long)t->id, a->id, outcome_word(outcome));
    signals_end(c, a);
    timer_clear(&c->timers, &a->drain_timer);
    sched_gang_remove(c->sched, a->gang, c->now);
    c->sched_due = true;
    enum trial_event event = event_of(a);
    for (int i = 0; i < a->part_count; i++)
        leave_agent(c, &a->parts[i]);
    t->allocation = NULL;
    allocation_free(a);
    trial_event(c, t, event);
}

static void show(struct core *c, const struct allocation *a)
{
    STORE(c, ALLOCATION_SET_STATE, allocation_state_word(a->state), a->id);
}

// Of what the scheduler asked for itself it knows.
static void tell_leaving(struct core *c, const struct allocation *a)
{
    if (a->leave)
        return;
    sched_gang_set_leaving(c->sched, a->gang);
    c->sched_due = true;
}

static void signal_drain(struct core *c, struct allocation *a)
{
    if (a->draining)
        return;
    a->draining = true;
    tell_leaving(c, a);
    if (!active_experiment_runs_once(a->trial->active)) // it leaves by its own will alone
        timer_set(&c->timers, &a->drain_timer, c->now + a->trial->active->preemption_timeout_us);
    signals_wake(c, a);
}

static void tell_agents(struct core *c, struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_EXITED)
            agent_changed(c, a->parts[i].agent);
}

static void do_action(struct core *c, struct allocation *a, enum allocation_action action)
{
    switch (action) {
    case ALLOCATION_DO_NOTHING:
        break;
    case ALLOCATION_DO_SHOW:
        a->runs_since = a->state == ALLOCATION_RUNNING ? c->wall : 0;
        show(c, a);
        signals_wake(c, a);
        break;
    case ALLOCATION_DO_LAUNCH:
        launch(c, a);
        break;
    case ALLOCATION_DO_SIGNAL:
        signal_drain(c, a);
        break;
    case ALLOCATION_DO_ACK:
        set_outcome(c, a, OUTCOME_PREEMPTED, a->leave ? a->leave : "left when it was asked to");
        break;
    case ALLOCATION_DO_KILL:
        set_outcome(c, a, OUTCOME_KILLED, a->leave ? a->leave : "ended before it had started");
        tell_leaving(c, a);
        show(c, a);
        tell_agents(c, a);
        break;
    case ALLOCATION_DO_WITHDRAW:
        free(a->reason);
        a->reason = xstrdup("withdrawn while it waited for slots");
        finish(c, a);
        break;
    case ALLOCATION_DO_END:
        if (a->outcome == OUTCOME_NONE)
            set_outcome(c, a, OUTCOME_COMPLETED, "");
        finish(c, a);
        break;
    }
}

void allocation_leaves(struct core *c, struct allocation *a)
{
    timer_set(&c->timers, &a->drain_timer, c->now + c->options.kill_grace_us);
}

// What runs makes the state that people see of a trial, and so of its experiment.
static void tell_followers(struct core *c, const struct trial *t)
{
    core_event(c, EVENT_EXPERIMENT, t->active->experiment->id, 0, NULL);
    core_event(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
}

void allocation_event(struct core *c, struct allocation *a, enum allocation_event ev)
{
    struct transition to = allocation_transition(a->state, ev);
    if (to.next != (int)a->state)
        tell_followers(c, a->trial);
    a->state = (enum allocation_state)to.next;
    do_action(c, a, (enum allocation_action)to.action);
}

// --- parts ---------------------------------------------------------------------------------------

struct part *allocation_part(struct allocation *a, const struct agent *g)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].agent == g)
            return &a->parts[i];
    return NULL;
}

static bool gone_everywhere(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_EXITED)
            return false;
    return true;
}

// What is left only serves those who have gone: it is ended, and takes nothing from how they ended.
static void dismiss_daemons(struct core *c, struct allocation *a)
{
    bool served = false;
    for (int i = 0; i < a->part_count; i++) {
        if (!a->parts[i].daemon && a->parts[i].state != PART_EXITED)
            return;
        served = served || !a->parts[i].daemon;
    }
    if (!served)
        return;
    if (a->outcome == OUTCOME_NONE)
        set_outcome(c, a, OUTCOME_COMPLETED, "");
    allocation_event(c, a, ALLOCATION_EV_KILL);
}

// The first failure that arrives is the cause, unless that rank only lost a peer. After a start of
// the master the same machine sends the same failure again.
void allocation_hear(struct core *c, struct allocation *a, const struct failure *f)
{
    bool better = a->outcome == OUTCOME_FAILED && a->lost_peer && !f->lost_peer &&
                  f->outcome == OUTCOME_FAILED;
    if (better)
        a->outcome = OUTCOME_NONE;
    set_outcome(c, a, f->outcome, f->reason);
    if (a->outcome != f->outcome || a->words || strcmp(a->reason, f->reason) != 0)
        return;
    a->words = xstrdup(f->words);
    a->lost_peer = f->lost_peer;
}

void part_exited(struct core *c, struct part *p, enum outcome outcome, const char *reason)
{
    struct allocation *a = p->allocation;
    if (p->state == PART_EXITED)
        return;
    p->state = PART_EXITED;
    if (outcome != OUTCOME_NONE) {
        set_outcome(c, a, outcome, reason);
        allocation_event(c, a, ALLOCATION_EV_PART_FAILED);
    }
    if (gone_everywhere(a))
        allocation_event(c, a, ALLOCATION_EV_GONE);
    else
        dismiss_daemons(c, a);
}
