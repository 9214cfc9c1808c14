// Models whose linear layers multiply in FP8: which layers, their names, and their passes.
#include "tests/unit/trainer/model_fixture.h"
#include "trainer/ops/fp8.h"

static const struct sample_shape tokens_8 = {.kind = SAMPLE_TOKENS, .context = 8, .vocabulary = 32};
static const char gpt[] = "{\"family\": \"gpt\", \"layers\": 2, \"heads\": 2, \"width\": 16, "
                          "\"vocabulary\": 32, \"bias\": true}";

// Without attention, whose needs differ between CPUs and GPUs: this file tests both.
#define RESIDUAL                                                                                   \
    "{\"layer\": \"residual\", \"layers\": [{\"layer\": \"layer_norm\"}, {\"layer\": "             \
    "\"linear\", \"out\": 64}, {\"layer\": \"gelu\"}, {\"layer\": \"linear\", \"out\": 16}]}, "
static const char blocks[] = "[{\"layer\": \"embedding\", \"width\": 16}, " RESIDUAL RESIDUAL
                             "{\"layer\": \"layer_norm\"}, {\"layer\": \"linear\", \"out\": 32}]";

// Layers around gelu of which only one has a shape for FP8.
static const char first_alone[] =
    "[{\"layer\": \"embedding\", \"width\": 16}, {\"layer\": \"linear\", \"out\": 64}, {\"layer\": "
    "\"gelu\"}, {\"layer\": \"linear\", \"out\": 40}, {\"layer\": \"linear\", \"out\": 32}]";
static const char second_alone[] =
    "[{\"layer\": \"embedding\", \"width\": 40}, {\"layer\": \"linear\", \"out\": 64}, {\"layer\": "
    "\"gelu\"}, {\"layer\": \"linear\", \"out\": 16}, {\"layer\": \"linear\", \"out\": 32}]";

static int open_fp8(void **state)
{
    (void)state;
    struct error e;
    return ops_open(OPS_FP8, &e);
}

static int close_device(void **state)
{
    (void)state;
    ops_close();
    return 0;
}

static void test_layers_and_names(void **state)
{
    (void)state;
    static const char *const layers[] = {"attention.query_key_value", "attention.projection",
                                         "mlp.up", "mlp.down"};
    static const char *const parts[] = {"input", "weight", "gradient"};
    struct model_fixture f;
    int count;
    model_fixture_begin(&f, gpt, &tokens_8, 4, 1);
    const struct fp8_tensor *tensors = model_fp8_tensors(f.model, &count);
    assert_int_equal(count, 2 * 4 * OPS_FP8_TENSORS); // not the head
    for (int i = 0; i < count; i++) {
        char expected[TENSOR_NAME_MAX];
        snprintf(expected, sizeof expected, "blocks.%d.%s.%s", i / 12, layers[i / 3 % 4],
                 parts[i % 3]);
        assert_string_equal(tensors[i].name, expected);
    }
    model_fixture_end(&f);
}

static int count_tensors(const char *text, const struct sample_shape *shape, int64_t micro_batch)
{
    struct compiled_model *m;
    struct error e;
    int count, err = compile_text(text, shape, micro_batch, &m, &e);
    if (err) {
        assert_int_equal(err, ERR_INVALID);
        assert_non_null(strstr(e.text, "multiples of 16"));
        return 0;
    }
    model_fp8_tensors(m, &count);
    model_free(m);
    return count;
}

// All of rows, inputs and outputs are multiples of 16, and the layer is not the last.
static void test_shapes(void **state)
{
    (void)state;
    static const char two[] = "[{\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 32}, "
                              "{\"layer\": \"relu\"}, {\"layer\": \"linear\", \"out\": 5}]";
    static const char narrow[] = "[{\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 40}, "
                                 "{\"layer\": \"linear\", \"out\": 5}]";
    static const char mixed[] = "[{\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 40}, "
                                "{\"layer\": \"linear\", \"out\": 16}, {\"layer\": \"linear\", "
                                "\"out\": 48}, {\"layer\": \"linear\", \"out\": 5}]";
    assert_int_equal(count_tensors(two, &image_16, 16), 3);
    assert_int_equal(count_tensors(two, &image_16, 24), 0);
    assert_int_equal(count_tensors(two, &image_4x3, 16), 0);
    assert_int_equal(count_tensors(narrow, &image_16, 16), 0);
    assert_int_equal(count_tensors(mixed, &image_16, 32), 3);
    assert_int_equal(count_tensors(gpt, &tokens_8, 3), 0); // 24 rows
}

static int32_t exponent_of(uint32_t bits)
{
    return (int32_t)(bits >> 23) - 126;
}

