// Tests of the simulator: traces that can be computed by hand, and invariants of every run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "simulate/simulate.h"

#define S SIMULATE_SECOND

enum { JOBS = 400 };

struct simulated_cluster {
    struct simulate_team teams[8];
    size_t team_count;
    struct simulate_job jobs[JOBS];
    size_t job_count;
    struct simulate_node nodes[8];
    size_t node_count;
    struct simulate_options options;
    struct simulate_figures figures;
};

// Team "a" with user 1, team "b" with user 3; nodes with this many slots.
static struct simulated_cluster make_scene(enum sched_policy policy, size_t nodes, int slots)
{
    struct simulated_cluster s = {.teams = {{"a", SCHED_NONE, SCHED_WEIGHT_ONE, 0, 0},
                                            {"ann", 0, SCHED_WEIGHT_ONE, 0, 0},
                                            {"b", SCHED_NONE, SCHED_WEIGHT_ONE, 0, 0},
                                            {"bob", 2, SCHED_WEIGHT_ONE, 0, 0}},
                                  .team_count = 4,
                                  .node_count = nodes,
                                  .options = {.policy = policy}};
    for (size_t i = 0; i < nodes; i++)
        s.nodes[i] = (struct simulate_node){slots, SCHED_NONE};
    return s;
}

static void add(struct simulated_cluster *s, int64_t submit, int slots, int64_t length, int team)
{
    s->jobs[s->job_count++] = (struct simulate_job){.submit = submit * S,
                                                    .length = length * S,
                                                    .min_slots = slots,
                                                    .max_slots = slots,
                                                    .priority = SCHED_PRIORITY_DEFAULT,
                                                    .team = team};
}

static int attempt(struct simulated_cluster *s, struct error *e)
{
    struct simulate_trace trace = {s->teams, s->team_count, s->jobs, s->job_count};
    return simulate(&trace, s->nodes, s->node_count, &s->options, &s->figures, e);
}

static void run(struct simulated_cluster *s)
{
    struct error e = {0};
    if (attempt(s, &e))
        fail_msg("%s", e.text);
}

static void check_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-6 * fmax(1, fabs(wanted))))
        fail_msg("%.9g, and not %.9g", value, wanted);
}

// --- by hand -------------------------------------------------------------------------------------

static void one_job_takes_its_time(void **state)
{
    (void)state;
    for (int policy = 0; policy < SCHED_POLICIES; policy++) {
        struct simulated_cluster s = make_scene((enum sched_policy)policy, 1, 4);
        add(&s, 1000000, 2, 50, 1);
        run(&s);
        assert_int_equal(s.figures.jobs, 1);
        assert_int_equal(s.figures.slots, 4);
        check_near(s.figures.completion.mean, 50);
        check_near(s.figures.slowdown, 1);
        check_near(s.figures.makespan, 50);
        check_near(s.figures.use_makespan, 0.5);
        assert_int_equal(s.figures.wait[1].count, 1);
        check_near(s.figures.wait[1].max, 0);
        assert_true(isnan(s.figures.share));
        simulate_figures_free(&s.figures);
    }
}

// Submissions 0: 4 slots for 100 s; 10: 4 slots for 10 s; 20: 1 slot for 5 s. FIFO ends: 100, 110,
// 115.
static void fifo_keeps_the_order(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FIFO, 1, 4);
    add(&s, 0, 4, 100, 1);
    add(&s, 10, 4, 10, 1);
    add(&s, 20, 1, 5, 3);
    run(&s);
    check_near(s.figures.completion.mean, (100 + 100 + 95) / 3.0);
    check_near(s.figures.completion.p50, 100);
    check_near(s.figures.slowdown, (1 + 10 + 9.5) / 3);
    check_near(s.figures.wait[0].max, 90);
    check_near(s.figures.wait[1].max, 90);
    check_near(s.figures.makespan, 115);
    check_near(s.figures.use_makespan, (400 + 40 + 5) / (115.0 * 4));
    check_near(s.figures.use_window, 1);
    assert_int_equal(s.figures.preemptions, 0);
    assert_int_equal(s.figures.team_count, 2);
    assert_string_equal(s.figures.teams[1].name, "b");
    check_near(s.figures.teams[1].mean_wait, 90);
    check_near(s.figures.teams[0].slot_hours, 440 / 3600.0);
    simulate_figures_free(&s.figures);
}

