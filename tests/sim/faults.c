// Faults, and the plan of all outside events.
#include <string.h>

#include "base/log.h"
#include "tests/sim/machines.h"

static struct machine *some_machine(const struct world *w, const struct outside *o)
{
    return w->machines[o->a % (uint32_t)w->machine_count];
}

// Most spans are short, so that runs meet both sides of every timeout.
static int64_t some_span(const struct outside *o)
{
    static const int64_t spans[] = {300 * MS,    1500 * MS,   3 * SECOND,  8 * SECOND, 12 * SECOND,
                                    25 * SECOND, 38 * SECOND, 45 * SECOND, 70 * SECOND};
    int64_t most = spans[o->b % (sizeof spans / sizeof *spans)];
    return most / 2 + o->c % (most / 2);
}

// --- machines ------------------------------------------------------------------------------------

static void up(struct world *w, void *who, int64_t life)
{
    struct machine *m = who;
    if (m->life == life)
        machine_up(w, m);
}

static void up_after(struct world *w, struct machine *m, int64_t span)
{
    at(w, w->now + span, up, m, m->life);
}

static void crash(struct world *w, const struct outside *o)
{
    struct machine *m = some_machine(w, o);
    bool keeps = o->c % 2;
    note_outside(w, "%s crashes%s, back in %.1f s", m->id, keeps ? "" : " and loses its disk",
                 (double)some_span(o) / SECOND);
    machine_crash(w, m, keeps);
    up_after(w, m, some_span(o));
}

static void restart_agent(struct world *w, const struct outside *o)
{
    struct machine *m = some_machine(w, o);
    if (!m->up)
        return;
    note_outside(w, "%s: the agent ends, its tasks go on, back in %.1f s", m->id,
                 (double)some_span(o) / SECOND);
    machine_down(w, m);
    up_after(w, m, some_span(o));
}

static void freeze(struct world *w, const struct outside *o)
{
    struct machine *m = some_machine(w, o);
    note_outside(w, "%s: the agent freezes for %.1f s", m->id, (double)some_span(o) / SECOND);
    m->frozen_until = w->now + some_span(o);
}

static void cut(struct world *w, const struct outside *o)
{
    struct machine *m = some_machine(w, o);
    note_outside(w, "%s is cut off for %.1f s", m->id, (double)some_span(o) / SECOND);
    m->cut_until = w->now + some_span(o);
}

static void join(struct world *w, const struct outside *o)
{
    if (!machine_add(w, 1 + (int)(o->a % (uint32_t)w->largest)))
        note(w, "no room for more machines");
}

static void grow_back(struct world *w, void *who, int64_t arg)
{
    struct machine *m = who;
    (void)arg;
    note_outside(w, "%s gets its %d slots back", m->id, m->full);
    machine_crash(w, m, false);
    machine_set_slots(m, m->full);
    machine_up(w, m);
}

static void resize(struct world *w, const struct outside *o)
{
    struct machine *m = some_machine(w, o);
    int slots = 1 + (int)(o->c % MACHINE_SLOTS_MAX);
    if (w->now + 200 * SECOND > w->calm_at)
        return;
    note_outside(w, "%s crashes, to come back with %d slots", m->id, slots);
    machine_crash(w, m, o->b % 2);
    machine_set_slots(m, slots);
    up_after(w, m, some_span(o));
    if (slots < m->full)
        at(w, w->now + 150 * SECOND, grow_back, m, 0);
}

static void kill_task(struct world *w, const struct outside *o)
{
    static const int codes[] = {1, 3, 80, 0, 6};
    struct machine *m = some_machine(w, o);
    for (struct model_part *t = m->tasks; t; t = t->next)
        if (t->state == TASK_RUNNING) {
            note_outside(w, "%s: %s dies", m->id, t->run->id);
            known_trial(w, t->run->trial)->done |= o->b % 2 && !codes[o->c % 5];
            task_exit(w, t, o->b % 2 ? codes[o->c % 5] : 0, o->b % 2 ? 0 : 9);
            return;
        }
}

// --- the master ----------------------------------------------------------------------------------

