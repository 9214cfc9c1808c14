// Early stopping and the best validation: its checkpoint is kept and linked, and training ends when
// no validation is better for a while, at the same step in spite of interruptions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "api/checkpoint/checkpoint.h"
#include "base/text/json.h"
#include "tests/unit/trainer/command_process.h"
#include "tests/unit/trainer/toys.h"

#define TOY                                                                                        \
    "run", "toy.yaml", "--set", "reproducibility.experiment_seed=3", "--set",                      \
        "trainer.checkpoint_best=true"

// The required improvement is so large that only the first validation counts as one.
#define PATIENT                                                                                    \
    TOY, "--slots", "2", "--set", "trainer.steps=5000", "--set", "trainer.validate_every=100",     \
        "--set", "trainer.checkpoint_every=150", "--set", "trainer.patience=5", "--set",           \
        "trainer.min_delta=100", "--checkpoint-dir"

static const char given_up[] =
    "stopped at step 600 of 5000: validation_loss has not improved by min_delta, 100, in 5 "
    "validations; the best is ";

static int set_up(void **state)
{
    struct command_process c;
    must(file_write_durable("toy.yaml", toys_mlp, strlen(toys_mlp), 0666, NULL) == 0);
    must(file_write_durable("gpt.yaml", toys_gpt, strlen(toys_gpt), 0666, NULL) == 0);
    toys_make(NULL);
    RUN(&c, "undisturbed.log", PATIENT, "undisturbed");
    assert_says(&c, 0, given_up);
    *state = state_digest_line(&c);
    free(c.output);
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void test_patience_survives_a_resume(void **state)
{
    struct command_process c;
    process_start(&c, "first.log", PATIENT, "resumed", NULL);
    process_wait_for(&c, "step 150  checkpoint");
    kill(c.pid, SIGINT);
    process_finish(&c);
    assert_says(&c, 0, "stopped as requested");
    free(c.output);
    RUN(&c, "second.log", PATIENT, "resumed", "--resume");
    assert_says(&c, 0, given_up);
    char *got = state_digest_line(&c);
    assert_string_equal(got, *state);
    free(got);
    free(c.output);
    RUN(&c, "third.log", PATIENT, "resumed", "--resume"); // it has already ended
    assert_says(&c, 0, given_up);
    got = state_digest_line(&c);
    assert_string_equal(got, *state);
    free(got);
    free(c.output);
}

static void test_patience_survives_a_death(void **state)
{
    struct command_process c;
    process_start(&c, "killed.log", PATIENT, "killed", NULL);
    process_wait_for(&c, "step 150  checkpoint");
    kill(last_child(c.pid), SIGKILL);
    process_finish(&c);
    assert_says(&c, 0, "restart 1 of 5");
    assert_says(&c, 0, given_up);
    char *got = state_digest_line(&c);
    assert_string_equal(got, *state);
    free(got);
    free(c.output);
}

static void test_patience_wants_a_metric(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "metric.log", PATIENT, "metric", "--set", "searcher.metric=validation_perplexity");
    assert_says(&c, 2,
                "searcher.metric is validation_perplexity, but this data yields the metrics "
                "validation_loss, validation_accuracy; choose one of them");
    free(c.output);
    RUN(&c, "never.log", TOY, "--set", "trainer.patience=2", "--set", "trainer.validate_every=0");
    assert_says(&c, 2, "trainer.patience: counts validations");
    free(c.output);
}

static json_t *manifest_of(const char *folder)
{
    struct checkpoint *ck = NULL;
    struct error e = {0};
    if (checkpoint_open(folder, &ck, &e))
        fail_msg("%s", e.text);
    json_t *manifest = json_deep_copy(checkpoint_manifest(ck));
    checkpoint_close(ck);
    return manifest;
}

// Every step makes it worse: the first validation is the best, and later checkpoints are removed.
static void test_best_is_kept(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "best.log", TOY, "--checkpoint-dir", "best", "--set", "trainer.checkpoint_every=0",
        "--set", "trainer.validate_every=2");
    assert_says(&c, 0, "best/best\n");
    json_t *best = manifest_of("best/best"), *last = manifest_of("best/step-00000012");
    double value = jget_double(jget(last, "best"), "value", -1);
    int64_t step = jget_int(best, "step", -1);
    assert_true(value > 0);
    assert_int_equal(step, jget_int(jget(last, "best"), "step", -2));
    assert_true(jget_double(jget(best, "validation"), "validation_loss", -2) == value);
    assert_true(jget_double(jget(last, "validation"), "validation_loss", -2) >= value);
    for (int i = 2; i < 12; i += 2) { // former best checkpoints are gone
        char path[64];
        snprintf(path, sizeof path, "best/step-%08d", i);
        assert_true(path_exists(path) == (i == step));
    }
    json_decref(best);
    json_decref(last);
    free(c.output);
}

static void test_checkpoints_of_the_best_can_be_left_out(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "none.log", TOY, "--checkpoint-dir", "none", "--set", "trainer.checkpoint_every=0",
        "--set", "trainer.validate_every=2", "--set", "trainer.checkpoint_best=false");
    assert_says(&c, 0, "step 12  checkpoint");
    assert_null(strstr(c.output, "step 2  checkpoint"));
    free(c.output);
}

