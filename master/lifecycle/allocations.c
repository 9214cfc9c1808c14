// The actions of the allocation's state machine, from the request for slots to the end of the last
// process.
//
// An allocation ends when its part on every machine has exited or was given up with its machine.
// The first cause decides its outcome: a failed rank, a lost machine, a kill. (A rank that lost its
// peers is reported first, but is no cause where there is another.) Without a cause the allocation
// has completed, or was preempted if the program had acknowledged a drain. A program that was ended
// because it does not poll was preempted, too, however it exits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/module.h"
#include "master/lifecycle/retries.h"

enum { FREE_SPACE_LOOK_US = 1000 * 1000 }; // between two checks of the free space for checkpoints

static const char *const outcome_words[OUTCOMES] = {"",     "COMPLETED", "PREEMPTED", "FAILED",
                                                    "PEER", "LOST",      "KILLED"};

const char *outcome_word(enum outcome outcome)
{
    return outcome_words[outcome];
}

// --- creation ------------------------------------------------------------------------------------

static void drain_overdue(struct core *c, void *arg)
{
    struct allocation *a = arg;
    char span[32], reason[160];
    if (!preemption_timeout(a->trial->active)) {
        allocation_kill(c, a, OUTCOME_KILLED, a->preempt_reason ? a->preempt_reason : "paused");
        return;
    }
    snprintf(reason, sizeof reason,
             "did not leave within %s of being asked to save its work (preemption_timeout)",
             duration_format(preemption_timeout(a->trial->active), span, sizeof span));
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
    free(a->preempt_reason);
    free(a->reason);
    free(a->last_output);
    allocation_free_gathers(a);
    free(a);
}

static int64_t allocation_waited(const struct core *c, const struct allocation *a)
{
    return c->wall > a->queued_at ? c->wall - a->queued_at : 0;
}

