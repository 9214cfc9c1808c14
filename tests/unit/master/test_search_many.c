// Tests searches with many trials on simulated trainings: every search ends, never runs more trials
// than allowed, tries the right points, and continues identically after a restore at any moment.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/search/search.h"

enum { TRIALS_MAX = 4096 };

struct played { // a trial
    int64_t number;
    char hparams[256];
    double time;
    bool running, stopping;
};

struct play {
    json_t *config;
    struct search *search;
    struct rng rng;
    struct played trials[TRIALS_MAX];
    size_t count, running, most_running;
    int over;
    enum search_end outcome;
    bool restarts;      // saved and restored after every event
    int fails, refuses; // one in this many trials; 0: none
    double full;        // time of a full training, which nobody copies; 0: any
};

static void obey(struct play *p, struct search_commands *commands)
{
    for (size_t i = 0; i < commands->count; i++) {
        const struct search_command *c = &commands->items[i];
        int64_t number = strtoll(c->request_id, NULL, 10);
        assert_int_equal(p->over, 0);
        if (c->kind == SEARCH_SHUTDOWN) {
            p->over++;
            p->outcome = c->outcome;
        } else if (c->kind == SEARCH_STOP) {
            assert_in_range(number, 1, p->count);
            assert_true(p->trials[number - 1].running);
            assert_false(p->trials[number - 1].stopping);
            p->trials[number - 1].stopping = true;
        } else {
            struct played *t = &p->trials[p->count++];
            assert_in_range(p->count, 1, TRIALS_MAX);
            assert_int_equal(number, p->count);
            assert_true(c->seed >= 0);
            *t = (struct played){.number = number, .running = true};
            if (*c->source)
                t->time = p->trials[strtoll(c->source, NULL, 10) - 1].time;
            assert_true(p->full == 0 || t->time < p->full);
            char *text = json_dumps(c->hparams, JSON_COMPACT | JSON_SORT_KEYS);
            snprintf(t->hparams, sizeof t->hparams, "%s", text);
            free(text);
            p->running++;
        }
    }
    p->most_running = p->running > p->most_running ? p->running : p->most_running;
    search_commands_free(commands);
}

static void take_up_again(struct play *p)
{
    struct error e = {0};
    char *saved = search_snapshot(p->search);
    search_free(p->search);
    assert_int_equal(search_restore(p->config, 5, saved, &p->search, &e), 0);
    char *again = search_snapshot(p->search);
    assert_string_equal(saved, again);
    free(saved);
    free(again);
}

static void tell(struct play *p, struct search_event event, int64_t number)
{
    struct search_commands commands;
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)number);
    event.request_id = id;
    char *before = search_snapshot(p->search);
    search_handle_event(p->search, &event, &commands);
    char *after = search_snapshot(p->search);
    assert_true(search_changed(p->search) || !strcmp(before, after));
    free(before);
    free(after);
    double progress = search_progress(p->search);
    assert_true(progress >= 0 && progress <= 1);
    obey(p, &commands);
    if (p->restarts)
        take_up_again(p);
}

static struct play *play_new(const char *config, uint64_t seed)
{
    struct play *p = xcalloc(1, sizeof *p);
    struct error e = {0};
    assert_int_equal(json_parse(config, strlen(config), "config", &p->config, &e), 0);
    int err = search_new(p->config, 5, &p->search, &e);
    if (err)
        fail_msg("%s", e.text);
    rng_seed(&p->rng, seed, 0);
    return p;
}

static void play_free(struct play *p)
{
    search_free(p->search);
    json_decref(p->config);
    free(p);
}

// The metric of a trial at a time: it improves with training, from a start that differs per trial.
static double metric_of(int64_t trial, double time)
{
    return (double)(trial * 7919 % 101) / 101 + 1 / (1 + time);
}

static void end_trial(struct play *p, struct played *t)
{
    enum search_end end = SEARCH_END_COMPLETED;
    if (p->fails && t->number % p->fails == 0)
        end = SEARCH_END_ERROR;
    if (p->refuses && t->number % p->refuses == 0)
        end = SEARCH_END_INVALID_HP;
    t->running = false;
    p->running--;
    tell(p, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .end = end}, t->number);
}

