// `muster-trainer run` and `sample` as a user sees them: output, exit codes, Ctrl-C, a dead rank.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tests/unit/trainer/command_process.h"
#include "tests/unit/trainer/toys.h"

static void test_any_number_of_slots(void **state)
{
    (void)state;
    struct command_process one, three;
    RUN(&one, "one.log", "run", "toy.yaml", "--set", "reproducibility.experiment_seed=3", "--slots",
        "1", "--overwrite");
    assert_says(&one, 0, "checkpoint  checkpoints/test/step-00000012");
    RUN(&three, "three.log", "run", "toy.yaml", "--set", "reproducibility.experiment_seed=3",
        "--slots", "3", "--checkpoint-dir", "elsewhere");
    assert_says(&three, 0, "checkpoint  elsewhere/step-00000012");
    char *a = state_digest_line(&one), *b = state_digest_line(&three);
    assert_string_equal(a, b);
    free(a);
    free(b);
    free(one.output);
    free(three.output);
}

#define LONG                                                                                       \
    "run", "toy.yaml", "--slots", "2", "--set", "reproducibility.experiment_seed=3", "--set",      \
        "trainer.steps=2000", "--set", "trainer.checkpoint_every=100", "--set",                    \
        "trainer.validate_every=0"

// The state of the group: the digest with which every interrupted run must end.
static int set_up(void **state)
{
    struct command_process c;
    must(file_write_durable("toy.yaml", toys_mlp, strlen(toys_mlp), 0666, NULL) == 0);
    must(file_write_durable("gpt.yaml", toys_gpt, strlen(toys_gpt), 0666, NULL) == 0);
    toys_make(NULL);
    RUN(&c, "long.log", LONG);
    assert_says(&c, 0, "step-00002000");
    *state = state_digest_line(&c);
    free(c.output);
    return 0;
}

static void test_interrupted_and_gone_on(void **state)
{
    const char *expected = *state;
    struct command_process first, second;
    process_start(&first, "first.log", LONG, "--checkpoint-dir", "interrupted", NULL);
    process_wait_for(&first, "step 100  checkpoint");
    kill(first.pid, SIGINT);
    process_finish(&first);
    assert_says(&first, 0, "stopped as requested");
    assert_says(&first, 0,
                "continue with: muster-trainer run toy.yaml --slots 2 --set "
                "reproducibility.experiment_seed=3 --set trainer.steps=2000 --set "
                "trainer.checkpoint_every=100 --set trainer.validate_every=0 --checkpoint-dir "
                "interrupted --resume\n");
    RUN(&second, "second.log", LONG, "--checkpoint-dir", "interrupted", "--resume");
    assert_says(&second, 0, "step-00002000");
    char *got = state_digest_line(&second);
    assert_string_equal(got, expected);
    free(got);
    free(first.output);
    free(second.output);
}

static void test_dead_rank_is_replaced(void **state)
{
    const char *expected = *state;
    struct command_process c;
    process_start(&c, "killed.log", LONG, "--checkpoint-dir", "replaced", NULL);
    process_wait_for(&c, "step 100  checkpoint");
    kill(last_child(c.pid), SIGKILL);
    process_finish(&c);
    assert_says(&c, 0, "restart 1 of 5");
    char *got = state_digest_line(&c);
    assert_string_equal(got, expected);
    free(got);
    free(c.output);

    process_start(&c, "given-up.log", LONG, "--set", "max_restarts=0", "--overwrite", NULL);
    process_wait_for(&c, "step 100  checkpoint");
    kill(last_child(c.pid), SIGKILL);
    process_finish(&c);
    assert_true(c.code > 0);
    assert_non_null(strstr(c.output, "rank 1 "));
    free(c.output);
}

static void test_bad_words_and_files(void **state)
{
    (void)state;
    const struct {
        const char *words[5];
        int code;
        const char *text;
    } cases[] = {
        {{"run"}, 2, "give one experiment file"},
        {{"run", "toy.yaml", "--slot", "2"}, 2, "slots"},
        {{"run", "toy.yaml", "--slots", "0"}, 2, "--slots"},
        {{"run", "nowhere.yaml"}, 3, "nowhere.yaml"},
        {{"run", "toy.yaml", "--set", "trainer.stepz=5"}, 2, "steps"},
        {{"run", "toy.yaml", "--folder", "nowhere", "--overwrite"}, 3, "nowhere/images"},
        {{"run", "toy.yaml", "--from", "nowhere", "--overwrite"}, 3, "nowhere"},
        {{"run", "--help"}, 0, "usage: muster-trainer run FILE"},
        {{"sample"}, 2, "give one checkpoint"},
        {{"sample", "nowhere"}, 3, "nowhere"},
        {{"sample", "nowhere", "--temperature", "warm"}, 2, "--temperature"},
        {{"worker"}, 2, "DET_MASTER is not set"},
        {{"worker", "now"}, 2, "usage: muster-trainer worker"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *w = cases[i].words;
        struct command_process c;
        RUN(&c, "bad.log", w[0], w[1], w[2], w[3], w[4]);
        assert_says(&c, cases[i].code, cases[i].text);
        free(c.output);
    }
}

static int free_state(void **state)
{
    free(*state);
    return 0;
}

static void test_sample_continues_a_text(void **state)
{
    (void)state;
    struct command_process c, again;
    RUN(&c, "gpt.log", "run", "gpt.yaml", "--slots", "1", "--checkpoint-dir", "gpt");
    assert_says(&c, 0, "gpt/step-00000012");
    free(c.output);
    RUN(&c, "text.log", "sample", "gpt/step-00000012", "--prompt", "the quick ", "--bytes", "40");
    RUN(&again, "again.log", "sample", "gpt/step-00000012", "-p", "the quick ", "--bytes=40");
    assert_says(&c, 0, "the quick ");
    assert_string_equal(c.output, again.output);
    free(c.output);
    free(again.output);
    RUN(&c, "mlp.log", "run", "toy.yaml", "--slots", "1", "--overwrite");
    free(c.output);
    RUN(&c, "none.log", "sample", "checkpoints/test/step-00000012");
    assert_says(&c, 2, "family \"mlp\"");
    free(c.output);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return command_dispatch(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_slots),
        cmocka_unit_test(test_interrupted_and_gone_on),
        cmocka_unit_test(test_dead_rank_is_replaced),
        cmocka_unit_test(test_bad_words_and_files),
        cmocka_unit_test(test_sample_continues_a_text),
    };
    return cmocka_run_group_tests(tests, set_up, free_state);
}
