// Recomputation of blocks: the same bits in less memory.
#include "tests/unit/trainer/model_fixture.h"
#include "trainer/model/compiler.h"

#define BATCH_NORM      "{\"layer\": \"batch_norm\"}"
#define DROPOUT         "{\"layer\": \"dropout\", \"rate\": 0.3}"
#define FLATTEN         "{\"layer\": \"flatten\"}"
#define GELU            "{\"layer\": \"gelu\"}"
#define LINEAR(n)       "{\"layer\": \"linear\", \"out\": " #n "}"
#define NORM            "{\"layer\": \"layer_norm\"}"
#define RELU            "{\"layer\": \"relu\"}"
#define RMS             "{\"layer\": \"rms_norm\"}"
#define SILU            "{\"layer\": \"silu\"}"
#define TANH            "{\"layer\": \"tanh\"}"
#define WORDS           "{\"layer\": \"embedding\", \"name\": \"words\", \"width\": 8}"
#define TIED            "{\"layer\": \"linear\", \"out\": 11, \"tied\": \"words\", \"bias\": false}"
#define ATTENTION(more) "{\"layer\": \"attention\", \"heads\": 2" more "}"
#define ROTARY          ATTENTION(", \"rotary\": true, \"dropout\": 0.2")
#define RESIDUAL(inner) "{\"layer\": \"residual\", \"layers\": [" inner "]}"
#define PROJECTED(inner, shortcut)                                                                 \
    "{\"layer\": \"residual\", \"layers\": [" inner "], \"shortcut\": [" shortcut "]}"
#define NORMED       LINEAR(8) "," BATCH_NORM
#define WAY          TANH "," NORMED
#define MIX          RESIDUAL(NORM "," LINEAR(24) "," ATTENTION("") "," LINEAR(8) "," DROPOUT)
#define TURN         RESIDUAL(RMS "," LINEAR(24) "," ROTARY "," LINEAR(8) "," DROPOUT)
#define MLP(norm, f) RESIDUAL(norm "," LINEAR(32) "," f "," LINEAR(8) "," DROPOUT)
#define GPT          "{\"family\": \"gpt\", \"layers\": 3, \"heads\": 2, \"width\": 16, \"vocabulary\": 11"
#define CONV         "{\"layer\": \"conv2d\", \"out\": 4, \"kernel\": 3, \"padding\": 1, \"bias\": false}"
#define POOL         "{\"layer\": \"max_pool\", \"kernel\": 3, \"stride\": 1, \"padding\": 1}"

static const struct recompute_case {
    const char *name, *model;
    const struct sample_shape *shape;
    int blocks;
    bool smaller; // the arena is smaller
} cases[] = {
    {"gpt", GPT "}", &tokens_6, 3, true},
    {"gpt with dropout and biases", GPT ", \"dropout\": 0.3, \"bias\": true}", &tokens_6, 3, true},
    {"resnet", "{\"family\": \"resnet\", \"depth\": 20, \"classes\": 5}", &image_16, 9, true},
    {"bottlenecks", "{\"family\": \"resnet\", \"depth\": 50, \"classes\": 5}", &image_16, 16, true},
    {"rotary, silu, rms_norm",
     "[" WORDS "," TURN "," MLP(RMS, SILU) "," TURN "," MLP(RMS, SILU) "," RMS "," TIED "]",
     &tokens_6, 2, true},
    {"halves in the other order",
     "[" WORDS "," MLP(NORM, GELU) "," MIX "," MIX
                                   "," MLP(NORM, TANH) "," MLP(NORM, GELU) "," NORM "," TIED "]",
     &tokens_6, 4, true},
    {"a block at the end", "[" WORDS "," LINEAR(11) "," RESIDUAL(LINEAR(11) "," GELU) "]",
     &tokens_6, 1, false},
    {"blocks in a block",
     "[" WORDS "," RESIDUAL(NORM "," RESIDUAL(RMS "," LINEAR(8) "," SILU) "," NORM "," LINEAR(
         16) "," GELU "," PROJECTED(LINEAR(8), TANH "," LINEAR(8)) "," DROPOUT) "," NORM "," TIED
                                                                                "]",
     &tokens_6, 1, true},
    {"ends of blocks with batch_norm",
     "[" FLATTEN "," NORMED "," RELU "," RESIDUAL(WAY) "," RELU "," PROJECTED(
         WAY, WAY) "," RELU "," RESIDUAL(WAY) "," RELU "," LINEAR(5) "]",
     &image_4x3, 3, false},
    {"ends of inner blocks with batch_norm",
     "[" FLATTEN "," LINEAR(8) "," RESIDUAL(RESIDUAL(WAY) "," RELU "," RESIDUAL(
         WAY) "," RELU "," NORMED) "," RELU "," RESIDUAL(RELU "," NORMED) "," LINEAR(5) "]",
     &image_4x3, 2, false},
    {"images",
     "[" CONV "," RESIDUAL(
         BATCH_NORM "," RELU "," CONV "," POOL "," RELU
                    "," CONV) "," RELU "," RESIDUAL(CONV "," RELU "," POOL) "," FLATTEN
                                                                            "," LINEAR(5) "]",
     &image_6x6x4, 2, true},
};
enum { CASES = sizeof cases / sizeof *cases, MICRO_BATCH = 4 };

