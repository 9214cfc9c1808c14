// Specifications: the layers of each family, their initial values, and the messages about mistakes.
#include "tests/unit/trainer/model_fixture.h"

static const struct sample_shape image_28 = {
    .height = 28, .width = 28, .channels = 1, .classes = 10};
static const struct sample_shape tokens_64 = {
    .kind = SAMPLE_TOKENS, .context = 64, .vocabulary = 256};

struct expected {
    const char *name;
    int64_t shape[TENSOR_RANK_MAX]; // ends with 0
    bool decay;
};

static void expect_parameters(const char *text, const struct sample_shape *shape,
                              const struct expected *list, int length)
{
    struct model_fixture f;
    model_fixture_begin(&f, text, shape, 2, 1);
    size_t offset = 0;
    assert_int_equal(f.count, length);
    for (int i = 0; i < length; i++) {
        const struct parameter *p = &f.parameters[i];
        size_t count = 1;
        int rank = 0;
        assert_string_equal(p->name, list[i].name);
        for (; rank < TENSOR_RANK_MAX && list[i].shape[rank]; rank++) {
            assert_int_equal(p->shape[rank], list[i].shape[rank]);
            count *= (size_t)p->shape[rank];
        }
        assert_int_equal(p->rank, rank);
        assert_int_equal(p->count, count);
        assert_int_equal(p->decay, list[i].decay);
        assert_int_equal(p->offset, offset);
        offset += (count + 15) / 16 * 16;
    }
    assert_int_equal(model_block_size(f.model), offset);
    model_fixture_end(&f);
}

static void test_lenet_parameters(void **state)
{
    (void)state;
    const struct expected list[] = {
        {"conv1.weight", {5, 5, 1, 6}, true},  {"conv1.bias", {6}, false},
        {"conv2.weight", {5, 5, 6, 16}, true}, {"conv2.bias", {16}, false},
        {"dense1.weight", {400, 120}, true},   {"dense1.bias", {120}, false},
        {"dense2.weight", {120, 84}, true},    {"dense2.bias", {84}, false},
        {"output.weight", {84, 10}, true},     {"output.bias", {10}, false},
    };
    expect_parameters("{\"family\": \"lenet\"}", &image_28, list, 10);
}

static void test_gpt_parameters(void **state)
{
    (void)state;
    const struct expected list[] = {
        {"token_embedding.weight", {256, 8}, true},
        {"position_embedding.weight", {64, 8}, true},
        {"blocks.0.attention.norm.weight", {8}, false},
        {"blocks.0.attention.query_key_value.weight", {8, 24}, true},
        {"blocks.0.attention.projection.weight", {8, 8}, true},
        {"blocks.0.mlp.norm.weight", {8}, false},
        {"blocks.0.mlp.up.weight", {8, 32}, true},
        {"blocks.0.mlp.down.weight", {32, 8}, true},
        {"norm.weight", {8}, false},
    };
    expect_parameters("{\"family\": \"gpt\", \"layers\": 1, \"heads\": 2, \"width\": 8,"
                      " \"context\": 64}",
                      &tokens_64, list, 9);
}

static void test_mlp_parameters(void **state)
{
    (void)state;
    const struct expected list[] = {
        {"hidden.0.weight", {784, 20}, true}, {"hidden.0.bias", {20}, false},
        {"hidden.1.weight", {20, 30}, true},  {"hidden.1.bias", {30}, false},
        {"output.weight", {30, 10}, true},    {"output.bias", {10}, false},
    };
    expect_parameters("{\"family\": \"mlp\", \"hidden\": [20, 30]}", &image_28, list, 6);
}

// A family has as many outputs as the data has values or classes.
static void test_outputs_follow_the_data(void **state)
{
    (void)state;
    const struct sample_shape values = {
        .kind = SAMPLE_FEATURES, .height = 1, .width = 1, .channels = 5, .outputs = 1};
    const struct sample_shape classes = {
        .kind = SAMPLE_FEATURES, .height = 1, .width = 1, .channels = 5, .classes = 3};
    const struct expected one[] = {
        {"hidden.0.weight", {5, 4}, true},
        {"hidden.0.bias", {4}, false},
        {"output.weight", {4, 1}, true},
        {"output.bias", {1}, false},
    };
    const struct expected three[] = {
        {"hidden.0.weight", {5, 4}, true},
        {"hidden.0.bias", {4}, false},
        {"output.weight", {4, 3}, true},
        {"output.bias", {3}, false},
    };
    expect_parameters("{\"family\": \"mlp\", \"hidden\": [4]}", &values, one, 4);
    expect_parameters("{\"family\": \"mlp\", \"hidden\": [4]}", &classes, three, 4);
}

