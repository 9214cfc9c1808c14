// Compares whole models with finite differences: for every parameter tensor, the derivative of the
// loss in a random direction equals the product of gradient and direction.
#include "tests/unit/trainer/model_fixture.h"

// Initial values are small where training needs that; larger ones give clearer derivatives.
static void weights_enlarge(struct model_fixture *f, double by)
{
    for (int p = 0; p < f->count; p++)
        for (size_t i = 0; i < f->parameters[p].count; i++)
            f->weights[f->parameters[p].offset + i] += (float)(by * (rng_double(&f->a.rng) - 0.5));
}

static void parameter_move(struct model_fixture *f, const struct parameter *p,
                           const float *direction, double by)
{
    for (size_t i = 0; i < p->count; i++)
        f->weights[p->offset + i] += (float)(by * (double)direction[i]);
}

static void check_parameter(struct model_fixture *f, const struct parameter *p,
                            const float *gradient)
{
    // Far enough in spite of rounding, near enough to cross few kinks of relu and maximum.
    const double h = 2e-3 / sqrt((double)p->count);
    double expected = 0, length = 0;
    float *direction = floats_random(&f->a, (int64_t)p->count, 1);
    float *before = floats_new(&f->a, (int64_t)p->count);
    memcpy(before, f->weights + p->offset, p->count * sizeof *before);
    for (size_t i = 0; i < p->count; i++) {
        expected += (double)gradient[i] * (double)direction[i];
        length += (double)gradient[i] * (double)gradient[i];
    }
    parameter_move(f, p, direction, h);
    double above = model_fixture_train(f, f->batch);
    memcpy(f->weights + p->offset, before, p->count * sizeof *before);
    parameter_move(f, p, direction, -h);
    double below = model_fixture_train(f, f->batch);
    memcpy(f->weights + p->offset, before, p->count * sizeof *before);
    double slope = (above - below) / (2 * h);
    if (!(fabs(slope - expected) <= 5e-7 / h + 0.015 * sqrt(length)))
        fail_msg("%s: slope %.6g, gradient %.6g", p->name, slope, expected);
    if (!(length > 0))
        fail_msg("%s: the gradient is all zero", p->name);
    free(f->a.blocks[--f->a.count]);
    free(f->a.blocks[--f->a.count]);
}

// `larger` moves the initial values, so that biases and residual projections matter.
static void check_model_by(double larger, const char *text, const struct sample_shape *shape)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct model_fixture f;
        model_fixture_begin(&f, text, shape, 3, seed);
        weights_enlarge(&f, larger);
        model_fixture_train(&f, f.batch);
        assert_int_equal(f.delivered, f.count);
        float *gradients = floats_new(&f.a, (int64_t)model_block_size(f.model));
        memcpy(gradients, f.gradients, model_block_size(f.model) * sizeof *gradients);
        for (int p = 0; p < f.count; p++)
            if (f.parameters[p].momentum == 0) // no statistic
                check_parameter(&f, &f.parameters[p], gradients + f.parameters[p].offset);
        model_fixture_end(&f);
    }
}

static void check_model(const char *text, const struct sample_shape *shape)
{
    check_model_by(0.8, text, shape);
}

static void test_mlp(void **state)
{
    (void)state;
    check_model("{\"family\": \"mlp\", \"hidden\": [9, 7], \"classes\": 5}", &image_4x3);
    check_model("{\"family\": \"mlp\", \"hidden\": [9], \"activation\": \"tanh\", \"classes\": 5,"
                " \"dropout\": 0.3}",
                &image_4x3);
    check_model(
        "{\"family\": \"mlp\", \"hidden\": [8, 20], \"activation\": \"gelu\", \"classes\": 5,"
        " \"dropout\": 0.5}",
        &image_4x3);
    check_model(
        "{\"family\": \"mlp\", \"hidden\": [8, 20], \"activation\": \"gelu\", \"classes\": 5}",
        &image_4x3);
    check_model("{\"family\": \"mlp\", \"hidden\": [], \"classes\": 5}", &image_4x3);
}

static void test_lenet(void **state)
{
    (void)state;
    check_model_by(0.05, "{\"family\": \"lenet\", \"classes\": 5}", &image_16);
}

static void test_gpt(void **state)
{
    (void)state;
    check_model("{\"family\": \"gpt\", \"layers\": 2, \"heads\": 2, \"width\": 8, \"context\": 6,"
                " \"vocabulary\": 11, \"bias\": true}",
                &tokens_6);
    check_model("{\"family\": \"gpt\", \"layers\": 1, \"heads\": 3, \"width\": 6, \"context\": 6,"
                " \"vocabulary\": 11, \"dropout\": 0.2}",
                &tokens_6);
}

