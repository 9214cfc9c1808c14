// Every searcher under random orders of events: trials that validate, end, fail, reject their
// hyperparameters or are canceled, reports that arrive late, and a master that restarts at any
// moment. A search never stalls, never exceeds its budget and never loses a trial.
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
#include "base/rng.h"
#include "base/text/json.h"
#include "master/search/search.h"

enum { TRIALS_MAX = 512, ORDERS = 10000, EVENTS_MAX = 100000 };

struct plan {
    const char *searcher;
    int whole;              // the training time of a complete trial, in units
    size_t trials, at_once; // the limits, without trials that rejected their hyperparameters
    double budget;          // training time of all trials
};

// Hyperband with divisor 3 and 9 units: brackets of 9, 5 and 3 trials; their rungs 9@1 3@3 1@9,
// 5@3 1@9, 3@9.
static const struct plan plans[] = {
    {"\"name\":\"random\",\"max_trials\":12,\"max_concurrent_trials\":3", 6, 12, 3, 72},
    {"\"name\":\"grid\",\"max_concurrent_trials\":4", 6, 18, 4, 108},
    {"\"name\":\"async_halving\",\"num_rungs\":3,\"divisor\":3,\"max_trials\":14,\"max_time\":9,"
     "\"max_concurrent_trials\":5",
     9, 14, 5, 126},
    {"\"name\":\"adaptive_asha\",\"divisor\":3,\"max_trials\":15,\"max_time\":9,"
     "\"mode\":\"conservative\",\"max_concurrent_trials\":6",
     9, 15, 6, 135},
    {"\"name\":\"hyperband\",\"max_time\":9,\"max_concurrent_trials\":4", 9, 17, 4,
     9 * 1 + 3 * 2 + 1 * 6 + 5 * 3 + 1 * 6 + 3 * 9},
    {"\"name\":\"tpe\",\"max_trials\":15,\"startup_trials\":4,\"candidates\":3,"
     "\"max_concurrent_trials\":3",
     6, 15, 3, 90},
    {"\"name\":\"pbt\",\"population_size\":5,\"num_rounds\":4,\"length_per_round\":{\"batches\":3},"
     "\"replace_function\":{\"truncate_fraction\":0.4}",
     12, 20, 5, 60},
    {"\"name\":\"pbt\",\"population_size\":6,\"num_rounds\":3,\"length_per_round\":2,"
     "\"replace_function\":{\"truncate_fraction\":0.34},\"max_concurrent_trials\":2",
     6, 18, 2, 36},
    {"\"name\":\"single\"", 6, 1, 1, 6},
};

enum { PLANS = sizeof plans / sizeof *plans };

struct order_trial {
    bool running, stopping, ended;
    double time, best;
};

struct event_order {
    const struct plan *plan;
    json_t *config;
    struct search *search;
    struct rng rng;
    struct order_trial trials[TRIALS_MAX];
    size_t count, running, rejected;
    double trained;
    bool over;
    uint64_t number;
};

static struct order_trial *trial_of(struct event_order *o, const char *request_id)
{
    long number = strtol(request_id, NULL, 10);
    assert_in_range(number, 1, o->count);
    return &o->trials[number - 1];
}

static void trial_run(struct event_order *o, struct order_trial *t)
{
    assert_false(t->running);
    t->running = true;
    t->stopping = t->ended = false;
    o->running++;
}

static void command_obey(struct event_order *o, const struct search_command *c)
{
    struct order_trial *t;
    assert_false(o->over); // a shutdown is the last command
    switch (c->kind) {
    case SEARCH_CREATE:
        assert_in_range(++o->count, 1, TRIALS_MAX);
        t = trial_of(o, c->request_id);
        assert_ptr_equal(t, &o->trials[o->count - 1]);
        assert_int_equal(json_object_size(c->hparams), 3);
        *t = (struct order_trial){.best = NAN};
        if (*c->source) {
            assert_ptr_not_equal(trial_of(o, c->source), t);
            t->time = trial_of(o, c->source)->time;
        }
        trial_run(o, t);
        break;
    case SEARCH_RESTART:
        assert_true(trial_of(o, c->request_id)->ended);
        trial_run(o, trial_of(o, c->request_id));
        break;
    case SEARCH_STOP:
        t = trial_of(o, c->request_id);
        assert_true(t->running && !t->stopping);
        t->stopping = true;
        break;
    case SEARCH_SHUTDOWN:
        assert_int_equal(o->running, 0);
        o->over = true;
        break;
    }
}

