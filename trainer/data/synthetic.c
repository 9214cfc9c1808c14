// Format synthetic: samples that are generated on demand, to train and measure without data. Each
// sample is a function of its index.
//
// Texts follow Zipf's law: the token numbers are divided into ranges of doubling width, and each
// range is equally likely. So low numbers are frequent and high numbers are rare, as words are.
// Images and rows of features come from a pool of noise that is generated once, each with a class;
// samples repeat the pool. So a fetch costs one copy.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/data/format.h"

#define TEXT_KEY UINT64_C(0x74657874)
#define POOL_KEY UINT64_C(0x706f6f6c)

enum {
    DRAW = 4,               // random numbers of one draw
    DOUBLINGS_MAX = 17,     // for a vocabulary of LIMIT_WIDTH
    POOL_MAX = 64,          // rows
    POOL_NUMBERS = 1 << 24, // approximate limit of the numbers of all rows together
    SAMPLE_NUMBERS = 1 << 28,
};

struct synthetic_dataset {
    struct dataset base;
    int64_t first; // index of sample 0 among the samples of both parts
    // Texts: range i consists of the tokens begin[i] .. begin[i] + width[i] - 1.
    uint32_t begin[DOUBLINGS_MAX], width[DOUBLINGS_MAX];
    uint32_t doublings;
    // Rows.
    struct file_content *pool; // floats [rows, inputs]
    int64_t rows, inputs, classes;
};

// --- texts ---------------------------------------------------------------------------------------

static void set_doublings(struct synthetic_dataset *d, uint32_t vocabulary)
{
    for (uint32_t begin = 0; begin < vocabulary; begin = 2 * begin + 1) {
        uint32_t doubled = begin + 1, left = vocabulary - begin;
        d->begin[d->doublings] = begin;
        d->width[d->doublings++] = left < doubled ? left : doubled;
    }
}

// Maps 32 random bits to a range and, with the remaining bits, to a token in it.
static int32_t token_of(const struct synthetic_dataset *d, uint32_t random)
{
    uint64_t product = (uint64_t)random * d->doublings;
    uint32_t doubling = (uint32_t)(product >> 32), rest = (uint32_t)product;
    return (int32_t)(d->begin[doubling] + (uint32_t)((uint64_t)rest * d->width[doubling] >> 32));
}

static int fetch_text(const struct dataset *base, int64_t index, int64_t i, struct batch *out,
                      struct error *e)
{
    const struct synthetic_dataset *d = (const struct synthetic_dataset *)base;
    int64_t context = base->shape.context;
    int32_t *tokens = out->tokens + i * context, *targets = out->targets + i * context;
    (void)e;
    for (int64_t at = 0; at <= context; at += DRAW) {
        uint32_t random[DRAW];
        philox4x32(TEXT_KEY, (uint64_t)(d->first + index), (uint64_t)at / DRAW, random);
        for (int64_t j = at; j < at + DRAW && j <= context; j++) {
            int32_t token = token_of(d, random[j - at]);
            if (j < context)
                tokens[j] = token;
            if (j > 0)
                targets[j - 1] = token;
        }
    }
    return 0;
}

// --- rows ----------------------------------------------------------------------------------------

// Uniform random numbers with mean 0 and deviation 1.
static struct file_content *make_pool(int64_t rows, int64_t inputs)
{
    // sqrt(3): half the width of a uniform distribution with deviation 1
    const float deviations = 1.7320508f;
    size_t count = (size_t)(rows * inputs);
    float *numbers = xcalloc(count + DRAW, sizeof *numbers);
    for (size_t i = 0; i < count; i += DRAW) {
        uint32_t random[DRAW];
        philox4x32(POOL_KEY, 0, i / DRAW, random);
        for (size_t j = 0; j < DRAW; j++)
            numbers[i + j] = ((float)(random[j] >> 8) * 0x1p-23f - 1) * deviations;
    }
    return file_content_from_memory("synthetic", numbers, count * sizeof *numbers);
}

static int32_t class_of(int64_t row, int64_t classes)
{
    uint32_t random[DRAW];
    philox4x32(POOL_KEY, 1, (uint64_t)row, random);
    return (int32_t)((uint64_t)random[0] * (uint64_t)classes >> 32);
}

static int fetch_row(const struct dataset *base, int64_t index, int64_t i, struct batch *out,
                     struct error *e)
{
    const struct synthetic_dataset *d = (const struct synthetic_dataset *)base;
    int64_t row = (d->first + index) % d->rows;
    (void)e;
    memcpy(out->images + i * d->inputs, (const float *)d->pool->data + row * d->inputs,
           (size_t)d->inputs * sizeof(float));
    out->labels[i] = class_of(row, d->classes);
    return 0;
}

// --- both kinds ----------------------------------------------------------------------------------

static void close_synthetic(struct dataset *base)
{
    struct synthetic_dataset *d = (struct synthetic_dataset *)base;
    file_content_unref(d->pool);
    free(d);
}

