// Families of models: each expands a few settings to a list of layers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/model/compiler.h"

// Appends a layer and takes over the reference, as json_pack() returns it.
static void append_layer(json_t *list, json_t *layer)
{
    must(layer && json_array_append_new(list, layer) == 0);
}

static void append_plain(json_t *list, const char *word)
{
    append_layer(list, json_pack("{s:s}", "layer", word));
}

static void append_dropout(json_t *list, double rate)
{
    if (rate > 0)
        append_layer(list, json_pack("{s:s, s:f}", "layer", "dropout", "rate", rate));
}

// The last layer. It has as many outputs as the specification or else the data asks for. Its
// initial weights are small, so that a classifier starts near equal odds.
static int append_output(json_t *list, const json_t *spec, int64_t outputs, struct error *e)
{
    int64_t out;
    int rc = spec_int(spec, "classes", outputs > 0 ? outputs : 1, 1, LIMIT_WIDTH, &out, e);
    if (!rc)
        append_layer(list, json_pack("{s:s, s:s, s:I, s:f}", "layer", "linear", "name", "output",
                                     "out", (json_int_t)out, "gain", 0.1));
    return rc;
}

// --- mlp -----------------------------------------------------------------------------------------

static int read_activation(const json_t *spec, const char **out, struct error *e)
{
    static const char *const known[] = {"relu", "gelu", "silu", "tanh"};
    *out = jget_string(spec, "activation", "relu");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], *out) == 0)
            return 0;
    return error_set(e, ERR_INVALID,
                     "\"activation\" must be relu, gelu, silu or tanh, found \"%s\"", *out);
}

static int expand_mlp(const json_t *spec, int64_t outputs, json_t *list, struct error *e)
{
    const json_t *hidden = jget(spec, "hidden");
    const char *activation;
    double dropout;
    int rc = read_activation(spec, &activation, e);
    if (rc || (rc = spec_rate(spec, "dropout", &dropout, e)))
        return rc;
    if (!json_is_array(hidden))
        return error_set(e, ERR_INVALID, "needs \"hidden\", a list of widths");
    // He et al. 2015 for activations that are zero for half of their inputs; LeCun 1998 for tanh.
    double gain = strcmp(activation, "tanh") == 0 ? 1 : sqrt(2);
    append_plain(list, "flatten");
    for (size_t i = 0; i < json_array_size(hidden); i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden.%zu", i);
        append_layer(list, json_pack("{s:s, s:s, s:O, s:f}", "layer", "linear", "name", name, "out",
                                     json_array_get(hidden, i), "gain", gain));
        append_plain(list, activation);
        append_dropout(list, dropout);
    }
    return append_output(list, spec, outputs, e);
}

// --- lenet (LeCun et al. 1998, with relu and max pooling, as usual today) ------------------------

static void append_conv_block(json_t *list, const char *name, int out, int padding)
{
    append_layer(list, json_pack("{s:s, s:s, s:i, s:i, s:i}", "layer", "conv2d", "name", name,
                                 "out", out, "kernel", 5, "padding", padding));
    append_plain(list, "relu");
    append_layer(list, json_pack("{s:s, s:i}", "layer", "max_pool", "kernel", 2));
}

static void append_dense(json_t *list, const char *name, int out)
{
    append_layer(list, json_pack("{s:s, s:s, s:i}", "layer", "linear", "name", name, "out", out));
    append_plain(list, "relu");
}

static int expand_lenet(const json_t *spec, int64_t outputs, json_t *list, struct error *e)
{
    append_conv_block(list, "conv1", 6, 2);
    append_conv_block(list, "conv2", 16, 0);
    append_plain(list, "flatten");
    append_dense(list, "dense1", 120);
    append_dense(list, "dense2", 84);
    return append_output(list, spec, outputs, e);
}

// --- resnet --------------------------------------------------------------------------------------

// He et al. 2015, with 1x1 projections where a block changes the shape (their option B) and with
// the stride of a bottleneck in its 3x3 convolution, as usual today. Filters are initialised by
// fan-out.
struct resnet {
    bool small;      // the form for 32x32 images: three stages from 16 channels
    bool bottleneck; // blocks of 1x1, 3x3, 1x1 convolutions
    int64_t blocks[4];
    bool sync, zero_init;
};

// A convolution and its batch_norm; `gain` is the initial weight of the latter.
static void append_conv_norm(json_t *list, const struct resnet *r, const char *suffix,
                             int64_t kernel, int64_t stride, int64_t out, double gain)
{
    char conv[16], norm[16];
    snprintf(conv, sizeof conv, "conv%s", suffix);
    snprintf(norm, sizeof norm, "norm%s", suffix);
    append_layer(list,
                 json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:f}", "layer", "conv2d", "name",
                           conv, "out", (json_int_t)out, "kernel", (json_int_t)kernel, "stride",
                           (json_int_t)stride, "padding", (json_int_t)(kernel / 2), "bias", 0,
                           "deviation", sqrt(2.0 / (double)(kernel * kernel * out))));
    append_layer(list, json_pack("{s:s, s:s, s:b, s:f}", "layer", "batch_norm", "name", norm,
                                 "sync", (int)r->sync, "gain", gain));
}