static struct compiled_model *planned(const struct recompute_case *c, bool recompute)
{
    struct error e;
    struct compiled_model *m;
    json_t *spec = json_of(c->model);
    if (json_is_array(spec))
        spec = json_pack("{s:o}", "layers", spec);
    const struct model_config config = {spec, NULL, c->shape, MICRO_BATCH, recompute};
    if (model_plan(&config, &m, &e) || model_allocate(m, &e))
        fail_msg("%s: %s", c->name, e.text);
    json_decref(spec);
    return m;
}

static void begin(struct model_fixture *f, const struct recompute_case *c, bool recompute)
{
    model_fixture_begin(f, c->model, c->shape, MICRO_BATCH, 7);
    model_free(f->model);
    f->model = planned(c, recompute);
    f->parameters = model_parameters(f->model, &f->count);
    for (int i = 0; i < f->count; i++) // no gain is 1 and no bias is 0
        for (size_t k = 0; k < f->parameters[i].count; k++)
            f->weights[f->parameters[i].offset + k] += (float)(0.5 * rng_double(&f->a.rng) - 0.25);
    model_set_parameters(f->model, f->weights);
}

// Both get the same batch and key; the second pass finds what the first one has left.
static void compare_pass(const struct recompute_case *c, struct model_fixture *f,
                         struct model_fixture *g, int64_t step)
{
    fill_batch(f, f->batch, MICRO_BATCH);
    fill_batch(g, g->batch, MICRO_BATCH);
    f->key.step = g->key.step = step;
    assert_true(model_fixture_train(f, f->batch) == model_fixture_train(g, g->batch));
    expect_same_bits(f->losses, g->losses, MICRO_BATCH, c->name);
    assert_int_equal(f->delivered, g->delivered);
    for (int p = 0; p < f->count; p++) {
        size_t at = f->parameters[p].offset;
        assert_int_equal(f->order[p], g->order[p]);
        expect_same_bits(f->gradients + at, g->gradients + at, (int64_t)f->parameters[p].count,
                         f->parameters[p].name);
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    for (const struct recompute_case *c = cases; c < cases + CASES; c++) {
        struct model_fixture f, g;
        begin(&f, c, false);
        begin(&g, c, true);
        print_message("%s: %zu bytes become %zu\n", c->name, model_memory(f.model),
                      model_memory(g.model));
        assert_int_equal(model_recomputed_blocks(f.model), 0);
        assert_int_equal(model_recomputed_blocks(g.model), c->blocks);
        assert_true(model_memory(g.model) <= model_memory(f.model));
        if (c->smaller)
            assert_true(model_memory(g.model) < model_memory(f.model));
        for (int64_t step = 0; step < 3; step++)
            compare_pass(c, &f, &g, step);
        model_fixture_end(&f);
        model_fixture_end(&g);
    }
}

// --- random lists --------------------------------------------------------------------------------

struct random_list {
    char text[1 << 15];
    size_t length;
    struct rng rng;
};

static void append_text(struct random_list *r, const char *text)
{
    r->length += (size_t)snprintf(r->text + r->length, sizeof r->text - r->length, "%s", text);
    must(r->length < sizeof r->text);
}

// One to four parts, each of which has rows of width 8 at both ends.
static void append_parts(struct random_list *r, int depth)
{
    static const char *const parts[] = {
        NORM,
        RMS,
        LINEAR(8),
        TANH,
        SILU,
        RELU,
        DROPOUT,
        GELU,
        BATCH_NORM,
        NORMED,
        MIX,
        LINEAR(32) "," GELU "," LINEAR(8),
        BATCH_NORM "," RELU,
        LINEAR(24) "," ATTENTION("") "," LINEAR(8),
        NORM "," LINEAR(24) "," ROTARY "," LINEAR(8),
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    uint64_t count = 1 + rng_below(&r->rng, 4);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t part = rng_below(&r->rng, PARTS + 6);
        append_text(r, i ? "," : "");
        if (part < PARTS || depth == 3) {
            append_text(r, parts[part % PARTS]);
            continue;
        }
        append_text(r, "{\"layer\": \"residual\", \"layers\": [");
        append_parts(r, depth + 1);
        if (part % 3 == 0) {
            append_text(r, "], \"shortcut\": [");
            append_parts(r, depth + 1);
        }
        append_text(r, "]}");
    }
}

static void test_random_lists(void **state)
{
    (void)state;
    static struct random_list r;
    int blocks = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct model_fixture f, g;
        r.length = 0;
        rng_seed(&r.rng, seed, 1);
        append_text(&r, "[" WORDS ",");
        append_parts(&r, 0);
        append_text(&r, "," RESIDUAL(NORM "," LINEAR(8)) ",");
        append_parts(&r, 1);
        append_text(&r, "," LINEAR(11) "]");
        const struct recompute_case c = {.name = r.text, .model = r.text, .shape = &tokens_6};
        begin(&f, &c, false);
        begin(&g, &c, true);
        blocks += model_recomputed_blocks(g.model);
        for (int64_t step = 0; step < 2; step++)
            compare_pass(&c, &f, &g, step);
        model_fixture_end(&f);
        model_fixture_end(&g);
    }
    assert_true(blocks > 150);
}

