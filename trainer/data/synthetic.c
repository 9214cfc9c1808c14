// Format synthetic: samples that are made when they are wanted, for trainings without data. Each is
// a function of its index alone.
//
// Texts follow Zipf's law: every doubling of a token's number is as likely as the one before, so
// that the few first tokens are as frequent, and the many last as rare, as words are. Pictures, and
// rows of features, are a pool of noise that is made once, each with its class, and stand there as
// often as it takes: what a fetch costs is a copy.
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
    DRAW = 4,               // numbers of one draw
    DOUBLINGS_MAX = 17,     // of a vocabulary of LIMIT_WIDTH
    POOL_MAX = 64,          // rows
    POOL_NUMBERS = 1 << 24, // .. of some so many numbers together
    SAMPLE_NUMBERS = 1 << 28,
};

struct synthetic_dataset {
    struct dataset base;
    int64_t first; // number of sample 0 among all of both parts
    // Texts: tokens of doubling i are begin[i] .. begin[i] + width[i] - 1.
    uint32_t begin[DOUBLINGS_MAX], width[DOUBLINGS_MAX];
    uint32_t doublings;
    // Rows.
    struct file_content *pool; // floats [rows, inputs]
    int64_t rows, inputs, classes;
};

// --- texts

static void set_doublings(struct synthetic_dataset *d, uint32_t vocabulary)
{
    for (uint32_t begin = 0; begin < vocabulary; begin = 2 * begin + 1) {
        uint32_t most = begin + 1, left = vocabulary - begin;
        d->begin[d->doublings] = begin;
        d->width[d->doublings++] = left < most ? left : most;
    }
}

// Of 32 random bits: which doubling, and with what is left of them which of its tokens.
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

// --- rows

// Numbers of mean 0 and deviation 1, evenly spread.
static struct file_content *make_pool(int64_t rows, int64_t inputs)
{
    const float deviations = 1.7320508f; // of an even spread's half
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

// --- both

static void close_synthetic(struct dataset *base)
{
    struct synthetic_dataset *d = (struct synthetic_dataset *)base;
    file_content_unref(d->pool);
    free(d);
}

static const struct dataset_kind texts = {fetch_text, close_synthetic};
static const struct dataset_kind rows = {fetch_row, close_synthetic};

static int read_text(const struct data_request *r, struct sample_shape *shape, struct error *e)
{
    int64_t drawn = jget_int(r->spec, "vocabulary", 0), known;
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
    if (drawn >= 1 && drawn <= known)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.vocabulary: %lld tokens, but the model knows 1 to %lld "
                     "(trainer.model.vocabulary)",
                     (long long)drawn, (long long)known);
}

static int read_sides(const json_t *list, struct sample_shape *shape, struct error *e)
{
    int64_t side[3] = {1, 1, 1}, numbers = 1;
    size_t count = json_array_size(list);
    if (count < 1 || count > 3)
        return error_set(e, ERR_INVALID,
                         "trainer.data.shape: %zu numbers; [features], [height, width] or [height, "
                         "width, channels] are wanted",
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

static int read_rows(const struct data_request *r, struct sample_shape *shape, struct error *e)
{
    int64_t drawn = jget_int(r->spec, "classes", 0);
    int rc = read_sides(jget(r->spec, "shape"), shape, e);
    if (rc)
        return rc;
    shape->classes = jget_int(r->model, "classes", drawn);
    if (drawn >= 2 && drawn <= shape->classes && drawn <= LIMIT_WIDTH)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.classes: %lld; 2 to %d are wanted, and no more than "
                     "trainer.model.classes",
                     (long long)drawn, LIMIT_WIDTH);
}

static int64_t least(int64_t a, int64_t b)
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
    int64_t kept = jget_int(r->spec, "validation_count", 1);
    bool text = jget(r->spec, "vocabulary") != NULL;
    int rc = text ? read_text(r, s, e) : read_rows(r, s, e);
    if (rc)
        return rc;
    if (kept < 1 || kept >= samples)
        return error_set(e, ERR_INVALID,
                         "trainer.data.validation_count: %lld of the %lld samples; choose 1 to "
                         "%lld, or raise trainer.data.samples",
                         (long long)kept, (long long)samples, (long long)samples - 1);
    both.base.kind = text ? &texts : &rows;
    if (text) {
        set_doublings(&both, (uint32_t)jget_int(r->spec, "vocabulary", 0));
    } else {
        both.classes = jget_int(r->spec, "classes", 0);
        both.inputs = s->height * s->width * s->channels;
        both.rows = least(POOL_MAX, least(samples, 1 + POOL_NUMBERS / both.inputs));
        both.pool = make_pool(both.rows, both.inputs);
    }
    new_part(&both, 0, samples - kept, train);
    new_part(&both, samples - kept, kept, validation);
    file_content_unref(both.pool);
    return 0;
}