// Advances one randomly chosen trial by a step of time, or ends it.
static void step(struct play *p, double whole)
{
    size_t chosen = rng_below(&p->rng, (uint32_t)p->running), at = 0;
    while (!p->trials[at].running || chosen--)
        at++;
    struct played *t = &p->trials[at];
    if (t->stopping || t->time >= whole) {
        end_trial(p, t);
        return;
    }
    t->time += 1 + rng_below(&p->rng, 3);
    tell(p, (struct search_event){.kind = SEARCH_PROGRESS, .fraction = t->time / (whole + 3)},
         t->number);
    tell(p,
         (struct search_event){
             .kind = SEARCH_VALIDATED, .metric = metric_of(t->number, t->time), .time = t->time},
         t->number);
}

static void run(struct play *p, double whole)
{
    tell(p, (struct search_event){.kind = SEARCH_BEGIN}, 0);
    while (!p->over) {
        assert_true(p->running > 0); // otherwise it would wait forever
        step(p, whole);
    }
    assert_int_equal(p->running, 0);
    assert_true(search_progress(p->search) == 1);
}

#define SPACE                                                                                      \
    "\"hyperparameters\":{\"lr\":{\"type\":\"log\",\"minval\":-4,\"maxval\":-1,\"base\":10,"       \
    "\"count\":4},\"n\":{\"width\":{\"type\":\"int\",\"minval\":1,\"maxval\":3,\"count\":5},"      \
    "\"act\":{\"type\":\"categorical\",\"vals\":[\"relu\",\"gelu\"]}},"                            \
    "\"c\":{\"type\":\"const\",\"val\":9}}"

static struct play *play(const char *searcher, uint64_t seed)
{
    char config[1024];
    snprintf(config, sizeof config, "{\"searcher\":{\"metric\":\"loss\",%s}," SPACE "}", searcher);
    return play_new(config, seed);
}

// "time>goOn: trial=metric .., .." for every rung of the first bracket.
static void expect_ladder(const struct play *p, const char *wanted)
{
    char text[512] = "";
    size_t r, m, used = 0;
    json_t *brackets = search_rungs(p->search), *rung, *mark;
    json_array_foreach(jget(json_array_get(brackets, 0), "rungs"), r, rung)
    {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%g>%d:", jget_double(rung, "time", 0),
                                 (int)jget_int(rung, "goOn", -1));
        json_array_foreach(jget(rung, "marks"), m, mark) used +=
            (size_t)snprintf(text + used, sizeof text - used, " %d=%g",
                             (int)jget_int(mark, "trial", 0), jget_double(mark, "metric", NAN));
        used += (size_t)snprintf(text + used, sizeof text - used, "; ");
    }
    assert_string_equal(text, wanted);
    json_decref(brackets);
}

static void test_random(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"random\",\"max_trials\":20,\"max_concurrent_trials\":3", 1);
    run(p, 10);
    assert_int_equal(p->count, 20);
    assert_int_equal(p->most_running, 3);
    assert_int_equal(p->outcome, SEARCH_END_COMPLETED);
    assert_string_not_equal(p->trials[0].hparams, p->trials[1].hparams);
    play_free(p);
}

static size_t trials_of_pbt(int members, double fraction)
{
    char searcher[200];
    snprintf(searcher, sizeof searcher,
             "\"name\":\"pbt\",\"population_size\":%d,\"num_rounds\":12,\"length_per_round\":4,"
             "\"replace_function\":{\"truncate_fraction\":%g}",
             members, fraction);
    struct play *p = play(searcher, 1);
    run(p, 1e9);
    size_t count = p->count;
    play_free(p);
    return count;
}

#define TPE(trials) "\"name\":\"tpe\",\"max_concurrent_trials\":4,\"max_trials\":" #trials

static void test_pbt_of_few_members(void **state)
{
    (void)state;
    for (int members = 2; members < 5; members++)
        assert_in_range(trials_of_pbt(members, 0.2), members + 1, 12 * members);
    assert_int_equal(trials_of_pbt(4, 0), 4); // nobody is replaced
    assert_int_equal(trials_of_pbt(1, 0.5), 1);
}

// With few places, most members are finished when the last ones start. A copy of a finished member
// would have nothing to train.
static void test_pbt_copies_nobody_who_is_finished(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct play *p = play("\"name\":\"pbt\",\"population_size\":8,\"num_rounds\":5,"
                              "\"length_per_round\":4,\"max_concurrent_trials\":2,"
                              "\"replace_function\":{\"truncate_fraction\":0.4}",
                              seed);
        p->full = 20;
        run(p, 1e9);
        assert_int_equal(p->outcome, SEARCH_END_COMPLETED);
        play_free(p);
    }
}

