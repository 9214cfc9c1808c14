// Snapshots of a state that changes afterwards, and the state that is restored from them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/checkpoint/snapshot_writer.h"

enum { PARAMETERS = 2, BLOCK = 64, QUANTISED = 3 };

static const struct parameter parameters[PARAMETERS] = {
    {.name = "first.weight", .rank = 2, .shape = {5, 6}, .offset = 0, .count = 30, .decay = true},
    {.name = "first.bias", .rank = 1, .shape = {7}, .offset = 32, .count = 7},
};

// A state with its own optimizer.
struct restore_fixture {
    struct train_state state;
    float weights[BLOCK];
    int32_t exponents[PARAMETERS], quantised_exponents[QUANTISED];
    atomic_int written;
    struct snapshot_info last;
};

static struct optimizer *make_optimizer(const char *name)
{
    struct optimizer *o = NULL;
    struct error e = {0};
    json_t *spec = json_pack("{s:s, s:f, s:f, s:b, s:f, s:f, s:f, s:f}", "name", name,
                             "learning_rate", 0.1, "momentum", 0.9, "nesterov", 0, "weight_decay",
                             0.0, "beta1", 0.9, "beta2", 0.999, "epsilon", 1e-8);
    json_t *schedule = json_pack("{s:s, s:i}", "name", "constant", "warmup_steps", 0);
    const struct optimizer_config config = {.spec = spec,
                                            .schedule = schedule,
                                            .steps = 10,
                                            .parameters = parameters,
                                            .parameter_count = PARAMETERS,
                                            .block_size = BLOCK};
    if (optimizer_new(&config, &o, &e))
        fail_msg("%s", e.text);
    json_decref(schedule);
    json_decref(spec);
    return o;
}

static void fill_state(struct restore_fixture *f, float value)
{
    for (int p = 0; p < PARAMETERS; p++)
        for (size_t i = 0; i < parameters[p].count; i++) {
            f->weights[parameters[p].offset + i] = value + (float)i;
            if (optimizer_state_count(f->state.optimizer) > 0)
                optimizer_state(f->state.optimizer, 0)[parameters[p].offset + i] =
                    -value - (float)i;
        }
}

static void fixture_open(struct restore_fixture *f, const char *optimizer, float value)
{
    memset(f, 0, sizeof *f);
    f->state = (struct train_state){
        .parameters = parameters,
        .parameter_count = PARAMETERS,
        .block_size = BLOCK,
        .weights = f->weights,
        .optimizer = make_optimizer(optimizer),
        .exponents = f->exponents,
        .position = {.step = 7,
                     .data_cursor = INT64_C(1) << 40,
                     .seed = UINT64_MAX - 5,
                     .exponents_known = true,
                     .window_steps = 3,
                     .window_loss = {.total = 12345678901, .not_finite = 2},
                     .window_norm = 0.1},
    };
    f->exponents[0] = -12;
    f->exponents[1] = 3;
    fill_state(f, value);
}

static void fixture_close(struct restore_fixture *f)
{
    optimizer_free(f->state.optimizer);
}

static void record_written(void *ctx, const struct snapshot_info *info)
{
    struct restore_fixture *f = ctx;
    f->last = *info;
    atomic_fetch_add(&f->written, 1);
}

static struct snapshot_writer *save_snapshot(struct restore_fixture *f, const char *folder)
{
    struct snapshot_writer *s = snapshot_writer_new(&f->state, record_written, f);
    const struct snapshot_info info = {.id = "x", .folder = folder, .step = 7};
    struct error e = {0};
    json_t *facts = json_pack("{s:s}", "fingerprint", "abacus");
    assert_int_equal(snapshot_writer_save(s, &f->state, &info, facts, &e), 0);
    json_decref(facts);
    return s;
}

static void write_one(struct restore_fixture *f, const char *folder)
{
    struct error e = {0};
    struct snapshot_writer *s = save_snapshot(f, folder);
    assert_int_equal(snapshot_writer_wait(s, &e), 0);
    snapshot_writer_free(s);
}

static int restore_one(struct restore_fixture *f, const char *folder, struct error *e)
{
    char *folders[] = {(char *)(uintptr_t)folder};
    return restore_first_intact(folders, 1, "abacus", &f->state, e);
}

static void test_snapshot_is_of_its_moment(void **state)
{
    (void)state;
    struct restore_fixture f, g;
    struct error e = {0};
    fixture_open(&f, "momentum", 1.0f);
    struct snapshot_writer *s = save_snapshot(&f, "moment");
    fill_state(&f, 100.0f); // training continues
    assert_int_equal(snapshot_writer_wait(s, &e), 0);
    assert_int_equal(f.written, 1);
    assert_int_equal(f.last.step, 7);
    snapshot_writer_free(s);

    fixture_open(&g, "momentum", 0.0f);
    struct train_position expected = f.state.position;
    memset(&g.state.position, 0, sizeof g.state.position);
    memset(g.exponents, 0, sizeof g.exponents);
    assert_int_equal(restore_one(&g, "moment", &e), 0);
    fill_state(&f, 1.0f);
    assert_memory_equal(g.weights, f.weights, sizeof g.weights);
    assert_memory_equal(optimizer_state(g.state.optimizer, 0),
                        optimizer_state(f.state.optimizer, 0), BLOCK * sizeof(float));
    assert_memory_equal(g.exponents, f.exponents, sizeof g.exponents);
    const struct train_position *at = &g.state.position;
    assert_int_equal(at->step, expected.step);
    assert_int_equal(at->data_cursor, expected.data_cursor);
    assert_true(at->seed == expected.seed && at->exponents_known);
    assert_int_equal(at->window_steps, expected.window_steps);
    assert_int_equal(at->window_loss.total, expected.window_loss.total);
    assert_int_equal(at->window_loss.not_finite, expected.window_loss.not_finite);
    assert_true(at->window_norm == expected.window_norm);
    fixture_close(&g);
    fixture_close(&f);
}