// The pass that measures its tensors, and one with the scales that follow, have the same bits. Both
// are near the pass without quantisation, and evaluations are not quantised.
static void check_passes(const char *text)
{
    struct model_fixture f, g;
    int count;
    model_fixture_begin(&f, text, &tokens_8, 4, 3);
    model_fp8_tensors(f.model, &count);
    uint32_t *amaxes = aligned_block(&f.a, (size_t)count * sizeof *amaxes);
    int32_t *exponents = aligned_block(&f.a, (size_t)count * sizeof *exponents);
    memset(amaxes, 0, (size_t)count * sizeof *amaxes);
    model_begin_step(f.model, NULL, amaxes);
    double loss = model_fixture_train(&f, f.batch);
    int64_t size = (int64_t)model_block_size(f.model);
    float *measured = floats_copy(&f.a, size, f.gradients); // padding is not written
    for (int i = 0; i < count; i++) {
        assert_true(amaxes[i] > 0);
        exponents[i] = exponent_of(amaxes[i]);
    }
    model_begin_step(f.model, exponents, amaxes);
    assert_true(model_fixture_train(&f, f.batch) == loss);
    expect_same_bits(f.gradients, measured, size, "the gradients");

    ops_close(); // and without quantisation
    assert_int_equal(ops_open(OPS_AUTO, NULL), 0);
    model_fixture_begin(&g, text, &tokens_8, 4, 3);
    double exact = model_fixture_train(&g, g.batch), apart = 0, whole = 0;
    for (int p = 0; p < g.count; p++)
        for (size_t i = g.parameters[p].offset; i < g.parameters[p].offset + g.parameters[p].count;
             i++) {
            apart += pow((double)f.gradients[i] - (double)g.gradients[i], 2);
            whole += pow((double)g.gradients[i], 2);
        }
    assert_true(loss != exact && fabs(loss - exact) < 0.01 * exact);
    assert_true(apart > 0 && apart < 0.25 * 0.25 * whole);
    float losses[4], expected[4];
    int32_t correct[4];
    struct error e;
    assert_int_equal(model_evaluate(f.model, f.batch, losses, correct, &e), 0);
    assert_int_equal(model_evaluate(g.model, g.batch, expected, correct, &e), 0);
    assert_memory_equal(losses, expected, sizeof losses);
    model_fixture_end(&g);
    model_fixture_end(&f);
    open_fp8(NULL);
}

static void test_passes(void **state)
{
    (void)state;
    check_passes(blocks);
    check_passes(first_alone);
    check_passes(second_alone);
}

// The exponents decide the scales: with one that is too small, numbers are clamped.
static void test_exponents_set_the_scales(void **state)
{
    (void)state;
    struct model_fixture f;
    int count;
    model_fixture_begin(&f, blocks, &tokens_8, 4, 5);
    model_fp8_tensors(f.model, &count);
    uint32_t *amaxes = aligned_block(&f.a, (size_t)count * sizeof *amaxes);
    int32_t *exponents = aligned_block(&f.a, (size_t)count * sizeof *exponents);
    memset(amaxes, 0, (size_t)count * sizeof *amaxes);
    model_begin_step(f.model, NULL, amaxes);
    model_fixture_train(&f, f.batch);
    for (int i = 0; i < count; i++)
        exponents[i] = exponent_of(amaxes[i]);
    model_begin_step(f.model, exponents, amaxes);
    double before = model_fixture_train(&f, f.batch);
    for (int i = 0; i < count; i++) {
        exponents[i] -= 12;
        model_begin_step(f.model, exponents, amaxes);
        bool gradient = i % OPS_FP8_TENSORS == OPS_FP8_DY; // changes gradients alone
        assert_true((model_fixture_train(&f, f.batch) == before) == gradient);
        exponents[i] += 12;
    }
    model_fixture_end(&f);
}

// --- recomputation -------------------------------------------------------------------------------

// The input of the second layer is wider than what one thread block converts (kernels/quantise.cu).
#define WIDE                                                                                       \
    "{\"layer\": \"residual\", \"layers\": [{\"layer\": \"layer_norm\"}, {\"layer\": "             \
    "\"linear\", \"out\": 192}, {\"layer\": \"gelu\"}, {\"layer\": \"linear\", \"out\": 16}]}, "
static const char wide_blocks[] =
    "[{\"layer\": \"embedding\", \"width\": 16}, " WIDE WIDE
    "{\"layer\": \"layer_norm\"}, {\"layer\": \"linear\", \"out\": 32}]";

static void recompute_blocks(struct model_fixture *f, const char *text)
{
    struct error e;
    json_t *spec = json_pack("{s:o}", "layers", json_of(text));
    const struct model_config config = {
        .spec = spec, .shape = &f->shape, .micro_batch = 4, .recompute = true};
    model_free(f->model);
    if (model_plan(&config, &f->model, &e) || model_allocate(f->model, &e))
        fail_msg("%s", e.text);
    json_decref(spec);
    f->parameters = model_parameters(f->model, &f->count);
    model_set_parameters(f->model, f->weights);
}

