// The guarantees of a pass: each gradient once, last layer first; the same bits whatever was
// computed before; an evaluation that does not depend on how many samples follow.
#include "tests/unit/trainer/model_fixture.h"

static const char *const mlp = "{\"family\": \"mlp\", \"hidden\": [40, 30], \"classes\": 5,"
                               " \"dropout\": 0.25}";
static const char *const lenet = "{\"family\": \"lenet\", \"classes\": 5}";
static const char *const gpt = "{\"family\": \"gpt\", \"layers\": 2, \"heads\": 2, \"width\": 16,"
                               " \"context\": 6, \"vocabulary\": 11, \"dropout\": 0.25}";
static const char *const resnet = "{\"family\": \"resnet\", \"depth\": 20, \"classes\": 5}";
static const char *const list =
    "[{\"layer\": \"embedding\", \"width\": 12}, {\"layer\": \"residual\", \"layers\":"
    " [{\"layer\": \"residual\", \"layers\": [{\"layer\": \"rms_norm\"},"
    " {\"layer\": \"linear\", \"out\": 12}]}, {\"layer\": \"silu\"},"
    " {\"layer\": \"linear\", \"out\": 36}, {\"layer\": \"attention\", \"heads\": 2, \"rotary\":"
    " true}], \"shortcut\": [{\"layer\": \"batch_norm\", \"sync\": true}]},"
    " {\"layer\": \"linear\", \"out\": 11}]";
static const char *const gpt_plain = "{\"family\": \"gpt\", \"layers\": 2, \"heads\": 2,"
                                     " \"width\": 16, \"context\": 6, \"vocabulary\": 11}";

struct family {
    const char *const *text;
    const struct sample_shape *shape;
};
static const struct family families[] = {{&mlp, &image_4x3},
                                         {&lenet, &image_16},
                                         {&gpt, &tokens_6},
                                         {&resnet, &image_16},
                                         {&list, &tokens_6}};
enum { FAMILIES = 5, MICRO_BATCH = 4 };

static void test_each_gradient_once(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        struct model_fixture f;
        bool seen[256] = {false};
        model_fixture_begin(&f, *families[i].text, families[i].shape, MICRO_BATCH, 1);
        model_fixture_train(&f, f.batch);
        assert_int_equal(f.delivered, f.count);
        for (int k = 0; k < f.count; k++) {
            assert_false(seen[f.order[k]]);
            seen[f.order[k]] = true;
        }
        // The weight of the first layer is complete last; in gpt the head shares it.
        assert_int_equal(f.order[f.count - 1], 0);
        model_fixture_end(&f);
    }
}

// Runs the passes that may happen between two micro-batches, with numbers that would spoil the
// results if they leaked.
static void run_other_passes(struct model_fixture *f)
{
    size_t size = model_block_size(f->model);
    float *weights = f->weights, *hurt = floats_new(&f->a, (int64_t)size);
    struct batch *other = batch_new(&f->shape, MICRO_BATCH);
    int32_t correct[MICRO_BATCH];
    struct error e;
    for (size_t i = 0; i < size; i++)
        hurt[i] = i % 3 ? NAN : 1e30f;
    fill_batch(f, other, MICRO_BATCH);
    f->weights = hurt;
    model_set_parameters(f->model, hurt);
    model_fixture_train(f, other);
    fill_batch(f, other, 1);
    assert_int_equal(model_evaluate(f->model, other, f->losses, correct, &e), 0);
    f->weights = weights;
    model_set_parameters(f->model, weights);
    batch_free(other);
}

static void test_no_memory_of_what_was_before(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        struct model_fixture f, g;
        model_fixture_begin(&f, *families[i].text, families[i].shape, MICRO_BATCH, 2);
        model_fixture_begin(&g, *families[i].text, families[i].shape, MICRO_BATCH, 2);
        int64_t size = (int64_t)model_block_size(f.model);
        model_fixture_train(&g, g.batch);
        run_other_passes(&f);
        model_fixture_train(&f, f.batch);
        expect_same_bits(f.losses, g.losses, MICRO_BATCH, "losses");
        for (int p = 0; p < f.count; p++)
            expect_same_bits(f.gradients + f.parameters[p].offset,
                             g.gradients + g.parameters[p].offset, (int64_t)f.parameters[p].count,
                             f.parameters[p].name);
        assert_true(size > 0);
        model_fixture_end(&f);
        model_fixture_end(&g);
    }
}