static void kill_master(struct world *w, const struct outside *o)
{
    if (o->b % 4 == 0) {
        master_die(w);
        return;
    }
    w->kill_at_write = 1 + (int)(o->a % 6);
    w->kill_before = o->b % 2;
    note_outside(w, "the master shall be killed %s its write %d",
                 w->kill_before ? "before" : "after", w->kill_at_write);
}

static void stop_master(struct world *w, const struct outside *o)
{
    (void)o;
    master_stop(w);
}

static void slow_store(struct world *w, const struct outside *o)
{
    note_outside(w, "the store is slow for %.1f s", (double)some_span(o) / SECOND);
    w->slow_until = w->now + some_span(o);
}

static void break_connections(struct world *w, const struct outside *o)
{
    (void)o;
    note_outside(w, "all connections break");
    calls_cut(w);
}

const struct outside_kind fault_kinds[] = {
    {"crash", 5, crash},
    {"restart_agent", 4, restart_agent},
    {"freeze", 4, freeze},
    {"cut", 6, cut},
    {"join", 2, join},
    {"resize", 2, resize},
    {"kill_task", 5, kill_task},
    {"kill_master", 5, kill_master},
    {"stop_master", 2, stop_master},
    {"slow_store", 2, slow_store},
    {"break_connections", 2, break_connections},
    {NULL, 0, NULL},
};

// --- the plan ------------------------------------------------------------------------------------

struct fault_choice { // of kinds, with their weight in this run
    uint32_t weights[64];
    int count;
    uint32_t total;
};

// A run leaves many kinds out, so that the others meet more often.
static void weigh(struct rng *r, struct fault_choice *all, const struct outside_kind *kinds,
                  bool always)
{
    for (int i = 0; kinds[i].name; i++) {
        bool first = always && i == 0; // a run without submissions tests nothing
        uint32_t weight = first || chance(r, 5500) ? kinds[i].weight : 0;
        all->weights[all->count++] = weight;
        all->total += weight;
    }
}

static int draw(struct rng *r, const struct fault_choice *all)
{
    uint32_t left = rng_below(r, all->total);
    int kind = 0;
    while (left >= all->weights[kind])
        left -= all->weights[kind++];
    return kind;
}

static void make_machines(struct world *w, struct rng *r)
{
    int count = (int)between(r, 1, 5), same = (int)between(r, 1, MACHINE_SLOTS_MAX);
    int total[2] = {0}, largest[2] = {0};
    bool alike = chance(r, 5000);
    w->pools = count > 1 && chance(r, 2500) ? 2 : 1;
    for (int i = 0; i < count; i++) {
        int slots = alike ? same : (int)between(r, 1, MACHINE_SLOTS_MAX);
        machine_add(w, slots);
        total[i % w->pools] += slots;
        largest[i % w->pools] = slots > largest[i % w->pools] ? slots : largest[i % w->pools];
    }
    w->total_slots = w->pools > 1 && total[1] < total[0] ? total[1] : total[0];
    w->largest = w->pools > 1 && largest[1] < largest[0] ? largest[1] : largest[0];
}

void plan_make(struct world *w)
{
    struct rng r;
    struct fault_choice all = {0};
    rng_seed(&r, w->seed, 4);
    make_machines(w, &r);
    weigh(&r, &all, people_kinds, true);
    weigh(&r, &all, fault_kinds, false);
    w->calm_at = between(&r, 1, 6) * MINUTE;
    w->lost = chance(&r, 5000) ? (uint32_t)between(&r, 0, 500) : 0;
    w->doubled = chance(&r, 5000) ? (uint32_t)between(&r, 0, 2000) : 0;
    w->late = chance(&r, 5000) ? (uint32_t)between(&r, 0, 1000) : 0;
    w->plan_count = (int)between(&r, 10, 60);
    must(w->plan_count <= PLAN_MAX);
    for (int i = 0; i < w->plan_count; i++)
        w->plan[i] = (struct outside){.at = w->now + between(&r, 0, w->calm_at),
                                      .kind = draw(&r, &all),
                                      .a = rng_u32(&r),
                                      .b = rng_u32(&r),
                                      .c = rng_u32(&r)};
}
