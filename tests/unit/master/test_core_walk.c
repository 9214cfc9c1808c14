// A random walk of a cluster: agents follow their orders, lose messages, fall silent and come back;
// ranks fail; people pause, activate, cancel and kill; the master restarts. One seed makes one run.
// After every event no slot runs two tasks and no trial runs twice; when the trouble stops,
// everything ends.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "master/common/task_id.h"

enum { AGENTS = 3, SLOTS = 3, TASKS = 8, EVENTS = 250, EXPERIMENTS = 12 };

struct model_task { // on an agent's machine
    bool used, exited, told_to_end;
    char id[80];
    int slots[SLOTS];
    int slot_count;
    int exit_code; // 9: signal
};

struct model_agent {
    char name[16];
    int session;
    bool away; // sends nothing
    struct model_task tasks[TASKS];
    int64_t seen;
    struct core_call *poll;
    struct {
        int session;
        int64_t seen;
        char tasks[4096];
    } last; // as it was sent last
};

static struct cluster_walk {
    struct rng rng;
    struct model_agent agents[AGENTS];
    int experiments;
    bool calm; // the trouble is over
} w;

static bool chance(uint32_t one_in)
{
    return !w.calm && rng_below(&w.rng, one_in) == 0;
}

// --- agents --------------------------------------------------------------------------------------

static void write_report(const struct model_agent *g, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < TASKS; i++) {
        const struct model_task *t = &g->tasks[i];
        char rank[64] = "";
        if (!t->used)
            continue;
        if (t->exited)
            snprintf(rank, sizeof rank, "{\"rank\":0,\"%s\":%d}",
                     t->exit_code == 9 ? "signal" : "exitCode", t->exit_code);
        at += (size_t)snprintf(out + at, cap - at,
                               "%s{\"allocationId\":\"%s\",\"state\":\"%s\",\"ranks\":[%s],"
                               "\"reason\":\"\"}",
                               at ? "," : "", t->id, t->exited ? "EXITED" : "RUNNING", rank);
    }
}

static struct model_task *find_task(struct model_agent *g, const char *id)
{
    for (int i = 0; i < TASKS; i++)
        if (g->tasks[i].used && !strcmp(g->tasks[i].id, id))
            return &g->tasks[i];
    return NULL;
}

static void take_slots(struct model_task *t, const json_t *task)
{
    size_t i, k;
    json_t *rank, *slot;
    json_array_foreach(jget(task, "ranks"), i, rank)
    {
        json_array_foreach(jget(rank, "slots"), k, slot) t->slots[t->slot_count++] =
            (int)json_integer_value(slot);
    }
}

static void begin_task(struct model_agent *g, const json_t *task)
{
    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &g->tasks[i];
        if (t->used)
            continue;
        *t = (struct model_task){.used = true};
        snprintf(t->id, sizeof t->id, "%s", jget_string(task, "allocationId", ""));
        take_slots(t, task);
        return;
    }
    fail_msg("%s has too many tasks", g->name);
}

// As in agent/tasks/reconcile.c: unnamed tasks are ended, and a task that ran before is not begun
// again.
static void obey(struct model_agent *g, const json_t *answer)
{
    size_t i;
    json_t *task;
    for (i = 0; i < TASKS; i++) {
        struct model_task *t = &g->tasks[i];
        if (!t->used)
            continue;
        if (t->exited && forgotten(answer, t->id))
            t->used = false;
        else if (!strcmp(desired_action(answer, t->id), "RUN"))
            continue;
        else
            t->told_to_end = true;
    }
    json_array_foreach(jget(answer, "tasks"), i, task)
    {
        const char *id = jget_string(task, "allocationId", "");
        bool run = !strcmp(jget_string(task, "action", ""), "RUN");
        if (find_task(g, id))
            continue;
        begin_task(g, task);
        if (!run) { // never begun here: reported as ended, so that the master can continue
            find_task(g, id)->exited = true;
            find_task(g, id)->exit_code = 9;
        }
    }
}

static struct core_call *post(const struct model_agent *g, int session, int64_t seen,
                              const char *tasks)
{
    char name[32];
    snprintf(name, sizeof name, "session-%d", session);
    return sync_start(g->name, name, SLOTS, seen, tasks);
}

static void take_answer(struct model_agent *g, bool lose)
{
    if (!g->poll || !call_is_done(g->poll))
        return;
    json_t *answer = call_end(g->poll);
    g->poll = NULL;
    if (last_status == 200 && !lose) {
        g->seen = jget_int(answer, "version", -1);
        obey(g, answer);
    }
    json_decref(answer);
}