// Dropout follows the sample, not its place in the micro-batch; step and seed change it.
static void test_draws_follow_samples(void **state)
{
    (void)state;
    struct model_fixture f;
    struct batch *turned;
    float first[MICRO_BATCH];
    model_fixture_begin(&f, gpt, &tokens_6, MICRO_BATCH, 3);
    model_fixture_train(&f, f.batch);
    memcpy(first, f.losses, sizeof first);
    turned = batch_new(&f.shape, MICRO_BATCH);
    turned->count = MICRO_BATCH;
    for (int i = 0; i < MICRO_BATCH; i++) {
        int from = MICRO_BATCH - 1 - i;
        memcpy(turned->tokens + 6 * i, f.batch->tokens + 6 * from, 6 * sizeof(int32_t));
        memcpy(turned->targets + 6 * i, f.batch->targets + 6 * from, 6 * sizeof(int32_t));
        turned->samples[i] = f.batch->samples[from];
    }
    model_fixture_train(&f, turned);
    for (int i = 0; i < MICRO_BATCH; i++)
        assert_true(fabsf(f.losses[i] - first[MICRO_BATCH - 1 - i]) < 1e-6f);
    f.key.step++;
    model_fixture_train(&f, f.batch);
    assert_memory_not_equal(f.losses, first, sizeof first);
    f.key = (struct draw_key){f.key.seed + 1, f.key.step - 1};
    model_fixture_train(&f, f.batch);
    assert_memory_not_equal(f.losses, first, sizeof first);
    batch_free(turned);
    model_fixture_end(&f);
}

// Two dropout layers are independent: both keep a quarter of the values, not a half. The weight
// gradient of a dropped input is zero.
static void test_layers_draw_apart(void **state)
{
    (void)state;
    struct model_fixture f;
    int zero = 0;
    model_fixture_begin(&f,
                        "[{\"layer\": \"flatten\"}, {\"layer\": \"dropout\", \"rate\": 0.5},"
                        " {\"layer\": \"dropout\", \"rate\": 0.5},"
                        " {\"layer\": \"linear\", \"out\": 5}]",
                        &image_16, 1, 4);
    model_fixture_train(&f, f.batch);
    for (int i = 0; i < 256; i++)
        zero += f.gradients[5 * i] == 0;
    assert_true(zero > 170 && zero < 214);
    model_fixture_end(&f);
}

static void test_inputs_are_not_written(void **state)
{
    (void)state;
    struct model_fixture f;
    float before[MICRO_BATCH * 12];
    model_fixture_begin(&f,
                        "[{\"layer\": \"relu\"}, {\"layer\": \"flatten\"},"
                        " {\"layer\": \"linear\", \"out\": 5}]",
                        &image_4x3, MICRO_BATCH, 4);
    memcpy(before, f.batch->images, sizeof before);
    model_fixture_train(&f, f.batch);
    assert_memory_equal(f.batch->images, before, sizeof before);
    model_fixture_end(&f);
}

static void test_evaluation(void **state)
{
    (void)state;
    const char *const texts[] = {"{\"family\": \"mlp\", \"hidden\": [40], \"classes\": 5}", lenet,
                                 gpt_plain};
    for (int i = 0; i < 3; i++) {
        struct model_fixture f;
        float whole[MICRO_BATCH], few[MICRO_BATCH];
        int32_t hits[MICRO_BATCH], hit[MICRO_BATCH];
        struct error e;
        model_fixture_begin(&f, texts[i], families[i].shape, MICRO_BATCH, 5);
        assert_int_equal(model_evaluate(f.model, f.batch, whole, hits, &e), 0);
        model_fixture_train(&f, f.batch);
        expect_same_bits(f.losses, whole, MICRO_BATCH, "loss of training without dropout");
        for (int64_t n = 1; n < MICRO_BATCH; n++) {
            f.batch->count = n;
            assert_int_equal(model_evaluate(f.model, f.batch, few, hit, &e), 0);
            expect_same_bits(few, whole, n, "losses of the first samples alone");
            assert_memory_equal(hit, hits, (size_t)n * sizeof *hit);
        }
        model_fixture_end(&f);
    }
}

static double cross_entropy(const float *logits, int64_t n, int32_t target)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i]);
    return log(sum) - (double)logits[target];
}

static void test_next_logits(void **state)
{
    (void)state;
    struct model_fixture f;
    float whole[MICRO_BATCH], logits[11];
    int32_t hits[MICRO_BATCH], right = 0;
    double sum = 0;
    struct error e;
    model_fixture_begin(&f, gpt, &tokens_6, MICRO_BATCH, 6);
    assert_int_equal(model_evaluate(f.model, f.batch, whole, hits, &e), 0);
    for (int64_t length = 1; length <= 6; length++) {
        int32_t target = f.batch->targets[length - 1], best = 0;
        assert_int_equal(model_next_logits(f.model, f.batch->tokens, length, logits, &e), 0);
        sum += cross_entropy(logits, 11, target);
        for (int32_t i = 1; i < 11; i++)
            best = logits[i] > logits[best] ? i : best;
        right += best == target;
    }
    assert_true(fabs(sum / 6 - (double)whole[0]) < 1e-5);
    assert_int_equal(right, hits[0]);
    model_fixture_end(&f);

    model_fixture_begin(&f, mlp, &image_4x3, MICRO_BATCH, 6);
    assert_int_equal(model_next_logits(f.model, hits, 1, logits, &e), ERR_INVALID);
    model_fixture_end(&f);
}

