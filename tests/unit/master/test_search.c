// Tests of searchers: the commands of `single`, drawing of hyperparameters, saved and restored
// state.
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

static json_t *config_of(const char *text)
{
    json_t *config = NULL;
    struct error e = {0};
    assert_int_equal(json_parse(text, strlen(text), "config", &config, &e), 0);
    return config;
}

static struct search_commands tell(struct search *s, enum search_event_kind kind,
                                   enum search_end end)
{
    struct search_commands commands;
    struct search_event event = {.kind = kind, .request_id = "1", .fraction = 0.25, .end = end};
    search_handle_event(s, &event, &commands);
    return commands;
}

static const char space[] =
    "{\"searcher\":{\"name\":\"single\",\"metric\":\"loss\"},\"hyperparameters\":{"
    "\"a\":{\"type\":\"const\",\"val\":[1,2]},"
    "\"nested\":{\"b\":{\"type\":\"int\",\"minval\":3,\"maxval\":5},"
    "\"c\":{\"type\":\"double\",\"minval\":-1,\"maxval\":1}},"
    "\"d\":{\"type\":\"log\",\"minval\":-3,\"maxval\":-1,\"base\":10},"
    "\"e\":{\"type\":\"categorical\",\"vals\":[\"x\",\"y\"]},"
    "\"f\":{\"type\":\"const\",\"val\":null}}}";

static struct search *begin(const char *text, int64_t seed, struct search_commands *commands)
{
    struct search *s = NULL;
    struct error e = {0};
    json_t *config = config_of(text);
    assert_int_equal(search_new(config, seed, &s, &e), 0);
    json_decref(config);
    *commands = tell(s, SEARCH_BEGIN, 0);
    assert_int_equal(commands->count, 1);
    assert_int_equal(commands->items[0].kind, SEARCH_CREATE);
    return s;
}

static void test_draw(void **state)
{
    (void)state;
    bool saw_low = false, saw_high = false;
    for (int64_t seed = 0; seed < 64; seed++) {
        struct search_commands commands;
        struct search *s = begin(space, seed, &commands);
        const json_t *h = commands.items[0].hparams;
        assert_int_equal(commands.items[0].seed, seed);
        assert_int_equal(json_array_size(json_object_get(h, "a")), 2);
        int64_t b = jget_int(jget_path(h, "nested"), "b", -1);
        assert_in_range(b, 3, 5);
        saw_low = saw_low || b == 3;
        saw_high = saw_high || b == 5;
        double c = jget_double(jget_path(h, "nested"), "c", 9), d = jget_double(h, "d", 0);
        assert_true(c >= -1 && c <= 1 && d >= 1e-3 && d <= 1e-1);
        const char *word = jget_string(h, "e", "");
        assert_true(!strcmp(word, "x") || !strcmp(word, "y"));
        assert_true(json_is_null(json_object_get(h, "f")));
        search_commands_free(&commands);
        search_free(s);
    }
    assert_true(saw_low && saw_high); // both ends belong to the range
}

// A configuration that was imported was perhaps never checked.
static void test_unchecked_searcher(void **state)
{
    (void)state;
    static const char *const searchers[] = {
        "{\"name\":\"async_halving\",\"num_rungs\":-1}",
        "{\"name\":\"async_halving\",\"num_rungs\":1099511627776}",
        "{\"name\":\"adaptive_asha\",\"divisor\":1,\"max_trials\":9,\"max_time\":9}",
        "{\"name\":\"adaptive_asha\",\"divisor\":\"NaN\",\"max_trials\":9,\"max_time\":9}",
        "{\"name\":\"adaptive_asha\",\"max_rungs\":1000,\"max_trials\":1000000,\"max_time\":9}",
        "{\"name\":\"adaptive_asha\",\"max_trials\":9,\"max_time\":-1}",
        "{\"name\":\"random\",\"max_trials\":-1}",
        "{}",
        "5",
    };
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++) {
        char *text = xasprintf("{\"searcher\":%s}", searchers[i]);
        json_t *config = json_loads(text, 0, NULL);
        struct search *s = NULL;
        struct error e = {0};
        assert_non_null(config);
        assert_int_equal(search_new(config, 1, &s, &e), ERR_INVALID);
        json_decref(config);
        free(text);
    }
}