// A call of the agent: drops the one before; its answer may be lost.
static void sync_model(struct model_agent *g, bool lose_answer)
{
    take_answer(g, lose_answer);
    struct core_call *dropped = g->poll;
    g->last.session = g->session;
    g->last.seen = g->seen;
    write_report(g, g->last.tasks, sizeof g->last.tasks);
    g->poll = post(g, g->session, g->seen, g->last.tasks);
    settle();
    if (dropped)
        json_decref(call_end(dropped));
    take_answer(g, lose_answer);
}

// --- invariants ----------------------------------------------------------------------------------

static void check_slots(void)
{
    for (int a = 0; a < AGENTS; a++) {
        const char *owner[SLOTS] = {0};
        for (int i = 0; i < TASKS; i++) {
            const struct model_task *t = &w.agents[a].tasks[i];
            for (int k = 0; t->used && !t->exited && k < t->slot_count; k++) {
                if (owner[t->slots[k]])
                    fail_msg("slot %d of %s runs %s and %s", t->slots[k], w.agents[a].name,
                             owner[t->slots[k]], t->id);
                owner[t->slots[k]] = t->id;
            }
        }
    }
}

static void check_store(void)
{
    assert_stored("SELECT count(*) FROM (SELECT trial_id FROM allocations "
                  "WHERE state <> 'TERMINATED' GROUP BY trial_id HAVING count(*) > 1)",
                  "0");
    assert_stored("SELECT count(*) FROM allocations a JOIN trials t ON t.id = a.trial_id "
                  "WHERE a.state <> 'TERMINATED' AND t.state IN ('COMPLETED', 'CANCELED', 'ERROR')",
                  "0");
    assert_stored("SELECT count(*) FROM tokens k JOIN allocations a ON a.id = k.allocation_id "
                  "WHERE a.state = 'TERMINATED'",
                  "0");
    assert_stored("SELECT count(*) FROM trials WHERE restarts > 2", "0"); // max_restarts: 1
}

// --- events --------------------------------------------------------------------------------------

static struct model_task *some_task(struct model_agent *g)
{
    uint32_t first = rng_below(&w.rng, TASKS);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct model_task *t = &g->tasks[(first + i) % TASKS];
        if (t->used && !t->exited)
            return t;
    }
    return NULL;
}

static void end_some_rank(struct model_agent *g)
{
    static const int codes[] = {0, 0, 3, 9, 80};
    struct model_task *t = some_task(g);
    if (!t)
        return;
    t->exited = true;
    t->exit_code = t->told_to_end ? 9 : codes[rng_below(&w.rng, 5)];
}

// A program that watches for the drain: acknowledges, saves, leaves.
static void follow_drain(struct model_agent *g)
{
    struct model_task *t = some_task(g);
    if (!t)
        return;
    next_query_value = "0"; // seconds to wait
    json_t *answer = ask(core_allocation_preemption, as_task(t->id), t->id, NULL, NULL);
    if (last_status == 200 && jget_bool(answer, "preempt", false) &&
        call_status(core_allocation_ack_preemption, as_task(t->id), t->id, NULL) == 200)
        t->exited = true;
    json_decref(answer);
}

static void say_something(void)
{
    static core_handler *const verbs[] = {core_experiment_pause, core_experiment_activate,
                                          core_experiment_activate, core_experiment_cancel,
                                          core_experiment_kill};
    if (!w.experiments)
        return;
    const char *id = decimal(1 + rng_below(&w.rng, (uint32_t)w.experiments));
    uint32_t verb = rng_below(&w.rng, chance(6) ? 5 : 3);
    int code = call_code(verbs[verb], as_user(OWNER, false), id, NULL);
    assert_true(!code || code == ERR_STATE);
}

static void report_something(struct model_agent *g)
{
    struct model_task *t = some_task(g);
    char body[256], trial[24];
    struct task_id id;
    if (!t || !task_id_read(t->id, &id))
        return;
    snprintf(trial, sizeof trial, "%lld", (long long)id.trial);
    snprintf(body, sizeof body,
             "{\"group\":\"validation\",\"metrics\":{\"stepsCompleted\":%u,\"metrics\":"
             "{\"avgMetrics\":{\"loss\":%u}}}}",
             rng_below(&w.rng, 100), rng_below(&w.rng, 100));
    int status = call_status(core_trial_metrics, as_task(t->id), trial, body);
    assert_true(status == 200 || status == 403);
    char checkpoint[300];
    uint32_t word = rng_u32(&w.rng);
    snprintf(checkpoint, sizeof checkpoint,
             "{\"uuid\":\"%08x-0000-4000-8000-%012x\",\"metadata\":{\"steps_completed\":%u}}", word,
             word, rng_below(&w.rng, 100));
    status = call_status(core_checkpoint_report, as_task(t->id), NULL, checkpoint);
    assert_true(status == 200 || status == 403);
}

