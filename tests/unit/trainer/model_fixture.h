// A compiled model with weights, one random micro-batch, and a sink that records all gradients.
#ifndef MUSTER_TESTS_TRAINER_MODEL_FIXTURE_H
#define MUSTER_TESTS_TRAINER_MODEL_FIXTURE_H

#include "tests/unit/trainer/arithmetic.h"

#include <jansson.h>

#include "base/limits.h"
#include "trainer/model/model.h"

struct model_fixture {
    struct arithmetic a;
    struct compiled_model *model;
    struct sample_shape shape;
    const struct parameter *parameters;
    int count, delivered; // number of parameters; number of gradients received
    int order[512];       // parameters in the order of their gradients
    float *weights, *gradients, *losses;
    struct batch *batch;
    struct draw_key key;
};

static const struct sample_shape image_4x3 = {.height = 4, .width = 3, .channels = 1, .classes = 5};
static const struct sample_shape image_16 = {
    .height = 16, .width = 16, .channels = 1, .classes = 5};
static const struct sample_shape image_6x6x4 = {
    .height = 6, .width = 6, .channels = 4, .classes = 5};
static const struct sample_shape features_7 = {
    .kind = SAMPLE_FEATURES, .height = 1, .width = 1, .channels = 7, .outputs = 3};
static const struct sample_shape tokens_6 = {.kind = SAMPLE_TOKENS, .context = 6, .vocabulary = 11};

static inline json_t *json_of(const char *text)
{
    json_error_t e;
    json_t *v = json_loads(text, 0, &e);
    if (!v)
        fail_msg("%s: %s", text, e.text);
    return v;
}

// Compiles a list of layers, trainer.model, or an object {"model": .., "loss": ..}.
static inline int compile_text(const char *text, const struct sample_shape *shape,
                               int64_t micro_batch, struct compiled_model **out, struct error *e)
{
    json_t *spec = json_of(text);
    if (json_is_array(spec))
        spec = json_pack("{s:o}", "layers", spec);
    const json_t *model = json_object_get(spec, "model"), *loss = json_object_get(spec, "loss");
    int rc = model_compile(model ? model : spec, loss, shape, micro_batch, out, e);
    json_decref(spec);
    return rc;
}

static inline void fill_batch(struct model_fixture *f, struct batch *b, int64_t n)
{
    const struct sample_shape *s = &f->shape;
    b->count = n;
    for (int64_t i = 0; i < n; i++) {
        int64_t pixels = s->height * s->width * s->channels;
        b->samples[i] = between(&f->a, 0, 100000);
        if (s->classes > 0)
            b->labels[i] = (int32_t)between(&f->a, 0, s->classes - 1);
        for (int64_t p = 0; p < s->outputs; p++)
            b->values[i * s->outputs + p] = (float)(2 * rng_double(&f->a.rng) - 1);
        for (int64_t p = 0; p < pixels; p++)
            b->images[i * pixels + p] = (float)(2 * rng_double(&f->a.rng) - 1);
        for (int64_t p = 0; p < s->context; p++) {
            b->tokens[i * s->context + p] = (int32_t)between(&f->a, 0, s->vocabulary - 1);
            b->targets[i * s->context + p] = (int32_t)between(&f->a, 0, s->vocabulary - 1);
        }
    }
}

static inline void model_fixture_begin(struct model_fixture *f, const char *text,
                                       const struct sample_shape *shape, int64_t micro_batch,
                                       uint64_t seed)
{
    struct error e;
    *f = (struct model_fixture){.a = arithmetic_begin(seed), .shape = *shape, .key = {seed, 3}};
    if (compile_text(text, shape, micro_batch, &f->model, &e))
        fail_msg("%s", e.text);
    f->parameters = model_parameters(f->model, &f->count);
    must(f->count <= 512);
    int64_t size = (int64_t)model_block_size(f->model);
    f->weights = floats_new(&f->a, size);
    f->gradients = floats_new(&f->a, size);
    f->losses = floats_new(&f->a, micro_batch);
    f->batch = batch_new(shape, micro_batch);
    model_init(f->model, seed, f->weights);
    model_set_parameters(f->model, f->weights);
    fill_batch(f, f->batch, micro_batch);
}

static inline void model_fixture_end(struct model_fixture *f)
{
    batch_free(f->batch);
    model_free(f->model);
    arithmetic_end(&f->a);
}

static inline void keep_gradient(void *ctx, int parameter, const float *gradient)
{
    struct model_fixture *f = ctx;
    const struct parameter *p = &f->parameters[parameter];
    assert_true((uintptr_t)gradient % 64 == 0);
    assert_true(f->delivered < f->count);
    f->order[f->delivered++] = parameter;
    memcpy(f->gradients + p->offset, gradient, p->count * sizeof *gradient);
}

// Runs one training pass; returns the sum of the losses of the samples.
static inline double model_fixture_train(struct model_fixture *f, const struct batch *b)
{
    struct gradient_sink sink = {.ready = keep_gradient, .ctx = f};
    struct error e;
    double sum = 0;
    f->delivered = 0;
    if (model_train(f->model, b, &f->key, &sink, f->losses, &e))
        fail_msg("%s", e.text);
    for (int64_t i = 0; i < b->count; i++)
        sum += (double)f->losses[i];
    return sum;
}

#endif