static void test_all_at_once(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"random\",\"max_trials\":20,\"max_concurrent_trials\":0", 1);
    run(p, 10);
    assert_int_equal(p->most_running, 20);
    play_free(p);
}

static void test_fails_only_when_all_fail(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"random\",\"max_trials\":6,\"max_concurrent_trials\":2", 1);
    p->fails = 2;
    run(p, 4);
    assert_int_equal(p->outcome, SEARCH_END_COMPLETED);
    play_free(p);
    p = play("\"name\":\"random\",\"max_trials\":6,\"max_concurrent_trials\":2", 1);
    p->fails = 1;
    run(p, 4);
    assert_int_equal(p->count, 6);
    assert_int_equal(p->outcome, SEARCH_END_ERROR);
    play_free(p);
}

static void test_refused_points_are_drawn_anew(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"random\",\"max_trials\":6,\"max_concurrent_trials\":2", 1);
    p->refuses = 3;
    run(p, 4);
    assert_int_equal(p->count, 8); // trials 3 and 6 do not count
    play_free(p);
    p = play("\"name\":\"random\",\"max_trials\":6,\"max_concurrent_trials\":1", 1);
    p->refuses = 1;
    tell(p, (struct search_event){.kind = SEARCH_BEGIN}, 0);
    while (!p->over)
        end_trial(p, &p->trials[p->count - 1]);
    assert_int_equal(p->count, 100); // then the search gives up
    assert_int_equal(p->outcome, SEARCH_END_ERROR);
    play_free(p);
}

static void test_grid(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"grid\",\"max_concurrent_trials\":5", 1);
    p->refuses = 4; // a rejected point is not tried again
    run(p, 3);
    assert_int_equal(p->count, 4 * 3 * 2);
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(p->trials[i].hparams, p->trials[k].hparams);
    assert_string_equal(p->trials[0].hparams,
                        "{\"c\":9,\"lr\":0.0001,\"n\":{\"act\":\"relu\",\"width\":1}}");
    assert_string_equal(
        p->trials[23].hparams,
        "{\"c\":9,\"lr\":0.10000000000000001,\"n\":{\"act\":\"gelu\",\"width\":3}}");
    play_free(p);
}

static int open_grid(int a, int b, struct error *e)
{
    struct search *s = NULL;
    json_t *config = json_pack("{s:{s:s,s:s}, s:{s:{s:s,s:i,s:i,s:i}, s:{s:s,s:i,s:i,s:i}}}",
                               "searcher", "name", "grid", "metric", "x", "hyperparameters", "a",
                               "type", "double", "minval", 0, "maxval", 1, "count", a, "b", "type",
                               "double", "minval", 0, "maxval", 1, "count", b);
    assert_non_null(config);
    int err = search_new(config, 1, &s, e);
    search_free(s);
    json_decref(config);
    return err;
}

static void test_grid_that_is_too_large(void **state)
{
    (void)state;
    struct error e = {0};
    assert_int_equal(open_grid(LIMIT_GRID_TRIALS / 4, 4, NULL), 0);
    assert_int_equal(open_grid(9091, 11, &e), ERR_TOO_LARGE); // LIMIT_GRID_TRIALS + 1
    assert_non_null(strstr(e.text, "searcher random"));
}

#define ASHA                                                                                       \
    "\"name\":\"async_halving\",\"num_rungs\":3,\"divisor\":4,\"max_trials\":40,"                  \
    "\"max_concurrent_trials\":6,\"max_time\":32"