// y = relu(f(x) + x). `in` and `out` are channels.
static void append_resnet_block(json_t *list, const struct resnet *r, const char *name, int64_t in,
                                int64_t out, int64_t stride)
{
    json_t *layers = json_array(), *shortcut = json_array();
    double last = r->zero_init ? 0 : 1;
    if (r->bottleneck) {
        append_conv_norm(layers, r, "1", 1, 1, out / 4, 1);
        append_plain(layers, "relu");
        append_conv_norm(layers, r, "2", 3, stride, out / 4, 1);
        append_plain(layers, "relu");
        append_conv_norm(layers, r, "3", 1, 1, out, last);
    } else {
        append_conv_norm(layers, r, "1", 3, stride, out, 1);
        append_plain(layers, "relu");
        append_conv_norm(layers, r, "2", 3, 1, out, last);
    }
    if (in != out || stride != 1)
        append_conv_norm(shortcut, r, "", 1, stride, out, 1);
    append_layer(list, json_pack("{s:s, s:s, s:o, s:o}", "layer", "residual", "name", name,
                                 "layers", layers, "shortcut", shortcut));
    append_plain(list, "relu");
}

static void append_stages(json_t *list, const struct resnet *r)
{
    int64_t in = r->small ? 16 : 64;
    for (int stage = 0; stage < 4 && r->blocks[stage] > 0; stage++) {
        int64_t width = (int64_t)(r->small ? 16 : 64) << stage,
                out = width * (r->bottleneck ? 4 : 1);
        for (int64_t block = 0; block < r->blocks[stage]; block++) {
            char name[48];
            snprintf(name, sizeof name, "stages.%d.%lld", stage, (long long)block);
            append_resnet_block(list, r, name, in, out, stage > 0 && block == 0 ? 2 : 1);
            in = out;
        }
    }
}

static int read_resnet(const json_t *spec, struct resnet *r, struct error *e)
{
    static const struct {
        int64_t depth;
        struct resnet form;
    } forms[] = {
        {20, {.small = true, .blocks = {3, 3, 3}}},
        {32, {.small = true, .blocks = {5, 5, 5}}},
        {56, {.small = true, .blocks = {9, 9, 9}}},
        {18, {.blocks = {2, 2, 2, 2}}},
        {34, {.blocks = {3, 4, 6, 3}}},
        {50, {.bottleneck = true, .blocks = {3, 4, 6, 3}}},
    };
    int64_t depth = jget_int(spec, "depth", 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].depth == depth) {
            *r = forms[i].form;
            r->sync = jget_bool(spec, "sync", false);
            r->zero_init = jget_bool(spec, "zero_init", false);
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "\"depth\" must be 20, 32 or 56 (small images), 18, 34 or 50, found %lld",
                     (long long)depth);
}

static int expand_resnet(const json_t *spec, int64_t outputs, json_t *list, struct error *e)
{
    struct resnet r;
    int rc = read_resnet(spec, &r, e);
    if (rc)
        return rc;
    append_conv_norm(list, &r, "", r.small ? 3 : 7, r.small ? 1 : 2, r.small ? 16 : 64, 1);
    append_plain(list, "relu");
    if (!r.small)
        append_layer(list, json_pack("{s:s, s:i, s:i, s:i}", "layer", "max_pool", "kernel", 3,
                                     "stride", 2, "padding", 1));
    append_stages(list, &r);
    append_plain(list, "global_pool");
    return append_output(list, spec, outputs, e);
}

// --- gpt (Radford et al. 2019 in the form of nanoGPT: pre-norm blocks, tied head) ----------------

struct gpt {
    int64_t layers, heads, width;
    double dropout;
    bool bias;
};

static const double gpt_deviation = 0.02; // of the initial values of embeddings

// The deviation of matrices: 0.02 at width 768, as in GPT-2, and in proportion to 1 / sqrt(width)
// at other widths, so that the output of a layer is as large as its input. With a flat 0.02 the
// recipe of examples/shakespeare.yaml (width 128) ends between 1.878 and 1.898 nats per byte over
// five seeds; with this deviation it ends between 1.774 and 1.793 over four.
static double gpt_matrix_deviation(const struct gpt *g)
{
    return gpt_deviation * sqrt(768.0 / (double)g->width);
}

static json_t *gpt_linear(const struct gpt *g, const char *name, int64_t out, double deviation)
{
    return json_pack("{s:s, s:s, s:I, s:b, s:f}", "layer", "linear", "name", name, "out",
                     (json_int_t)out, "bias", (int)g->bias, "deviation", deviation);
}

static json_t *gpt_norm(const struct gpt *g)
{
    return json_pack("{s:s, s:s, s:b}", "layer", "layer_norm", "name", "norm", "bias",
                     (int)g->bias);
}