#define FLATTEN          "{\"layer\": \"flatten\"}"
#define TANH             "{\"layer\": \"tanh\"}"
#define RELU             "{\"layer\": \"relu\"}"
#define GELU             "{\"layer\": \"gelu\"}"
#define SILU             "{\"layer\": \"silu\"}"
#define POSITION         "{\"layer\": \"position\"}"
#define DROPOUT          "{\"layer\": \"dropout\", \"rate\": 0.3}"
#define NORM             "{\"layer\": \"layer_norm\"}"
#define RMS              "{\"layer\": \"rms_norm\"}"
#define BATCH_NORM       "{\"layer\": \"batch_norm\"}"
#define GLOBAL           "{\"layer\": \"global_pool\"}"
#define LINEAR(n)        "{\"layer\": \"linear\", \"out\": " #n "}"
#define CONV(n)          "{\"layer\": \"conv2d\", \"kernel\": 3, \"padding\": 1, \"out\": " #n "}"
#define CONV_BY(more)    "{\"layer\": \"conv2d\", \"bias\": false, " more "}"
#define POOL(kind, more) "{\"layer\": \"" kind "_pool\", \"kernel\": 3" more "}"
#define EMBEDDING        "{\"layer\": \"embedding\", \"name\": \"words\", \"width\": 7}"
#define RESIDUAL(inner)  "{\"layer\": \"residual\", \"layers\": [" inner "]}"
#define PROJECTED(inner, shortcut)                                                                 \
    "{\"layer\": \"residual\", \"layers\": [" inner "], \"shortcut\": [" shortcut "]}"
#define END "," FLATTEN "," LINEAR(5) "]"