// One slot is free until 100, when the second job can start. A job that ends by then goes first; a
// longer job waits.
static void easy_fills_holes_by_durations(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_EASY, 1, 4);
    add(&s, 0, 3, 100, 1);
    add(&s, 10, 4, 10, 1);
    add(&s, 20, 1, 200, 1);
    add(&s, 30, 1, 60, 1);
    run(&s);
    check_near(s.figures.wait[0].max, 90); // the third job, behind the second
    check_near(s.figures.wait[0].mean, 45);
    check_near(s.figures.wait[1].max, 90);
    check_near(s.figures.makespan, 310);
    assert_int_equal(s.figures.preemptions, 0);
    simulate_figures_free(&s.figures);
}

// A job of a higher priority preempts another, whose completion is later by everything that it
// pays.
static void preemption_costs_add_up(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_PRIORITY, 1, 4);
    add(&s, 0, 4, 10000, 1);
    add(&s, 5000, 4, 100, 1);
    s.jobs[1].priority = 1;
    s.options.preempt_cost = 60 * S;
    s.options.drain = 7 * S;
    run(&s);
    assert_int_equal(s.figures.preemptions, 1);
    assert_int_equal(s.figures.starts, 3);
    check_near(s.figures.makespan, 10000 + 7 + 100 + 60);
    check_near(s.figures.wait[1].max, 7 + 100 + 60);
    check_near(s.figures.wait[1].mean, (7 + 100 + 60 + 7) / 2.0);
    check_near(s.figures.use_makespan, 10100 / 10167.0);
    simulate_figures_free(&s.figures);
}

// The gang ends during its drain: it is complete and pays nothing.
static void a_job_may_end_while_it_drains(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_PRIORITY, 1, 4);
    add(&s, 0, 4, 10000, 1);
    add(&s, 9995, 4, 100, 1);
    s.jobs[1].priority = 1;
    s.options.preempt_cost = 60 * S;
    s.options.drain = 30 * S;
    run(&s);
    assert_int_equal(s.figures.starts, 2);
    check_near(s.figures.makespan, 10100);
    simulate_figures_free(&s.figures);
}

static void an_elastic_job_is_slower_on_fewer_slots(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FAIR_SHARE, 1, 4);
    add(&s, 0, 8, 100, 1);
    s.jobs[0].min_slots = 4;
    run(&s);
    assert_int_equal(s.figures.jobs, 1);
    check_near(s.figures.makespan, 200);
    check_near(s.figures.wait[2].max, 100);
    check_near(s.figures.teams[0].slot_hours, 800 / 3600.0);
    simulate_figures_free(&s.figures);
}

static void what_can_never_run_is_left_out(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FAIR_SHARE, 2, 4);
    s.teams[2].maximum = 3;
    add(&s, 0, 9, 100, 1); // more than the cluster has
    add(&s, 1, 5, 100, 1);
    s.jobs[1].one_node = true; // more than a node has
    add(&s, 2, 4, 100, 3);     // more than its team may hold
    add(&s, 3, 5, 100, 1);
    run(&s);
    assert_int_equal(s.figures.too_large, 3);
    assert_int_equal(s.figures.jobs, 1);
    assert_int_equal(s.figures.stuck, 0);
    check_near(s.figures.makespan, 103);
    simulate_figures_free(&s.figures);
}

// Team a holds all slots for two days and has more jobs; the job of team b wants 4 slots, is
// entitled to 2 of 4, and gets none with FIFO.
static void shares_are_measured_in_windows_of_24_hours(void **state)
{
    (void)state;
    enum { DAY = 86400 };
    struct simulated_cluster s = make_scene(SCHED_POLICY_FIFO, 1, 4);
    add(&s, 0, 4, 2 * DAY, 1);
    add(&s, 10, 4, 2 * DAY, 1);
    add(&s, 20, 2, DAY, 3);
    run(&s);
    assert_true(s.figures.teams[0].share >= 1);
    check_near(s.figures.teams[1].share, 0);
    check_near(s.figures.share, 0);
    assert_true(s.figures.teams[1].share_at >= DAY && s.figures.teams[1].share_at < DAY + 700);
    simulate_figures_free(&s.figures);
}

