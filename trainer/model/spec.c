// Shapes as text, and values of specifications.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "trainer/model/compiler.h"

int64_t tensor_shape_size(const struct tensor_shape *s)
{
    int64_t size = 1;
    for (int i = 0; i < s->rank; i++)
        size *= s->dim[i];
    return size;
}

bool tensor_shape_equal(const struct tensor_shape *a, const struct tensor_shape *b)
{
    return a->tokens == b->tokens && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

const char *tensor_shape_text(const struct tensor_shape *s, char out[TENSOR_SHAPE_TEXT_MAX])
{
    long long a = s->dim[0], b = s->dim[1], c = s->dim[2];
    if (s->tokens)
        snprintf(out, TENSOR_SHAPE_TEXT_MAX, "%lld tokens", a);
    else if (s->rank == 1)
        snprintf(out, TENSOR_SHAPE_TEXT_MAX, "%lld", a);
    else if (s->rank == 2)
        snprintf(out, TENSOR_SHAPE_TEXT_MAX, "%lldx%lld", a, b);
    else
        snprintf(out, TENSOR_SHAPE_TEXT_MAX, "%lldx%lldx%lld", a, b, c);
    return out;
}

int spec_int(const json_t *spec, const char *key, int64_t fallback, int64_t min, int64_t max,
             int64_t *out, struct error *e)
{
    const json_t *value = jget(spec, key);
    if (!value && fallback < min)
        return error_set(e, ERR_INVALID, "needs \"%s\", an integer from %lld to %lld", key,
                         (long long)min, (long long)max);
    *out = value ? jget_int(spec, key, min - 1) : fallback;
    if (*out < min || *out > max)
        return error_set(e, ERR_INVALID, "\"%s\" must be an integer from %lld to %lld", key,
                         (long long)min, (long long)max);
    return 0;
}

int loss_read(const json_t *spec, const struct sample_shape *shape, struct loss_config *out,
              struct error *e)
{
    bool values = shape->kind != SAMPLE_TOKENS && shape->outputs > 0;
    const char *name = jget_string(spec, "name", values ? "mse" : "cross_entropy");
    double smoothing = jget_double(spec, "label_smoothing", 0);
    *out =
        (struct loss_config){.mse = strcmp(name, "mse") == 0, .label_smoothing = (float)smoothing};
    if (!out->mse && strcmp(name, "cross_entropy") != 0)
        return error_set(e, ERR_INVALID,
                         "trainer.loss.name: expected cross_entropy or mse, found \"%s\"", name);
    if (out->mse != values)
        return error_set(e, ERR_INVALID, "trainer.loss.name: %s needs data with %s, found %s", name,
                         out->mse ? "values to predict" : "classes or tokens",
                         values ? "values to predict" : "classes or tokens");
    if (!(smoothing >= 0 && smoothing < 1))
        return error_set(
            e, ERR_INVALID,
            "trainer.loss.label_smoothing: expected a number from 0 to below 1, found %g",
            smoothing);
    return 0;
}

int spec_rate(const json_t *spec, const char *key, double *out, struct error *e)
{
    *out = jget(spec, key) ? jget_double(spec, key, -1) : 0;
    if (*out >= 0 && *out < 1)
        return 0;
    return error_set(e, ERR_INVALID, "\"%s\" must be a number from 0 to below 1", key);
}

double spec_rotary(const json_t *spec)
{
    return jget_bool(spec, "rotary", false) ? 10000 : jget_double(spec, "rotary", 0);
}

struct initializer spec_normal(const json_t *spec, int64_t fan_in)
{
    double scaled = jget_double(spec, "gain", sqrt(2)) / sqrt((double)fan_in);
    return (struct initializer){.deviation = jget_double(spec, "deviation", scaled)};
}

int layer_expect(const struct layer *l, bool fits, const char *expected, struct error *e)
{
    char found[TENSOR_SHAPE_TEXT_MAX];
    if (fits)
        return 0;
    return error_set(e, ERR_INVALID, "expected %s, found %s", expected,
                     tensor_shape_text(&l->in, found));
}

int layer_expect_values(const struct layer *l, struct error *e)
{
    return layer_expect(l, !l->in.tokens, "values", e);
}

int layer_expect_rows(const struct layer *l, struct error *e)
{
    return layer_expect(l, !l->in.tokens && l->in.rank <= 2, "features or a sequence of them", e);
}

int layer_expect_sequence(const struct layer *l, struct error *e)
{
    return layer_expect(l, !l->in.tokens && l->in.rank == 2, "a sequence (positions x width)", e);
}

int layer_expect_image(const struct layer *l, struct error *e)
{
    return layer_expect(l, l->in.rank == 3, "an image (height x width x channels)", e);
}

int64_t layer_width(const struct layer *l)
{
    return l->in.dim[l->in.rank - 1];
}