// The numbers of torchvision, and the published 0.27 million of ResNet-20.
static void test_resnet_parameters(void **state)
{
    (void)state;
    static const struct {
        int depth;
        int64_t classes;
        size_t expected;
    } cases[] = {{20, 10, 272474},     {32, 10, 466906},     {56, 10, 855770},
                 {18, 1000, 11689512}, {34, 1000, 21797672}, {50, 1000, 25557032}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sample_shape images = {
            .height = 32, .width = 32, .channels = 3, .classes = cases[i].classes};
        json_t *spec = json_pack("{s:s, s:i, s:I}", "family", "resnet", "depth", cases[i].depth,
                                 "classes", (json_int_t)cases[i].classes);
        struct compiled_model *m;
        struct error e;
        size_t learnt = 0;
        int count;
        if (model_compile(spec, NULL, &images, 2, &m, &e))
            fail_msg("resnet %d: %s", cases[i].depth, e.text);
        const struct parameter *p = model_parameters(m, &count);
        for (int k = 0; k < count; k++)
            learnt += p[k].momentum > 0 ? 0 : p[k].count;
        assert_int_equal(learnt, cases[i].expected);
        model_free(m);
        json_decref(spec);
    }
}

static const char *const cnn =
    "[{\"layer\": \"conv2d\", \"out\": 32, \"kernel\": 3, \"padding\": 1}, {\"layer\": \"relu\"},"
    " {\"layer\": \"max_pool\", \"kernel\": 2},"
    " {\"layer\": \"conv2d\", \"out\": 64, \"kernel\": 3, \"padding\": 1}, {\"layer\": \"relu\"},"
    " {\"layer\": \"max_pool\", \"kernel\": 2}, {\"layer\": \"flatten\"},"
    " {\"layer\": \"linear\", \"out\": 128}, {\"layer\": \"relu\"},"
    " {\"layer\": \"linear\", \"name\": \"output\", \"out\": 10}]";

static void test_list_parameters(void **state)
{
    (void)state;
    const struct expected list[] = {
        {"0.weight", {3, 3, 1, 32}, true},  {"0.bias", {32}, false},
        {"3.weight", {3, 3, 32, 64}, true}, {"3.bias", {64}, false},
        {"7.weight", {3136, 128}, true},    {"7.bias", {128}, false},
        {"output.weight", {128, 10}, true}, {"output.bias", {10}, false},
    };
    expect_parameters(cnn, &image_28, list, 8);
    const struct expected block[] = {
        {"b.shortcut.0.weight", {1, 1, 4, 6}, true},
        {"b.norm.weight", {4}, false},
        {"b.norm.bias", {4}, false},
        {"b.norm.running_mean", {4}, false},
        {"b.norm.running_var", {4}, false},
        {"b.1.weight", {2, 3, 3, 2, 3}, true},
        {"2.weight", {6, 5}, true},
        {"2.bias", {5}, false},
    };
    expect_parameters(
        "[{\"layer\": \"residual\", \"name\": \"b\", \"layers\": [{\"layer\": \"batch_norm\","
        " \"name\": \"norm\"}, {\"layer\": \"conv2d\", \"groups\": 2, \"out\": 6,"
        " \"kernel\": 3, \"padding\": 1, \"bias\": false}], \"shortcut\":"
        " [{\"layer\": \"conv2d\", \"kernel\": 1, \"out\": 6, \"bias\": false}]},"
        " {\"layer\": \"global_pool\"}, {\"layer\": \"linear\", \"out\": 5}]",
        &image_6x6x4, block, 8);
}

static void expect_flops(const char *spec, const struct sample_shape *shape, double expected)
{
    struct compiled_model *m;
    struct error e;
    if (compile_text(spec, shape, 2, &m, &e))
        fail_msg("%s", e.text);
    assert_true(model_flops(m) == expected);
    model_free(m);
}

