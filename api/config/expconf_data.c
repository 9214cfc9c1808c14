// The keys of trainer.data, the kinds of samples of each format, and the checks between the keys.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"
#include "base/limits.h"
#include "base/text/json.h"

#define FILE_OPTIONAL(key, text)                                                                   \
    {                                                                                              \
        .name = key, .type = SCHEMA_STRING, .doc = text                                            \
    }
#define FRACTION(what)                                                                             \
    NUMBER("validation_fraction", 0, 1, "0.1",                                                     \
           "share at the end of " what                                                             \
           " kept for validation if there are no validation files; between "                       \
           "0 and 1")
#define COUNT                                                                                      \
    INT("validation_count", 0, BIG, "0",                                                           \
        "number of last samples kept for validation if there are no validation files")
#define LIST_OPTIONAL(key, text)                                                                   \
    {                                                                                              \
        .name = key, .type = SCHEMA_LIST, .element = &column_name, .doc = text                     \
    }
#define CHOICE(key, of, is_required, text)                                                         \
    {                                                                                              \
        .name = key, .type = SCHEMA_ONE_OF, .fields = of, .required = is_required, .doc = text     \
    }

static const struct schema_field one_path = {.name = "path", .type = SCHEMA_STRING};
static const struct schema_field path_or_paths[] = {
    {.name = "path", .type = SCHEMA_STRING},
    {.name = "paths", .type = SCHEMA_LIST, .element = &one_path},
    END,
};
static const struct schema_field column_name = {.name = "column", .type = SCHEMA_STRING};
static const struct schema_field one_mean = {
    .name = "mean", .type = SCHEMA_NUMBER, .min = -1e6, .max = 1e6};
static const struct schema_field means[] = {
    {.name = "mean", .type = SCHEMA_NUMBER, .min = -1e6, .max = 1e6},
    {.name = "means", .type = SCHEMA_LIST, .element = &one_mean},
    END,
};
static const struct schema_field one_deviation = {
    .name = "deviation", .type = SCHEMA_NUMBER, .min = 1e-6, .max = 1e6};
static const struct schema_field deviations[] = {
    {.name = "deviation", .type = SCHEMA_NUMBER, .min = 1e-6, .max = 1e6},
    {.name = "deviations", .type = SCHEMA_LIST, .element = &one_deviation},
    END,
};
static const struct schema_field augment_fields[] = {
    BOOL("flip", "false", "whether every other image, at random, is mirrored left to right"),
    INT("crop", 0, 4096, "0",
        "pixels of zero padding on each side, from which an image of the original size is cut"),
    INT("cutout", 0, 65536, "0",
        "side in pixels of a square at a random place that is set to zero"),
    END,
};
#define AUGMENT                                                                                    \
    OBJECT("augment", augment_fields, NULL,                                                        \
           "random changes of training images, drawn for each sample in each step")

