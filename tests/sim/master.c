// The lives of the master over one store: turns, slow writes, and an end at any of them.
#include "base/log.h"
#include "master/kernel/state.h"
#include "master/modules.h"
#include "tests/sim/machines.h"

static int64_t sim_now; // of the only world of this process: a clock has no context

static int64_t mono(void)
{
    return sim_now;
}

static int64_t wall(void)
{
    return sim_now + 1700000000LL * SECOND;
}

static struct sched_rules rules;
static struct core_options options = {
    .modules = master_modules,
    .cluster_id = "cluster",
    .cluster_name = "simulated",
    .master_url = "http://master",
    .agent_silence_us = 10 * SECOND,
    .agent_reconnect_us = 30 * SECOND,
    .kill_grace_us = 10 * SECOND,
    .preemption_timeout_us = 60 * SECOND,
    .max_user_priority = SCHED_PRIORITY_MIN, // people may do anything to each other's jobs
    .rules = &rules,
    .mono_us = mono,
    .wall_us = wall,
};

const struct core_options *master_options(void)
{
    // A folder that exists and has no checkpoints, so that every deletion finds the files gone.
    static const char own[] = "{\"type\":\"directory\",\"container_path\":\"/mnt\"}";
    static struct storage *storage;
    must(storage || !storage_new(own, NULL, 0, &storage, NULL));
    options.storage = storage;
    return &options;
}

// The scheduler thinks in hours and a run takes minutes, so most runs divide its times.
static void draw_options(uint64_t seed)
{
    static const int64_t parts[] = {1, 20, 60, 200};
    struct rng r;
    rng_seed(&r, seed, 5);
    int64_t part = parts[rng_below(&r, 4)];
    rules = sched_default_rules;
    for (int i = 0; i < SCHED_LEVELS - 1; i++)
        rules.levels[i] /= part;
    rules.min_runtime /= part;
    rules.overdue_large /= 10 * part;
    rules.overdue /= 10 * part;
    rules.debt_quantum /= part;
    rules.grow_after /= part;
    options.scheduler =
        chance(&r, 6000) ? SCHED_POLICY_FAIR_SHARE : rng_below(&r, SCHED_POLICY_EASY);
    options.schedule_gap_us = chance(&r, 7000) ? 5 * MS : 0;
    options.restart_backoff_us = chance(&r, 5000) ? 500 * MS : 0;
}

void master_start(struct world *w)
{
    struct error e = {0};
    sim_now = w->now;
    w->lives++;
    w->turn_at = 0;
    w->writing = false;
    note_outside(w, "the master starts");
    if (core_new(w->db, master_options(), &w->core, &e))
        broken(w, "master_starts", "%s", e.text);
    for (size_t i = 0; i < w->trial_cap; i++)
        w->trials[i].leaving = 0; // it waits again
    check_start(w);
}

static void start_again(struct world *w, void *who, int64_t arg)
{
    (void)who;
    (void)arg;
    if (!w->core)
        master_start(w);
}

static void come_back_later(struct world *w)
{
    at(w, w->now + between(&w->choice, 100 * MS, w->calm ? SECOND : 20 * SECOND), start_again, NULL,
       0);
}

void master_die(struct world *w)
{
    if (!w->core)
        return;
    note_outside(w, "the master is killed, %llu batches unwritten",
                 (unsigned long long)(w->core->submitted - w->core->committed));
    db_discard_queue(w->db);
    core_free(w->core);
    w->core = NULL;
    w->kill_at_write = 0;
    calls_fail(w);
    come_back_later(w);
}

void master_stop(struct world *w)
{
    if (!w->core)
        return;
    note_outside(w, "the master stops");
    sim_now = w->now;
    core_stop(w->core);
    core_free(w->core);
    w->core = NULL;
    calls_fail(w);
    come_back_later(w);
}

// --- turns and writes ----------------------------------------------------------------------------

static void write_store(struct world *w, void *who, int64_t life)
{
    (void)who;
    if (!w->core || life != w->lives)
        return;
    w->writing = false;
    bool dies = w->kill_at_write && --w->kill_at_write == 0;
    if (dies && w->kill_before) {
        master_die(w);
        return;
    }
    size_t most = chance(&w->choice, 2000) ? 1 : 1000;
    size_t n = db_write(w->db, most);
    note(w, "the store has written %zu", n);
    check_store(w);
    if (dies)
        master_die(w);
}

static void plan_write(struct world *w)
{
    int64_t takes = between(&w->choice, 50, 4 * MS);
    if (w->writing || w->core->submitted == w->core->committed)
        return;
    if (w->now < w->slow_until)
        takes += between(&w->choice, 100 * MS, 2 * SECOND);
    w->writing = true;
    at(w, w->now + takes, write_store, NULL, w->lives);
}

// The next turn comes a little after there is something to do.
int64_t master_due(struct world *w)
{
    if (!w->core)
        return INT64_MAX;
    if (w->turn_at)
        return w->turn_at;
    int64_t next = core_next_turn(w->core);
    if (next > w->now)
        return next;
    w->turn_at = w->now + between(&w->choice, 1, 500);
    return w->turn_at;
}

void master_turn(struct world *w)
{
    sim_now = w->now;
    w->turn_at = 0;
    core_turn(w->core);
    check_core(w);
    plan_write(w);
}

// --- begin and end -------------------------------------------------------------------------------

void master_begin(struct world *w, struct db *template)
{
    struct error e = {0};
    sim_now = w->now;
    draw_options(w->seed);
    if (db_open_memory(template, &w->db, &e) || db_reader_open(w->db, &w->reader, &e))
        broken(w, "store_opens", "%s", e.text);
    master_start(w);
}

void master_end(struct world *w)
{
    if (w->core) {
        core_stop(w->core);
        core_free(w->core);
    }
    w->core = NULL;
    db_reader_close(w->reader);
    db_close(w->db);
}
