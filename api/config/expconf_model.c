// The keys of trainer.model and trainer.loss and the checks between them. The allowed values are
// those of trainer/model; the trainer checks shapes when it opens the data.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"

// --- layers

static const struct schema_field layer_element; // a layer, which may contain layers

#define NUMBER_OPTIONAL(key, low, high, text)                                                      \
    {                                                                                              \
        .name = key, .type = SCHEMA_NUMBER, .min = low, .max = high, .doc = text                   \
    }
#define STRING_OPTIONAL(key, text)                                                                 \
    {                                                                                              \
        .name = key, .type = SCHEMA_STRING, .doc = text                                            \
    }
#define LAYERS(key, is_required, text)                                                             \
    {                                                                                              \
        .name = key, .type = SCHEMA_LIST, .element = &layer_element, .required = is_required,      \
        .doc = text                                                                                \
    }
#define NAME                                                                                       \
    STRING_OPTIONAL("name", "name of the layer and its parameters; default: its index in the "     \
                            "list")
#define INITIAL(fan_in)                                                                            \
    NUMBER_OPTIONAL("gain", 0, 1e6,                                                                \
                    "initial weights are normal with deviation gain / sqrt(" fan_in                \
                    "); the root of 2 by default"),                                                \
        NUMBER_OPTIONAL("deviation", 0, 1e6, "the deviation itself, instead of gain")
#define VECTORS                                                                                    \
    NUMBER("deviation", 0, 1e6, "0.02",                                                            \
           "standard deviation of the initial values, which are normal")
#define DROPOUT(what) NUMBER("dropout", 0, 0.999, "0", "share of " what " dropped in training")
#define BIAS(text)    BOOL("bias", "true", text)

static const struct schema_field linear_fields[] = {
    NAME,
    INT_REQUIRED("out", 1, LIMIT_WIDTH,
                 "number of output features (of each position, for sequences)"),
    BIAS("whether a bias is added"),
    INITIAL("input features"),
    STRING_OPTIONAL(
        "tied", "name of an earlier embedding or linear layer whose weights it uses, transposed"),
    END,
};
static const struct schema_field conv2d_fields[] = {
    NAME,
    INT_REQUIRED("out", 1, LIMIT_WIDTH, "number of output channels"),
    INT_REQUIRED("kernel", 1, LIMIT_KERNEL, "height and width of the filters"),
    INT("stride", 1, LIMIT_KERNEL, "1", "pixels between two positions of the filters"),
    INT("padding", 0, LIMIT_KERNEL - 1, "0", "zeros on each side; less than kernel"),
    INT("groups", 1, LIMIT_WIDTH, "1", "groups of channels that are convolved separately"),
    BIAS("whether a bias is added"),
    INITIAL("kernel^2 x channels of a group"),
    END,
};
static const struct schema_field pool_fields[] = {
    NAME,
    INT_REQUIRED("kernel", 1, LIMIT_KERNEL, "height and width of the window"),
    INT_OPTIONAL("stride", 1, LIMIT_KERNEL, "pixels between two windows; default: kernel"),
    INT("padding", 0, LIMIT_KERNEL / 2, "0",
        "border on each side, which is ignored; at most half of kernel"),
    END,
};
static const struct schema_field batch_norm_fields[] = {
    NAME,
    NUMBER("momentum", 1e-6, 1, "0.1",
           "share of the step's statistics in the running ones, which evaluation uses"),
    BOOL("sync", "false",
         "whether statistics are those of the global batch, which needs memory for all "
         "micro-batches of a slot at once; otherwise of each micro-batch"),
    NUMBER("gain", 0, 1e6, "1", "initial value of the weights"),
    END,
};
static const struct schema_field layer_norm_fields[] = {NAME, BIAS("whether a bias is added"), END};
static const struct schema_field embedding_fields[] = {
    NAME,
    INT_REQUIRED("width", 1, LIMIT_WIDTH, "features of each token"),
    VECTORS,
    END,
};
static const struct schema_field position_fields[] = {NAME, VECTORS, END};
static const struct schema_field rotary_choices[] = {
    {.name = "rotary", .type = SCHEMA_BOOL},
    {.name = "rotary", .type = SCHEMA_NUMBER, .min = 1, .max = 1e9},
    END,
};
static const struct schema_field attention_fields[] = {
    NAME,
    INT_REQUIRED("heads", 1, LIMIT_HEADS, "number of heads; 3 x heads must divide the input width"),
    DROPOUT("attention"),
    {.name = "rotary",
     .type = SCHEMA_ONE_OF,
     .fields = rotary_choices,
     .fallback = "false",
     .doc = "whether to use rotary positions (Su et al. 2021); a number is their base (default "
            "10000)"},
    END,
};
static const struct schema_field dropout_fields[] = {
    NAME, NUMBER_REQUIRED("rate", 0, 0.999, "share of values dropped in training"), END};