void allocation_enqueue(struct core *c, struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    struct sched_gang_spec gang = {.job = l->job,
                                   .min_slots = l->min_slots,
                                   .max_slots = l->slots_per_trial,
                                   .one_agent = l->one_agent,
                                   .non_preemptible = active_experiment_runs_once(l),
                                   .waited = a->trial->waited + allocation_waited(c, a),
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
    a->slots = l->slots_per_trial;
    allocation_enqueue(c, a);
    STORE(c, TRIAL_SET_RUN, t->run, t->id);
    STORE(c, ALLOCATION_INSERT, a->id, t->id, a->epoch, allocation_state_word(a->state), a->slots,
          a->pool->name, a->queued_at);
    if (l->min_slots < l->slots_per_trial)
        STORE(c, ALLOCATION_SET_MIN_SLOTS, l->min_slots, a->id);
}

// The scheduler asks an allocation that runs with a number outside the new range to leave.
void allocation_resize(struct core *c, struct allocation *a)
{
    const struct active_experiment *l = a->trial->active;
    bool elastic = l->min_slots < l->slots_per_trial;
    sched_gang_resize(c->sched, a->gang, l->min_slots, l->slots_per_trial);
    c->sched_due = true;
    if (a->state != ALLOCATION_QUEUED)
        return;
    a->slots = l->slots_per_trial;
    STORE(c, ALLOCATION_SET_SLOTS, a->slots, elastic ? l->min_slots : 0, a->id);
    change_mark(c, EVENT_TRIAL, l->experiment->id, a->trial->id, NULL);
}

// --- start ---------------------------------------------------------------------------------------

static int places_count_agents(const struct sched_place *places, size_t count)
{
    int agents = 0;
    for (size_t i = 0; i < count; i++)
        agents += !i || places[i].agent != places[i - 1].agent;
    return agents;
}

// Ranks follow the places: agent by agent, slot by slot.
static void parts_make(struct core *c, struct allocation *a, const struct sched_place *places,
                       size_t count)
{
    bool per_slot = a->trial->active->per_slot;
    int held = 0;
    a->parts = xcalloc((size_t)places_count_agents(places, count), sizeof *a->parts);
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

static void allocation_launch(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    a->launched_here = true;
    a->started_at = c->wall;
    t->waited += allocation_waited(c, a);
    trial_resume_point(t, a->resume, &a->resume_steps);
    a->measured_at = c->now;
    a->measured = t->progress;
    char *placement = launch_placement(a);
    STORE(c, ALLOCATION_PLACE, allocation_state_word(a->state), placement, a->started_at, a->slots,
          a->id);
    free(placement);
    launch_make_tokens(c, a);
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

// --- scheduling ----------------------------------------------------------------------------------

static void schedule_now(struct core *c)
{
    const struct sched_command *commands;
    c->sched_due = false;
    c->sched_last = c->now;
    int64_t begun = clock_mono_us(); // the machine's clock: a simulation moves that of the core
    size_t count = sched_pass(c->sched, c->now, &commands);
    meters_decision(c->options.meters, clock_mono_us() - begun);
    for (size_t i = 0; i < count; i++) { // the scheduler's state must not change in here
        const struct sched_command *command = &commands[i];
        struct allocation *a = core_trial_find(c, command->tag)->allocation;
        if (command->kind == SCHED_START) {
            parts_make(c, a, command->places, command->count);
            allocation_event(c, a, ALLOCATION_EV_PLACED);
        } else {
            preemption_order(c, a, command);
            allocation_event(c, a, ALLOCATION_EV_DRAIN);
        }
    }
}

static void pass_timer_fired(struct core *c, void *arg)
{
    (void)arg;
    c->sched_due = true;
}

static void queues_mark_changed(struct core *c)
{
    for (size_t i = 0; i < c->pool_count; i++) {
        struct pool *pool = c->pools[i];
        struct sched_pool_view now;
        sched_pool_inspect(c->sched, pool->handle, &now);
        if (!memcmp(&now, &pool->last_view, sizeof now))
            continue;
        pool->last_view = now;
        change_mark(c, EVENT_QUEUE, 0, 0, pool->name);
    }
}

// A pass is made at once, unless there was one just now: events that follow soon are decided
// together.
void allocations_schedule(struct core *c)
{
    int64_t gap = c->options.schedule_gap_us > 0 ? c->options.schedule_gap_us : 0;
    int64_t next = c->sched_last + gap;
    c->sched_timer.fire = pass_timer_fired;
    if (free_space_is_low(c->options.free_space, FREE_SPACE_CHECKPOINTS)) {
        next = c->now + FREE_SPACE_LOOK_US; // no trial starts, since it could not save its work
    } else if (c->now >= next) {
        schedule_now(c);
        queues_mark_changed(c);
        next = c->sched_due ? c->now : sched_next_pass(c->sched);
        next = next > c->now + gap ? next : c->now + (gap ? gap : 1);
    }
    if (next == INT64_MAX)
        timer_clear(&c->timers, &c->sched_timer);
    else
        timer_set(&c->timers, &c->sched_timer, next);
}

// --- end -----------------------------------------------------------------------------------------

static void outcome_set(struct core *c, struct allocation *a, enum outcome outcome,
                        const char *reason)
{
    bool is_open = a->outcome == OUTCOME_NONE ||
                   (a->outcome == OUTCOME_PREEMPTED && a->state != ALLOCATION_TERMINATING);
    bool is_cause = outcome == OUTCOME_FAILED || outcome == OUTCOME_LOST;
    if (!is_open && !(a->outcome == OUTCOME_PEER && is_cause))
        return;
    free(a->last_output);
    a->last_output = NULL;
    a->outcome = outcome;
    free(a->reason);
    a->reason = xstrdup(reason);
    STORE(c, ALLOCATION_SET_OUTCOME, outcome_word(outcome), reason, a->id);
}

void allocation_kill(struct core *c, struct allocation *a, enum outcome outcome, const char *reason)
{
    if (a->state != ALLOCATION_QUEUED)
        outcome_set(c, a, outcome, reason);
    allocation_event(c, a, ALLOCATION_EV_KILL);
}

static void part_leave_agent(struct core *c, struct part *p)
{
    struct part **link = &p->agent->parts;
    while (*link != p)
        link = &(*link)->next_on_agent;
    *link = p->next_on_agent;
    agent_changed(c, p->agent);
    agent_refresh(c, p->agent);
}

static bool never_began(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (!a->parts[i].never_started)
            return false;
    return true;
}

// A task that runs once and has begun does not start again, whatever ended it.
static enum trial_event outcome_event(const struct allocation *a)
{
    static const enum trial_event events[OUTCOMES] = {
        [OUTCOME_NONE] = TRIAL_EV_IDLE,           [OUTCOME_COMPLETED] = TRIAL_EV_COMPLETED,
        [OUTCOME_PREEMPTED] = TRIAL_EV_PREEMPTED, [OUTCOME_FAILED] = TRIAL_EV_FAILED,
        [OUTCOME_PEER] = TRIAL_EV_FAILED,         [OUTCOME_LOST] = TRIAL_EV_LOST,
        [OUTCOME_KILLED] = TRIAL_EV_LOST,
    };
    enum trial_event event = events[a->outcome];
    if (!active_experiment_runs_once(a->trial->active) || never_began(a))
        return event;
    if (event == TRIAL_EV_LOST)
        return TRIAL_EV_FAILED;
    return event == TRIAL_EV_PREEMPTED ? TRIAL_EV_COMPLETED : event;
}

// Explains the end of a task that runs once when the cluster, not a person, has ended it.
static void explain_end(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    static const char once[] =
        "it may have done part of its work, so it is not started again by itself";
    if (a->outcome < OUTCOME_LOST || !active_experiment_runs_once(t->active) ||
        t->state != TRIAL_ACTIVE)
        return;
    if (never_began(a)) {
        CORE_DISPATCH(c, trial_message, c, t, a->id, "INFO",
                      "it had not begun, so it waits for slots again");
        return;
    }
    char *reason = xasprintf("%s; %s", a->reason, once);
    trial_set_reason(c, t, reason);
    CORE_DISPATCH(c, trial_message, c, t, a->id, "ERROR", once);
    free(reason);
}

// Ends the allocation: its rows, slots, token and waiters; then the trial continues.
static void allocation_end(struct core *c, struct allocation *a)
{
    struct trial *t = a->trial;
    enum outcome outcome = a->outcome;
    STORE(c, ALLOCATION_END, a->reason ? a->reason : "", c->wall, a->id);
    STORE(c, TOKENS_DELETE_ALLOCATION, a->id);
    usage_add(c, a);
    if (outcome == OUTCOME_FAILED || outcome == OUTCOME_PEER)
        retry_count_failure(c, a);
    if (outcome >= OUTCOME_FAILED && !t->invalid) { // else the program has said why itself
        trial_set_reason(c, t, a->reason);
        STORE(c, TRIAL_SET_LAST_WORDS, a->last_output ? a->last_output : "", t->id);
    }
    explain_end(c, a);
    log_info("allocation ended", "exp=%lld trial=%lld alloc=%s outcome=%s",
             (long long)t->active->experiment->id, (long long)t->id, a->id, outcome_word(outcome));
    allocation_refuse_waiters(c, a);
    timer_clear(&c->timers, &a->drain_timer);
    sched_gang_remove(c->sched, a->gang, c->now);
    c->sched_due = true;
    enum trial_event event = outcome_event(a);
    for (int i = 0; i < a->part_count; i++)
        part_leave_agent(c, &a->parts[i]);
    t->allocation = NULL;
    allocation_free(a);
    trial_event(c, t, event);
}

static void state_store(struct core *c, const struct allocation *a)
{
    STORE(c, ALLOCATION_SET_STATE, allocation_state_word(a->state), a->id);
}

// The scheduler already knows about the drains it ordered.
static void scheduler_note_drain(struct core *c, const struct allocation *a)
{
    if (a->preempt_reason)
        return;
    sched_gang_set_leaving(c->sched, a->gang);
    c->sched_due = true;
}

static void drain_signal(struct core *c, struct allocation *a)
{
    if (preemption_end_unasked(c, a) || a->draining)
        return;
    a->draining = true;
    scheduler_note_drain(c, a);
    if (!active_experiment_runs_once(a->trial->active)) // else it only leaves by itself
        timer_set(&c->timers, &a->drain_timer, c->now + preemption_timeout(a->trial->active));
    allocation_wake_waiters(c, a);
}

static void agents_update(struct core *c, struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_EXITED)
            agent_changed(c, a->parts[i].agent);
}

static void action_run(struct core *c, struct allocation *a, enum allocation_action action)
{
    switch (action) {
    case ALLOCATION_DO_NOTHING:
        break;
    case ALLOCATION_DO_SHOW:
        a->runs_since = a->state == ALLOCATION_RUNNING ? c->wall : 0;
        state_store(c, a);
        allocation_wake_waiters(c, a);
        break;
    case ALLOCATION_DO_LAUNCH:
        allocation_launch(c, a);
        break;
    case ALLOCATION_DO_SIGNAL:
        drain_signal(c, a);
        break;
    case ALLOCATION_DO_ACK:
        outcome_set(c, a, OUTCOME_PREEMPTED,
                    a->preempt_reason ? a->preempt_reason : "left when it was asked to");
        break;
    case ALLOCATION_DO_KILL:
        outcome_set(c, a, OUTCOME_KILLED,
                    a->preempt_reason ? a->preempt_reason : "ended before it had started");
        scheduler_note_drain(c, a);
        state_store(c, a);
        agents_update(c, a);
        break;
    case ALLOCATION_DO_WITHDRAW:
        free(a->reason);
        a->reason = xstrdup("withdrawn while it waited for slots");
        allocation_end(c, a);
        break;
    case ALLOCATION_DO_END:
        if (a->outcome == OUTCOME_NONE)
            outcome_set(c, a, OUTCOME_COMPLETED, "");
        allocation_end(c, a);
        break;
    }
}

void allocation_expect_exit(struct core *c, struct allocation *a)
{
    timer_set(&c->timers, &a->drain_timer, c->now + c->options.kill_grace_us);
}

// The state of a trial, and so of its experiment, depends on its allocation.
static void mark_changed(struct core *c, const struct trial *t)
{
    change_mark(c, EVENT_EXPERIMENT, t->active->experiment->id, 0, NULL);
    change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
}

void allocation_event(struct core *c, struct allocation *a, enum allocation_event ev)
{
    struct transition to = allocation_transition(a->state, ev);
    if (to.next != (int)a->state)
        mark_changed(c, a->trial);
    a->state = (enum allocation_state)to.next;
    action_run(c, a, (enum allocation_action)to.action);
}

// --- parts ---------------------------------------------------------------------------------------

struct part *allocation_part(struct allocation *a, const struct agent *g)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].agent == g)
            return &a->parts[i];
    return NULL;
}

