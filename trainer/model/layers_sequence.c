// Layer kinds for tokens and sequences.
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"
#include "trainer/model/compiler.h"

// --- embedding, position -------------------------------------------------------------------------

// Initial embedding vectors, as in GPT-2.
static struct initializer embedding_initializer(const json_t *spec)
{
    return (struct initializer){.deviation = jget_double(spec, "deviation", 0.02)};
}

static int build_embedding(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t width, vocabulary, known = c->m->sample.vocabulary;
    int rc = layer_expect(l, l->in.tokens, "tokens", e);
    if (rc || (rc = spec_int(spec, "width", 0, 1, LIMIT_WIDTH, &width, e)) ||
        (rc = spec_int(spec, "vocabulary", known, 1, LIMIT_WIDTH, &vocabulary, e)))
        return rc;
    if (vocabulary != known)
        return error_set(e, ERR_INVALID,
                         "expected a vocabulary of %lld, as the data has, found %lld",
                         (long long)known, (long long)vocabulary);
    int64_t shape[] = {vocabulary, width};
    l->out = (struct tensor_shape){.rank = 2, .dim = {l->in.dim[0], width}};
    return compiler_add_parameter(c, l, WEIGHT, 2, shape, embedding_initializer(spec), e);
}

static void embedding_forward(const struct layer *l, const struct model_pass *p)
{
    ops_embedding_forward(p->model->micro_batch * l->out.dim[0], l->out.dim[1],
                          pass_value(p, p->model->staged.tokens), pass_parameter(p, l, WEIGHT),
                          pass_value(p, l->y));
}

static void embedding_backward(const struct layer *l, const struct model_pass *p)
{
    ops_embedding_backward(p->model->micro_batch * l->out.dim[0], l->out.dim[1],
                           p->model->sample.vocabulary, pass_value(p, p->model->staged.tokens),
                           pass_value(p, l->dy), pass_gradient(p, l, WEIGHT),
                           l->add_gradient[WEIGHT]);
}

const struct layer_kind layer_embedding = {
    .name = "embedding",
    .flags = LAYER_TIES_WEIGHT,
    .build = build_embedding,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

static int build_position(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int rc = layer_expect_sequence(l, e);
    return rc ? rc
              : compiler_add_parameter(c, l, WEIGHT, 2, l->in.dim, embedding_initializer(spec), e);
}

static void position_forward(const struct layer *l, const struct model_pass *p)
{
    ops_position_forward(p->model->micro_batch, l->in.dim[0], l->in.dim[1], pass_value(p, l->x),
                         pass_parameter(p, l, WEIGHT), pass_value(p, l->y));
}

static void position_backward(const struct layer *l, const struct model_pass *p)
{
    ops_position_backward(p->model->micro_batch, l->in.dim[0], l->in.dim[1], pass_value(p, l->dy),
                          pass_gradient(p, l, WEIGHT));
}

const struct layer_kind layer_position = {
    .name = "position",
    .flags = LAYER_IN_PLACE | LAYER_DX_IS_DY,
    .build = build_position,
    .forward = position_forward,
    .backward = position_backward,
};

// --- attention over query, key and value of each position ----------------------------------------

static int read_heads(const struct layer *l, const json_t *spec, int64_t *heads, struct error *e)
{
    int64_t width = layer_width(l);
    int rc = layer_expect_sequence(l, e);
    if (rc || (rc = spec_int(spec, "heads", 0, 1, LIMIT_HEADS, heads, e)))
        return rc;
    if (width % (3 * *heads) == 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "expected a width of 3 (query, key, value) x %lld heads x any, found %lld",
                     (long long)*heads, (long long)width);
}

static int build_attention(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t samples = c->m->micro_batch, context = l->in.dim[0], heads;
    int rc = read_heads(l, spec, &heads, e);
    if (rc || (rc = spec_rate(spec, "dropout", &l->rate, e)))
        return rc;
    int64_t width = layer_width(l) / 3;
    l->attention = (struct ops_attention){samples, context, heads, width};
    compiler_save(c, l, ops_attention_saved_floats(&l->attention, l->rate));
    compiler_need_scratch(c, ops_attention_scratch_floats(&l->attention));
    l->out.dim[1] = width;
    // Two products forward, four backward. By convention both count in full, although causal
    // masking skips half of the work.
    l->flops = l->flops_weights = 4.0 * (double)context * (double)context * (double)width;
    return 0;
}

static void attention_forward(const struct layer *l, const struct model_pass *p)
{
    struct ops_dropout draw = pass_draw(p, l);
    ops_attention_forward(&l->attention, &draw, pass_value(p, l->x), pass_value(p, l->saved),
                          pass_value(p, p->model->scratch), pass_value(p, l->y));
}

static void attention_backward(const struct layer *l, const struct model_pass *p)
{
    struct ops_dropout draw = pass_draw(p, l);
    ops_attention_backward(&l->attention, &draw, pass_value(p, l->x), pass_value(p, l->y),
                           pass_value(p, l->saved), pass_value(p, p->model->scratch),
                           pass_value(p, l->dy), pass_value(p, l->dx));
}

const struct layer_kind layer_attention = {
    .name = "attention",
    .flags = LAYER_NEEDS_X | (OPS_ATTENTION_NEEDS_Y ? LAYER_NEEDS_Y : 0),
    .build = build_attention,
    .forward = attention_forward,
    .backward = attention_backward,
};

// --- rotary positions: a layer of its own before the attention that uses them --------------------

// Layers with equal settings share a table.
static int shared_rotary_table(struct compiler *c, const struct layer *l)
{
    for (const struct layer *other = c->m->layers; other < l; other++)
        if (other->kind == &layer_rotary &&
            memcmp(&other->rotary, &l->rotary, sizeof l->rotary) == 0)
            return other->table;
    return memory_plan_add(&c->m->plan, ops_rotary_table_floats(&l->rotary), l->position);
}

static int build_rotary(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t heads;
    int rc = read_heads(l, spec, &heads, e);
    if (rc)
        return rc;
    int64_t width = layer_width(l) / 3;
    l->rotary.samples = c->m->micro_batch;
    l->rotary.context = l->in.dim[0];
    l->rotary.heads = heads;
    l->rotary.width = width;
    l->rotary.base = spec_rotary(spec);
    if (width / heads % 2)
        return error_set(
            e, ERR_INVALID,
            "expected heads of an even width, because rotary positions work on pairs, found "
            "%lld / %lld heads",
            (long long)width, (long long)heads);
    l->table = shared_rotary_table(c, l);
    return 0;
}

static void rotary_fill(const struct layer *l, float *table)
{
    ops_rotary_table(&l->rotary, table);
}

static void apply_rotary(const struct layer *l, const struct model_pass *p, int from, int to,
                         bool back)
{
    const real *x = pass_value(p, from);
    real *y = pass_value(p, to);
    if (x != y)
        ops_copy(y, x, (size_t)ops_floats_for_reals(pass_count(p, l)) * sizeof(float));
    ops_rotary_apply(&l->rotary, pass_value(p, l->table), back, y);
}

static void rotary_forward(const struct layer *l, const struct model_pass *p)
{
    apply_rotary(l, p, l->x, l->y, false);
}

static void rotary_backward(const struct layer *l, const struct model_pass *p)
{
    apply_rotary(l, p, l->dy, l->dx, true);
}

const struct layer_kind layer_rotary = {
    .name = "rotary",
    .flags = LAYER_IN_PLACE | LAYER_DX_IN_PLACE,
    .build = build_rotary,
    .forward = rotary_forward,
    .backward = rotary_backward,
    .fill = rotary_fill,
};