static const struct schema_field bytes_fields[] = {
    STRING_REQUIRED("path", "file of bytes to train on, relative to the working folder"),
    FILE_OPTIONAL("validation_path", "file of bytes to validate on"),
    FRACTION("`path`"),
    END,
};
static const struct schema_field idx_fields[] = {
    STRING_REQUIRED("images", "IDX file of training images (.gz is read too)"),
    STRING_REQUIRED("labels", "IDX file of training labels"),
    FILE_OPTIONAL("validation_images", "IDX file of validation images"),
    FILE_OPTIONAL("validation_labels", "IDX file of validation labels"),
    COUNT,
    NUMBER("mean", -1e6, 1e6, "0.1307", "subtracted from pixels scaled to 0..1"),
    NUMBER("deviation", 1e-6, 1e6, "0.3081", "divides pixels after that"),
    AUGMENT,
    END,
};
static const struct schema_field npy_fields[] = {
    STRING_REQUIRED("inputs", ".npy file of uint8, float32 or float64: images [N, H, W] or "
                              "[N, H, W, C], or features [N, F]"),
    FILE_OPTIONAL("labels", ".npy file of integers [N], the class of each sample"),
    FILE_OPTIONAL("values", ".npy file of numbers [N] or [N, K] to predict, instead of labels"),
    FILE_OPTIONAL("validation_inputs", ".npy file of validation inputs"),
    FILE_OPTIONAL("validation_labels", ".npy file of validation labels"),
    FILE_OPTIONAL("validation_values", ".npy file of validation values"),
    COUNT,
    CHOICE("mean", means, false,
           "subtracted from inputs (uint8 is scaled to 0..1 before): one number, or a list of one "
           "for each channel; 0 by default"),
    CHOICE("deviation", deviations, false, "divides inputs after that; 1 by default"),
    AUGMENT,
    END,
};
static const struct schema_field csv_fields[] = {
    STRING_REQUIRED("path", "CSV file (RFC 4180), a sample in each line"),
    FILE_OPTIONAL("validation_path", "CSV file with the same columns to validate on"),
    COUNT,
    BOOL("header", "true",
         "whether the first line names the columns; otherwise they are \"1\", \"2\", ..."),
    STRING("delimiter", "\",\"", "the character between fields"),
    FILE_OPTIONAL("label", "column of the class, a whole number from 0 on"),
    LIST_OPTIONAL("targets", "columns of values to predict, instead of a label"),
    LIST_OPTIONAL("features", "columns of features; all other columns by default"),
    BOOL("standardize", "false",
         "whether each feature is moved to mean 0 and scaled to deviation 1, by the training part"),
    END,
};
static const struct schema_field images_fields[] = {
    STRING_REQUIRED("path", "file that `muster-trainer pack` made from a folder of images"),
    FILE_OPTIONAL("validation_path", "packed file to validate on, with the same classes"),
    COUNT,
    CHOICE("mean", means, false,
           "subtracted from pixels scaled to 0..1: one number, or a list of one for each channel; "
           "by default the mean of the packed pixels"),
    CHOICE("deviation", deviations, false,
           "divides pixels after that; by default the deviation of the packed pixels"),
    AUGMENT,
    END,
};
static const struct schema_field tokens_fields[] = {
    CHOICE("path", path_or_paths, true,
           "file of tokens, or a list of files; the last part of a path may contain * and ?, which "
           "select files in order of name. Headers of llm.c are recognized; a file without one "
           "contains only tokens (nanoGPT)"),
    CHOICE("validation_path", path_or_paths, false, "files of tokens to validate on"),
    FRACTION("all tokens"),
    WORD("type", ((const char *const[]){"uint16", "uint32", NULL}), "\"uint16\"",
         "type of the tokens in files without a header"),
    END,
};
static const struct schema_field side = {
    .name = "side", .type = SCHEMA_INT, .min = 1, .max = LIMIT_WIDTH};
static const struct schema_field synthetic_fields[] = {
    INT_REQUIRED("samples", 2, BIG, "number of samples for training and validation together"),
    INT("validation_count", 1, BIG, "1", "last samples kept for validation"),
    INT_OPTIONAL("vocabulary", 2, LIMIT_WIDTH,
                 "for texts: number of different tokens, the first ones most frequent (Zipf's "
                 "law); at most trainer.model.vocabulary"),
    {.name = "shape",
     .type = SCHEMA_LIST,
     .element = &side,
     .doc = "shape of random samples: images [height, width] or [height, width, channels], "
            "features [features]"},
    INT_OPTIONAL("classes", 2, LIMIT_WIDTH, "number of classes of images or features"),
    END,
};
const struct schema_variant expconf_data_formats[] = {
    {"bytes", bytes_fields, "one file of bytes; each byte is a token"},
    {"csv", csv_fields, "rows of numbers in a CSV file"},
    {"idx", idx_fields, "images and labels in IDX files (as MNIST)"},
    {"images", images_fields, "a folder of images, packed"},
    {"npy", npy_fields, "NumPy arrays in .npy files"},
    {"synthetic", synthetic_fields,
     "generated texts, images or features, the same each time; for measuring the speed of a model"},
    {"tokens", tokens_fields, "files of tokens (as nanoGPT and llm.c write them)"},
    {NULL, NULL, NULL},
};