// A block that runs forward twice has the same bits, also in the pass that measures.
static void test_recomputed_blocks(void **state)
{
    (void)state;
    struct model_fixture f, g;
    int count;
    model_fixture_begin(&f, wide_blocks, &tokens_8, 4, 9);
    model_fixture_begin(&g, wide_blocks, &tokens_8, 4, 9);
    recompute_blocks(&g, wide_blocks);
    assert_int_equal(model_recomputed_blocks(g.model), 2);
    model_fp8_tensors(f.model, &count);
    uint32_t *amaxes = aligned_block(&f.a, (size_t)count * sizeof *amaxes);
    uint32_t *again = aligned_block(&g.a, (size_t)count * sizeof *again);
    int32_t *exponents = aligned_block(&f.a, (size_t)count * sizeof *exponents);
    for (int step = 0; step < 3; step++) {
        memset(amaxes, 0, (size_t)count * sizeof *amaxes);
        memset(again, 0, (size_t)count * sizeof *again);
        model_begin_step(f.model, step ? exponents : NULL, amaxes);
        model_begin_step(g.model, step ? exponents : NULL, again);
        assert_true(model_fixture_train(&f, f.batch) == model_fixture_train(&g, g.batch));
        assert_memory_equal(again, amaxes, (size_t)count * sizeof *amaxes);
        for (int p = 0; p < f.count; p++)
            expect_same_bits(g.gradients + f.parameters[p].offset,
                             f.gradients + f.parameters[p].offset, (int64_t)f.parameters[p].count,
                             f.parameters[p].name);
        for (int i = 0; i < count; i++)
            exponents[i] = exponent_of(amaxes[i]);
    }
    model_fixture_end(&g);
    model_fixture_end(&f);
}

// --- lockstep ------------------------------------------------------------------------------------

enum { LOCKSTEP = 2, LOCKSTEP_SAMPLES = 16 };
static const struct sample_shape image_4x4 = {.height = 4, .width = 4, .channels = 1, .classes = 5};
static const char synchronised[] =
    "[{\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 16}, {\"layer\": "
    "\"batch_norm\", \"sync\": true}, {\"layer\": \"linear\", \"out\": 5}]";

// The gradients of two micro-batches, in the fixture of each. The model is that of the first.
static void run_lockstep(struct model_fixture of[LOCKSTEP])
{
    struct gradient_sink sinks[LOCKSTEP];
    const struct batch *batches[LOCKSTEP];
    float losses[LOCKSTEP * LOCKSTEP_SAMPLES];
    struct error e;
    int count;
    for (int k = 0; k < LOCKSTEP; k++) {
        model_fixture_begin(&of[k], synchronised, &image_4x4, LOCKSTEP_SAMPLES, 7 + (uint64_t)k);
        sinks[k] = (struct gradient_sink){.ready = keep_gradient, .ctx = &of[k]};
        batches[k] = of[k].batch;
    }
    for (int i = 0; i < LOCKSTEP_SAMPLES * 16; i++)
        of[0].batch->images[i] *= 32; // so that the scales of their inputs differ
    model_fp8_tensors(of[0].model, &count);
    uint32_t *amaxes = aligned_block(&of[0].a, (size_t)count * sizeof *amaxes);
    memset(amaxes, 0, (size_t)count * sizeof *amaxes);
    model_begin_step(of[0].model, NULL, amaxes);
    const struct model_lockstep t = {.batches = batches,
                                     .sinks = sinks,
                                     .losses = losses,
                                     .count = LOCKSTEP,
                                     .step_count = LOCKSTEP};
    if (model_train_lockstep(of[0].model, &t, &of[0].key, &e))
        fail_msg("%s", e.text);
}

// A micro-batch that measures its tensors keeps its own scales until its backward pass, which comes
// after the forward passes of the others.
static void test_lockstep_measures_each_micro_batch(void **state)
{
    (void)state;
    struct model_fixture quantised[LOCKSTEP], exact[LOCKSTEP];
    run_lockstep(quantised);
    ops_close();
    assert_int_equal(ops_open(OPS_AUTO, NULL), 0);
    run_lockstep(exact);
    for (int k = 0; k < LOCKSTEP; k++) {
        const struct parameter *weight = &exact[k].parameters[0];
        double apart = 0, whole = 0;
        for (size_t i = weight->offset; i < weight->offset + weight->count; i++) {
            apart += pow((double)quantised[k].gradients[i] - (double)exact[k].gradients[i], 2);
            whole += pow((double)exact[k].gradients[i], 2);
        }
        assert_true(apart > 0 && apart < 0.25 * 0.25 * whole);
    }
    for (int k = 0; k < LOCKSTEP; k++) {
        model_fixture_end(&exact[k]);
        model_fixture_end(&quantised[k]);
    }
    open_fp8(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_and_names),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_exponents_set_the_scales),
        cmocka_unit_test(test_recomputed_blocks),
        cmocka_unit_test(test_lockstep_measures_each_micro_batch),
    };
    return cmocka_run_group_tests(tests, open_fp8, close_device);
}
