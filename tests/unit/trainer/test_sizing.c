// The choice of micro-batch sizes and of recomputation by memory.
#include "tests/unit/trainer/model_fixture.h"
#include "trainer/loop/sizing.h"
#include "trainer/ops/device.h"

#define GPT                                                                                        \
    "\"model\": {\"family\": \"gpt\", \"layers\": 4, \"heads\": 2, \"width\": 16, "                \
    "\"vocabulary\": 11}, \"optimizer\": {\"name\": \"adamw\"}"
#define MLP                                                                                        \
    "\"model\": {\"family\": \"mlp\", \"hidden\": [8], \"classes\": 5}, \"optimizer\": "           \
    "{\"name\": \"sgd\"}"

static const size_t plenty = (size_t)1 << 40;
static const struct sample_shape rows = {
    .kind = SAMPLE_FEATURES, .height = 1, .width = 1, .channels = 7, .classes = 5};

struct choice {
    int64_t micro_batch;
    int blocks;
    size_t bytes;
};

// The request's `trainer` is made of `keys`.
static int choose(struct sizing_request r, const char *keys, struct choice *out, struct error *e)
{
    char text[512];
    struct compiled_model *m;
    snprintf(text, sizeof text, "{%s}", keys);
    json_t *trainer = json_of(text);
    r.trainer = trainer;
    int err = sizing_plan(&r, &m, e);
    if (!err)
        *out = (struct choice){model_micro_batch(m), model_recomputed_blocks(m),
                               sizing_bytes(trainer, m)};
    else
        assert_null(m);
    model_free(m);
    json_decref(trainer);
    return err;
}

static struct choice chosen(struct sizing_request r, const char *keys)
{
    struct choice c = {0};
    struct error e;
    if (choose(r, keys, &c, &e))
        fail_msg("%s", e.text);
    return c;
}

static void assert_choice(struct choice c, int64_t micro_batch, int blocks)
{
    assert_int_equal(c.micro_batch, micro_batch);
    assert_int_equal(c.blocks, blocks);
}

// Memory of which all but the reserve is so many bytes.
static size_t memory_for(size_t bytes)
{
    return bytes + bytes / 8;
}

static void test_given_size(void **state)
{
    (void)state;
    struct sizing_request r = {
        .shape = &tokens_6, .global_batch = 24, .micro_batch = 12, .memory = plenty};
    struct choice plain = chosen(r, GPT ", \"recompute\": \"none\"");
    struct choice blocks = chosen(r, GPT ", \"recompute\": \"blocks\"");
    assert_choice(plain, 12, 0);
    assert_choice(blocks, 12, 4);
    assert_true(blocks.bytes < plain.bytes);
    assert_choice(chosen(r, GPT ", \"recompute\": \"auto\""), 12, 0);
    assert_choice(chosen(r, GPT), 12, 0);
    r.memory = memory_for(plain.bytes);
    assert_choice(chosen(r, GPT), 12, 0);
    r.memory = plain.bytes; // nothing stays free
    assert_choice(chosen(r, GPT), 12, 4);
    assert_choice(chosen(r, GPT ", \"recompute\": \"none\""), 12, 0);
    r.memory = 1; // the allocation will fail
    assert_choice(chosen(r, GPT), 12, 4);
}

// Weights, sums of gradients, and two moments; an optimizer without moments leaves more.
static void test_memory_of_the_optimizer_counts(void **state)
{
    (void)state;
    struct sizing_request r = {
        .shape = &rows, .global_batch = 24, .micro_batch = 12, .memory = plenty};
    size_t sgd = chosen(r, MLP).bytes;
    size_t adamw = chosen(r, "\"model\": {\"family\": \"mlp\", \"hidden\": [8], \"classes\": 5}, "
                             "\"optimizer\": {\"name\": \"adamw\"}")
                       .bytes;
    size_t block = 64 + 16 + 48 + 16; // 7x8, 8, 8x5 and 5 floats, each padded to 16
    assert_int_equal(adamw - sgd, 2 * block * sizeof(float));
}

static void test_chosen_size(void **state)
{
    (void)state;
    const int64_t good = OPS_GOOD_POSITIONS / 6;
    struct sizing_request r = {.shape = &tokens_6, .memory = plenty};
    static const struct {
        int64_t global, size;
    } cases[] = {{1, 1}, {7, 1}, {8, 1}, {24, 3}, {64, 8}, {62, 2}, {127 * 8, 127}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        r.global_batch = cases[i].global;
        assert_choice(chosen(r, GPT), cases[i].size, 0);
    }
    r.global_batch = 8 * good;
    assert_choice(chosen(r, GPT), good, 0);
    r.global_batch = 80 * good;
    assert_choice(chosen(r, GPT), good, 0); // no larger than good
}