static void a_team_without_work_waiting_has_no_window(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FIFO, 1, 4);
    add(&s, 0, 4, 80000, 1);
    add(&s, 0, 4, 80000, 1);  // waits less than a day
    add(&s, 500000, 4, 9, 3); // after a time without events
    run(&s);
    assert_true(isnan(s.figures.share));
    check_near(s.figures.makespan, 500009);
    simulate_figures_free(&s.figures);
}

// --- of every run --------------------------------------------------------------------------------

// Several hundred jobs of two teams with different priorities and sizes, some of them elastic.
static void fill(struct simulated_cluster *s, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed, 1);
    int64_t at = 0;
    s->job_count = 0;
    while (s->job_count < JOBS) {
        at += rng_below(&rng, 900);
        int slots = 1 << rng_below(&rng, 5), length = 1 + (int)rng_below(&rng, 9000);
        struct simulate_job *j = &s->jobs[s->job_count];
        add(s, at, slots, length, rng_below(&rng, 3) ? 1 : 3);
        j->min_slots = rng_below(&rng, 4) ? slots : 1 + slots / 3;
        j->priority = rng_below(&rng, 10) ? SCHED_PRIORITY_DEFAULT : 10;
    }
}

static double work_of(const struct simulated_cluster *s)
{
    double work = 0;
    for (size_t i = 0; i < s->job_count; i++)
        work += (double)s->jobs[i].length / S * s->jobs[i].max_slots;
    return work;
}

static void work_is_neither_lost_nor_made(void **state)
{
    (void)state;
    for (int policy = 0; policy < SCHED_POLICIES; policy++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct simulated_cluster s = make_scene((enum sched_policy)policy, 4, 8);
            s.options.preempt_cost = 30 * S;
            s.options.drain = 5 * S;
            fill(&s, seed);
            run(&s);
            const struct simulate_figures *f = &s.figures;
            assert_int_equal(f->jobs, JOBS);
            assert_int_equal(f->stuck + f->too_large, 0);
            double done = f->use_makespan * f->makespan * (double)f->slots, held = 0, working = 0;
            if (fabs(done / work_of(&s) - 1) > 1e-6)
                fail_msg("policy %d, seed %d: %g slot-seconds of work and not %g", policy,
                         (int)seed, done, work_of(&s));
            for (size_t i = 0; i < f->bin_count; i++) {
                bool is_last = i + 1 == f->bin_count;
                double span = is_last ? f->makespan - (double)i * f->bin_seconds : f->bin_seconds;
                held += f->bins[i].held * span;
                working += f->bins[i].working * span;
                assert_true(f->bins[i].held <= (double)f->slots + 1e-6);
            }
            check_near(working, done);
            assert_true(held >= working * (1 - 1e-9));
            simulate_figures_free(&s.figures);
        }
    }
}

static void the_same_input_gives_the_same_figures(void **state)
{
    (void)state;
    struct simulated_cluster a = make_scene(SCHED_POLICY_FAIR_SHARE, 4, 8), b = a;
    fill(&a, 7);
    fill(&b, 7);
    run(&a);
    run(&b);
    const struct simulate_figures *f = &a.figures, *g = &b.figures;
    assert_memory_equal(&f->completion, &g->completion, sizeof f->completion);
    assert_memory_equal(f->wait, g->wait, sizeof f->wait);
    assert_int_equal(f->bin_count, g->bin_count);
    assert_int_equal(memcmp(f->bins, g->bins, f->bin_count * sizeof *f->bins), 0);
    assert_int_equal(f->preemptions, g->preemptions);
    assert_int_equal(f->events, g->events);
    assert_int_equal(f->decision.count, 0); // no clock was passed
    simulate_figures_free(&a.figures);
    simulate_figures_free(&b.figures);
}

// --- limits and stopping -------------------------------------------------------------------------

static bool stop_at_once(void *ctx, double share)
{
    assert_true(share >= 0 && share <= 1);
    return --*(int *)ctx > 0;
}

static int64_t ticks(void)
{
    static int64_t now;
    return now += 1000000;
}

