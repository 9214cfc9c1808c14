// The simulation: time jumps from event to event (a submission, the end of a gang's work or drain,
// the time of sched_next_pass()). All events of one moment are handled together, then the scheduler
// decides once. A drain of length 0 ends in the same moment, which is then decided again.
#include "simulate/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "simulate/check.h"
#include "simulate/events.h"
#include "simulate/meter.h"

enum {
    ROUNDS_MAX = 10000, // limit for decisions at one moment; more means that the scheduler cycles
    IDLE_MAX = 10000,   // limit for consecutive decisions without effect while no event is left
    PROGRESS_EVERY = 1024, // decisions
    SLOWDOWN_FLOOR_S = 10, // shorter jobs count as this long
};
static const int64_t start_of_time = SIMULATE_SECOND; // the scheduler reads 0 as "unknown"

const char *const simulate_class_names[SIMULATE_CLASSES] = {"1", "2-4", "5-8", "9+"};

static int class_of(int slots)
{
    return slots <= 1 ? 0 : slots <= 4 ? 1 : slots <= 8 ? 2 : 3;
}

struct simulated_job {
    int job, gang; // handles of the scheduler; SCHED_NONE
    int slots;     // that it holds
    bool leaving, working;
    uint32_t run;           // grows when its pending events become obsolete
    int64_t since;          // when its work was last counted
    int64_t queued, waited; // begin of the current wait; total of the earlier ones
    int64_t owed;           // time that it must pay before it works
    int64_t work;           // remaining, slots x time
    int64_t end;            // expected end of its work while it has slots
};

struct run {
    const struct simulate_trace *trace;
    const struct simulate_options *options;
    struct simulate_figures *out;
    struct sched *sched;
    int *leaf;    // the scheduler's team for each team of the trace
    size_t *team; // the meter's team for each team of the trace
    struct simulated_job *simulated;
    struct event_heap events;
    struct simulate_meter meter;
    int64_t now, first; // virtual time; the trace's first submission
    size_t next;        // index of the next job to submit
    size_t waiting;
    struct sched_command *commands; // a copy
    size_t command_cap;
    double *times, *completion, *wait[SIMULATE_CLASSES]; // seconds
    size_t time_cap;
    double slowdown; // sum
    int rounds, idle;
};

// --- setting up ----------------------------------------------------------------------------------

static void add_teams(struct run *r)
{
    const struct simulate_trace *t = r->trace;
    r->leaf = xcalloc(t->team_count + 1, sizeof *r->leaf);
    r->team = xcalloc(t->team_count + 1, sizeof *r->team);
    size_t tops = 0;
    for (size_t i = 0; i < t->team_count; i++) {
        const struct simulate_team *one = &t->teams[i];
        struct sched_team_spec team = {one->weight, one->guaranteed, one->maximum};
        bool is_top = one->parent == SCHED_NONE;
        r->leaf[i] = sched_team_add(r->sched, is_top ? SCHED_ROOT : r->leaf[one->parent], &team);
        r->team[i] = is_top ? tops++ : r->team[one->parent];
    }
    r->out->teams = xcalloc(tops + 1, sizeof *r->out->teams);
    r->out->team_count = tops;
    int64_t window = t->job_count ? t->jobs[t->job_count - 1].submit - r->first : 0;
    meter_init(&r->meter, r->out->slots, window, tops);
    for (size_t i = 0; i < t->team_count; i++) {
        const struct simulate_team *one = &t->teams[i];
        if (one->parent != SCHED_NONE)
            continue;
        struct meter_team *meter = &r->meter.teams[r->team[i]];
        meter->weight = (double)one->weight;
        meter->guaranteed = (double)one->guaranteed;
        meter->maximum = one->maximum ? (double)one->maximum : INFINITY;
        r->out->teams[r->team[i]].name = one->name;
    }
}

static void add_nodes(struct run *r, const struct simulate_node *nodes, size_t count)
{
    int pool = sched_pool_add(r->sched, r->options->policy);
    for (size_t i = 0; i < count; i++) {
        int agent = sched_agent_add(r->sched, pool, nodes[i].slots, nodes[i].rack);
        sched_agent_set(r->sched, agent, true);
        r->out->slots += nodes[i].slots;
    }
}

static int largest_node(const struct simulate_node *nodes, size_t count)
{
    int largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = nodes[i].slots > largest ? nodes[i].slots : largest;
    return largest;
}