static const struct schema_field residual_fields[] = {
    NAME,
    LAYERS("layers", true, "layers whose output is added to the input"),
    LAYERS("shortcut", false, "layers that the input passes before the addition"),
    END,
};
static const struct schema_field plain_fields[] = {NAME, END};

static const struct schema_variant layer_kinds[] = {
    {"linear", linear_fields, "a matrix over features"},
    {"conv2d", conv2d_fields, "a convolution over an image"},
    {"batch_norm", batch_norm_fields, "each channel to mean 0 and deviation 1 over the samples"},
    {"layer_norm", layer_norm_fields, "features to mean 0 and deviation 1"},
    {"rms_norm", plain_fields, "features to a mean square of 1"},
    {"relu", plain_fields, "max(0, x)"},
    {"gelu", plain_fields, "x times the normal distribution function of x"},
    {"silu", plain_fields, "x / (1 + e^-x)"},
    {"tanh", plain_fields, "hyperbolic tangent"},
    {"max_pool", pool_fields, "the largest of each window"},
    {"avg_pool", pool_fields, "the mean of each window"},
    {"global_pool", plain_fields, "the mean of each channel; turns an image into features"},
    {"embedding", embedding_fields, "a vector for each token; the first layer of a text model"},
    {"position", position_fields, "adds a learned vector for each position"},
    {"attention", attention_fields, "causal attention over queries, keys and values side by side"},
    {"dropout", dropout_fields, "sets random values to 0 in training"},
    {"flatten", plain_fields, "turns an image or a sequence into features"},
    {"residual", residual_fields, "the input plus the output of its layers"},
    {NULL, NULL, NULL},
};
static const struct schema_field layer_element = {
    .name = "layer", .type = SCHEMA_UNION, .tag = "layer", .variants = layer_kinds};

// --- families

static const struct schema_field hidden_width = {
    .name = "width", .type = SCHEMA_INT, .min = 1, .max = LIMIT_WIDTH};
static const char *const activations[] = {"relu", "gelu", "silu", "tanh", NULL};

#define CLASSES                                                                                    \
    INT_OPTIONAL("classes", 2, LIMIT_WIDTH, "number of classes; default: that of the data")
#define VOCABULARY                                                                                 \
    INT("vocabulary", 2, LIMIT_WIDTH, "256", "number of different tokens; 256 for bytes")

static const struct schema_field list_fields[] = {
    LAYERS("layers", true, "the layers, from the samples to the predictions"),
    CLASSES,
    INT_OPTIONAL("context", 1, LIMIT_WIDTH,
                 "number of tokens that the model sees; required for texts"),
    VOCABULARY,
    END,
};
static const struct schema_field mlp_fields[] = {
    {.name = "hidden",
     .type = SCHEMA_LIST,
     .element = &hidden_width,
     .required = true,
     .doc = "width of each hidden layer"},
    WORD("activation", activations, "\"relu\"", "function between layers"),
    CLASSES,
    DROPOUT("activations"),
    END,
};
static const struct schema_field lenet_fields[] = {CLASSES, END};
static const struct schema_field resnet_fields[] = {
    INT_REQUIRED(
        "depth", 18, 56,
        "20, 32 or 56: the form for images of 32x32; 18, 34 or 50: the form for large ones"),
    CLASSES,
    BOOL("sync", "false",
         "whether batch_norm uses statistics of the global batch (see batch_norm)"),
    BOOL("zero_init", "false",
         "whether the last batch_norm of each block begins at 0 (Goyal et al. 2017)"),
    END,
};
static const struct schema_field gpt_fields[] = {
    INT_REQUIRED("layers", 1, LIMIT_BLOCKS, "transformer blocks"),
    INT_REQUIRED("heads", 1, LIMIT_HEADS, "attention heads; divides width"),
    INT_REQUIRED("width", 1, LIMIT_WIDTH / 4, "width of the residual stream"),
    INT_REQUIRED("context", 1, LIMIT_WIDTH, "number of tokens that the model sees"),
    VOCABULARY,
    DROPOUT("activations"),
    BOOL("bias", "false", "whether linear layers and norms have biases"),
    END,
};
const struct schema_variant expconf_models[] = {
    {"layers", list_fields, "your own list of layers"},
    {"mlp", mlp_fields,
     "fully connected layers over features or flattened images, for classes or values"},
    {"lenet", lenet_fields, "two convolutions and three linear layers (LeNet-5)"},
    {"resnet", resnet_fields,
     "residual blocks of convolutions (He et al. 2015), shortcuts being 1x1 convolutions"},
    {"gpt", gpt_fields, "decoder-only transformer with tied head"},
    {NULL, NULL, NULL},
};