static void append_gpt_residual(json_t *list, int64_t block, const char *part, json_t *inner)
{
    char name[48];
    snprintf(name, sizeof name, "blocks.%lld.%s", (long long)block, part);
    append_layer(list,
                 json_pack("{s:s, s:s, s:o}", "layer", "residual", "name", name, "layers", inner));
}

static void append_gpt_block(json_t *list, const struct gpt *g, int64_t block)
{
    // The residual stream sums 2 * layers projections, so each starts smaller by the square root.
    double deviation = gpt_matrix_deviation(g);
    double projection = deviation / sqrt(2.0 * (double)g->layers);
    json_t *attention = json_array(), *mlp = json_array();
    append_layer(attention, gpt_norm(g));
    append_layer(attention, gpt_linear(g, "query_key_value", 3 * g->width, deviation));
    append_layer(attention, json_pack("{s:s, s:I, s:f}", "layer", "attention", "heads",
                                      (json_int_t)g->heads, "dropout", g->dropout));
    append_layer(attention, gpt_linear(g, "projection", g->width, projection));
    append_dropout(attention, g->dropout);
    append_gpt_residual(list, block, "attention", attention);

    append_layer(mlp, gpt_norm(g));
    append_layer(mlp, gpt_linear(g, "up", 4 * g->width, deviation));
    append_plain(mlp, "gelu");
    append_layer(mlp, gpt_linear(g, "down", g->width, projection));
    append_dropout(mlp, g->dropout);
    append_gpt_residual(list, block, "mlp", mlp);
}

static int read_gpt(const json_t *spec, struct gpt *g, struct error *e)
{
    int rc = spec_int(spec, "layers", 0, 1, LIMIT_BLOCKS, &g->layers, e);
    if (rc || (rc = spec_int(spec, "heads", 0, 1, LIMIT_HEADS, &g->heads, e)) ||
        (rc = spec_int(spec, "width", 0, 1, LIMIT_WIDTH / 4, &g->width, e)) ||
        (rc = spec_rate(spec, "dropout", &g->dropout, e)))
        return rc;
    g->bias = jget_bool(spec, "bias", false);
    if (g->width % g->heads == 0)
        return 0;
    return error_set(e, ERR_INVALID, "\"width\" (%lld) must be a multiple of \"heads\" (%lld)",
                     (long long)g->width, (long long)g->heads);
}

static int expand_gpt(const json_t *spec, int64_t outputs, json_t *list, struct error *e)
{
    (void)outputs; // the head shares the weights of the embedding
    struct gpt g;
    int64_t vocabulary;
    int rc = read_gpt(spec, &g, e);
    if (rc || (rc = spec_int(spec, "vocabulary", 256, 1, LIMIT_WIDTH, &vocabulary, e)))
        return rc;
    append_layer(list, json_pack("{s:s, s:s, s:I, s:I, s:f}", "layer", "embedding", "name",
                                 "token_embedding", "vocabulary", (json_int_t)vocabulary, "width",
                                 (json_int_t)g.width, "deviation", gpt_deviation));
    append_layer(list, json_pack("{s:s, s:s, s:f}", "layer", "position", "name",
                                 "position_embedding", "deviation", gpt_deviation));
    append_dropout(list, g.dropout);
    for (int64_t block = 0; block < g.layers; block++)
        append_gpt_block(list, &g, block);
    append_layer(list, gpt_norm(&g));
    append_layer(list,
                 json_pack("{s:s, s:s, s:s, s:I, s:b}", "layer", "linear", "name", "head", "tied",
                           "token_embedding", "out", (json_int_t)vocabulary, "bias", 0));
    return 0;
}

// --- the table -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    int (*expand)(const json_t *spec, int64_t outputs, json_t *list, struct error *e);
} families[] = {
    {"mlp", expand_mlp}, {"lenet", expand_lenet}, {"resnet", expand_resnet}, {"gpt", expand_gpt}};

static int fail_unknown_family(const char *word, struct error *e)
{
    char known[128] = "layers";
    size_t length = strlen(known);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, ", %s", families[i].name);
    return error_set(e, ERR_INVALID, "trainer.model.family: expected one of %s, found \"%.64s\"",
                     known, word);
}

int family_expand(const json_t *spec, int64_t outputs, json_t **layers, struct error *e)
{
    const char *word = jget_string(spec, "family", "layers");
    if (strcmp(word, "layers") == 0) {
        json_t *list = jget(spec, "layers");
        *layers = json_is_array(list) ? json_incref(list) : json_array();
        return 0;
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(families[i].name, word) != 0)
            continue;
        json_t *list = json_array();
        int rc = families[i].expand(spec, outputs, list, e);
        if (rc) {
            error_prefix(e, "trainer.model (%s)", word);
            json_decref(list);
            return rc;
        }
        *layers = list;
        return 0;
    }
    return fail_unknown_family(word, e);
}
