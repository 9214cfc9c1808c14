// Tests of searches that continue after their experiment has ended: a search that was killed at any
// moment goes on as if nothing had happened, failed and canceled trials run again, and settings on
// which completed trials depend cannot change.
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
#include "base/text/json.h"
#include "master/search/search.h"

enum { TRIALS_MAX = 200, WHOLE = 16 };

struct driven { // a trial
    json_t *hparams;
    double time, clock, best;
    bool running, stopping, completed;
};

struct drive {
    json_t *config;
    struct search *search;
    struct driven trials[TRIALS_MAX];
    size_t count, restarted;
    double clock;
    bool over;
    enum search_end outcome;
    int64_t fails; // this trial fails, once
};

static json_t *config_of(const char *searcher)
{
    json_t *config = NULL;
    struct error e = {0};
    char *text = xasprintf("{\"searcher\":{\"metric\":\"loss\",%s},\"hyperparameters\":{\"x\":"
                           "{\"type\":\"double\",\"minval\":0,\"maxval\":1,\"count\":12}}}",
                           searcher);
    assert_int_equal(json_parse(text, strlen(text), "config", &config, &e), 0);
    free(text);
    return config;
}

static struct driven *trial_of(struct drive *d, const char *request_id)
{
    int64_t number = strtoll(request_id, NULL, 10);
    assert_in_range(number, 1, d->count);
    return &d->trials[number - 1];
}

static void obey(struct drive *d, struct search_commands *commands)
{
    for (size_t i = 0; i < commands->count; i++) {
        const struct search_command *c = &commands->items[i];
        if (c->kind == SEARCH_SHUTDOWN) {
            assert_false(d->over);
            d->over = true;
            d->outcome = c->outcome;
        } else if (c->kind == SEARCH_STOP) {
            trial_of(d, c->request_id)->stopping = true;
        } else if (c->kind == SEARCH_RESTART) {
            struct driven *t = trial_of(d, c->request_id);
            assert_false(t->running);
            t->running = true;
            t->completed = false;
            t->clock = t->clock > d->clock ? t->clock : d->clock;
            d->restarted++;
        } else {
            assert_true(d->count < TRIALS_MAX);
            struct driven *t = &d->trials[d->count++];
            *t = (struct driven){.hparams = json_incref(c->hparams),
                                 .time = *c->source ? trial_of(d, c->source)->time : 0,
                                 .clock = d->clock,
                                 .best = NAN,
                                 .running = true};
            assert_int_equal(strtoll(c->request_id, NULL, 10), d->count);
        }
    }
    search_commands_free(commands);
}

static void tell(struct drive *d, struct search_event event, size_t number)
{
    struct search_commands commands;
    char id[SEARCH_REQUEST_ID];
    snprintf(id, sizeof id, "%zu", number);
    event.request_id = id;
    search_handle_event(d->search, &event, &commands);
    obey(d, &commands);
}

static void trial_end(struct drive *d, size_t at, enum search_end end)
{
    struct driven *t = &d->trials[at];
    t->running = t->stopping = false;
    t->completed = end == SEARCH_END_COMPLETED;
    tell(d, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .end = end, .best = t->best}, at + 1);
}

// Trains the trial that is behind in time by one unit.
static void step(struct drive *d)
{
    size_t next = d->count;
    for (size_t i = 0; i < d->count; i++)
        if (d->trials[i].running &&
            (next == d->count || d->trials[i].clock < d->trials[next].clock))
            next = i;
    assert_true(next < d->count);
    struct driven *t = &d->trials[next];
    double metric = (double)((next + 1) * 7919 % 101) / 101 + 1 / (2 + t->time);
    d->clock = t->clock++;
    t->time++;
    if (d->fails == (int64_t)next + 1 && t->time >= 2) {
        d->fails = 0;
        trial_end(d, next, SEARCH_END_ERROR);
        return;
    }
    t->best = isnan(t->best) || metric < t->best ? metric : t->best;
    tell(d, (struct search_event){.kind = SEARCH_VALIDATED, .metric = metric, .time = t->time},
         next + 1);
    if (d->trials[next].time >= WHOLE)
        d->trials[next].stopping = true;
    for (size_t i = 0; i < d->count; i++)
        if (d->trials[i].stopping)
            trial_end(d, i, SEARCH_END_COMPLETED);
}