// --- losses

static const struct schema_field cross_entropy_fields[] = {
    NUMBER("label_smoothing", 0, 0.999, "0",
           "share of the label spread evenly over all classes, in training"),
    END,
};
static const struct schema_field mse_fields[] = {END};
const struct schema_variant expconf_losses[] = {
    {"cross_entropy", cross_entropy_fields, "cross-entropy of the right class or token, in nats"},
    {"mse", mse_fields, "squared difference from the target values, mean over the outputs"},
    {NULL, NULL, NULL},
};

// --- checks of a list of layers

struct model_walk {
    const struct yaml_doc *doc;
    int count; // layers of the compiled model so far
    struct error *e;
};

static int check_layers(struct model_walk *w, const json_t *list, const char *path, size_t prefix);

static bool is_name(const char *name)
{
    size_t i = 0;
    while (isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '-')
        i++;
    return isalpha((unsigned char)name[0]) && !name[i];
}

// A layer's name is unique in its list and cannot be mistaken for an index.
static int check_name(const struct model_walk *w, const json_t *list, size_t at, const char *path,
                      size_t prefix)
{
    const char *name = jget_string(json_array_get(list, at), "name", NULL);
    char where[EXPCONF_WHERE_MAX];
    snprintf(where, sizeof(where), "%s.name", path);
    if (!name)
        return 0;
    if (!is_name(name) || !strcmp(name, "shortcut"))
        return expconf_fault(w->doc, where, w->e,
                             "a layer's name is a letter, then letters, digits, _ or -, and not "
                             "\"shortcut\"");
    if (prefix + strlen(name) > LIMIT_LAYER_NAME)
        return expconf_fault(w->doc, where, w->e,
                             "with the names of the enclosing blocks it is longer than %d bytes",
                             LIMIT_LAYER_NAME);
    for (size_t i = 0; i < at; i++)
        if (!strcmp(jget_string(json_array_get(list, i), "name", ""), name))
            return expconf_fault(w->doc, where, w->e, "layer %zu of this list has that name", i);
    return 0;
}

static int check_window(const struct model_walk *w, const json_t *layer, const char *word,
                        const char *path)
{
    long long kernel = jget_int(layer, "kernel", 0), padding = jget_int(layer, "padding", 0);
    long long most = !strcmp(word, "conv2d") ? kernel - 1 : kernel / 2;
    char where[EXPCONF_WHERE_MAX];
    if (!kernel || padding <= most)
        return 0;
    snprintf(where, sizeof(where), "%s.padding", path);
    return expconf_fault(w->doc, where, w->e, "%s takes at most %lld with a kernel of %lld", word,
                         most, kernel);
}

static int check_inner(struct model_walk *w, const json_t *layer, const char *key, const char *path,
                       size_t prefix)
{
    if (!jget(layer, key))
        return 0;
    char *inner = xasprintf("%s.%s", path, key);
    int rc = check_layers(w, jget(layer, key), inner, prefix);
    free(inner);
    return rc;
}

static int check_layer(struct model_walk *w, const json_t *layer, const char *path, size_t prefix)
{
    const char *word = jget_string(layer, "layer", "");
    json_t *rotary = jget(layer, "rotary");
    w->count +=
        rotary && !json_is_false(rotary) ? 2 : 1; // rotary positions are a layer of their own
    if (w->count > LIMIT_LAYERS)
        return expconf_fault(w->doc, path, w->e, "the model has more than %d layers", LIMIT_LAYERS);
    long long groups = jget_int(layer, "groups", 1), out = jget_int(layer, "out", 0);
    if (out % groups)
        return expconf_fault(w->doc, path, w->e, "groups (%lld) does not divide out (%lld)", groups,
                             out);
    int rc = check_window(w, layer, word, path);
    if (!rc)
        rc = check_inner(w, layer, "shortcut", path, prefix + strlen(".shortcut"));
    if (!rc)
        rc = check_inner(w, layer, "layers", path, prefix);
    return rc;
}