static void test_flops(void **state)
{
    (void)state;
    // The first layer has no gradient of its input.
    expect_flops("{\"family\": \"mlp\", \"hidden\": [20]}", &image_28,
                 2 * 2 * 784 * 20 + 3 * 2 * 20 * 10);
    expect_flops("{\"family\": \"lenet\"}", &image_28,
                 2 * 2. * 28 * 28 * 6 * 25 +
                     3 * 2. * (100 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10));
    expect_flops("{\"family\": \"gpt\", \"layers\": 3, \"heads\": 2, \"width\": 8,"
                 " \"context\": 64}",
                 &tokens_64, 3 * 2. * 64 * (3 * (12 * 8 * 8 + 2 * 64 * 8) + 256 * 8));
    expect_flops(cnn, &image_28,
                 2 * 2. * 784 * 32 * 9 + 3 * 2. * (196 * 64 * 9 * 32 + 3136 * 128 + 128 * 10));
    // 1,814,073,344 multiplications and additions forward, as torchvision has it; the first layer
    // (112 x 112 x 64 filters of 7 x 7 x 3) has no gradient of its input.
    const struct sample_shape large = {.height = 224, .width = 224, .channels = 3, .classes = 1000};
    expect_flops("{\"family\": \"resnet\", \"depth\": 18, \"classes\": 1000}", &large,
                 3 * 2. * 1814073344 - 2. * 112 * 112 * 64 * 147);
}

static json_int_t number(const json_t *v, const char *key)
{
    assert_true(json_is_number(json_object_get(v, key)));
    return (json_int_t)json_number_value(json_object_get(v, key));
}

static const char *text(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

static void test_description(void **state)
{
    (void)state;
    struct model_fixture f;
    json_t *d, *layer;
    size_t i;
    json_int_t parameters = 0, flops = 0;
    model_fixture_begin(&f, cnn, &image_28, 2, 1);
    assert_int_equal(model_describe(f.model, &d), 0);
    const json_t *layers = json_object_get(d, "layers");
    assert_int_equal(json_array_size(layers), 10);
    json_array_foreach((json_t *)layers, i, layer)
    {
        parameters += number(layer, "parameters");
        flops += number(layer, "flops");
    }
    assert_int_equal(number(d, "parameters"), parameters);
    assert_int_equal(parameters, 288 + 32 + 18432 + 64 + 401408 + 128 + 1280 + 10);
    assert_int_equal(number(d, "parameter_bytes"), 4 * model_block_size(f.model));
    assert_int_equal(number(d, "flops_per_sample"), flops);
    assert_true(model_flops(f.model) == (double)flops);
    layer = json_array_get(layers, 3);
    assert_string_equal(text(layer, "name"), "3");
    assert_string_equal(text(layer, "kind"), "conv2d");
    assert_string_equal(text(layer, "in"), "14x14x32");
    assert_string_equal(text(layer, "out"), "14x14x64");
    assert_int_equal(number(layer, "parameters"), 18432 + 64);
    assert_int_equal(number(layer, "activation_bytes"), 4 * (2 * 14 * 14 * 64 + 3 * 18432));
    assert_int_equal(number(json_array_get(layers, 4), "activation_bytes"), 0); // computed in place
    assert_int_equal(number(json_array_get(layers, 5), "activation_bytes"),
                     2 * 4 * (2 * 7 * 7 * 64));
    // Values and gradients share memory: more than the values alone, less than twice.
    json_int_t values = 2 * 4 * (784 * 32 + 196 * 32 + 196 * 64 + 49 * 64);
    assert_in_range(number(d, "activation_bytes"), values, 2 * values + 4 * 3 * 500000);
    json_decref(d);
    model_fixture_end(&f);

    model_fixture_begin(&f, "{\"family\": \"resnet\", \"depth\": 20}", &image_28, 2, 1);
    assert_int_equal(model_describe(f.model, &d), 0);
    assert_int_equal(number(d, "parameters"), 272474 - 9 * 2 * 16); // of one channel, not three
    json_decref(d);
    model_fixture_end(&f);

    // A weight that two layers share counts once.
    model_fixture_begin(&f,
                        "{\"family\": \"gpt\", \"layers\": 1, \"heads\": 2, \"width\": 8,"
                        " \"context\": 64}",
                        &tokens_64, 2, 1);
    assert_int_equal(model_describe(f.model, &d), 0);
    layers = json_object_get(d, "layers");
    assert_int_equal(number(json_array_get(layers, 0), "parameters"), 256 * 8);
    assert_int_equal(number(json_array_get(layers, json_array_size(layers) - 1), "parameters"), 0);
    json_decref(d);
    model_fixture_end(&f);
}

// --- initial values ------------------------------------------------------------------------------

static const struct parameter *find_parameter(const struct model_fixture *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->parameters[i].name, name) == 0)
            return &f->parameters[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

static void expect_normal(const struct model_fixture *f, const char *name, double deviation)
{
    const struct parameter *p = find_parameter(f, name);
    double sum = 0, squares = 0, n = (double)p->count, far = 0;
    for (size_t i = 0; i < p->count; i++) {
        double x = (double)f->weights[p->offset + i];
        sum += x;
        squares += x * x;
        far += fabs(x) > 2 * deviation;
    }
    assert_true(fabs(sum / n) < 4 * deviation / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / deviation - 1) < 3 / sqrt(2 * n));
    // as many outliers as in a normal distribution
    assert_true(fabs(far / n - 0.0455) < 4 * sqrt(0.0455 / n));
}