static void test_chosen_size_by_kind(void **state)
{
    (void)state;
    static const struct sample_shape long_text = {
        .kind = SAMPLE_TOKENS, .context = 2 * OPS_GOOD_POSITIONS, .vocabulary = 3};
    static const char words[] =
        "\"model\": {\"layers\": [{\"layer\": \"embedding\", \"width\": 2}, {\"layer\": "
        "\"linear\", \"out\": 3}]}, \"optimizer\": {\"name\": \"sgd\"}";
    struct sizing_request r = {.shape = &rows, .global_batch = 1 << 20, .memory = plenty};
    assert_choice(chosen(r, MLP), OPS_GOOD_ROWS, 0);
    r.shape = &image_4x3;
    r.global_batch = 1 << 18;
    assert_choice(chosen(r, MLP), OPS_GOOD_IMAGES, 0);
    r.shape = &long_text;
    r.global_batch = 16;
    assert_choice(chosen(r, words), 1, 0);
}

// More micro-batches than a step may have: they become larger than good ones.
static void test_huge_batch(void **state)
{
    (void)state;
    struct sizing_request r = {.shape = &rows, .memory = plenty};
    struct choice c;
    struct error e;
    r.global_batch = (int64_t)LIMIT_MICRO_BATCHES * (OPS_GOOD_ROWS + 1);
    assert_choice(chosen(r, MLP), OPS_GOOD_ROWS + 1, 0);
    r.global_batch = 1000000007; // a prime
    assert_int_equal(choose(r, MLP, &c, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "trainer.global_batch_size"));
}

// As memory shrinks, micro-batches do; recomputation comes after the smallest of them.
static void test_size_by_memory(void **state)
{
    (void)state;
    struct sizing_request r = {.shape = &tokens_6, .global_batch = 64, .memory = plenty};
    size_t bytes[4], size = 8;
    for (int i = 0; i < 4; i++, size /= 2) {
        struct choice c = chosen(r, GPT);
        assert_choice(c, (int64_t)size, 0);
        bytes[i] = c.bytes;
        r.memory = c.bytes; // less than it needs with the reserve
    }
    assert_choice(chosen(r, GPT ", \"recompute\": \"none\""), 1, 0);
    struct choice c = chosen(r, GPT);
    assert_true(c.blocks == 4 && c.micro_batch >= 1 && c.bytes < bytes[3]);
    r.memory = bytes[0];
    c = chosen(r, GPT ", \"recompute\": \"blocks\"");
    assert_choice(c, 8, 4);
}

static void test_nothing_to_recompute(void **state)
{
    (void)state;
    struct sizing_request r = {
        .shape = &rows, .global_batch = 24, .micro_batch = 12, .memory = plenty};
    struct choice c;
    struct error e;
    assert_int_equal(choose(r, MLP ", \"recompute\": \"blocks\"", &c, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "no residual block"));
    r.memory = 1;
    assert_choice(chosen(r, MLP), 12, 0); // auto
}

static void test_errors_of_models(void **state)
{
    (void)state;
    struct sizing_request r = {.shape = &rows, .global_batch = 24, .memory = plenty};
    struct choice c;
    struct error e;
    assert_int_equal(choose(r, "\"model\": {\"layers\": [{\"layer\": \"linaer\"}]}", &c, &e),
                     ERR_INVALID);
    assert_non_null(strstr(e.text, "linear"));
}

// The memory of this machine is at least a megabyte for each core, and not absurd.
static void test_memory_of_a_slot(void **state)
{
    (void)state;
    assert_true(ops_memory() > (size_t)1 << 20 && ops_memory() < (size_t)1 << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_size),
        cmocka_unit_test(test_memory_of_the_optimizer_counts),
        cmocka_unit_test(test_chosen_size),
        cmocka_unit_test(test_chosen_size_by_kind),
        cmocka_unit_test(test_huge_batch),
        cmocka_unit_test(test_size_by_memory),
        cmocka_unit_test(test_nothing_to_recompute),
        cmocka_unit_test(test_errors_of_models),
        cmocka_unit_test(test_memory_of_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
