// `muster-trainer describe` predicts the memory that ranks really use.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/json.h"
#include "tests/unit/trainer/command_process.h"
#include "tests/unit/trainer/toys.h"

enum { TOLERANCE = 10 }; // percent

static const char *const families[][2] = {
    {"toy.yaml", "trainer.model={family: mlp, hidden: [1024, 1024], classes: 4}"},
    {"toy.yaml",
     "trainer.model={family: layers, layers: [{layer: conv2d, out: 64, kernel: 3}, {layer: "
     "batch_norm}, {layer: relu}, {layer: conv2d, out: 64, kernel: 3}, {layer: "
     "flatten}, {layer: linear, out: 512}, {layer: relu}, {layer: linear, out: 4}]}"},
    {"gpt.yaml",
     "trainer.model={family: gpt, layers: 4, heads: 4, width: 192, context: 64, dropout: 0.1}"},
};
enum { FAMILIES = sizeof families / sizeof *families };

static const char recompute[] = "trainer.recompute=blocks", plain[] = "trainer.recompute=none";

static json_t *described(const char *file, const char *model, const char *slots, const char *how)
{
    struct command_process c;
    RUN(&c, "describe.log", "describe", file, "--set", model, "--slots", slots, "--set", how, "-o",
        "json");
    json_t *answer = NULL;
    if (c.code || json_parse(c.output, strlen(c.output), "answer", &answer, NULL))
        fail_msg("%s", c.output);
    free(c.output);
    return answer;
}

static int64_t resident(pid_t pid)
{
    char path[64], *status = NULL;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    assert_int_equal(file_read(path, 1 << 16, &status, NULL, NULL), 0);
    const char *line = strstr(status, "\nVmRSS:");
    int64_t bytes = line ? 1024 * strtoll(line + 7, NULL, 10) : 0;
    free(status);
    return bytes;
}

static void assert_near(const char *what, int64_t found, int64_t predicted)
{
    if (found * 100 < predicted * (100 - TOLERANCE) || found * 100 > predicted * (100 + TOLERANCE))
        fail_msg("%s: %lld bytes are resident where %lld are predicted", what, (long long)found,
                 (long long)predicted);
}

// Compares the predicted memory with the memory of ranks in the middle of training, after a
// checkpoint.
static void compare_memory(const char *file, const char *model, const char *slots, const char *how)
{
    json_t *answer = described(file, model, slots, how);
    const json_t *memory = jget(answer, "memory");
    int64_t total = jget_int(memory, "total", 0);
    pid_t ranks[8];
    struct command_process c;
    process_start(&c, "run.log", "run", file, "--set", model, "--slots", slots, "--overwrite",
                  "--set", how, "--set", "trainer.steps=100000", "--set",
                  "trainer.checkpoint_every=3", "--set", "trainer.validate_every=0", "--set",
                  "trainer.schedule={name: constant}", NULL);
    process_wait_for(&c, "step 3  checkpoint");
    int count = list_children(c.pid, ranks, 8);
    assert_int_equal(count, atoll(slots));
    for (int i = 0; i < count; i++)
        assert_near(model, resident(ranks[i]),
                    total + (i == 0 ? jget_int(memory, "snapshot", 0) : 0));
    kill(c.pid, SIGINT);
    clock_sleep_us(10 * 1000);
    kill(c.pid, SIGINT); // the second signal ends it at once
    process_finish(&c);
    json_decref(answer);
    free(c.output);
}

static void test_memory_is_what_ranks_have(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // the prediction does not include the shadow memory of sanitizers
#endif
    for (int i = 0; i < FAMILIES; i++) {
        compare_memory(families[i][0], families[i][1], "1", plain);
        compare_memory(families[i][0], families[i][1], "3", plain);
    }
    compare_memory("gpt.yaml", families[FAMILIES - 1][1], "2", recompute);
}

static void test_table_of_layers(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "table.log", "describe", "toy.yaml", "--slots", "2", "--set",
        "trainer.fusion_bytes=65536");
    assert_says(&c, 0, "parameters");
    assert_non_null(strstr(c.output, "linear"));
    assert_non_null(strstr(c.output, "gradients are reduced in 1 bucket"));
    assert_non_null(strstr(c.output, "total of a rank"));
    free(c.output);
    json_t *answer = described("toy.yaml", "trainer.model.hidden=[24]", "1", plain);
    assert_int_equal(jget_int(answer, "parameters", 0), 64 * 24 + 24 + 24 * 4 + 4);
    json_decref(answer);
    RUN(&c, "bad.log", "describe", "toy.yaml", "--set", "trainer.model.classes=3");
    assert_true(c.code != 0);
    free(c.output);
}

static int64_t activations(const json_t *answer)
{
    return jget_int(jget(answer, "memory"), "activations", 0);
}

// Either plan says what the other one would take.
static void test_recomputation(void **state)
{
    (void)state;
    const char *model = families[FAMILIES - 1][1];
    json_t *without = described("gpt.yaml", model, "1", plain),
           *with = described("gpt.yaml", model, "1", recompute);
    assert_int_equal(jget_int(without, "recomputed_blocks", -1), 0);
    assert_int_equal(jget_int(with, "recomputed_blocks", -1), 4);
    assert_true(activations(with) < activations(without));
    assert_int_equal(jget_int(jget(without, "other_plan"), "activation_bytes", 0),
                     activations(with));
    assert_int_equal(jget_int(jget(with, "other_plan"), "activation_bytes", 0),
                     activations(without));
    json_decref(without);
    json_decref(with);
    struct command_process c;
    RUN(&c, "blocks.log", "describe", "gpt.yaml", "--set", model, "--set", recompute);
    assert_says(&c, 0, "4 blocks are recomputed; with trainer.recompute: none");
    free(c.output);
    RUN(&c, "none.log", "describe", "gpt.yaml", "--set", model, "--set", plain);
    assert_says(&c, 0, "with trainer.recompute: blocks, the activations would take");
    free(c.output);
    RUN(&c, "toy.log", "describe", "toy.yaml", "--set", recompute);
    assert_says(&c, 2, "the model has no residual block");
    free(c.output);
    RUN(&c, "chosen.log", "describe", "gpt.yaml", "--set", "trainer.micro_batch_size=0");
    assert_says(&c, 0, "a micro-batch has 3 samples"); // of 24
    free(c.output);
    RUN(&c, "scaled.log", "describe", "gpt.yaml", "--set", "trainer.micro_batch_size=0", "--set",
        "trainer.scale_with_slots=true", "--slots", "2");
    assert_says(&c, 0, "a micro-batch has 6 samples"); // of 48
    free(c.output);
}

static int set_up(void **state)
{
    must(file_write_durable("toy.yaml", toys_mlp, strlen(toys_mlp), 0666, NULL) == 0);
    must(file_write_durable("gpt.yaml", toys_gpt, strlen(toys_gpt), 0666, NULL) == 0);
    return toys_make(state);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return command_dispatch(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_of_layers),
        cmocka_unit_test(test_recomputation),
        cmocka_unit_test(test_memory_is_what_ranks_have),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