// Each list exercises another case of gradient placement: added in place, added afterwards, shared
// with the end of a block, or kept because a backward pass reads it.
static void test_residual_blocks(void **state)
{
    (void)state;
    const char *const lists[] = {
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(LINEAR(9) "," TANH "," LINEAR(6)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(NORM "," LINEAR(6) "," DROPOUT) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(TANH "," LINEAR(6)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(DROPOUT) "," TANH "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," TANH "," RESIDUAL(GELU "," DROPOUT) "," LINEAR(5) "]",
        "[" FLATTEN "," RESIDUAL(RELU "," LINEAR(12)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(
            LINEAR(6) "," RESIDUAL(TANH "," LINEAR(6)) "," GELU) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(5) "," RESIDUAL(TANH "," LINEAR(5)) "]",
        // Blocks of one layer, blocks that begin or end with others, and both.
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(LINEAR(6)) "," LINEAR(5) "]",
        "[" FLATTEN "," RESIDUAL(LINEAR(12)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(FLATTEN) "," TANH "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(5) "," RESIDUAL(RESIDUAL(TANH) "," TANH) "]",
        "[" FLATTEN "," LINEAR(5) "," RESIDUAL(TANH "," RESIDUAL(TANH)) "]",
        "[" FLATTEN "," LINEAR(5) "," RESIDUAL(RESIDUAL(RESIDUAL(RELU "," LINEAR(5)))) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(RESIDUAL(LINEAR(6) "," GELU) "," RESIDUAL(
            RESIDUAL(TANH) "," LINEAR(6))) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," RESIDUAL(RESIDUAL(NORM) "," RESIDUAL(NORM)) "," LINEAR(5) "]",
        // Shortcuts.
        "[" FLATTEN "," LINEAR(6) "," PROJECTED(TANH "," LINEAR(4), LINEAR(4)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," TANH "," PROJECTED(RELU, TANH) "," LINEAR(5) "]",
        "[" FLATTEN "," PROJECTED(RELU, LINEAR(12)) "," LINEAR(5) "]",
        "[" FLATTEN "," LINEAR(6) "," PROJECTED(RESIDUAL(TANH) "," LINEAR(5),
                                                RESIDUAL(GELU "," LINEAR(6)) "," LINEAR(5)) "]",
        "[" FLATTEN "," LINEAR(5) "," TANH "]",
        "[" CONV(3) "," RESIDUAL(CONV(3) "," TANH) "," FLATTEN "," LINEAR(5) "]",
        "[" CONV(3) "," RESIDUAL(TANH "," CONV(3)) "," TANH "," FLATTEN "," LINEAR(5) "]",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        check_model(lists[i], &image_4x3);
}

static void test_sequences(void **state)
{
    (void)state;
    check_model("[" EMBEDDING "," RESIDUAL(POSITION "," LINEAR(7)) "," LINEAR(11) "]", &tokens_6);
    check_model("[" EMBEDDING "," RESIDUAL(POSITION) "," LINEAR(11) "]", &tokens_6);
    check_model("[" EMBEDDING "," POSITION "," LINEAR(11) "," GELU "," LINEAR(
                    7) ","
                       "{\"layer\": \"linear\", \"out\": 11, \"tied\": \"words\"}]",
                &tokens_6);
#define ATTENTION(more) LINEAR(24) ",{\"layer\": \"attention\", \"heads\": 2" more "}," LINEAR(7)
    check_model("[" EMBEDDING "," RESIDUAL(RMS "," ATTENTION("")) "," LINEAR(11) "]", &tokens_6);
    check_model("[" EMBEDDING "," RESIDUAL(RMS "," ATTENTION(", \"rotary\": true")) "," RESIDUAL(
                    ATTENTION(", \"rotary\": 50, \"dropout\": 0.2")) "," LINEAR(11) "]",
                &tokens_6);
    // A backward pass reads the input of the rotary layer, so its output needs memory of its own.
    check_model("[" EMBEDDING "," LINEAR(12) "," TANH ",{\"layer\": \"attention\", \"heads\": 2,"
                                             " \"rotary\": true}," BATCH_NORM "," LINEAR(11) "]",
                &tokens_6);
}

// Padding, strides, groups, pools, and batch_norm alone and fused.
static void test_images(void **state)
{
    (void)state;
    const char *const lists[] = {
        "[" CONV_BY("\"out\": 6, \"kernel\": 3, \"groups\": 2, \"stride\": 2, \"padding\": "
                    "1") "," CONV_BY("\"out\": 6, \"kernel\": 2, \"groups\": 6") "," TANH END,
        "[" CONV(3) "," POOL("max", ", \"stride\": 2, \"padding\": 1") END,
        "[" CONV(3) "," POOL("avg", ", \"stride\": 2, \"padding\": 1") "," TANH END,
        "[" CONV(3) "," POOL("avg", "") "," SILU END,
        "[" CONV(6) "," TANH "," GLOBAL "," LINEAR(5) "]",
        "[" CONV(6) "," RELU "," RESIDUAL(CONV(6) "," SILU) "," GLOBAL "," LINEAR(5) "]",
        "[" BATCH_NORM "," CONV(3) "," BATCH_NORM "," TANH END,
        "[" CONV_BY("\"out\": 4, \"kernel\": 3") "," BATCH_NORM "," RELU "," CONV(3) END,
        "[" CONV(4) "," RESIDUAL(BATCH_NORM "," RELU "," CONV(4)) "," GLOBAL "," LINEAR(5) "]",
        "[" CONV(4) "," TANH "," RESIDUAL(CONV(4) "," BATCH_NORM) "," RELU END,
        "[" CONV(4) "," TANH "," RESIDUAL(CONV(4) "," BATCH_NORM) "," TANH END,
        "[" CONV(4) "," TANH "," PROJECTED(
            CONV_BY("\"out\": 3, \"kernel\": 3, \"stride\": "
                    "2, \"padding\": 1") "," BATCH_NORM "," RELU "," CONV_BY("\"out\": 3, "
                                                                             "\"kernel\": "
                                                                             "3, "
                                                                             "\"padding\": "
                                                                             "1") "," BATCH_NORM,
            CONV_BY("\"out\": 3, \"kernel\": 1, \"stride\": "
                    "2") "," BATCH_NORM) "," RELU END,
        "[" CONV_BY("\"out\": 4, \"kernel\": 3") "," BATCH_NORM "," RESIDUAL(RELU "," CONV(4)) END,
        "[" FLATTEN "," LINEAR(8) "," BATCH_NORM "," RELU "," LINEAR(5) "]",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        check_model(lists[i], &image_6x6x4);
}

static void test_values(void **state)
{
    (void)state;
    check_model("{\"family\": \"mlp\", \"hidden\": [8], \"activation\": \"silu\", \"classes\": 5}",
                &image_4x3);
    check_model("[" LINEAR(9) "," TANH "," LINEAR(3) "]", &features_7);
    check_model("[" LINEAR(9) "," RMS "," RESIDUAL(RMS "," LINEAR(9)) "," LINEAR(3) "," TANH "]",
                &features_7);
    const struct sample_shape images = {.height = 4, .width = 3, .channels = 2, .outputs = 2};
    check_model("[" FLATTEN "," LINEAR(2) "]", &images);
    check_model(
        "{\"model\": {\"family\": \"mlp\", \"hidden\": [8], \"activation\": \"gelu\","
        " \"classes\": 5}, \"loss\": {\"name\": \"cross_entropy\", \"label_smoothing\": 0.2}}",
        &image_4x3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),       cmocka_unit_test(test_lenet),
        cmocka_unit_test(test_gpt),       cmocka_unit_test(test_residual_blocks),
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_images),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
