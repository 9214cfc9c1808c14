// Tests of previews of searches: the trials and values are those of the search that runs, budgets
// and rungs follow from the configuration, and a large search is cut off at the limit.
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
#include "master/search/preview.h"
#include "master/search/search.h"

static json_t *config_of(const char *searcher)
{
    json_t *config = NULL;
    struct error e = {0};
    char *text = xasprintf("{\"searcher\":{\"metric\":\"loss\",%s},\"hyperparameters\":{\"x\":"
                           "{\"type\":\"double\",\"minval\":0,\"maxval\":1,\"count\":6},\"y\":"
                           "{\"type\":\"categorical\",\"vals\":[1,2]}}}",
                           searcher);
    assert_int_equal(json_parse(text, strlen(text), "config", &config, &e), 0);
    free(text);
    return config;
}

static struct search_preview preview_of(const char *searcher, size_t most)
{
    struct search_preview preview;
    struct error e = {0};
    json_t *config = config_of(searcher);
    if (search_preview(config, 3, most, &preview, &e))
        fail_msg("%s", e.text);
    json_decref(config);
    return preview;
}

// Handles an event, and compares the trials that it creates with those of the preview.
static bool handle(struct search *s, struct search_event event,
                   const struct search_preview *preview, size_t *created)
{
    struct search_commands commands;
    bool over = false;
    search_handle_event(s, &event, &commands);
    for (size_t i = 0; i < commands.count; i++) {
        const struct search_command *command = &commands.items[i];
        over = over || command->kind == SEARCH_SHUTDOWN;
        if (command->kind != SEARCH_CREATE)
            continue;
        assert_true(*created < preview->count);
        const struct preview_trial *t = &preview->trials[(*created)++];
        assert_int_equal(t->number, strtoll(command->request_id, NULL, 10));
        assert_int_equal(t->seed, command->seed);
        assert_true(t->certain && json_equal(t->hparams, command->hparams));
    }
    search_commands_free(&commands);
    return over;
}

// Runs the search itself: each trial completes, in the order of their numbers.
static void assert_runs_like(const char *searcher, const struct search_preview *preview)
{
    struct search *s = NULL;
    struct error e = {0};
    json_t *config = config_of(searcher);
    size_t created = 0;
    assert_int_equal(search_new(config, 3, &s, &e), 0);
    bool over = handle(s, (struct search_event){.kind = SEARCH_BEGIN}, preview, &created);
    for (size_t ended = 1; !over; ended++) {
        char id[24];
        snprintf(id, sizeof id, "%zu", ended);
        assert_true(ended <= created);
        over =
            handle(s,
                   (struct search_event){
                       .kind = SEARCH_TRIAL_ENDED, .request_id = id, .end = SEARCH_END_COMPLETED},
                   preview, &created);
    }
    assert_int_equal(created, preview->count);
    search_free(s);
    json_decref(config);
}

static void test_random(void **state)
{
    (void)state;
    const char searcher[] = "\"name\":\"random\",\"max_trials\":7,\"max_concurrent_trials\":7,"
                            "\"max_length\":{\"epochs\":10}";
    struct search_preview preview = preview_of(searcher, 100);
    assert_int_equal(preview.count, 7);
    assert_true(preview.whole);
    assert_int_equal(preview.most_at_once, 7);
    assert_int_equal(preview.length, 10);
    assert_int_equal(preview.time, 70);
    assert_int_equal(preview.most_time, 70);
    assert_int_equal(preview.elapsed, 10);
    assert_runs_like(searcher, &preview);
    search_preview_free(&preview);
    preview = preview_of("\"name\":\"random\",\"max_trials\":7,\"max_concurrent_trials\":2", 100);
    assert_int_equal(preview.most_at_once, 2);
    assert_int_equal(preview.length, 0); // the configuration does not say it
    assert_int_equal(preview.time, 0);
    search_preview_free(&preview);
}

static void test_grid(void **state)
{
    (void)state;
    struct search_preview preview =
        preview_of("\"name\":\"grid\",\"max_concurrent_trials\":5,\"max_length\":100", 100);
    assert_int_equal(preview.count, 12);
    assert_int_equal(preview.most_time, 1200);
    assert_int_equal(preview.elapsed, 300); // three rounds of 5, 5 and 2
    for (size_t i = 0; i < preview.count; i++) {
        const json_t *h = preview.trials[i].hparams;
        assert_float_equal(jget_double(h, "x", -1), (double)(i / 2) / 5, 1e-6);
        assert_int_equal(jget_int(h, "y", 0), i % 2 + 1);
        assert_true(preview.trials[i].certain);
    }
    search_preview_free(&preview);
}

#define ASHA                                                                                       \
    "\"name\":\"async_halving\",\"num_rungs\":3,\"divisor\":4,\"max_time\":64,\"max_trials\":%d,"  \
    "\"max_concurrent_trials\":4"