// Leaves out jobs that could never run.
static void leave_out(struct run *r, int largest)
{
    const struct simulate_trace *t = r->trace;
    for (size_t i = 0; i < t->job_count; i++) {
        const struct simulate_job *j = &t->jobs[i];
        const struct simulate_team *user = &t->teams[j->team], *team = &t->teams[user->parent];
        bool is_over = (user->maximum && j->min_slots > user->maximum) ||
                       (team->maximum && j->min_slots > team->maximum);
        bool is_large = j->min_slots > r->out->slots || (j->one_node && j->min_slots > largest);
        r->simulated[i].run = is_over || is_large ? UINT32_MAX : 0;
        r->out->too_large += is_over || is_large;
    }
}

static bool is_left_out(const struct run *r, size_t job)
{
    return r->simulated[job].run == UINT32_MAX;
}

// --- the life of a gang --------------------------------------------------------------------------

static void wait_for_slots(struct run *r, size_t i)
{
    struct simulated_job *l = &r->simulated[i];
    const struct simulate_job *j = &r->trace->jobs[i];
    struct sched_gang_spec gang = {.job = l->job,
                                   .min_slots = j->min_slots,
                                   .max_slots = j->max_slots,
                                   .one_agent = j->one_node,
                                   .tag = (int64_t)i,
                                   .waited = l->waited};
    l->queued = r->now;
    l->gang = sched_gang_add(r->sched, &gang, r->now);
    // Only EASY gets the lengths of jobs; the other policies work without them, as in production.
    if (r->options->policy == SCHED_POLICY_EASY)
        sched_gang_set_expected_end(r->sched, l->gang,
                                    l->owed + (l->work + j->max_slots - 1) / j->max_slots);
    meter_wait(&r->meter, r->team[j->team], j->max_slots);
    r->waiting++;
}

static void job_submit(struct run *r, size_t i)
{
    const struct simulate_job *j = &r->trace->jobs[i];
    struct sched_job_spec job = {.team = r->leaf[j->team],
                                 .priority = j->priority,
                                 .order = (int64_t)i,
                                 .weight = SCHED_WEIGHT_ONE};
    r->simulated[i].job = sched_job_add(r->sched, &job);
    r->simulated[i].work = j->length * j->max_slots;
    wait_for_slots(r, i);
}

static void set_working(struct run *r, struct simulated_job *l, bool working)
{
    if (l->working != working)
        r->meter.working += working ? l->slots : -l->slots;
    l->working = working;
}

static void job_start(struct run *r, size_t i, int slots)
{
    struct simulated_job *l = &r->simulated[i];
    const struct simulate_job *j = &r->trace->jobs[i];
    must(!l->slots && slots >= j->min_slots && slots <= j->max_slots);
    l->slots = slots;
    l->since = r->now;
    l->waited += r->now - l->queued;
    l->end = r->now + l->owed + (l->work + slots - 1) / slots;
    l->leaving = false;
    event_heap_push(&r->events, (struct simulate_event){l->end, i, ++l->run, EVENT_ENDS});
    if (l->owed)
        event_heap_push(&r->events,
                        (struct simulate_event){r->now + l->owed, i, l->run, EVENT_WORKS});
    meter_hold(&r->meter, r->team[j->team], j->max_slots, slots);
    set_working(r, l, !l->owed);
    if (r->options->policy == SCHED_POLICY_EASY)
        sched_gang_set_expected_end(r->sched, l->gang, l->end);
    r->waiting--;
    r->out->starts++;
}

// The gang stops working now and returns its slots at the end of the drain, unless it ends before.
static void job_drain(struct run *r, size_t i, enum sched_cause cause)
{
    struct simulated_job *l = &r->simulated[i];
    must(l->slots && !l->leaving);
    l->leaving = true;
    bool is_resize = cause == SCHED_TO_SHRINK || cause == SCHED_TO_GROW;
    r->out->resizes += is_resize;
    r->out->moves += cause == SCHED_TO_MOVE;
    r->out->preemptions += !is_resize && cause != SCHED_TO_MOVE;
    if (l->end <= r->now + r->options->drain)
        return;
    int64_t spent = r->now - l->since, paid = spent < l->owed ? spent : l->owed;
    l->owed -= paid;
    l->work -= (spent - paid) * l->slots;
    set_working(r, l, false);
    struct simulate_event event = {r->now + r->options->drain, i, ++l->run, EVENT_LEAVES};
    event_heap_push(&r->events, event);
}

static void job_release(struct run *r, size_t i)
{
    struct simulated_job *l = &r->simulated[i];
    const struct simulate_job *j = &r->trace->jobs[i];
    sched_gang_remove(r->sched, l->gang, r->now);
    set_working(r, l, false);
    meter_release(&r->meter, r->team[j->team], j->max_slots, l->slots);
    l->slots = 0;
}