// One trial after the other, so that the result can be computed by hand: rungs at 2, 8 and 32.
static void test_rungs(void **state)
{
    (void)state;
    struct play *p = play("\"name\":\"async_halving\",\"num_rungs\":3,\"divisor\":4,"
                          "\"max_trials\":9,\"max_concurrent_trials\":9,\"max_time\":32",
                          1);
    tell(p, (struct search_event){.kind = SEARCH_BEGIN}, 0);
    static const double metrics[] = {5, 6, 4, 9, 3, 3.5, 8, 2, 1};
    static const bool stops[] = {false, true, false, true, false, true, true, false, false};
    for (int i = 0; i < 9; i++) {
        struct search_event report = {.kind = SEARCH_VALIDATED, .metric = metrics[i], .time = 1};
        tell(p, report, i + 1);
        assert_false(p->trials[i].stopping); // no rung so far
        report.time = 2;
        tell(p, report, i + 1);
        assert_int_equal(p->trials[i].stopping, stops[i]);
    }
    expect_ladder(p, "2>2: 9=1 8=2 5=3 6=3.5 3=4 1=5 2=6 7=8 4=9; 8>0:; 32>0:; ");
    // The first trial at the second rung continues; a trial that jumps to the top rung always
    // stops.
    struct search_event report = {.kind = SEARCH_VALIDATED, .metric = 7, .time = 8};
    tell(p, report, 1);
    assert_false(p->trials[0].stopping);
    report.metric = 0.5;
    report.time = 100;
    tell(p, report, 3);
    assert_true(p->trials[2].stopping);
    play_free(p);
}

static void test_larger_is_better(void **state)
{
    (void)state;
    struct play *p = play("\"smaller_is_better\":false,\"name\":\"async_halving\",\"num_rungs\":2,"
                          "\"divisor\":4,\"max_trials\":3,\"max_time\":8",
                          1);
    tell(p, (struct search_event){.kind = SEARCH_BEGIN}, 0);
    tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 5, .time = 2}, 1);
    tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 4, .time = 2}, 2);
    tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 6, .time = 2}, 3);
    assert_false(p->trials[0].stopping);
    assert_true(p->trials[1].stopping);
    assert_false(p->trials[2].stopping);
    expect_ladder(p, "2>1: 3=6 1=5 2=4; 8>0:; ");
    play_free(p);
}

static void test_halving(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct play *p = play(ASHA, seed);
        p->fails = seed % 3 == 1 ? 5 : 0;
        p->refuses = seed % 4 == 1 ? 7 : 0;
        run(p, 1000);
        int64_t refused = p->refuses ? (int64_t)p->count / 7 : 0;
        assert_int_equal((int64_t)p->count - refused, 40);
        assert_int_equal(p->most_running, 6);
        size_t early = 0, whole = 0;
        for (size_t i = 0; i < p->count; i++) {
            early += p->trials[i].time < 8;
            whole += p->trials[i].time >= 32;
        }
        assert_true(early >= 20 && whole >= 1 && whole <= 12);
        play_free(p);
    }
}

static void test_adaptive(void **state)
{
    (void)state;
    static const char *const modes[] = {"aggressive", "standard", "conservative"};
    for (uint64_t seed = 0; seed < 12; seed++) {
        char searcher[300];
        snprintf(searcher, sizeof searcher,
                 "\"name\":\"adaptive_asha\",\"mode\":\"%s\",\"max_trials\":64,\"max_time\":64,"
                 "\"max_concurrent_trials\":%d",
                 modes[seed % 3], (int)(seed % 2) * 7);
        struct play *p = play(searcher, seed);
        run(p, 1000);
        assert_int_equal(p->count, 64);
        assert_int_equal(p->outcome, SEARCH_END_COMPLETED);
        play_free(p);
    }
}

static void test_more_brackets_than_trials(void **state)
{
    (void)state;
    struct search *s;
    struct error e = {0};
    json_t *config = NULL;
    const char *text =
        "{\"searcher\":{\"name\":\"adaptive_asha\",\"metric\":\"x\",\"max_trials\":1,"
        "\"max_time\":64,\"bracket_rungs\":[3,2]}}";
    assert_int_equal(json_parse(text, strlen(text), "config", &config, &e), 0);
    assert_int_equal(search_new(config, 1, &s, &e), ERR_INVALID);
    json_decref(config);
}

// The same simulation with and without restores after every event creates the same trials.
static void test_taken_up_again(void **state)
{
    (void)state;
    static const char *const searchers[] = {
        "\"name\":\"random\",\"max_trials\":30,\"max_concurrent_trials\":4",
        "\"name\":\"grid\",\"max_concurrent_trials\":4",
        ASHA,
        "\"name\":\"adaptive_asha\",\"max_trials\":50,\"max_time\":64",
    };
    for (size_t i = 0; i < 4; i++) {
        struct play *one = play(searchers[i], 7), *two = play(searchers[i], 7);
        two->restarts = true;
        one->fails = two->fails = 6;
        one->refuses = two->refuses = 11;
        run(one, 200);
        run(two, 200);
        assert_int_equal(one->count, two->count);
        for (size_t t = 0; t < one->count; t++) {
            assert_string_equal(one->trials[t].hparams, two->trials[t].hparams);
            assert_true(one->trials[t].time == two->trials[t].time);
        }
        play_free(one);
        play_free(two);
    }
}