// `prefix`: length of the names of the enclosing blocks.
static int check_layers(struct model_walk *w, const json_t *list, const char *path, size_t prefix)
{
    size_t i;
    json_t *layer;
    int rc = 0;
    if (!json_array_size(list))
        return expconf_fault(w->doc, path, w->e, "is empty; give one layer at least");
    json_array_foreach((json_t *)list, i, layer)
    {
        char number[24];
        snprintf(number, sizeof(number), "%zu", i);
        char *inner = xasprintf("%s.%s", path, number);
        rc = check_name(w, list, i, inner, prefix);
        if (!rc)
            rc = check_layer(w, layer, inner,
                             prefix + strlen(jget_string(layer, "name", number)) + strlen("."));
        free(inner);
        if (rc)
            break;
    }
    return rc;
}

// --- checks of models

// Kinds of samples from which the model learns; a list of layers takes tokens if its first layer
// does.
static unsigned samples_of(const json_t *model)
{
    const char *family = jget_string(model, "family", "");
    const json_t *first = json_array_get(jget(model, "layers"), 0);
    if (!strcmp(family, "gpt") || !strcmp(jget_string(first, "layer", ""), "embedding"))
        return EXPCONF_TOKENS;
    if (!strcmp(family, "lenet") || !strcmp(family, "resnet"))
        return EXPCONF_IMAGES;
    return EXPCONF_IMAGES | EXPCONF_FEATURES;
}

static int check_samples(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *model = jget(trainer, "model"), *data = jget(trainer, "data");
    unsigned wanted = samples_of(model);
    const char *text = wanted == EXPCONF_TOKENS   ? "tokens"
                       : wanted == EXPCONF_IMAGES ? "images"
                                                  : "images and features";
    if (!(expconf_data_samples(data) & wanted))
        return expconf_fault(
            doc, "trainer.data.format", e, "model %s learns from %s, not from %s%s",
            jget_string(model, "family", ""), text, jget_string(data, "format", ""),
            jget(data, "vocabulary") ? " with a vocabulary"
            : jget(data, "shape")    ? " of this shape"
                                     : "");
    if (wanted == EXPCONF_TOKENS && !strcmp(jget_string(jget(trainer, "loss"), "name", ""), "mse"))
        return expconf_fault(doc, "trainer.loss.name", e,
                             "mse needs data with values to predict; use cross_entropy for tokens");
    if (wanted == EXPCONF_TOKENS && !jget(model, "context"))
        return expconf_fault(doc, "trainer.model.context", e,
                             "missing key (number of tokens that the model sees); a list of layers "
                             "that begins with an embedding needs it");
    return 0;
}

static int check_hidden(const struct yaml_doc *doc, const json_t *model, struct error *e)
{
    size_t count = json_array_size(jget(model, "hidden"));
    if (!count)
        return expconf_fault(doc, "trainer.model.hidden", e,
                             "is empty; give the width of at least one layer");
    // Each hidden layer is a linear layer, its activation and dropout; flatten and the output are
    // additional.
    if (count > (LIMIT_LAYERS - 2) / 3)
        return expconf_fault(doc, "trainer.model.hidden", e, "at most %d layers",
                             (LIMIT_LAYERS - 2) / 3);
    return 0;
}

static int check_depth(const struct yaml_doc *doc, const json_t *model, struct error *e)
{
    static const long long depths[] = {20, 32, 56, 18, 34, 50};
    long long depth = jget_int(model, "depth", 0);
    for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++)
        if (depths[i] == depth)
            return 0;
    return expconf_fault(doc, "trainer.model.depth", e,
                         "expected 20, 32 or 56 (images of 32x32), 18, 34 or 50, found %lld",
                         depth);
}

static int check_gpt(const struct yaml_doc *doc, const json_t *model, struct error *e)
{
    long long width = jget_int(model, "width", 0), heads = jget_int(model, "heads", 1);
    if (width % heads)
        return expconf_fault(doc, "trainer.model.heads", e, "%lld does not divide width %lld",
                             heads, width);
    return 0;
}

int expconf_check_model(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *model = jget(trainer, "model");
    const char *family = jget_string(model, "family", "");
    struct model_walk walk = {.doc = doc, .e = e};
    int rc = check_samples(doc, trainer, e);
    if (!rc && !strcmp(family, "layers"))
        rc = check_layers(&walk, jget(model, "layers"), "trainer.model.layers", 0);
    if (!rc && !strcmp(family, "mlp"))
        rc = check_hidden(doc, model, e);
    if (!rc && !strcmp(family, "resnet"))
        rc = check_depth(doc, model, e);
    if (!rc && !strcmp(family, "gpt"))
        rc = check_gpt(doc, model, e);
    return rc;
}