static void job_end(struct run *r, size_t i)
{
    struct simulated_job *l = &r->simulated[i];
    const struct simulate_job *j = &r->trace->jobs[i];
    job_release(r, i);
    sched_job_remove(r->sched, l->job);
    double length = (double)j->length / SIMULATE_SECOND;
    double took = (double)(r->now - start_of_time - (j->submit - r->first)) / SIMULATE_SECOND;
    double wait = fmax(0, took - length); // at least 0: the end of an elastic gang is rounded up
    struct simulate_figures *f = r->out;
    struct simulate_team_figures *team = &f->teams[r->team[j->team]];
    int class = class_of(j->max_slots);
    r->completion[f->jobs++] = took;
    r->wait[class][f->wait[class].count++] = wait;
    r->slowdown += fmax(1, took / fmax(length, SLOWDOWN_FLOOR_S));
    team->jobs++;
    team->slot_hours += length * j->max_slots / 3600;
    team->mean_wait += wait; // a sum until the end of the simulation
}

static void event_handle(struct run *r, const struct simulate_event *event)
{
    struct simulated_job *l = &r->simulated[event->job];
    if (event->run != l->run)
        return;
    r->out->events++;
    switch (event->kind) {
    case EVENT_WORKS:
        set_working(r, l, true);
        break;
    case EVENT_ENDS:
        l->run++;
        job_end(r, event->job);
        break;
    case EVENT_LEAVES:
        job_release(r, event->job);
        l->owed += r->options->preempt_cost;
        wait_for_slots(r, event->job);
        break;
    }
}

// --- deciding ------------------------------------------------------------------------------------

static void note_time(struct run *r, int64_t ns)
{
    if (r->out->decisions == r->time_cap) {
        r->time_cap = r->time_cap ? 2 * r->time_cap : 4096;
        r->times = xrealloc(r->times, r->time_cap * sizeof *r->times);
    }
    r->times[r->out->decisions] = (double)ns / 1e9;
}

// Copies the commands, because executing them calls the scheduler, which may overwrite them.
static size_t run_pass(struct run *r)
{
    int64_t (*clock)(void) = r->options->clock_ns;
    const struct sched_command *commands;
    int64_t began = clock ? clock() : 0;
    size_t count = sched_pass(r->sched, r->now, &commands);
    if (clock)
        note_time(r, clock() - began);
    r->out->decisions++;
    if (count > r->command_cap) {
        r->command_cap = 2 * count;
        r->commands = xrealloc(r->commands, r->command_cap * sizeof *r->commands);
    }
    for (size_t i = 0; i < count; i++)
        r->commands[i] = commands[i];
    for (size_t i = 0; i < count; i++) {
        const struct sched_command *c = &r->commands[i];
        if (c->kind == SCHED_START)
            job_start(r, (size_t)c->tag, (int)c->count);
        else
            job_drain(r, (size_t)c->tag, c->cause);
    }
    return count;
}

static void skip_left_out(struct run *r)
{
    while (r->next < r->trace->job_count && is_left_out(r, r->next))
        r->next++;
}

static int64_t next_arrival(const struct run *r)
{
    if (r->next == r->trace->job_count)
        return INT64_MAX;
    return r->trace->jobs[r->next].submit - r->first + start_of_time;
}

// The time of the next event; INT64_MAX: none.
static int64_t next_moment(const struct run *r)
{
    int64_t moment = sched_next_pass(r->sched);
    if (moment <= r->now)
        moment = r->now + 1;
    if (next_arrival(r) < moment)
        moment = next_arrival(r);
    if (r->events.count && r->events.heap[0].at < moment)
        moment = r->events.heap[0].at;
    return moment;
}

// Obsolete events must not advance the time.
static void drop_obsolete_events(struct run *r)
{
    const struct event_heap *all = &r->events;
    while (all->count && all->heap[0].run != r->simulated[all->heap[0].job].run)
        event_heap_pop(&r->events);
}

// Handles one moment. Returns false when no event is left.
static bool run_moment(struct run *r)
{
    drop_obsolete_events(r);
    bool is_quiet = !r->events.count && r->next == r->trace->job_count;
    int64_t moment = next_moment(r);
    if (moment == INT64_MAX || (is_quiet && (!r->waiting || r->idle > IDLE_MAX)))
        return false;
    r->rounds = moment <= r->now + 1 ? r->rounds + 1 : 0;
    meter_advance(&r->meter, moment - start_of_time);
    r->now = moment;
    bool is_paid_only = true;
    while (r->events.count && r->events.heap[0].at == r->now) {
        struct simulate_event event = event_heap_pop(&r->events);
        is_paid_only &= event.kind == EVENT_WORKS || event.run != r->simulated[event.job].run;
        event_handle(r, &event);
    }
    for (; next_arrival(r) == r->now; skip_left_out(r)) {
        job_submit(r, r->next++);
        r->out->events++;
        is_paid_only = false;
    }
    if (is_paid_only && sched_next_pass(r->sched) > r->now && !is_quiet)
        return true; // the scheduler need not hear of it
    r->idle = run_pass(r) || !is_quiet ? 0 : r->idle + 1;
    return true;
}