static struct drive *drive_new(const char *searcher)
{
    struct drive *d = xcalloc(1, sizeof *d);
    struct error e = {0};
    d->config = config_of(searcher);
    if (search_new(d->config, 5, &d->search, &e))
        fail_msg("%s", e.text);
    return d;
}

static void drive_free(struct drive *d)
{
    for (size_t i = 0; i < d->count; i++)
        json_decref(d->trials[i].hparams);
    search_free(d->search);
    json_decref(d->config);
    free(d);
}

// The experiment ends, and continues from what was stored.
static void kill_and_continue(struct drive *d)
{
    bool completed[TRIALS_MAX];
    double bests[TRIALS_MAX];
    struct error e = {0};
    char *saved = search_snapshot(d->search);
    search_free(d->search);
    d->over = false;
    for (size_t i = 0; i < d->count; i++) {
        d->trials[i].running = d->trials[i].stopping = false;
        completed[i] = d->trials[i].completed;
        bests[i] = d->trials[i].best;
    }
    assert_int_equal(search_check_continue(d->config, d->config, &e), 0);
    assert_int_equal(search_restore(d->config, 5, saved, &d->search, &e), 0);
    free(saved);
    assert_true(search_covers(d->search, d->count));
    tell(d,
         (struct search_event){
             .kind = SEARCH_CONTINUE, .completed = completed, .bests = bests, .trials = d->count},
         0);
    assert_true(search_changed(d->search));
}

static void assert_same(const struct drive *one, const struct drive *two)
{
    json_t *rungs = search_rungs(one->search), *others = search_rungs(two->search);
    assert_true(json_equal(rungs, others));
    json_decref(rungs);
    json_decref(others);
    assert_int_equal(one->count, two->count);
    assert_int_equal(one->outcome, two->outcome);
    for (size_t i = 0; i < one->count; i++) {
        assert_true(json_equal(one->trials[i].hparams, two->trials[i].hparams));
        assert_true(one->trials[i].completed && two->trials[i].completed);
        assert_true(one->trials[i].time == two->trials[i].time); // none trained twice
    }
}

#define MANY "\"max_trials\":12,\"max_concurrent_trials\":3,\"max_time\":16,"

static const char *const searchers[] = {
    "\"max_trials\":12,\"max_concurrent_trials\":3,\"name\":\"random\"",
    "\"max_concurrent_trials\":3,\"name\":\"grid\"",
    MANY "\"name\":\"async_halving\",\"num_rungs\":3,\"divisor\":2",
    MANY "\"name\":\"adaptive_asha\",\"mode\":\"conservative\",\"divisor\":2",
    "\"name\":\"hyperband\",\"max_time\":16,\"divisor\":2,\"max_concurrent_trials\":3",
    "\"max_trials\":12,\"max_concurrent_trials\":3,\"name\":\"tpe\",\"startup_trials\":4",
    "\"name\":\"pbt\",\"population_size\":5,\"num_rounds\":4,\"length_per_round\":4,"
    "\"max_concurrent_trials\":3",
};

// A search that is killed after any number of steps ends as the undisturbed one.
static void test_killed_at_any_moment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++) {
        struct drive *one = drive_new(searchers[i]);
        int steps = 0;
        for (tell(one, (struct search_event){.kind = SEARCH_BEGIN}, 0); !one->over; steps++)
            step(one);
        assert_int_equal(one->outcome, SEARCH_END_COMPLETED);
        for (int at = 0; at < steps; at++) {
            struct drive *two = drive_new(searchers[i]);
            int done = 0;
            for (tell(two, (struct search_event){.kind = SEARCH_BEGIN}, 0); !two->over; done++) {
                if (done == at || done == at + 3)
                    kill_and_continue(two);
                step(two);
            }
            assert_int_equal(done, steps);
            assert_same(one, two);
            drive_free(two);
        }
        drive_free(one);
    }
}

// A trial that failed runs again alone, after the search has ended.
static void test_failed_trial(void **state)
{
    (void)state;
    static const size_t chosen[] = {0, 1, 2, 3, 5}; // those that do not replace it
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        struct drive *d = drive_new(searchers[chosen[i]]);
        d->fails = 5;
        tell(d, (struct search_event){.kind = SEARCH_BEGIN}, 0);
        while (!d->over)
            step(d);
        size_t count = d->count;
        assert_int_equal(d->outcome, SEARCH_END_COMPLETED);
        assert_false(d->trials[4].completed);
        kill_and_continue(d);
        assert_int_equal(d->restarted, 1);
        assert_true(d->trials[4].running && !d->over);
        while (!d->over)
            step(d);
        assert_true(d->trials[4].completed);
        assert_int_equal(d->count, count);
        drive_free(d);
    }
}