static void test_failed_write_is_told_once(void **state)
{
    (void)state;
    struct restore_fixture f;
    struct error e = {0};
    fixture_open(&f, "momentum", 1.0f);
    assert_int_equal(file_write_durable("in-the-way", "x", 1, 0666, NULL), 0);
    struct snapshot_writer *s = save_snapshot(&f, "in-the-way/folder");
    assert_int_equal(snapshot_writer_wait(s, &e), ERR_IO);
    assert_non_null(strstr(e.text, "in-the-way"));
    assert_int_equal(f.written, 0);
    assert_int_equal(snapshot_writer_wait(s, &e), 0);
    snapshot_writer_free(s);
    fixture_close(&f);
}

static void test_without_exponents_they_are_not_known(void **state)
{
    (void)state;
    struct restore_fixture f;
    struct error e = {0};
    fixture_open(&f, "momentum", 1.0f);
    f.state.position.exponents_known = false; // reduction: float
    write_one(&f, "float");
    f.state.position.exponents_known = true;
    assert_int_equal(restore_one(&f, "float", &e), 0);
    assert_false(f.state.position.exponents_known);
    fixture_close(&f);
}

// The exponents of tensors in FP8; they are not known if one of them is missing.
static void test_exponents_of_quantised_tensors(void **state)
{
    (void)state;
    static const struct fp8_tensor tensors[] = {
        {"first.input"}, {"first.weight"}, {"first.gradient"}};
    static const struct fp8_tensor others[] = {
        {"first.input"}, {"other.weight"}, {"first.gradient"}};
    static const int32_t exponents[QUANTISED] = {3, 0, -40};
    struct restore_fixture f;
    struct error e = {0};
    fixture_open(&f, "momentum", 1.0f);
    write_one(&f, "float32");
    f.state.quantised = tensors;
    f.state.quantised_count = QUANTISED;
    f.state.quantised_exponents = f.quantised_exponents;
    f.state.position.quantised_known = true;
    memcpy(f.quantised_exponents, exponents, sizeof exponents);
    write_one(&f, "fp8");
    memset(f.quantised_exponents, 0, sizeof exponents);
    assert_int_equal(restore_one(&f, "float32", &e), 0);
    assert_false(f.state.position.quantised_known);
    assert_int_equal(restore_one(&f, "fp8", &e), 0);
    assert_true(f.state.position.quantised_known && f.state.position.exponents_known);
    assert_memory_equal(f.quantised_exponents, exponents, sizeof exponents);
    for (int i = 0; i < 2; i++) { // such numbers would leave the range of scales
        f.quantised_exponents[1] = i ? INT32_MAX : INT32_MIN;
        write_one(&f, i ? "high" : "low");
        assert_int_equal(restore_one(&f, i ? "high" : "low", &e), 0);
        assert_false(f.state.position.quantised_known);
        f.state.position.quantised_known = true;
    }
    f.exponents[1] = INT32_MIN;
    write_one(&f, "gradients");
    assert_int_equal(restore_one(&f, "gradients", &e), 0);
    assert_false(f.state.position.exponents_known);
    f.state.quantised = others;
    assert_int_equal(restore_one(&f, "fp8", &e), 0);
    assert_false(f.state.position.quantised_known);
    f.state.quantised_count = 0; // another precision
    assert_int_equal(restore_one(&f, "fp8", &e), 0);
    assert_false(f.state.position.quantised_known);
    fixture_close(&f);
}

static void test_another_model_is_named(void **state)
{
    (void)state;
    struct restore_fixture f, adam;
    struct parameter other[PARAMETERS];
    struct error e = {0};
    fixture_open(&f, "momentum", 1.0f);
    write_one(&f, "model");
    memcpy(other, parameters, sizeof other);
    other[1].shape[0] = 6;
    f.state.parameters = other;
    assert_int_equal(restore_one(&f, "model", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "first.bias has another shape"));
    snprintf(other[0].name, sizeof other[0].name, "second.weight");
    assert_int_equal(restore_one(&f, "model", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "second.weight is missing"));

    fixture_open(&adam, "adamw", 1.0f);
    assert_int_equal(restore_one(&adam, "model", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "moment1.first.weight"));
    write_one(&adam, "adam");
    fixture_close(&adam);
    f.state.parameters = parameters;
    fixture_close(&f);
    fixture_open(&f, "sgd", 1.0f);
    assert_int_equal(restore_one(&f, "adam", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "6 tensors where 2"));
    fixture_close(&f);
}

static void test_first_whole_of_several(void **state)
{
    (void)state;
    struct restore_fixture f;
    struct error e = {0};
    char *folders[] = {"missing", "short", "whole"};
    fixture_open(&f, "momentum", 1.0f);
    write_one(&f, "short");
    write_one(&f, "whole");
    assert_int_equal(truncate("short/weights.safetensors", 50), 0);
    assert_int_equal(restore_first_intact(folders, 3, "abacus", &f.state, &e), 0);
    assert_int_equal(restore_first_intact(folders, 2, "abacus", &f.state, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "missing"));
    assert_int_equal(restore_first_intact(folders + 1, 1, "abacus", &f.state, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "short/weights.safetensors"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_is_of_its_moment),
        cmocka_unit_test(test_failed_write_is_told_once),
        cmocka_unit_test(test_without_exponents_they_are_not_known),
        cmocka_unit_test(test_exponents_of_quantised_tensors),
        cmocka_unit_test(test_another_model_is_named),
        cmocka_unit_test(test_first_whole_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