static int run_all(struct run *r, struct error *e)
{
    skip_left_out(r);
    for (size_t n = 0; run_moment(r); n++) {
        if (r->rounds > ROUNDS_MAX)
            return error_set(e, ERR_INTERNAL,
                             "the scheduler goes round in circles, %.0f s after the first "
                             "submission; please report this trace",
                             (double)(r->now - start_of_time) / SIMULATE_SECOND);
        if (n % PROGRESS_EVERY == 0 && r->options->progress &&
            !r->options->progress(r->options->ctx,
                                  (double)r->out->jobs / (double)r->trace->job_count))
            return error_set(e, ERR_TIMEOUT, "the simulation was stopped");
    }
    return 0;
}

// --- figures -------------------------------------------------------------------------------------

static void figures_complete(struct run *r)
{
    struct simulate_figures *f = r->out;
    const struct simulate_meter *m = &r->meter;
    f->stuck = r->waiting;
    f->completion = spread_of(r->completion, f->jobs);
    f->slowdown = f->jobs ? r->slowdown / (double)f->jobs : 0;
    for (int i = 0; i < SIMULATE_CLASSES; i++)
        f->wait[i] = spread_of(r->wait[i], f->wait[i].count);
    f->makespan = (double)m->at / SIMULATE_SECOND;
    double window = (double)m->window / SIMULATE_SECOND;
    f->use_window = window > 0 ? m->work_window / (window * (double)f->slots) : 0;
    f->use_makespan = f->makespan > 0 ? m->work_all / (f->makespan * (double)f->slots) : 0;
    f->share = NAN;
    for (size_t i = 0; i < f->team_count; i++) {
        struct simulate_team_figures *t = &f->teams[i];
        t->mean_wait = t->jobs ? t->mean_wait / (double)t->jobs : 0;
        t->share = m->teams[i].worst;
        t->share_at = m->teams[i].worst_at;
        f->share = fmin(f->share, t->share); // fmin of a number and a NaN is the number
    }
    f->bins = xcalloc(SIMULATE_BINS, sizeof *f->bins);
    f->bin_count = meter_bins(&r->meter, f->bins);
    f->bin_seconds = (double)m->bin_width / SIMULATE_SECOND;
    if (r->options->clock_ns)
        f->decision = spread_of(r->times, f->decisions);
}

static void run_free(struct run *r)
{
    sched_free(r->sched);
    meter_free(&r->meter);
    event_heap_free(&r->events);
    free(r->leaf);
    free(r->team);
    free(r->simulated);
    free(r->commands);
    free(r->times);
    free(r->completion);
    for (int i = 0; i < SIMULATE_CLASSES; i++)
        free(r->wait[i]);
    free(r);
}

int simulate(const struct simulate_trace *trace, const struct simulate_node *nodes,
             size_t node_count, const struct simulate_options *options,
             struct simulate_figures *out, struct error *e)
{
    *out = (struct simulate_figures){0};
    int err = simulate_check(trace, nodes, node_count, options, e);
    if (err)
        return err;
    struct run *r = xcalloc(1, sizeof *r);
    r->trace = trace;
    r->options = options;
    r->out = out;
    r->sched = sched_new(options->rules);
    r->now = 0;
    r->first = trace->job_count ? trace->jobs[0].submit : 0;
    r->simulated = xcalloc(trace->job_count + 1, sizeof *r->simulated);
    r->completion = xcalloc(trace->job_count + 1, sizeof *r->completion);
    for (int i = 0; i < SIMULATE_CLASSES; i++)
        r->wait[i] = xcalloc(trace->job_count + 1, sizeof *r->wait[i]);
    add_nodes(r, nodes, node_count);
    add_teams(r);
    leave_out(r, largest_node(nodes, node_count));
    err = run_all(r, e);
    figures_complete(r);
    run_free(r);
    if (err)
        simulate_figures_free(out);
    return err;
}

void simulate_figures_free(struct simulate_figures *f)
{
    free(f->teams);
    free(f->bins);
    *f = (struct simulate_figures){0};
}