// The stored state of a search whose trials do not depend on each other does not grow with
// failures: each event stores the state again.
static void test_failures_are_not_stored(void **state)
{
    (void)state;
    static const char *methods[] = {"\"name\":\"random\",\"max_trials\":9", "\"name\":\"grid\""};
    for (size_t i = 0; i < 2; i++) {
        struct drive *d = drive_new(methods[i]);
        tell(d, (struct search_event){.kind = SEARCH_BEGIN}, 0);
        for (size_t trial = 0; !d->over; trial++) {
            trial_end(d, trial, SEARCH_END_ERROR);
            char *saved = search_snapshot(d->search);
            assert_null(strstr(saved, "lost"));
            free(saved);
        }
        drive_free(d);
    }
}

// A trial that the search had stopped, but which was killed before it left, does not run again.
static void test_stopped_and_killed(void **state)
{
    (void)state;
    struct drive *d = drive_new("\"name\":\"async_halving\",\"num_rungs\":2,\"divisor\":4,"
                                "\"max_time\":16,\"max_trials\":2,\"max_concurrent_trials\":2");
    tell(d, (struct search_event){.kind = SEARCH_BEGIN}, 0);
    tell(d, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 1, .time = 4}, 1);
    tell(d, (struct search_event){.kind = SEARCH_VALIDATED, .metric = 2, .time = 4}, 2);
    assert_true(d->trials[1].stopping && !d->trials[0].stopping);
    kill_and_continue(d);
    assert_true(d->trials[0].running && !d->trials[1].running);
    trial_end(d, 0, SEARCH_END_COMPLETED);
    assert_true(d->over);
    assert_int_equal(d->outcome, SEARCH_END_COMPLETED);
    drive_free(d);
}

// An imported search has trials, and no state that covers them.
static void test_imported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++) {
        struct drive *d = drive_new(searchers[i]);
        assert_true(search_covers(d->search, 0));
        assert_int_equal(search_covers(d->search, 2), i < 2); // random and grid draw again
        drive_free(d);
    }
}

static void check(const char *before, const char *after, const char *expected)
{
    struct error e = {0};
    json_t *old = config_of(before), *new = config_of(after);
    assert_int_equal(search_check_continue(old, new, &e), *expected ? ERR_INVALID : 0);
    if (*expected && !strstr(e.text, expected))
        fail_msg("%s", e.text);
    json_decref(old);
    json_decref(new);
}

static void test_changed_settings(void **state)
{
    (void)state;
    check("\"name\":\"random\",\"max_trials\":5", "\"name\":\"random\",\"max_trials\":9", "");
    check("\"name\":\"random\",\"max_trials\":5", "\"name\":\"random\",\"max_trials\":4",
          "fewer trials than before (5)");
    check("\"name\":\"random\",\"max_trials\":5", "\"name\":\"grid\"", "searcher.name");
    check("\"name\":\"tpe\",\"max_trials\":5", "\"name\":\"tpe\",\"max_trials\":500", "");
    check("\"name\":\"async_halving\",\"num_rungs\":3,\"max_time\":64,\"max_trials\":8",
          "\"name\":\"async_halving\",\"num_rungs\":3,\"max_time\":64,\"max_trials\":80", "");
    check("\"name\":\"async_halving\",\"num_rungs\":3,\"max_time\":64,\"max_trials\":8",
          "\"name\":\"async_halving\",\"num_rungs\":3,\"max_time\":65,\"max_trials\":8",
          "searcher.max_time");
    check("\"name\":\"adaptive_asha\",\"max_time\":256,\"max_trials\":100",
          "\"name\":\"adaptive_asha\",\"max_time\":256,\"max_trials\":120", "");
    check("\"name\":\"adaptive_asha\",\"max_time\":256,\"max_trials\":8",
          "\"name\":\"adaptive_asha\",\"max_time\":256,\"max_trials\":300", "other brackets");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_any_moment),
        cmocka_unit_test(test_failed_trial),
        cmocka_unit_test(test_failures_are_not_stored),
        cmocka_unit_test(test_stopped_and_killed),
        cmocka_unit_test(test_imported),
        cmocka_unit_test(test_changed_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