static void expect_constant(const struct model_fixture *f, const char *name, float value)
{
    const struct parameter *p = find_parameter(f, name);
    for (size_t i = 0; i < p->count; i++)
        assert_true(f->weights[p->offset + i] == value);
}

static void test_initial_values(void **state)
{
    (void)state;
    struct model_fixture f;
    model_fixture_begin(&f,
                        "{\"family\": \"gpt\", \"layers\": 8, \"heads\": 2, \"width\": 64,"
                        " \"context\": 64, \"bias\": true}",
                        &tokens_64, 1, 11);
    expect_normal(&f, "token_embedding.weight", 0.02);
    expect_normal(&f, "position_embedding.weight", 0.02);
    const double matrix = 0.02 * sqrt(768. / 64);
    expect_normal(&f, "blocks.3.attention.query_key_value.weight", matrix);
    expect_normal(&f, "blocks.3.attention.projection.weight", matrix / 4);
    expect_normal(&f, "blocks.7.mlp.up.weight", matrix);
    expect_normal(&f, "blocks.7.mlp.down.weight", matrix / 4);
    expect_constant(&f, "blocks.7.mlp.up.bias", 0);
    expect_constant(&f, "norm.weight", 1);
    expect_constant(&f, "norm.bias", 0);
    float *again = floats_new(&f.a, (int64_t)model_block_size(f.model));
    model_init(f.model, 11, again);
    assert_memory_equal(again, f.weights, model_block_size(f.model) * sizeof *again);
    model_init(f.model, 12, again);
    assert_memory_not_equal(again, f.weights, 64);
    model_fixture_end(&f);

    model_fixture_begin(&f, "{\"family\": \"resnet\", \"depth\": 20, \"zero_init\": true}",
                        &image_28, 1, 11);
    expect_normal(&f, "stages.1.0.conv1.weight", sqrt(2. / (9 * 32)));
    expect_normal(&f, "stages.2.0.shortcut.conv.weight", sqrt(2. / 64));
    expect_constant(&f, "stages.1.0.norm1.weight", 1);
    expect_constant(&f, "stages.1.0.norm2.weight", 0);
    expect_constant(&f, "stages.1.0.shortcut.norm.weight", 1);
    expect_constant(&f, "norm.running_mean", 0);
    expect_constant(&f, "norm.running_var", 1);
    model_fixture_end(&f);

    model_fixture_begin(&f, "{\"family\": \"lenet\"}", &image_28, 1, 11);
    expect_normal(&f, "dense1.weight", sqrt(2. / 400));
    expect_normal(&f, "conv2.weight", sqrt(2. / 150));
    expect_normal(&f, "output.weight", 0.1 * sqrt(1. / 84));
    expect_constant(&f, "conv1.bias", 0);
    const struct parameter *p = find_parameter(&f, "conv1.weight"); // 150 floats, padded to 160
    for (size_t i = p->count; i < 160; i++)
        assert_true(f.weights[p->offset + i] == 0);
    model_fixture_end(&f);
}

// --- mistakes ------------------------------------------------------------------------------------

struct bad {
    const char *text;
    const struct sample_shape *shape;
    int code;
    const char *expected;
};

