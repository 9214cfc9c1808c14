// Fused layers give the same bits as separate ones. Each list is compiled twice: as it is, and with
// a dropout of rate 0 in between, which prevents fusion.
#include "tests/unit/trainer/model_fixture.h"
#include "trainer/model/compiler.h"

#define NOTHING         "{\"layer\": \"dropout\", \"rate\": 0}"
#define FLATTEN         "{\"layer\": \"flatten\"}"
#define TANH            "{\"layer\": \"tanh\"}"
#define GELU            "{\"layer\": \"gelu\"}"
#define NORM            "{\"layer\": \"layer_norm\"}"
#define RMS             "{\"layer\": \"rms_norm\"}"
#define BATCH_NORM      "{\"layer\": \"batch_norm\"}"
#define LINEAR(n)       "{\"layer\": \"linear\", \"out\": " #n "}"
#define WORDS           "{\"layer\": \"embedding\", \"name\": \"words\", \"width\": 8}"
#define TIED            "{\"layer\": \"linear\", \"out\": 11, \"tied\": \"words\", \"bias\": false}"
#define RESIDUAL(inner) "{\"layer\": \"residual\", \"layers\": [" inner "]}"
#define PROJECTED(inner, shortcut)                                                                 \
    "{\"layer\": \"residual\", \"layers\": [" inner "], \"shortcut\": [" shortcut "]}"

// `x` separates layers that could be fused: a comma, or NOTHING.
#define APART    "," NOTHING ","
#define GELUS(x) "[" FLATTEN "," LINEAR(9) x GELU x LINEAR(16) x GELU x LINEAR(5) "]"
#define BLOCKS(x)                                                                                  \
    "[" WORDS "," RESIDUAL(NORM "," LINEAR(8)) x RESIDUAL(NORM "," LINEAR(32) x GELU x LINEAR(8))  \
        x NORM "," TIED "]"
#define BLOCKS_RMS(x)                                                                              \
    "[" WORDS "," RESIDUAL(RMS "," LINEAR(8)) x RESIDUAL(                                          \
        RMS "," TANH "," PROJECTED(LINEAR(8), TANH) x RMS) x RMS "," LINEAR(11) "]"
#define RELU   "{\"layer\": \"relu\"}"
#define NORMED LINEAR(8) "," BATCH_NORM
#define WAY    TANH "," NORMED
#define ENDS(x)                                                                                    \
    "[" FLATTEN "," NORMED x RELU "," RESIDUAL(WAY) x RELU "," PROJECTED(WAY, WAY) x RELU          \
        "," RESIDUAL(WAY) x RELU "," LINEAR(5) "]"
#define NOT_FUSED                                                                                  \
    "[" WORDS                                                                                      \
    "," RESIDUAL(LINEAR(8) "," GELU) "," RESIDUAL(GELU "," LINEAR(8)) "," LINEAR(8) "," RESIDUAL(  \
        GELU "," LINEAR(8)) "," LINEAR(8) "," GELU                                                 \
                                          "," RESIDUAL(LINEAR(8)) "," BATCH_NORM                   \
                                                                  "," LINEAR(8) "," GELU "," RMS   \
                                                                                "," TIED "]"

static int done_by_others(const struct compiled_model *m)
{
    int count = 0;
    for (int i = 0; i < m->layer_count; i++)
        count += (m->layers[i].flags & LAYER_FUSED_INTO_PREVIOUS) != 0;
    return count;
}

static void check_pair(const char *together, const char *apart, const struct sample_shape *shape,
                       int fused, uint64_t seed)
{
    struct model_fixture f, g;
    model_fixture_begin(&f, together, shape, 3, seed);
    model_fixture_begin(&g, apart, shape, 3, seed);
    size_t size = model_block_size(f.model);
    assert_int_equal(done_by_others(f.model), fused);
    assert_int_equal(done_by_others(g.model), 0);
    assert_true(model_block_size(g.model) == size);
    for (size_t i = 0; i < size; i++)
        g.weights[i] = f.weights[i] += (float)(0.5 * rng_double(&f.a.rng) - 0.25);
    model_set_parameters(f.model, f.weights);
    model_set_parameters(g.model, g.weights);
    assert_true(model_fixture_train(&f, f.batch) == model_fixture_train(&g, g.batch));
    expect_same_bits(f.losses, g.losses, 3, "losses");
    for (int p = 0; p < f.count; p++)
        expect_same_bits(f.gradients + f.parameters[p].offset, g.gradients + g.parameters[p].offset,
                         (int64_t)f.parameters[p].count, f.parameters[p].name);
    model_fixture_end(&f);
    model_fixture_end(&g);
}

static void test_fused(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        check_pair(GELUS(","), GELUS(APART), &image_4x3, 2, seed);
        check_pair(BLOCKS(","), BLOCKS(APART), &tokens_6, 3, seed);
        check_pair(BLOCKS_RMS(","), BLOCKS_RMS(APART), &tokens_6, 3, seed);
        check_pair(ENDS(","), ENDS(APART), &image_4x3, 0, seed);
    }
}

// The gradients of both paths of a residual block are added by the norm at the start of one path,
// without a pass over memory of their own.
static void test_gradients_meet_in_norms(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    int norms = 0;
    if (compile_text(BLOCKS(","), &tokens_6, 3, &m, &e))
        fail_msg("%s", e.text);
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        norms += l->add;
        assert_true(l->sums[0].into == NONE && l->sums[1].into == NONE);
    }
    assert_int_equal(norms, 2);
    model_free(m);
}

// The batch_norm of the block before adds them as well, and also masks them by relu.
static void test_gradients_meet_in_batch_norms(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    int joins = 0, sums = 0;
    if (compile_text(ENDS(","), &image_4x3, 3, &m, &e))
        fail_msg("%s", e.text);
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        joins += l->norm.joins_gradients + (l->norm.joins_gradients && l->norm.b != NONE);
        sums += (l->sums[0].into != NONE) + (l->sums[1].into != NONE);
    }
    assert_int_equal(joins, 5); // three blocks, two of which add the gradients of their readers
    assert_int_equal(sums, 1);  // of the first relu, which ends no block
    model_free(m);
}

// Not fused: a gelu whose input or output others read, or that has no linear layer on both sides;
// another kind of norm.
static void test_not_fused(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    if (compile_text(NOT_FUSED, &tokens_6, 3, &m, &e))
        fail_msg("%s", e.text);
    assert_int_equal(done_by_others(m), 0);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_gradients_meet_in_norms),
        cmocka_unit_test(test_gradients_meet_in_batch_norms),
        cmocka_unit_test(test_not_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