static const struct dataset_ops text_ops = {fetch_text, close_synthetic};
static const struct dataset_ops row_ops = {fetch_row, close_synthetic};

static int read_text_shape(const struct data_request *r, struct sample_shape *shape,
                           struct error *e)
{
    int64_t used = jget_int(r->spec, "vocabulary", 0), known;
    *shape = (struct sample_shape){.kind = SAMPLE_TOKENS,
                                   .context = jget_int(r->model, "context", 0),
                                   .vocabulary = jget_int(r->model, "vocabulary", 256)};
    if (shape->context < 1 || shape->context > LIMIT_WIDTH)
        return error_set(e, ERR_INVALID,
                         "trainer.data.vocabulary: texts need a model with a context of 1 to %d "
                         "tokens (family gpt); trainer.model has %lld. For images and features "
                         "give a shape",
                         LIMIT_WIDTH, (long long)shape->context);
    known = shape->vocabulary < LIMIT_WIDTH ? shape->vocabulary : LIMIT_WIDTH;
    if (used >= 1 && used <= known)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.vocabulary: %lld tokens, but the model knows 1 to %lld "
                     "(trainer.model.vocabulary)",
                     (long long)used, (long long)known);
}

static int read_sides(const json_t *list, struct sample_shape *shape, struct error *e)
{
    int64_t side[3] = {1, 1, 1}, numbers = 1;
    size_t count = json_array_size(list);
    if (count < 1 || count > 3)
        return error_set(e, ERR_INVALID,
                         "trainer.data.shape: %zu numbers; expected [features], [height, width] or "
                         "[height, width, channels]",
                         count);
    for (size_t i = 0; i < count; i++) {
        side[i] = json_integer_value(json_array_get(list, i));
        if (side[i] < 1 || __builtin_mul_overflow(numbers, side[i], &numbers) ||
            numbers > SAMPLE_NUMBERS)
            return error_set(e, ERR_INVALID,
                             "trainer.data.shape: sides are 1 or more, and a sample has at most "
                             "%d numbers",
                             SAMPLE_NUMBERS);
    }
    *shape =
        count == 1
            ? (struct sample_shape){.kind = SAMPLE_FEATURES,
                                    .height = 1,
                                    .width = 1,
                                    .channels = side[0]}
            : (struct sample_shape){
                  .kind = SAMPLE_IMAGE, .height = side[0], .width = side[1], .channels = side[2]};
    return 0;
}

static int read_row_shape(const struct data_request *r, struct sample_shape *shape, struct error *e)
{
    int64_t used = jget_int(r->spec, "classes", 0);
    int rc = read_sides(jget(r->spec, "shape"), shape, e);
    if (rc)
        return rc;
    shape->classes = jget_int(r->model, "classes", used);
    if (used >= 2 && used <= shape->classes && used <= LIMIT_WIDTH)
        return 0;
    return error_set(
        e, ERR_INVALID,
        "trainer.data.classes: %lld; expected 2 to %d, and no more than trainer.model.classes",
        (long long)used, LIMIT_WIDTH);
}

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void new_part(const struct synthetic_dataset *both, int64_t first, int64_t count,
                     struct dataset **out)
{
    struct synthetic_dataset *d = xcalloc(1, sizeof *d);
    *d = *both;
    d->first = first;
    d->base.count = count;
    if (d->pool)
        file_content_ref(d->pool);
    *out = &d->base;
}

int synthetic_open(const struct data_request *r, struct dataset **train,
                   struct dataset **validation, struct error *e)
{
    struct synthetic_dataset both = {0};
    struct sample_shape *s = &both.base.shape;
    int64_t samples = jget_int(r->spec, "samples", 0);
    int64_t held_out = jget_int(r->spec, "validation_count", 1);
    bool text = jget(r->spec, "vocabulary") != NULL;
    int rc = text ? read_text_shape(r, s, e) : read_row_shape(r, s, e);
    if (rc)
        return rc;
    if (held_out < 1 || held_out >= samples)
        return error_set(e, ERR_INVALID,
                         "trainer.data.validation_count: %lld of the %lld samples; choose 1 to "
                         "%lld, or raise trainer.data.samples",
                         (long long)held_out, (long long)samples, (long long)samples - 1);
    both.base.ops = text ? &text_ops : &row_ops;
    if (text) {
        set_doublings(&both, (uint32_t)jget_int(r->spec, "vocabulary", 0));
    } else {
        both.classes = jget_int(r->spec, "classes", 0);
        both.inputs = s->height * s->width * s->channels;
        both.rows = min_int64(POOL_MAX, min_int64(samples, 1 + POOL_NUMBERS / both.inputs));
        both.pool = make_pool(both.rows, both.inputs);
    }
    new_part(&both, 0, samples - held_out, train);
    new_part(&both, samples - held_out, held_out, validation);
    file_content_unref(both.pool);
    return 0;
}
