#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/machines.h"

enum { TRACE_OUTSIDE = 1, TRACE_ALL = 2, STEPS_MAX = 3000000 };
static const int64_t CALM_MOST = 12LL * 60 * MINUTE; // within this time everything must have ended
static const int64_t CALM_STEP = 5 * SECOND;

// --- chance --------------------------------------------------------------------------------------

int64_t between(struct rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(r, (uint32_t)(high - low + 1));
}

bool chance(struct rng *r, uint32_t of_10000)
{
    return of_10000 && rng_below(r, 10000) < of_10000;
}

// --- words ---------------------------------------------------------------------------------------

static void trace_print(const struct world *w, const char *mark, const char *fmt, va_list args)
{
    printf("%10.4f %s", (double)w->now / SECOND, mark);
    vprintf(fmt, args);
    putchar('\n');
}

void note(struct world *w, const char *fmt, ...)
{
    va_list args;
    if (w->trace < TRACE_ALL)
        return;
    va_start(args, fmt);
    trace_print(w, "  ", fmt, args);
    va_end(args);
}

void note_outside(struct world *w, const char *fmt, ...)
{
    va_list args;
    if (w->trace < TRACE_OUTSIDE)
        return;
    va_start(args, fmt);
    trace_print(w, w->trace == TRACE_ALL ? "* " : "", fmt, args);
    va_end(args);
}

// --- events --------------------------------------------------------------------------------------

static bool sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void at(struct world *w, int64_t when, event_fire *fire, void *who, int64_t arg)
{
    struct sim_event e = {when < w->now ? w->now : when, ++w->order, fire, who, arg};
    if (w->event_count + 1 >= w->event_cap) {
        w->event_cap = w->event_cap ? 2 * w->event_cap : 1024;
        w->events = xrealloc(w->events, w->event_cap * sizeof *w->events);
    }
    size_t place = ++w->event_count;
    for (; place > 1 && sooner(&e, &w->events[place / 2]); place /= 2)
        w->events[place] = w->events[place / 2];
    w->events[place] = e;
}

static struct sim_event take_event(struct world *w)
{
    struct sim_event first = w->events[1], last = w->events[w->event_count--];
    size_t place = 1;
    for (size_t child; (child = 2 * place) <= w->event_count; place = child) {
        if (child < w->event_count && sooner(&w->events[child + 1], &w->events[child]))
            child++;
        if (!sooner(&w->events[child], &last))
            break;
        w->events[place] = w->events[child];
    }
    w->events[place] = last;
    return first;
}

// Runs the master's turn or the next event, whichever is due first.
static void step(struct world *w)
{
    int64_t turn = master_due(w);
    must(w->event_count || turn != INT64_MAX);
    if (w->event_count && w->events[1].at <= turn) {
        struct sim_event e = take_event(w);
        w->now = e.at;
        e.fire(w, e.who, e.arg);
    } else {
        w->now = turn > w->now ? turn : w->now;
        master_turn(w);
    }
    if (++w->steps > STEPS_MAX)
        broken(w, "comes_to_an_end", "%d events and no end", STEPS_MAX);
}

// --- a life --------------------------------------------------------------------------------------

static void calm_down(struct world *w, void *who, int64_t arg)
{
    (void)who;
    (void)arg;
    note_outside(w, "faults stop");
    w->calm = true;
    w->slow_until = 0;
    w->kill_at_write = 0;
    for (int i = 0; i < w->machine_count; i++) {
        struct machine *m = w->machines[i];
        m->cut_until = m->frozen_until = 0;
        if (!m->up)
            machine_up(w, m);
        machine_wake(w, m);
    }
}

void world_begin(struct world *w, struct db *template, uint64_t seed)
{
    *w = (struct world){.seed = seed, .trace = w->trace, .verdict = w->verdict};
    rng_seed(&w->net, seed, 1);
    rng_seed(&w->work, seed, 2);
    rng_seed(&w->choice, seed, 3);
    w->now = SECOND;
    master_begin(w, template);
    plan_make(w);
    if (w->verdict)
        w->verdict->plan_count = w->plan_count;
}

static void happen(struct world *w, void *who, int64_t arg)
{
    const struct outside *o = who;
    const struct outside_kind *kinds = arg ? people_kinds : fault_kinds;
    kinds[o->kind].happen(w, o);
}

static void plan_events(struct world *w)
{
    int people = 0;
    while (people_kinds[people].name)
        people++;
    for (int i = 0; i < w->plan_count; i++) {
        struct outside *o = &w->plan[i];
        if (o->left_out)
            continue;
        struct outside *copy = arena_alloc(&w->arena, sizeof *copy);
        *copy = *o;
        copy->kind = o->kind < people ? o->kind : o->kind - people;
        at(w, o->at, happen, copy, o->kind < people);
    }
}

void world_run(struct world *w)
{
    plan_events(w);
    at(w, w->calm_at, calm_down, NULL, 0);
    while (!w->calm)
        step(w);
    int64_t last = w->now + CALM_MOST, push = w->now, busy = w->now;
    while (w->now < busy + MINUTE) { // a last message may still be on its way
        if (!people_done(w))
            busy = w->now;
        if (w->now >= push) {
            people_push_on(w);
            push = w->now + CALM_STEP;
        }
        if (w->now > last)
            broken(w, "all_work_finishes", "not after %lld min of calm",
                   (long long)(CALM_MOST / MINUTE));
        step(w);
    }
    check_end(w);
    if (w->verdict) {
        w->verdict->steps = w->steps;
        w->verdict->checks = w->checks;
    }
}

void world_end(struct world *w)
{
    master_end(w);
    net_free(w);
    for (int i = 0; i < w->machine_count; i++) {
        json_decref(w->machines[i]->slots_json);
        json_decref(w->machines[i]->held);
    }
    free(w->events);
    free(w->trials);
    arena_free(&w->arena);
}