// --- layers in FP8 -------------------------------------------------------------------------------

// The second run quantises the same inputs with the same scales, also while it measures them.
static void test_quantised(void **state)
{
    (void)state;
    static const struct sample_shape tokens_8 = {
        .kind = SAMPLE_TOKENS, .context = 8, .vocabulary = 32};
    const struct recompute_case c = {
        .name = "gpt in FP8",
        .model = "{\"family\": \"gpt\", \"layers\": 3, \"heads\": 2, \"width\": 16, "
                 "\"vocabulary\": 32, \"dropout\": 0.2}",
        .shape = &tokens_8};
    enum { TENSORS = 3 * 4 * OPS_FP8_TENSORS };
    struct model_fixture f, g;
    int32_t exponents[TENSORS];
    assert_int_equal(ops_open(OPS_FP8, NULL), 0);
    begin(&f, &c, false);
    begin(&g, &c, true);
    assert_int_equal(g.model->fp8.count, TENSORS);
    uint32_t *before = aligned_block(&f.a, TENSORS * sizeof *before);
    uint32_t *after = aligned_block(&g.a, TENSORS * sizeof *after);
    for (int64_t step = 0; step < 3; step++) { // the first one measures
        memset(before, 0, TENSORS * sizeof *before);
        memset(after, 0, TENSORS * sizeof *after);
        model_begin_step(f.model, step ? exponents : NULL, before);
        model_begin_step(g.model, step ? exponents : NULL, after);
        compare_pass(&c, &f, &g, step);
        assert_memory_equal(before, after, TENSORS * sizeof *before);
        for (int i = 0; i < TENSORS; i++)
            exponents[i] = (int32_t)(before[i] >> 23) - 126;
    }
    model_fixture_end(&f);
    model_fixture_end(&g);
    ops_close();
    assert_int_equal(ops_open(OPS_AUTO, NULL), 0);
}

