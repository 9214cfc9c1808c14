// Learning rates, step by step, compared with the definitions in schedule.h.
#include "tests/unit/trainer/arithmetic.h"

#include <jansson.h>

#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

enum { STEPS = 6 };

static void check_schedule(const char *text, double start, int count, const double *expected)
{
    struct schedule s;
    struct error e;
    json_t *spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    if (schedule_read(spec, start, 0.8, STEPS, &s, &e))
        fail_msg("%s", e.text);
    for (int step = 0; step < count; step++)
        if (!(fabs(schedule_rate(&s, step) - expected[step]) < 1e-12))
            fail_msg("%s: step %d: expected %.12g, found %.12g", text, step, expected[step],
                     schedule_rate(&s, step));
    json_decref(spec);
}

static void test_constant(void **state)
{
    (void)state;
    check_schedule("{\"name\": \"constant\"}", 0, 3, (double[]){0.8, 0.8, 0.8});
    check_schedule("{\"name\": \"constant\", \"warmup_steps\": 3}", 0, 5,
                   (double[]){0.2, 0.4, 0.6, 0.8, 0.8});
    check_schedule("{\"name\": \"constant\", \"warmup_steps\": 3}", 0.4, 5,
                   (double[]){0.5, 0.6, 0.7, 0.8, 0.8});
    struct schedule s;
    struct error e;
    assert_int_equal(schedule_read(NULL, 0, 0.8, STEPS, &s, &e), 0);
    assert_true(schedule_rate(&s, 1) == 0.8);
}

static void test_step(void **state)
{
    (void)state;
    check_schedule("{\"name\": \"step\", \"milestones\": [2, 3, 7]}", 0, 8,
                   (double[]){0.8, 0.8, 0.08, 0.008, 0.008, 0.008, 0.008, 0.0008});
    check_schedule(
        "{\"name\": \"step\", \"milestones\": [3], \"factor\": 0.5, \"warmup_steps\": 1}", 0, 4,
        (double[]){0.4, 0.8, 0.8, 0.4});
}

static void test_cosine(void **state)
{
    (void)state;
    const double expected[] = {
        0.8 / 3, 1.6 / 3, 0.8, 0.5 + 0.3 * M_SQRT1_2, 0.5, 0.5 - 0.3 * M_SQRT1_2, 0.2, 0.2};
    check_schedule("{\"name\": \"cosine\", \"warmup_steps\": 2, \"min_learning_rate\": 0.2}", 0, 8,
                   expected);
    check_schedule("{\"name\": \"warmup_cosine\", \"warmup_steps\": 2, \"min_learning_rate\": 0.2}",
                   0, 8, expected);
    check_schedule("{\"name\": \"cosine\", \"warmup_steps\": 6}", 0, 7, // warm-up only
                   (double[]){0.8 / 7, 1.6 / 7, 2.4 / 7, 3.2 / 7, 4.0 / 7, 4.8 / 7, 0});
}

static void test_polynomial(void **state)
{
    (void)state;
    check_schedule("{\"name\": \"polynomial\"}", 0, 8,
                   (double[]){0.8, 0.8 * 5 / 6, 0.8 * 4 / 6, 0.4, 0.8 * 2 / 6, 0.8 / 6, 0, 0});
    check_schedule(
        "{\"name\": \"polynomial\", \"power\": 2, \"warmup_steps\": 2, \"min_learning_rate\": 0.4}",
        0, 7, (double[]){0.8 / 3, 1.6 / 3, 0.8, 0.4 + 0.4 * 9 / 16, 0.5, 0.4 + 0.4 / 16, 0.4});
}