static void test_same_seed_same_point(void **state)
{
    (void)state;
    struct search_commands one, two, other;
    struct search *a = begin(space, 7, &one), *b = begin(space, 7, &two);
    struct search *c = begin(space, 8, &other);
    assert_true(json_equal(one.items[0].hparams, two.items[0].hparams));
    assert_false(json_equal(one.items[0].hparams, other.items[0].hparams));
    search_commands_free(&one);
    search_commands_free(&two);
    search_commands_free(&other);
    search_free(a);
    search_free(b);
    search_free(c);
}

// The trial of `single` has the values that the first trial of `random` has.
static void test_single_draws_as_random(void **state)
{
    (void)state;
    static const char single[] = "\"name\":\"single\"";
    const char *at = strstr(space, single);
    char *random = xasprintf("%.*s\"name\":\"random\",\"max_trials\":1%s", (int)(at - space), space,
                             at + strlen(single));
    for (int64_t seed = 0; seed < 8; seed++) {
        struct search_commands one, first;
        struct search *a = begin(space, seed, &one), *b = begin(random, seed, &first);
        assert_true(json_equal(one.items[0].hparams, first.items[0].hparams));
        search_commands_free(&one);
        search_commands_free(&first);
        search_free(a);
        search_free(b);
    }
    free(random);
}

static const char five[] =
    "{\"searcher\":{\"name\":\"random\",\"metric\":\"loss\",\"max_trials\":5,"
    "\"max_concurrent_trials\":2},\"hyperparameters\":{"
    "\"a\":{\"type\":\"double\",\"minval\":0,\"maxval\":1}}}";

// "c1 r2 o" for the commands: create 1, restart 2, over.
static void commands_are(struct search_commands *commands, const char *expected)
{
    char text[64] = "";
    for (size_t i = 0; i < commands->count; i++) {
        const struct search_command *command = &commands->items[i];
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s", i ? " " : "",
                 command->kind == SEARCH_CREATE    ? "c"
                 : command->kind == SEARCH_RESTART ? "r"
                                                   : "o",
                 command->request_id);
        if (command->kind == SEARCH_SHUTDOWN)
            assert_int_equal(command->outcome, SEARCH_END_COMPLETED);
        assert_true(!command->hparams == (command->kind != SEARCH_CREATE));
    }
    assert_string_equal(text, expected);
    search_commands_free(commands);
}

static void ended(struct search **s, const json_t *config, const char *request_id,
                  enum search_end end, const char *expected)
{
    struct search_commands commands;
    struct search_event event = {.kind = SEARCH_TRIAL_ENDED, .request_id = request_id, .end = end};
    struct error e = {0};
    search_handle_event(*s, &event, &commands);
    commands_are(&commands, expected);
    char *snapshot = search_snapshot(*s); // a master may restart at any time
    search_free(*s);
    assert_int_equal(search_restore(config, 3, snapshot, s, &e), 0);
    free(snapshot);
}

// A search continues with the trials that have not completed, at most two at a time, and then
// creates those that are missing, with the values that they would have had.
static void test_continue(void **state)
{
    (void)state;
    struct search *s = NULL, *undisturbed;
    struct search_commands commands;
    struct search_event event = {.kind = SEARCH_BEGIN};
    struct error e = {0};
    json_t *config = config_of(five), *fifth = NULL;
    assert_int_equal(search_new(config, 3, &undisturbed, &e), 0);
    for (int i = 0; i < 5; i++) {
        search_handle_event(undisturbed, &event, &commands);
        for (size_t k = 0; k < commands.count; k++)
            if (!strcmp(commands.items[k].request_id, "5"))
                fifth = json_incref(commands.items[k].hparams);
        search_commands_free(&commands);
        event = (struct search_event){.kind = SEARCH_TRIAL_ENDED,
                                      .request_id = (const char *[]){"1", "2", "3", "4", "5"}[i]};
    }
    search_free(undisturbed);
    assert_non_null(fifth);

    assert_int_equal(search_check_continue(config, config, &e), 0);
    assert_int_equal(search_new(config, 3, &s, &e), 0);
    event = (struct search_event){.kind = SEARCH_CONTINUE,
                                  .completed = (const bool[]){false, true, false, false},
                                  .trials = 4};
    search_handle_event(s, &event, &commands);
    assert_true(search_changed(s));
    commands_are(&commands, "r1 r3");
    ended(&s, config, "1", SEARCH_END_ERROR, "r4");
    event = (struct search_event){.kind = SEARCH_TRIAL_ENDED, .request_id = "3"};
    search_handle_event(s, &event, &commands);
    assert_int_equal(commands.count, 1);
    assert_true(json_equal(commands.items[0].hparams, fifth));
    commands_are(&commands, "c5");
    ended(&s, config, "4", SEARCH_END_COMPLETED, "");
    ended(&s, config, "5", SEARCH_END_COMPLETED, "o");
    search_free(s);
    json_decref(fifth);
    json_decref(config);
}