static bool parts_all_exited(const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++)
        if (a->parts[i].state != PART_EXITED)
            return false;
    return true;
}

// Only daemon parts are left, which serve parts that have ended: ends them, without an effect on
// the outcome.
static void daemons_dismiss(struct core *c, struct allocation *a)
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
        outcome_set(c, a, OUTCOME_COMPLETED, "");
    allocation_event(c, a, ALLOCATION_EV_KILL);
}

// The first failure that is reported is the cause, unless that rank only lost a peer. After a
// restart of the master the same machine reports the same failure again.
void allocation_report_failure(struct core *c, struct allocation *a, const struct rank_failure *f)
{
    bool better = a->outcome == OUTCOME_FAILED && a->lost_peer && !f->lost_peer &&
                  f->outcome == OUTCOME_FAILED;
    if (better)
        a->outcome = OUTCOME_NONE;
    outcome_set(c, a, f->outcome, f->reason);
    if (a->outcome != f->outcome || a->last_output || strcmp(a->reason, f->reason) != 0)
        return;
    a->last_output = xstrdup(f->last_output);
    a->lost_peer = f->lost_peer;
}

void part_exited(struct core *c, struct part *p, enum outcome outcome, const char *reason)
{
    struct allocation *a = p->allocation;
    if (p->state == PART_EXITED)
        return;
    p->state = PART_EXITED;
    if (outcome != OUTCOME_NONE) {
        outcome_set(c, a, outcome, reason);
        allocation_event(c, a, ALLOCATION_EV_PART_FAILED);
    }
    if (parts_all_exited(a))
        allocation_event(c, a, ALLOCATION_EV_GONE);
    else
        daemons_dismiss(c, a);
}