static void expect_refused(struct model_fixture *f, const char *text)
{
    struct gradient_sink sink = {.ready = keep_gradient, .ctx = f};
    struct error e;
    f->delivered = 0;
    assert_int_equal(model_train(f->model, f->batch, &f->key, &sink, f->losses, &e), ERR_CORRUPT);
    assert_string_equal(e.text, text);
    assert_int_equal(f->delivered, 0);
    int32_t correct[MICRO_BATCH];
    assert_int_equal(model_evaluate(f->model, f->batch, f->losses, correct, &e), ERR_CORRUPT);
    assert_string_equal(e.text, text);
}

// Values to predict: the loss is the mean squared error, and no prediction counts as correct.
static void test_values(void **state)
{
    (void)state;
    struct model_fixture f;
    struct error e;
    float losses[MICRO_BATCH];
    int32_t correct[MICRO_BATCH] = {9, 9, 9, 9};
    model_fixture_begin(&f, "[{\"layer\": \"linear\", \"out\": 3}]", &features_7, MICRO_BATCH, 8);
    model_fixture_train(&f, f.batch);
    f.batch->count = 3;
    assert_int_equal(model_evaluate(f.model, f.batch, losses, correct, &e), 0);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int o = 0; o < 3; o++) {
            double y = (double)f.weights[f.parameters[1].offset + (size_t)o];
            for (int k = 0; k < 7; k++)
                y += (double)f.batch->images[7 * i + k] * (double)f.weights[3 * k + o];
            y -= (double)f.batch->values[3 * i + o];
            sum += y * y / 3;
        }
        assert_true(fabs(sum - (double)losses[i]) < 1e-5);
        assert_true(f.losses[i] == losses[i]);
        assert_int_equal(correct[i], 0);
    }
    assert_int_equal(correct[3], 9);
    model_fixture_end(&f);
}

// Label smoothing applies to training only.
static void test_smoothing(void **state)
{
    (void)state;
    struct model_fixture f, g;
    struct error e;
    float smooth[MICRO_BATCH], sharp[MICRO_BATCH];
    int32_t correct[MICRO_BATCH];
    const char *const text = "{\"model\": {\"family\": \"mlp\", \"hidden\": [4], \"classes\": 5},"
                             " \"loss\": {\"name\": \"cross_entropy\", \"label_smoothing\": 0.3}}";
    model_fixture_begin(&f, text, &image_4x3, MICRO_BATCH, 9);
    model_fixture_begin(&g, "{\"family\": \"mlp\", \"hidden\": [4], \"classes\": 5}", &image_4x3,
                        MICRO_BATCH, 9);
    assert_int_equal(model_evaluate(f.model, f.batch, smooth, correct, &e), 0);
    assert_int_equal(model_evaluate(g.model, g.batch, sharp, correct, &e), 0);
    expect_same_bits(smooth, sharp, MICRO_BATCH, "losses of an evaluation");
    model_fixture_train(&f, f.batch);
    model_fixture_train(&g, g.batch);
    assert_memory_not_equal(f.losses, g.losses, sizeof smooth);
    model_fixture_end(&f);
    model_fixture_end(&g);
}

static void test_values_out_of_range(void **state)
{
    (void)state;
    struct model_fixture f;
    model_fixture_begin(&f, mlp, &image_4x3, MICRO_BATCH, 7);
    f.batch->samples[2] = 812;
    f.batch->labels[2] = 5;
    expect_refused(&f, "sample 812 of the data set: label 5 at position 0 is outside 0..4");
    model_fixture_end(&f);
    model_fixture_begin(&f, gpt, &tokens_6, MICRO_BATCH, 7);
    f.batch->samples[1] = 44;
    f.batch->tokens[6 + 3] = -1;
    expect_refused(&f, "sample 44 of the data set: token -1 at position 3 is outside 0..10");
    f.batch->tokens[6 + 3] = 0;
    f.batch->targets[6 + 5] = 11;
    expect_refused(&f, "sample 44 of the data set: target 11 at position 5 is outside 0..10");
    model_fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_gradient_once),
        cmocka_unit_test(test_no_memory_of_what_was_before),
        cmocka_unit_test(test_draws_follow_samples),
        cmocka_unit_test(test_layers_draw_apart),
        cmocka_unit_test(test_inputs_are_not_written),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_next_logits),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_smoothing),
        cmocka_unit_test(test_values_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