// A layer in FP8 after gelu reads the input of gelu, and writes `saved` while it reads: on a GPU
// the two would overwrite each other if they shared memory.
static void test_quantised_input_is_alive(void **state)
{
    (void)state;
    static const struct sample_shape tokens_8 = {
        .kind = SAMPLE_TOKENS, .context = 8, .vocabulary = 32};
    const struct recompute_case c = {
        .name = "gpt in FP8",
        .model = "{\"family\": \"gpt\", \"layers\": 3, \"heads\": 2, \"width\": 16, "
                 "\"vocabulary\": 32}",
        .shape = &tokens_8};
    int after_gelu = 0;
    assert_int_equal(ops_open(OPS_FP8, NULL), 0);
    struct compiled_model *m = planned(&c, true);
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->flags & LAYER_FUSED_GELU_BEFORE) {
            assert_true(m->plan.tensors[l[-1].x].last >= l->position);
            after_gelu++;
        }
    assert_int_equal(after_gelu, 3);
    model_free(m);
    ops_close();
    assert_int_equal(ops_open(OPS_AUTO, NULL), 0);
}

// --- the plan ------------------------------------------------------------------------------------

// Number of layers of the kind that run again.
static int times(const struct compiled_model *m, const char *kind)
{
    int count = 0;
    for (const struct layer *l = m->backward; l < m->backward + m->layer_count; l++)
        count += l->again && strcmp(l->kind->name, kind) == 0;
    return count;
}

// Values that nobody reads are not computed again: the last product of a block and the values after
// it. A dropout at the end draws only its mask.
static void test_only_what_is_read(void **state)
{
    (void)state;
    struct compiled_model *m = planned(&cases[1], true);
    assert_int_equal(times(m, "attention"), 3);
    assert_int_equal(times(m, "linear"), 3 * 3); // of four
    assert_int_equal(times(m, "gelu"), 3);
    assert_int_equal(times(m, "dropout"), 3 * 2);
    assert_int_equal(times(m, "residual"), 3); // the first half of each block
    for (const struct layer *l = m->backward; l < m->backward + m->layer_count; l++)
        if (strstr(l->name, "mlp") && strcmp(l->kind->name, "dropout") == 0)
            assert_int_equal(l->y, NONE);
    model_free(m);
}

// The kept memory grows by one value with each further block, and by little else.
static void test_memory_of_a_block(void **state)
{
    (void)state;
    static const struct sample_shape text = {
        .kind = SAMPLE_TOKENS, .context = 64, .vocabulary = 11};
    static const char form[] = "{\"family\": \"gpt\", \"layers\": %d, \"heads\": 2, \"width\": 64, "
                               "\"vocabulary\": 11}";
    size_t memory[2];
    for (int i = 0; i < 2; i++) {
        char model[128];
        snprintf(model, sizeof model, form, 4 + 4 * i);
        const struct recompute_case c = {.name = "gpt", .model = model, .shape = &text};
        struct compiled_model *m = planned(&c, true);
        memory[i] = model_memory(m);
        model_free(m);
    }
    size_t value = (size_t)MICRO_BATCH * 64 * 64 * sizeof(float);
    size_t statistics = 2 * 2 * (size_t)MICRO_BATCH * 64 * sizeof(float), keys = 4096;
    assert_true(memory[1] - memory[0] >= 4 * value);
    assert_true(memory[1] - memory[0] <= 4 * (value + statistics) + keys);
}

// Blocks with statistics over the whole step are not recomputed.
static void test_sync_blocks_stay(void **state)
{
    (void)state;
    const struct recompute_case c = {
        .name = "sync",
        .model = "{\"family\": \"resnet\", \"depth\": 20, \"classes\": 5, \"sync\": true}",
        .shape = &image_16};
    struct compiled_model *m = planned(&c, true);
    assert_int_equal(model_recomputed_blocks(m), 0);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_only_what_is_read),
        cmocka_unit_test(test_memory_of_a_block),
        cmocka_unit_test(test_sync_blocks_stay),
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_quantised_input_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