static const struct bad bad_specs[] = {
    {"{\"family\": \"resnext\"}", &image_28, ERR_INVALID,
     "trainer.model.family: expected one of layers, mlp, lenet, resnet, gpt, found \"resnext\""},
    {"{}", &image_28, ERR_INVALID, "trainer.model.layers: a model needs a list of layers"},
    {"{\"family\": \"mlp\"}", &image_28, ERR_INVALID,
     "trainer.model (mlp): needs \"hidden\", a list of widths"},
    {"{\"family\": \"mlp\", \"hidden\": [8, 0]}", &image_28, ERR_INVALID,
     "layer \"hidden.1\" (linear): \"out\" must be an integer from 1 to 65536"},
    {"{\"family\": \"mlp\", \"hidden\": [8], \"activation\": \"swish\"}", &image_28, ERR_INVALID,
     "trainer.model (mlp): \"activation\" must be relu, gelu, silu or tanh, found \"swish\""},
    {"{\"family\": \"mlp\", \"hidden\": [8], \"dropout\": 1}", &image_28, ERR_INVALID,
     "trainer.model (mlp): \"dropout\" must be a number from 0 to below 1"},
    {"{\"family\": \"mlp\", \"hidden\": [8], \"classes\": 12}", &image_28, ERR_INVALID,
     "layer \"output\" (linear): the last layer: expected 10 (one value per class of the data), "
     "found 12"},
    {"{\"family\": \"mlp\", \"hidden\": [8]}", &tokens_64, ERR_INVALID,
     "layer \"0\" (flatten): expected values, found 64 tokens"},
    {"{\"family\": \"lenet\"}", &image_4x3, ERR_INVALID,
     "layer \"conv2\" (conv2d): expected an image of at least 5x5, found 2x1x6"},
    {"{\"family\": \"lenet\"}", &tokens_64, ERR_INVALID,
     "layer \"conv1\" (conv2d): expected an image (height x width x channels), found 64 tokens"},
    {"{\"family\": \"gpt\", \"layers\": 1, \"heads\": 1, \"width\": 8}", &image_28, ERR_INVALID,
     "layer \"token_embedding\" (embedding): expected tokens, found 28x28x1"},
    {"{\"family\": \"gpt\", \"heads\": 1, \"width\": 8}", &tokens_64, ERR_INVALID,
     "trainer.model (gpt): needs \"layers\", an integer from 1 to 800"},
    {"{\"family\": \"gpt\", \"layers\": 1, \"heads\": 3, \"width\": 8}", &tokens_64, ERR_INVALID,
     "trainer.model (gpt): \"width\" (8) must be a multiple of \"heads\" (3)"},
    {"{\"family\": \"gpt\", \"layers\": 1, \"heads\": 1, \"width\": 8, \"vocabulary\": 100}",
     &tokens_64, ERR_INVALID,
     "layer \"token_embedding\" (embedding): expected a vocabulary of 256, as the data has, "
     "found 100"},
    {"[]", &image_28, ERR_INVALID, "trainer.model.layers: a model needs a list of layers"},
    {"[{\"layer\": \"flatten\"}]", &image_28, ERR_INVALID,
     "layer \"0\" (flatten): the last layer: expected 10 (one value per class of the data), "
     "found 784"},
    {"[{\"layer\": \"linear\", \"out\": 10}]", &image_28, ERR_INVALID,
     "layer \"0\" (linear): expected features or a sequence of them, found 28x28x1"},
    {"[{\"layer\": \"linaer\", \"out\": 10}]", &image_28, ERR_INVALID,
     "layer \"0\": unknown layer \"linaer\"; did you mean \"linear\"?"},
    {"[{\"layer\": \"xyzzy\"}]", &image_28, ERR_INVALID, "layer \"0\": unknown layer \"xyzzy\""},
    {"[{\"layer\": \"max_pool\", \"kernel\": 29}]", &image_28, ERR_INVALID,
     "layer \"0\" (max_pool): expected an image of at least 29x29, found 28x28x1"},
    {"[{\"layer\": \"conv2d\", \"kernel\": 3, \"out\": 2, \"padding\": 3}]", &image_28, ERR_INVALID,
     "layer \"0\" (conv2d): \"padding\" must be an integer from 0 to 2"},
    {"[{\"layer\": \"position\"}]", &image_28, ERR_INVALID,
     "layer \"0\" (position): expected a sequence (positions x width), found 28x28x1"},
    {"[{\"layer\": \"embedding\", \"width\": 16}, {\"layer\": \"attention\", \"heads\": 3}]",
     &tokens_64, ERR_INVALID,
     "layer \"1\" (attention): expected a width of 3 (query, key, value) x 3 heads x any, found "
     "16"},
    {"[{\"layer\": \"flatten\"}, {\"layer\": \"residual\", \"name\": \"block\", \"layers\":"
     " [{\"layer\": \"linear\", \"out\": 10}]}]",
     &image_28, ERR_INVALID, "layer \"block\" (residual): expected 784, as it came in, found 10"},
    {"[{\"layer\": \"residual\", \"name\": \"block\"}]", &image_28, ERR_INVALID,
     "block: a model needs a list of layers"},
    {"[{\"layer\": \"residual\", \"name\": \"block\", \"layers\": [{\"layer\": \"position\"}]}]",
     &tokens_64, ERR_INVALID,
     "layer \"block.0\" (position): expected a sequence (positions x width), found 64 tokens"},
    {"[{\"layer\": \"flatten\"}, {\"layer\": \"residual\", \"name\": \"b\", \"layers\":"
     " [{\"layer\": \"tanh\"}], \"shortcut\": [{\"layer\": \"linear\", \"out\": 5}]}]",
     &image_28, ERR_INVALID,
     "layer \"b\" (residual): expected 5, as the shortcut gives, found 784"},
    {"[{\"layer\": \"conv2d\", \"kernel\": 3, \"out\": 4, \"groups\": 2}]", &image_28, ERR_INVALID,
     "layer \"0\" (conv2d): expected channels that 2 groups divide, found 1 in and 4 out"},
    {"[{\"layer\": \"avg_pool\", \"kernel\": 3, \"padding\": 2}]", &image_28, ERR_INVALID,
     "layer \"0\" (avg_pool): \"padding\" must be at most half of \"kernel\""},
    {"[{\"layer\": \"flatten\"}, {\"layer\": \"global_pool\"}]", &image_28, ERR_INVALID,
     "layer \"1\" (global_pool): expected an image (height x width x channels), found 784"},
    {"[{\"layer\": \"batch_norm\", \"momentum\": 0}]", &image_28, ERR_INVALID,
     "layer \"0\" (batch_norm): \"momentum\" must be a number above 0 and up to 1"},
    {"[{\"layer\": \"rms_norm\"}]", &image_28, ERR_INVALID,
     "layer \"0\" (rms_norm): expected features or a sequence of them, found 28x28x1"},
    {"[{\"layer\": \"embedding\", \"width\": 18},"
     " {\"layer\": \"attention\", \"heads\": 2, \"rotary\": true}]",
     &tokens_64, ERR_INVALID,
     "layer \"1.rotary\" (rotary): expected heads of an even width, because rotary positions work "
     "on pairs, found 6 / 2 heads"},
    {"[{\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 4, \"name\": \"a\"},"
     " {\"layer\": \"linear\", \"out\": 10, \"name\": \"a\"}]",
     &image_28, ERR_INVALID,
     "layer \"a\" (linear): another layer has the same name; give each layer a name of its own"},
    {"[{\"layer\": \"embedding\", \"width\": 8, \"name\": \"words\"},"
     " {\"layer\": \"linear\", \"out\": 256, \"tied\": \"word\"}]",
     &tokens_64, ERR_INVALID,
     "layer \"1\" (linear): is tied to \"word\", but no embedding or linear layer before it has "
     "that name"},
    {"[{\"layer\": \"embedding\", \"width\": 8, \"name\": \"words\"},"
     " {\"layer\": \"linear\", \"out\": 8, \"tied\": \"words\"}]",
     &tokens_64, ERR_INVALID, "layer \"1\" (linear): expected a tied weight of 8x8, found 256x8"},
    {"[{\"layer\": \"embedding\", \"width\": 65536}, {\"layer\": \"dropout\", \"rate\": 0.5},"
     " {\"layer\": \"linear\", \"out\": 256}]",
     &(const struct sample_shape){.kind = SAMPLE_TOKENS, .context = 65536, .vocabulary = 256},
     ERR_TOO_LARGE,
     "a micro-batch of 600 samples needs more than 4 TiB of memory for one tensor; choose a "
     "smaller "
     "micro_batch_size"},
};