// A diverging trial never continues, not even as the first one, for minimization and maximization.
static void test_no_number(void **state)
{
    (void)state;
    static const char *const ways[] = {"", "\"smaller_is_better\":false,"};
    for (int i = 0; i < 2; i++) {
        char searcher[200];
        snprintf(searcher, sizeof searcher,
                 "%s\"name\":\"async_halving\",\"num_rungs\":2,\"max_trials\":3,\"max_time\":8",
                 ways[i]);
        struct play *p = play(searcher, 1);
        tell(p, (struct search_event){.kind = SEARCH_BEGIN}, 0);
        tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = NAN, .time = 2}, 1);
        tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = -INFINITY, .time = 2}, 2);
        tell(p, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 1e300, .time = 2}, 3);
        assert_true(p->trials[0].stopping);
        assert_true(p->trials[1].stopping);
        assert_false(p->trials[2].stopping); // the best trial so far
        play_free(p);
    }
}

static void test_warning(void **state)
{
    (void)state;
    static const struct {
        const char *searcher, *rest, *text;
    } cases[] = {
        {"\"name\":\"single\"", "", NULL},
        {"\"name\":\"random\",\"max_trials\":3", "", "differ by their seed alone"},
        {"\"name\":\"random\",\"max_trials\":3", "," SPACE, NULL},
        {ASHA, "," SPACE ",\"trainer\":{\"validate_every\":2}", NULL},
        {ASHA, "," SPACE ",\"trainer\":{\"validate_every\":3}", "set it to 2 or less"},
        {ASHA, "," SPACE ",\"trainer\":{\"validate_every\":0}", "is at step 2"},
        {TPE(13), "," SPACE, "draws the first 13 trials at random"},
        {TPE(14), "," SPACE, NULL},
        {TPE(4), "," SPACE, "all 4 trials start before any of them ends"},
        {ASHA, "," SPACE ",\"trainer\":{\"validate_every\":\"${n}\"}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        struct error e = {0};
        json_t *config = NULL;
        snprintf(text, sizeof text, "{\"searcher\":{%s}%s}", cases[i].searcher, cases[i].rest);
        assert_int_equal(json_parse(text, strlen(text), "config", &config, &e), 0);
        char *warning = search_warning(config);
        if (cases[i].text)
            assert_true(warning && strstr(warning, cases[i].text));
        else
            assert_null(warning);
        free(warning);
        json_decref(config);
    }
}

static void test_time_metric(void **state)
{
    (void)state;
    static const struct {
        const char *searcher, *metric;
    } cases[] = {
        {"{\"searcher\":{\"max_time\":5}}", NULL},
        {"{\"searcher\":{\"max_time\":5,\"time_metric\":\"epochs\"}}", "epochs"},
        {"{\"searcher\":{\"max_length\":{\"batches\":5}}}", NULL},
        {"{\"searcher\":{\"max_length\":{\"epochs\":5}}}", "epochs"},
        {"{\"searcher\":{\"max_length\":7}}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        json_t *config = NULL;
        assert_int_equal(
            json_parse(cases[i].searcher, strlen(cases[i].searcher), "config", &config, &e), 0);
        const char *metric = search_time_metric(config);
        assert_string_equal(metric ? metric : "-", cases[i].metric ? cases[i].metric : "-");
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_pbt_of_few_members),
        cmocka_unit_test(test_pbt_copies_nobody_who_is_finished),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_fails_only_when_all_fail),
        cmocka_unit_test(test_refused_points_are_drawn_anew),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_grid_that_is_too_large),
        cmocka_unit_test(test_rungs),
        cmocka_unit_test(test_larger_is_better),
        cmocka_unit_test(test_halving),
        cmocka_unit_test(test_adaptive),
        cmocka_unit_test(test_more_brackets_than_trials),
        cmocka_unit_test(test_taken_up_again),
        cmocka_unit_test(test_no_number),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_time_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