static double rate_of(const char *spec_text, int64_t global_batch, int64_t step)
{
    static const struct parameter one = {"w", 1, {4}, 0, 4, true, 0};
    json_t *spec = json_loads(spec_text, 0, NULL);
    json_t *schedule = json_loads("{\"name\": \"constant\", \"warmup_steps\": 3}", 0, NULL);
    const struct optimizer_config config = {.spec = spec,
                                            .schedule = schedule,
                                            .steps = STEPS,
                                            .global_batch = global_batch,
                                            .parameters = &one,
                                            .parameter_count = 1,
                                            .block_size = 16};
    struct optimizer *o;
    struct error e;
    if (optimizer_new(&config, &o, &e))
        fail_msg("%s", e.text);
    double rate = optimizer_learning_rate(o, step);
    optimizer_free(o);
    json_decref(schedule);
    json_decref(spec);
    return rate;
}

// Goyal et al. 2017: a batch of k times the base has k times its rate, after a warm-up from the
// base.
static void test_linear_scaling(void **state)
{
    (void)state;
    const char *spec = "{\"name\": \"sgd\", \"learning_rate\": 0.5, \"base_batch_size\": 256}";
    const double expected[] = {1.375, 2.25, 3.125, 4, 4};
    for (int step = 0; step < 5; step++)
        assert_true(fabs(rate_of(spec, 2048, step) - expected[step]) < 1e-12);
    assert_true(rate_of(spec, 256, 0) == 0.5);
    assert_true(rate_of(spec, 64, 0) == 0.125); // a smaller batch needs no warm-up
    assert_true(rate_of(spec, 64, 5) == 0.125);
    spec = "{\"name\": \"sgd\", \"learning_rate\": 0.5, \"base_batch_size\": 0}";
    assert_true(rate_of(spec, 2048, 0) == 0.125);
    assert_true(rate_of(spec, 2048, 4) == 0.5);
}

static void expect_refused(const char *text, const char *expected)
{
    struct schedule s;
    struct error e = {0};
    json_t *spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    assert_int_equal(schedule_read(spec, 0, 0.1, STEPS, &s, &e), ERR_INVALID);
    assert_string_equal(e.text, expected);
    json_decref(spec);
}

// Milestones 1..count.
static void milestones(char *out, size_t cap, int count)
{
    size_t at = (size_t)snprintf(out, cap, "{\"name\": \"step\", \"milestones\": [1");
    for (int i = 2; i <= count; i++)
        at += (size_t)snprintf(out + at, cap - at, ", %d", i);
    snprintf(out + at, cap - at, "]}");
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused("{\"name\": \"exponential\"}",
                   "trainer.schedule.name: there is no schedule \"exponential\"; `muster help "
                   "config trainer.schedule` lists them");
    expect_refused("{\"name\": \"constant\", \"warmup_steps\": -1}",
                   "trainer.schedule.warmup_steps: must not be negative");
    expect_refused("{\"name\": \"cosine\", \"min_learning_rate\": 0.2}",
                   "trainer.schedule.min_learning_rate: must lie between 0 and the learning rate, "
                   "0.1");
    expect_refused("{\"name\": \"step\", \"milestones\": [3, 3]}",
                   "trainer.schedule.milestones: must be increasing steps of at least 1");
    expect_refused("{\"name\": \"step\", \"milestones\": [\"3\"]}",
                   "trainer.schedule.milestones: must be increasing steps of at least 1");
    expect_refused("{\"name\": \"step\", \"milestones\": [3], \"factor\": -1}",
                   "trainer.schedule.factor: must be a number of at least 0");
    expect_refused("{\"name\": \"polynomial\", \"power\": 0}",
                   "trainer.schedule.power: must be a number above 0");
    char many[1024];
    milestones(many, sizeof many, LIMIT_MILESTONES);
    check_schedule(many, 0, 2, (double[]){0.8, 0.08});
    milestones(many, sizeof many, LIMIT_MILESTONES + 1);
    expect_refused(many, "trainer.schedule.milestones: at most 64 milestones");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),       cmocka_unit_test(test_step),
        cmocka_unit_test(test_cosine),         cmocka_unit_test(test_polynomial),
        cmocka_unit_test(test_linear_scaling), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