static void it_can_be_stopped_and_timed(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FAIR_SHARE, 4, 8);
    int calls = 1;
    struct error e = {0};
    fill(&s, 3);
    s.options.progress = stop_at_once;
    s.options.ctx = &calls;
    assert_int_equal(attempt(&s, &e), ERR_TIMEOUT);
    assert_null(s.figures.teams);
    calls = 1000000;
    s.options.clock_ns = ticks;
    run(&s);
    assert_true(calls < 1000000);
    assert_int_equal(s.figures.decision.count, s.figures.decisions);
    check_near(s.figures.decision.p99, 0.001);
    simulate_figures_free(&s.figures);
}

static void refuse(struct simulated_cluster *s, const char *what)
{
    struct error e = {0};
    assert_int_equal(attempt(s, &e), ERR_INVALID);
    if (!strstr(e.text, what))
        fail_msg("\"%s\" does not say \"%s\"", e.text, what);
}

static void input_out_of_bounds_is_refused(void **state)
{
    (void)state;
    struct simulated_cluster good = make_scene(SCHED_POLICY_FAIR_SHARE, 2, 4), s;
    add(&good, 5, 4, 10, 1);
    add(&good, 6, 4, 10, 1);
#define REFUSED(change, what)                                                                      \
    do {                                                                                           \
        s = good;                                                                                  \
        change;                                                                                    \
        refuse(&s, what);                                                                          \
    } while (0)
    REFUSED(s.node_count = 0, "nodes");
    REFUSED(s.nodes[1].slots = 0, "node 1");
    REFUSED(s.nodes[1].slots = SIMULATE_NODE_SLOTS_MAX + 1, "node 1");
    REFUSED(s.jobs[1].submit = 0, "job 1: was submitted before");
    REFUSED(s.jobs[1].submit += SIMULATE_TIME_MAX, "job 1: was submitted more than");
    REFUSED(s.jobs[0].submit = INT64_MIN, "job 0: was submitted");
    REFUSED(s.jobs[1].length = 0, "job 1: is longer");
    REFUSED(s.jobs[1].length = SIMULATE_TIME_MAX + 1, "job 1: is longer");
    REFUSED(s.jobs[1].min_slots = 0, "job 1: wants 0");
    REFUSED(s.jobs[1].min_slots = 5, "job 1: wants 5 to 4");
    REFUSED(s.jobs[1].max_slots = SIMULATE_GANG_MAX + 1, "job 1: wants");
    REFUSED(s.jobs[1].priority = 0, "job 1: has priority 0");
    REFUSED(s.jobs[1].priority = 100, "job 1: has priority 100");
    REFUSED(s.jobs[1].team = 0, "job 1: belongs to no user");
    REFUSED(s.jobs[1].team = 4, "job 1: belongs to no user");
    REFUSED(s.teams[1].parent = 1, "team 1");
    REFUSED(s.teams[3].parent = 1, "team 3");
    REFUSED(s.teams[2].weight = 0, "team 2 (b)");
    REFUSED(s.options.drain = -1, "preemption");
    REFUSED(s.options.policy = SCHED_POLICIES, "policy");
    REFUSED(s.job_count = SIMULATE_JOBS_MAX + 1, "too many");
#undef REFUSED
}

static void no_jobs_give_no_figures(void **state)
{
    (void)state;
    struct simulated_cluster s = make_scene(SCHED_POLICY_FAIR_SHARE, 2, 4);
    run(&s);
    assert_int_equal(s.figures.jobs, 0);
    check_near(s.figures.makespan, 0);
    check_near(s.figures.use_makespan, 0);
    simulate_figures_free(&s.figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_job_takes_its_time),
        cmocka_unit_test(fifo_keeps_the_order),
        cmocka_unit_test(easy_fills_holes_by_durations),
        cmocka_unit_test(preemption_costs_add_up),
        cmocka_unit_test(a_job_may_end_while_it_drains),
        cmocka_unit_test(an_elastic_job_is_slower_on_fewer_slots),
        cmocka_unit_test(what_can_never_run_is_left_out),
        cmocka_unit_test(shares_are_measured_in_windows_of_24_hours),
        cmocka_unit_test(a_team_without_work_waiting_has_no_window),
        cmocka_unit_test(work_is_neither_lost_nor_made),
        cmocka_unit_test(the_same_input_gives_the_same_figures),
        cmocka_unit_test(it_can_be_stopped_and_timed),
        cmocka_unit_test(input_out_of_bounds_is_refused),
        cmocka_unit_test(no_jobs_give_no_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