static void restart(struct event_order *o)
{
    struct error e = {0};
    char *saved = search_snapshot(o->search);
    search_free(o->search);
    assert_int_equal(search_restore(o->config, 5, saved, &o->search, &e), 0);
    char *again = search_snapshot(o->search);
    assert_string_equal(saved, again);
    free(saved);
    free(again);
}

static void tell(struct event_order *o, struct search_event event, const struct order_trial *t)
{
    struct search_commands commands;
    char id[24];
    snprintf(id, sizeof id, "%d", t ? (int)(t - o->trials) + 1 : 0);
    event.request_id = id;
    search_handle_event(o->search, &event, &commands);
    for (size_t i = 0; i < commands.count; i++)
        command_obey(o, &commands.items[i]);
    search_commands_free(&commands);
    assert_true(search_progress(o->search) >= 0 && search_progress(o->search) <= 1);
    assert_true(o->running <= o->plan->at_once);
    assert_true(o->count - o->rejected <= o->plan->trials);
    assert_true(o->trained <= o->plan->budget);
    if (!rng_below(&o->rng, 8))
        restart(o);
}

static void trial_end(struct event_order *o, struct order_trial *t, enum search_end end)
{
    t->running = false;
    t->ended = true;
    o->running--;
    o->rejected += end == SEARCH_END_INVALID_HP;
    tell(o, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .end = end, .best = t->best}, t);
}

static void trial_validate(struct event_order *o, struct order_trial *t)
{
    double metric = rng_below(&o->rng, 10) ? rng_double(&o->rng) : NAN;
    if (!t->stopping) {
        t->time++;
        o->trained++;
        t->best = t->best <= metric ? t->best : metric;
    }
    tell(o, (struct search_event){.kind = SEARCH_VALIDATED, .metric = metric, .time = t->time}, t);
}

// One random event of one random trial.
static void step(struct event_order *o)
{
    size_t chosen = rng_below(&o->rng, (uint32_t)o->running), at = 0;
    while (!o->trials[at].running || chosen--)
        at++;
    struct order_trial *t = &o->trials[at];
    uint32_t event = rng_below(&o->rng, 100);
    if (t->stopping ? event < 50 : t->time >= o->plan->whole)
        trial_end(o, t, event % 10 ? SEARCH_END_COMPLETED : SEARCH_END_CANCELED);
    else if (event < 3)
        trial_end(o, t, SEARCH_END_ERROR);
    else if (event < 5 && t->time == 0)
        trial_end(o, t, SEARCH_END_INVALID_HP);
    else if (event < 6)
        trial_end(o, t, SEARCH_END_CANCELED);
    else if (event < 8)
        trial_end(o, t, SEARCH_END_COMPLETED);
    else if (event < 20)
        tell(o, (struct search_event){.kind = SEARCH_PROGRESS, .fraction = rng_double(&o->rng)}, t);
    else
        trial_validate(o, t);
}

static struct event_order *order_new(const struct plan *plan, uint64_t number)
{
    struct event_order *o = xcalloc(1, sizeof *o);
    struct error e = {0};
    char *config =
        xasprintf("{\"searcher\":{\"metric\":\"loss\",%s},\"hyperparameters\":{"
                  "\"lr\":{\"type\":\"log\",\"minval\":-4,\"maxval\":-1,\"base\":10,\"count\":3},"
                  "\"n\":{\"w\":{\"type\":\"int\",\"minval\":1,\"maxval\":3,\"count\":3},"
                  "\"act\":{\"type\":\"categorical\",\"vals\":[\"relu\",\"gelu\"]}},"
                  "\"c\":{\"type\":\"const\",\"val\":9}}}",
                  plan->searcher);
    o->plan = plan;
    o->number = number;
    assert_int_equal(json_parse(config, strlen(config), "config", &o->config, &e), 0);
    free(config);
    if (search_new(o->config, 5, &o->search, &e))
        fail_msg("%s", e.text);
    rng_seed(&o->rng, number, 3);
    return o;
}

static void order_play(const struct plan *plan, uint64_t number)
{
    struct event_order *o = order_new(plan, number);
    tell(o, (struct search_event){.kind = SEARCH_BEGIN}, NULL);
    for (int events = 0; !o->over; events++) {
        if (!o->running || events > EVENTS_MAX)
            fail_msg("order %d of %s stalls", (int)number, plan->searcher);
        step(o);
    }
    for (size_t i = 0; i < o->count; i++)
        assert_true(o->trials[i].ended);
    assert_true(search_progress(o->search) == 1 || plan->trials == 1);
    search_free(o->search);
    json_decref(o->config);
    free(o);
}

static void test_random_orders(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < ORDERS; i++)
        order_play(&plans[i % PLANS], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