static void ends_with(enum search_end end, enum search_end outcome)
{
    struct search_commands commands;
    struct search *s = begin(space, 1, &commands);
    search_commands_free(&commands);
    commands = tell(s, SEARCH_VALIDATED, 0);
    assert_int_equal(commands.count, 0);
    commands = tell(s, SEARCH_PROGRESS, 0);
    assert_int_equal(commands.count, 0);
    assert_true(search_progress(s) == 0.25);
    commands = tell(s, SEARCH_TRIAL_ENDED, end);
    assert_int_equal(commands.count, 1);
    assert_int_equal(commands.items[0].kind, SEARCH_SHUTDOWN);
    assert_int_equal(commands.items[0].outcome, outcome);
    search_commands_free(&commands);
    commands = tell(s, SEARCH_TRIAL_ENDED, end);
    assert_int_equal(commands.count, 0); // it ends only once
    search_free(s);
}

static void test_single_ends(void **state)
{
    (void)state;
    ends_with(SEARCH_END_COMPLETED, SEARCH_END_COMPLETED);
    ends_with(SEARCH_END_ERROR, SEARCH_END_ERROR);
    ends_with(SEARCH_END_INVALID_HP, SEARCH_END_ERROR);
    ends_with(SEARCH_END_CANCELED, SEARCH_END_CANCELED);
}

static void test_restore(void **state)
{
    (void)state;
    struct error e = {0};
    struct search_commands commands;
    struct search *s = begin(space, 3, &commands), *again = NULL;
    search_commands_free(&commands);
    json_t *config = config_of(space);
    char *saved = search_snapshot(s);
    assert_int_equal(search_restore(config, 3, saved, &again, &e), 0);
    char *saved_again = search_snapshot(again);
    assert_string_equal(saved, saved_again);
    free(saved_again);
    search_free(again);
    commands = tell(s, SEARCH_TRIAL_ENDED, SEARCH_END_ERROR);
    search_commands_free(&commands);
    free(saved);
    saved = search_snapshot(s);
    assert_int_equal(search_restore(config, 3, saved, &again, &e), 0);
    commands = tell(again, SEARCH_TRIAL_ENDED, SEARCH_END_ERROR);
    assert_int_equal(commands.count, 0); // it remembers that it has ended
    search_free(again);
    assert_int_equal(search_restore(config, 3, "{\"rng\":\"x\"}", &again, &e), ERR_CORRUPT);
    assert_int_equal(search_restore(config, 3, "{", &again, &e), ERR_CORRUPT);
    free(saved);
    json_decref(config);
    search_free(s);
}

static void test_unknown_method(void **state)
{
    (void)state;
    struct error e = {0};
    struct search *s = NULL;
    json_t *config = config_of("{\"searcher\":{\"name\":\"simulated_annealing\"}}");
    assert_int_equal(search_new(config, 1, &s, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "simulated_annealing"));
    assert_non_null(strstr(e.text, "\"single\""));
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_unchecked_searcher),
        cmocka_unit_test(test_same_seed_same_point),
        cmocka_unit_test(test_continue),

        cmocka_unit_test(test_single_draws_as_random),
        cmocka_unit_test(test_single_ends),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_unknown_method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