// The kinds of samples of a format, and the keys that belong together.
static const struct data_rules {
    const char *format;
    unsigned samples;          // bits of enum expconf_samples
    const char *either[2];     // exactly one of the two is required
    const char *validation[2]; // both or neither; not with a count or a fraction; or none
} rules[] = {
    {"bytes", EXPCONF_TOKENS, {NULL}, {"validation_path"}},
    {"csv", EXPCONF_FEATURES, {"label", "targets"}, {"validation_path"}},
    {"idx", EXPCONF_IMAGES, {NULL}, {"validation_images", "validation_labels"}},
    {"images", EXPCONF_IMAGES, {NULL}, {"validation_path"}},
    {"npy",
     EXPCONF_IMAGES | EXPCONF_FEATURES,
     {"labels", "values"},
     {"validation_inputs", "validation_labels"}},
    {"synthetic",
     EXPCONF_TOKENS | EXPCONF_IMAGES | EXPCONF_FEATURES,
     {"vocabulary", "shape"},
     {NULL}},
    {"tokens", EXPCONF_TOKENS, {NULL}, {"validation_path"}},
    {NULL, 0, {NULL}, {NULL}},
};

static const struct data_rules *rules_of(const char *format)
{
    const struct data_rules *r = rules;
    while (r->format && strcmp(r->format, format) != 0)
        r++;
    return r;
}

// The keys of the format synthetic define its samples.
unsigned expconf_data_samples(const json_t *data)
{
    if (jget(data, "vocabulary"))
        return EXPCONF_TOKENS;
    if (jget(data, "shape"))
        return json_array_size(jget(data, "shape")) == 1 ? EXPCONF_FEATURES : EXPCONF_IMAGES;
    return rules_of(jget_string(data, "format", ""))->samples;
}

__attribute__((format(printf, 4, 5))) static int
data_fault(const struct yaml_doc *doc, const char *key, struct error *e, const char *fmt, ...)
{
    char path[64], text[256];
    va_list args;
    snprintf(path, sizeof path, "trainer.data.%s", key);
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return expconf_fault(doc, path, e, "%s", text);
}

static int check_pairs(const struct yaml_doc *doc, const struct data_rules *r, const json_t *data,
                       struct error *e)
{
    const char *const *either = r->either, *one = r->validation[0], *other = r->validation[1];
    if (either[0] && !jget(data, either[0]) == !jget(data, either[1]))
        return data_fault(doc, either[0], e, "give one of %s and %s, not both", either[0],
                          either[1]);
    if (!other)
        return 0;
    bool values = either[1] && jget(data, either[1]);
    if (values && jget(data, other))
        return data_fault(doc, other, e, "cannot be combined with %s", either[1]);
    if (!values && either[0] && jget(data, "validation_values"))
        return data_fault(doc, "validation_values", e, "cannot be combined with %s", either[0]);
    other = values ? "validation_values" : other;
    if (!jget(data, one) != !jget(data, other))
        return data_fault(doc, jget(data, one) ? one : other, e, "is incomplete; %s is needed too",
                          jget(data, one) ? other : one);
    return 0;
}

static int check_shape(const struct yaml_doc *doc, const json_t *data, struct error *e)
{
    const json_t *shape = jget(data, "shape");
    if (shape && (json_array_size(shape) < 1 || json_array_size(shape) > 3))
        return data_fault(
            doc, "shape", e,
            "has %zu numbers; expected [features], [height, width] or [height, width, channels]",
            json_array_size(shape));
    if (shape && !jget(data, "classes"))
        return data_fault(doc, "classes", e, "missing key (number of classes)");
    if (jget(data, "vocabulary") && jget(data, "classes"))
        return data_fault(doc, "classes", e, "cannot be combined with vocabulary");
    return 0;
}

int expconf_check_data(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *data = jget(trainer, "data");
    const struct data_rules *r = rules_of(jget_string(data, "format", ""));
    bool own = r->validation[0] && jget(data, r->validation[0]);
    double fraction = jget_double(data, "validation_fraction", 0);
    if (r->samples == EXPCONF_TOKENS && !own && !(fraction > 0 && fraction < 1))
        return data_fault(doc, "validation_fraction", e,
                          "must be greater than 0 and less than 1 unless %s is given",
                          r->validation[0]);
    int rc = check_pairs(doc, r, data, e);
    if (!rc)
        rc = check_shape(doc, data, e);
    if (!rc && own && jget_int(data, "validation_count", 0))
        rc = data_fault(doc, "validation_count", e,
                        "applies to data without validation files only; leave it out");
    if (!rc && jget(data, "delimiter") && strlen(jget_string(data, "delimiter", "")) != 1)
        rc = data_fault(doc, "delimiter", e, "must be one character");
    return rc;
}