static void test_halving(void **state)
{
    (void)state;
    char searcher[200];
    snprintf(searcher, sizeof searcher, ASHA, 40);
    struct search_preview preview = preview_of(searcher, 100);
    assert_int_equal(preview.count, 40);
    assert_int_equal(preview.most_time, 40 * 64);
    json_t *rungs = jget(json_array_get(preview.brackets, 0), "rungs");
    assert_int_equal(json_array_size(rungs), 3);
    double time = 0;
    for (size_t i = 0; i < preview.count; i++) {
        assert_true(preview.trials[i].certain); // the values do not depend on metrics
        time += preview.trials[i].time;
        assert_true(preview.trials[i].time >= 4 && preview.trials[i].time <= 64);
    }
    assert_float_equal(time, preview.time, 1e-9);
    size_t reached[3];
    for (size_t i = 0; i < 3; i++)
        reached[i] = json_array_size(jget(json_array_get(rungs, i), "marks"));
    assert_int_equal(reached[0], 40);                // every trial reaches the lowest rung,
    assert_in_range(reached[1], 40 / 4 / 2, 40 / 2); // and about a quarter passes it
    assert_in_range(reached[2], 1, reached[1] - 1);
    assert_float_equal(time, (double)(40 * 4 + reached[1] * 12 + reached[2] * 48), 1e-9);
    assert_true(preview.elapsed >= time / 4);
    search_preview_free(&preview);
}

static void test_adaptive(void **state)
{
    (void)state;
    struct search_preview preview = preview_of(
        "\"name\":\"adaptive_asha\",\"max_time\":256,\"max_trials\":30,\"max_concurrent_trials\":6",
        100);
    size_t trials = 0;
    for (size_t i = 0; i < json_array_size(preview.brackets); i++)
        trials += (size_t)jget_int(json_array_get(preview.brackets, i), "trials", 0);
    assert_int_equal(trials, 30);
    assert_int_equal(preview.count, 30);
    assert_true(preview.whole && preview.time > 0 && preview.time < preview.most_time);
    assert_int_equal(preview.most_at_once, 6);
    search_preview_free(&preview);
}

static void test_values_that_are_certain(void **state)
{
    (void)state;
    char searcher[200];
    snprintf(searcher, sizeof searcher, ASHA, 40);
    struct search_preview preview = preview_of(searcher, 100);
    assert_runs_like(searcher, &preview);
    search_preview_free(&preview);
}

// The first trials of tpe and pbt are drawn at random, and all later ones depend on results, even
// if their values are equal by chance: y has two values.
static void test_values_that_depend_on_results(void **state)
{
    (void)state;
    static const struct {
        const char *searcher;
        size_t certain;
    } cases[] = {
        {"\"name\":\"tpe\",\"max_trials\":30,\"startup_trials\":5,\"max_concurrent_trials\":2", 6},
        {"\"name\":\"tpe\",\"max_trials\":9,\"startup_trials\":5,\"max_concurrent_trials\":1", 5},
        {"\"name\":\"tpe\",\"max_trials\":9,\"startup_trials\":9,\"max_concurrent_trials\":9", 9},
        {"\"name\":\"pbt\",\"population_size\":8,\"num_rounds\":4,\"length_per_round\":"
         "{\"batches\":10}",
         8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct search_preview preview = preview_of(cases[i].searcher, 100);
        for (size_t t = 0; t < preview.count; t++)
            assert_int_equal(preview.trials[t].certain, t < cases[i].certain);
        search_preview_free(&preview);
    }
}

static void test_limit(void **state)
{
    (void)state;
    char searcher[200];
    for (int over = 0; over < 2; over++) { // at the limit, and one past it
        snprintf(searcher, sizeof searcher, ASHA, 20 + over);
        struct search_preview preview = preview_of(searcher, 20);
        assert_int_equal(preview.count, 20);
        assert_int_equal(preview.whole, !over);
        search_preview_free(&preview);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct search_preview preview;
    struct error e = {0};
    json_t *config = config_of("\"name\":\"magic\"");
    assert_int_equal(search_preview(config, 3, 10, &preview, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "magic"));
    json_decref(config);
}

// A preview of tpe is shorter if each trial has many candidates: 200 of 2 hyperparameters.
static void test_limit_of_tpe(void **state)
{
    (void)state;
    static const char *method = "\"name\":\"tpe\",\"startup_trials\":500,\"candidates\":500,"
                                "\"max_trials\":%d";
    for (int trials = 200; trials <= 201; trials++) {
        char *searcher = xasprintf(method, trials);
        struct search_preview preview = preview_of(searcher, 1000);
        assert_int_equal(preview.count, 200);
        assert_int_equal(preview.whole, trials == 200);
        search_preview_free(&preview);
        free(searcher);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_halving),
        cmocka_unit_test(test_adaptive),
        cmocka_unit_test(test_values_that_are_certain),
        cmocka_unit_test(test_values_that_depend_on_results),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_limit_of_tpe),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