static void test_bad_specifications(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_specs / sizeof bad_specs[0]; i++) {
        const struct bad *b = &bad_specs[i];
        struct error e = {0};
        struct compiled_model *m = NULL;
        int64_t micro_batch = b->code == ERR_TOO_LARGE ? 600 : 2;
        int rc = compile_text(b->text, b->shape, micro_batch, &m, &e);
        if (rc != b->code || strcmp(e.text, b->expected) != 0)
            fail_msg("%s\nexpected %d: %s\nfound    %d: %s", b->text, b->code, b->expected, rc,
                     rc ? e.text : "");
        assert_null(m);
    }
}

struct bad_loss {
    const char *text;
    const struct sample_shape *shape;
    const char *expected;
};

static void test_bad_losses(void **state)
{
    (void)state;
    static const struct bad_loss cases[] = {
        {"{\"name\": \"mse\"}", &image_28,
         "trainer.loss.name: mse needs data with values to predict, found classes or tokens"},
        {"{\"name\": \"cross_entropy\"}", &features_7,
         "trainer.loss.name: cross_entropy needs data with classes or tokens, found values to "
         "predict"},
        {"{\"name\": \"mae\"}", &image_28,
         "trainer.loss.name: expected cross_entropy or mse, found \"mae\""},
        {"{\"name\": \"cross_entropy\", \"label_smoothing\": 1}", &image_28,
         "trainer.loss.label_smoothing: expected a number from 0 to below 1, found 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *loss = json_of(cases[i].text), *spec = json_of("{\"family\": \"lenet\"}");
        struct compiled_model *m;
        struct error e;
        assert_int_equal(model_compile(spec, loss, cases[i].shape, 1, &m, &e), ERR_INVALID);
        assert_string_equal(e.text, cases[i].expected);
        json_decref(loss);
        json_decref(spec);
    }
}

// The largest transformer by blocks stays within the limit of layers.
static void test_most_blocks(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    json_t *spec =
        json_pack("{s:s, s:i, s:i, s:i, s:f, s:i}", "family", "gpt", "layers", LIMIT_BLOCKS,
                  "heads", 1, "width", 2, "dropout", 0.1, "vocabulary", 11);
    if (model_compile(spec, NULL, &tokens_6, 1, &m, &e))
        fail_msg("%s", e.text);
    model_free(m);
    json_decref(spec);
}

// One layer more than the limit.
static void test_too_many_layers(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    json_t *list = json_array(), *spec = json_pack("{s:o}", "layers", list);
    for (int i = 0; i < LIMIT_LAYERS; i++)
        json_array_append_new(list, json_pack("{s:s}", "layer", "flatten"));
    // At the limit the number of layers is accepted.
    assert_int_equal(model_compile(spec, NULL, &image_28, 1, &m, &e), ERR_INVALID);
    json_array_append_new(list, json_pack("{s:s}", "layer", "flatten"));
    assert_int_equal(model_compile(spec, NULL, &image_28, 1, &m, &e), ERR_TOO_LARGE);
    assert_string_equal(e.text, "the model has more than 10000 layers");
    json_decref(spec);
}

static void test_long_names(void **state)
{
    (void)state;
    struct compiled_model *m;
    struct error e;
    char name[82];
    for (size_t length = 79; length <= 80; length++) {
        memset(name, 'x', length);
        name[length] = '\0';
        json_t *spec = json_pack("{s:[{s:s},{s:s,s:s,s:i}]}", "layers", "layer", "flatten", "layer",
                                 "linear", "name", name, "out", 10);
        int rc = model_compile(spec, NULL, &image_28, 1, &m, &e);
        assert_int_equal(rc, length == 79 ? 0 : ERR_INVALID);
        model_free(m);
        json_decref(spec);
    }
    assert_non_null(strstr(e.text, "is longer than 79 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet_parameters),
        cmocka_unit_test(test_gpt_parameters),
        cmocka_unit_test(test_mlp_parameters),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_outputs_follow_the_data),
        cmocka_unit_test(test_resnet_parameters),
        cmocka_unit_test(test_list_parameters),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_bad_specifications),
        cmocka_unit_test(test_bad_losses),
        cmocka_unit_test(test_most_blocks),
        cmocka_unit_test(test_too_many_layers),
        cmocka_unit_test(test_long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