static void new_session(struct model_agent *g)
{
    g->session++;
    g->seen = 0;
}

static void trouble(struct model_agent *g)
{
    if (chance(15))
        restart_core();
    if (chance(20))
        new_session(g); // the agent restarts; its tasks go on
    if (chance(40)) {   // the machine reboots: its tasks are gone
        new_session(g);
        memset(g->tasks, 0, sizeof g->tasks);
    }
    if (chance(g->away ? 4 : 20))
        g->away = !g->away;
    if (chance(8))
        advance((int64_t)rng_below(&w.rng, 15) * SECOND);
}

// Repeats the previous report after the newer one; nobody waits for the answer.
static void sync_with_echo(struct model_agent *g)
{
    static struct model_agent before;
    before = *g;
    sync_model(g, chance(5));
    if (!chance(4) || before.last.session != g->session)
        return;
    struct core_call *echo = post(g, before.last.session, before.last.seen, before.last.tasks);
    sync_model(g, false);
    json_decref(call_end(echo));
}

static void event(void)
{
    struct model_agent *g = &w.agents[rng_below(&w.rng, AGENTS)];
    if (w.experiments < EXPERIMENTS && chance(8)) {
        submit_slots((int)rng_below(&w.rng, 2 * SLOTS), "preemption_timeout: 60\n");
        w.experiments++;
    }
    trouble(g);
    switch (rng_below(&w.rng, 6)) {
    case 0:
        if (chance(2))
            end_some_rank(g);
        break;
    case 1:
        if (chance(2))
            say_something();
        break;
    case 2:
        report_something(g);
        break;
    case 3:
        follow_drain(g);
        break;
    default:
        if (!g->away)
            sync_with_echo(g);
    }
    check_slots();
}

// --- completion ----------------------------------------------------------------------------------

static bool all_ended(void)
{
    return !strcmp(stored("SELECT count(*) FROM experiments WHERE state NOT IN "
                          "('COMPLETED', 'CANCELED', 'ERROR')"),
                   "0");
}

// Activates everything, lets all agents poll, and ends every running program well.
static void calm_down(void)
{
    w.calm = true;
    for (int i = 0; i < AGENTS; i++)
        w.agents[i].away = false;
    for (int round = 0; round < 200 && !all_ended(); round++) {
        for (int x = 1; x <= w.experiments; x++)
            call_status(core_experiment_activate, as_user(OWNER, false), decimal(x), NULL);
        for (int i = 0; i < AGENTS; i++) {
            sync_model(&w.agents[i], false);
            for (int k = 0; k < TASKS; k++) {
                struct model_task *t = &w.agents[i].tasks[k];
                t->exit_code = t->exited ? t->exit_code : t->told_to_end ? 9 : 0;
                t->exited = t->exited || t->used;
            }
            check_slots();
        }
        advance(SECOND);
    }
}

static void walk(uint64_t seed)
{
    void *nothing = NULL;
    print_message("seed %llu\n", (unsigned long long)seed);
    memset(&w, 0, sizeof w);
    rng_seed(&w.rng, seed, 7);
    for (int i = 0; i < AGENTS; i++)
        snprintf(w.agents[i].name, sizeof w.agents[i].name, "agent-%d", i + 1);
    cluster_setup(&nothing);
    for (int i = 0; i < EVENTS; i++) {
        event();
        check_store();
    }
    calm_down();
    if (!all_ended())
        fail_msg("not ended: %s",
                 stored("SELECT group_concat(id || state) FROM experiments WHERE state NOT IN "
                        "('COMPLETED', 'CANCELED', 'ERROR')"));
    stop_core();
    for (int i = 0; i < AGENTS; i++)
        if (w.agents[i].poll)
            json_decref(call_end(w.agents[i].poll));
    start_core();
    cluster_teardown(&nothing);
}

// MUSTER_SEED=N replays one run.
static void test_walk(void **state)
{
    const char *only = getenv("MUSTER_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    (void)state;
    for (uint64_t seed = first; seed < first + (only ? 1 : 12); seed++)
        walk(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