static void test_larger_may_be_better(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "larger.log", TOY, "--checkpoint-dir", "larger", "--set",
        "searcher.metric=validation_accuracy", "--set", "searcher.smaller_is_better=false", "--set",
        "trainer.validate_every=1");
    assert_says(&c, 0, "best        validation_accuracy ");
    json_t *last = manifest_of("larger/step-00000012"), *best = manifest_of("larger/best");
    double value = jget_double(jget(last, "best"), "value", -1);
    assert_true(value >= jget_double(jget(last, "validation"), "validation_accuracy", 2));
    assert_true(jget_double(jget(best, "validation"), "validation_accuracy", 2) == value);
    json_decref(best);
    json_decref(last);
    free(c.output);
}

static void test_folder_of_another_run(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "a.log", TOY, "--checkpoint-dir", "used");
    assert_says(&c, 0, "used/step-00000012");
    free(c.output);
    RUN(&c, "b.log", TOY, "--checkpoint-dir", "used");
    assert_says(&c, 5, "used holds checkpoints of an earlier run");
    assert_non_null(strstr(c.output, "--resume continues from it, --overwrite removes them"));
    free(c.output);
    RUN(&c, "c.log", TOY, "--checkpoint-dir", "used", "--from", "used/step-00000004");
    assert_says(&c, 5, "used holds checkpoints of an earlier run");
    free(c.output);
    RUN(&c, "d.log", TOY, "--checkpoint-dir", "used", "--from", "used/step-00000004",
        "--overwrite");
    assert_says(&c, 2, "would remove used/step-00000004");
    free(c.output);
    RUN(&c, "e.log", TOY, "--checkpoint-dir", "used", "--resume", "--overwrite");
    assert_says(&c, 2, "cannot be given together with --overwrite");
    free(c.output);
    must(dir_make("used/step-00000099", 0777, NULL) == 0); // its writer was killed
    RUN(&c, "f.log", TOY, "--checkpoint-dir", "used", "--resume", "--set", "trainer.steps=14");
    assert_says(&c, 0, "resuming from used/step-00000012");
    assert_non_null(strstr(c.output, "used/step-00000014"));
    free(c.output);
    RUN(&c, "g.log", TOY, "--checkpoint-dir", "used", "--overwrite");
    assert_says(&c, 0, "step 4  checkpoint");
    assert_false(path_exists("used/step-00000014"));
    free(c.output);
}

static void test_perplexity_of_text(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "gpt.log", "run", "gpt.yaml", "--slots", "2");
    assert_says(&c, 0, "perplexity ");
    json_t *manifest = manifest_of("checkpoints/test/step-00000012");
    const json_t *metrics = jget(manifest, "validation");
    double loss = jget_double(metrics, "validation_loss", 0);
    assert_true(loss > 0);
    assert_true(fabs(jget_double(metrics, "validation_perplexity", 0) - exp(loss)) <
                1e-9 * exp(loss));
    assert_true(fabs(jget_double(metrics, "validation_bits_per_byte", 0) - loss / log(2)) < 1e-9);
    json_decref(manifest);
    free(c.output);
}

static void test_bench_measures(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "bench.log", "bench", "toy.yaml", "--slots", "2", "--warmup", "1", "--steps", "3", "-o",
        "json");
    assert_int_equal(c.code, 0);
    const char *line = strstr(c.output, "{\"samples_per_second\":");
    json_t *result = NULL;
    assert_non_null(line);
    assert_int_equal(json_parse(line, strcspn(line, "\n"), "line", &result, NULL), 0);
    static const char *const positive[] = {"samples_per_second", "step_ms", "mfu"};
    for (int i = 0; i < 3; i++)
        assert_true(jget_double(result, positive[i], 0) > 0);
    double parts = jget_double(result, "data_ms", 0) + jget_double(result, "forward_ms", 0) +
                   jget_double(result, "backward_ms", 0) + jget_double(result, "optimizer_ms", 0) +
                   jget_double(result, "exposed_communication_ms", 0);
    assert_true(parts > 0);
    assert_int_equal(jget_int(result, "slots", 0), 2);
    assert_null(jget(result, "tokens_per_second"));
    assert_false(path_exists("checkpoints/bench"));
    json_decref(result);
    free(c.output);
    RUN(&c, "scaled.log", "bench", "toy.yaml", "--slots", "2", "--warmup", "1", "--steps", "1",
        "--set", "trainer.scale_with_slots=true", "-o", "json");
    assert_int_equal(c.code, 0);
    line = strstr(c.output, "{\"samples_per_second\":");
    assert_non_null(line);
    assert_int_equal(json_parse(line, strcspn(line, "\n"), "line", &result, NULL), 0);
    double samples =
        jget_double(result, "samples_per_second", 0) * jget_double(result, "step_ms", 0) / 1000;
    assert_int_equal(lrint(samples), 2 * 32); // of the only step
    json_decref(result);
    free(c.output);
    RUN(&c, "bench2.log", "bench", "gpt.yaml", "--steps", "2");
    assert_says(&c, 0, " tokens/s");
    free(c.output);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return command_dispatch(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience_survives_a_resume),
        cmocka_unit_test(test_patience_survives_a_death),
        cmocka_unit_test(test_patience_wants_a_metric),
        cmocka_unit_test(test_best_is_kept),
        cmocka_unit_test(test_checkpoints_of_the_best_can_be_left_out),
        cmocka_unit_test(test_larger_may_be_better),
        cmocka_unit_test(test_folder_of_another_run),
        cmocka_unit_test(test_perplexity_of_text),
        cmocka_unit_test(test_bench_measures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
