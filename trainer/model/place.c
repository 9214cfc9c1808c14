// Where the values of a graph, their gradients and all else lie in memory.
//
// With L layers, layer i runs forward at moment i, the loss at L, layer i backward at 2L - i. First
// every value learns the last moment it is read; then values get tensors, or are written over their
// layer's input where nobody reads that any more; then gradients, last layer first; and the plan of
// memory shares room by these moments.
//
// The gradient of a value is the sum of what its readers hand down. The first of them (the last
// layer) gives it a tensor; each further one adds to it. A tensor may be the gradient of several
// values at once: of a residual block's output, of both its summands. So a residual block costs no
// copy: `holders` counts for whom a tensor is still to be read, and it is written over when that is
// nobody else.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

static const int64_t floats_max = INT64_C(1) << 40;

static int backward_moment(const struct model *m, const struct layer *l)
{
    return 2 * m->layer_count - l->position;
}

// --- layers that others do too

// The next layer, if it reads what `l` makes; NULL: it does not, or there is none.
static struct layer *next_reader(const struct compiler *c, const struct layer *l)
{
    struct layer *next = &c->m->layers[l->position + 1];
    return l->position + 1 < c->m->layer_count && next->input == l->output ? next : NULL;
}

// The layer that alone reads what `l` makes, if it is the next one and of this kind.
static struct layer *only_reader(const struct compiler *c, const struct layer *l,
                                 const struct layer_kind *kind)
{
    struct layer *next = next_reader(c, l);
    return next && next->kind == kind && c->values[l->output].readers == 1 ? next : NULL;
}

static void replace_kind(struct layer *l, const struct layer_kind *kind)
{
    l->kind = kind;
    l->flags = kind->flags;
}

// relu before max_pool is relu after it, of fewer values.
static void fuse_relu_max_pool(struct compiler *c, struct layer *relu)
{
    struct layer *pool = only_reader(c, relu, &layer_max_pool);
    if (!pool)
        return;
    ops_pool_add_relu(pool->pool);
    replace_kind(relu, &layer_relu_fused);
}

// linear, gelu, linear: the first makes both values, and the second's gradient of its input goes
// through gelu before it is written.
static void fuse_linear_gelu(struct compiler *c, struct layer *first)
{
    struct layer *gelu = only_reader(c, first, &layer_gelu);
    struct layer *second = gelu ? only_reader(c, gelu, &layer_linear) : NULL;
    if (!second)
        return;
    first->flags |= LAYER_FUSED_GELU_AFTER;
    replace_kind(gelu, &layer_gelu_fused);
    second->flags |= LAYER_FUSED_GELU_BEFORE;
}

// residual, norm: a row is normalised when it has been added up. Others may read the sum.
static void fuse_residual_norm(struct compiler *c, struct layer *residual)
{
    struct layer *norm = next_reader(c, residual);
    if (norm && norm->kind == &layer_layer_norm) {
        replace_kind(residual, &layer_residual_layer_norm);
        replace_kind(norm, &layer_layer_norm_fused);
    } else if (norm && norm->kind == &layer_rms_norm) {
        replace_kind(residual, &layer_residual_rms_norm);
        replace_kind(norm, &layer_rms_norm_fused);
    }
}

// batch_norm, relu and batch_norm, residual, relu become one pass over memory.
static void fuse_batch_norm(struct compiler *c, struct layer *l)
{
    struct layer *residual = only_reader(c, l, &layer_residual);
    struct layer *relu = only_reader(c, residual ? residual : l, &layer_relu);
    if (!relu)
        return;
    l->norm.relu = true;
    if (residual)
        replace_kind(residual, &layer_residual_fused);
    replace_kind(relu, residual ? &layer_relu_fused_forward : &layer_relu_fused);
}

static void fuse(struct compiler *c)
{
    for (struct layer *l = c->m->layers; l < c->m->layers + c->m->layer_count; l++)
        if (l->kind == &layer_relu)
            fuse_relu_max_pool(c, l);
        else if (l->kind == &layer_batch_norm)
            fuse_batch_norm(c, l);
        else if (l->kind == &layer_linear)
            fuse_linear_gelu(c, l);
        else if (l->kind == &layer_residual)
            fuse_residual_norm(c, l);
}

// --- values

static void read_value(struct compiler *c, int value, int moment)
{
    if (value != NONE && moment > c->values[value].last)
        c->values[value].last = moment;
}

static void find_last_reads(struct compiler *c)
{
    const struct model *m = c->m;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        read_value(c, l->input, l->position);
        read_value(c, l->other, l->position);
        read_value(c, l->output, l->position);
        if (l->flags & LAYER_NEEDS_X)
            read_value(c, l->input, backward_moment(m, l));
        if (l->flags & LAYER_NEEDS_Y)
            read_value(c, l->output, backward_moment(m, l));
    }
    read_value(c, c->current, m->layer_count);
}

static bool may_write_over(const struct compiler *c, const struct layer *l)
{
    return c->m->plan.tensors[c->values[l->input].tensor].last <= l->position;
}

// Floats for so many reals of each sample.
static int64_t room(const struct model *m, int64_t size)
{
    return ops_floats_for_reals(m->micro_batch * size);
}

static void place_values(struct compiler *c)
{
    struct model *m = c->m;
    c->values[INPUT].tensor = INPUT;
    memory_plan_use(&m->plan, INPUT, c->values[INPUT].last);
    for (struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        struct graph_value *y = &c->values[l->output];
        int made = l->flags & LAYER_FUSED_INTO_PREVIOUS ? l->position - 1 : l->position;
        l->x = c->values[l->input].tensor;
        if (l->flags & LAYER_IDENTITY || (l->flags & LAYER_IN_PLACE && may_write_over(c, l)))
            l->y = l->x;
        else
            l->y = memory_plan_add(&m->plan, room(m, tensor_shape_size(&l->out)), made);
        y->tensor = l->y;
        memory_plan_use(&m->plan, l->y, y->last);
        if (l->other != NONE) // fused, it is the layer before that adds
            l[l->kind == &layer_residual_fused ? -1 : 0].added = c->values[l->other].tensor;
        if (l->saved != NONE) {
            memory_plan_use(&m->plan, l->saved, made);
            memory_plan_use(&m->plan, l->saved, backward_moment(m, l));
        }
        if (l->table != NONE) { // from before the first pass to after the last
            memory_plan_use(&m->plan, l->table, 0);
            memory_plan_use(&m->plan, l->table, 2 * m->layer_count);
        }
    }
}

// A tensor that is there from before the first layer to after the last. Empty: NONE.
static int place_throughout(struct model *m, int64_t floats)
{
    if (floats == 0)
        return NONE;
    int tensor = memory_plan_add(&m->plan, floats, 0);
    memory_plan_use(&m->plan, tensor, 2 * m->layer_count);
    return tensor;
}

static void place_batch(struct model *m)
{
    const struct sample_shape *s = &m->sample;
    int64_t n = m->micro_batch, context = s->kind == SAMPLE_TOKENS ? n * m->positions : 0;
    m->staged.labels = place_throughout(m, s->classes > 0 ? n : 0);
    m->staged.values = place_throughout(m, n * s->outputs);
    m->staged.tokens = place_throughout(m, context);
    m->staged.targets = place_throughout(m, context);
    m->staged.samples = place_throughout(m, n * (int64_t)(sizeof(int64_t) / sizeof(float)));
    m->keys = xcalloc((size_t)m->layer_count, sizeof *m->keys);
    m->staged.keys =
        place_throughout(m, m->layer_count * (int64_t)(sizeof *m->keys / sizeof(float)));
}

static void place_loss(struct compiler *c)
{
    struct model *m = c->m;
    int64_t rows = m->micro_batch * m->positions;
    int now = m->layer_count;
    m->logits = c->values[c->current].tensor;
    bool kept = m->plan.tensors[m->logits].last > now;
    m->dlogits =
        kept ? memory_plan_add(&m->plan, room(m, m->positions * m->outputs), now) : m->logits;
    m->row_losses = memory_plan_add(&m->plan, rows, now);
    m->hits = memory_plan_add(&m->plan, rows, now);
    m->losses = place_throughout(m, m->micro_batch);
    m->correct = memory_plan_add(&m->plan, m->micro_batch, now);
    m->scratch = place_throughout(m, c->scratch);
}

// --- gradients of values

static void hold(struct compiler *c, int value, int tensor)
{
    c->values[value].gradient = tensor;
    c->holders[tensor]++;
}

static int new_gradient(struct compiler *c, const struct layer *l, int64_t size)
{
    return memory_plan_add(&c->m->plan, room(c->m, size), backward_moment(c->m, l));
}

// `part` is what l hands down to `value`. Its sum with what later layers did goes over one of both,
// where nobody else needs that.
static void hand_down(struct compiler *c, struct layer *l, int value, int part,
                      struct gradient_sum *sum)
{
    struct graph_value *v = &c->values[value];
    int so_far = v->gradient;
    if (so_far != NONE) {
        c->holders[so_far]--;
        *sum = (struct gradient_sum){so_far, part, NONE};
        sum->into = c->holders[so_far] == 0 ? so_far
                    : c->holders[part] == 0 ? part
                                            : new_gradient(c, l, tensor_shape_size(&v->shape));
        memory_plan_use(&c->m->plan, so_far, backward_moment(c->m, l));
        part = sum->into;
    }
    hold(c, value, part);
}

static void place_input_gradient(struct compiler *c, struct layer *l)
{
    int so_far = c->values[l->input].gradient;
    if (l->flags & LAYER_ACCUMULATES_DX && so_far != NONE && c->holders[so_far] == 1) {
        l->add = true;
        l->dx = so_far;
        return;
    }
    if (l->flags & LAYER_DX_IS_DY || (l->flags & LAYER_DX_IN_PLACE && c->holders[l->dy] == 1))
        l->dx = l->dy;
    else
        l->dx = new_gradient(c, l, tensor_shape_size(&l->in));
    hand_down(c, l, l->input, l->dx, &l->sums[0]);
}

static void place_gradients(struct compiler *c)
{
    struct model *m = c->m;
    // A layer adds three tensors at most: dx and two sums.
    c->holders = xcalloc((size_t)m->plan.count + 3 * (size_t)m->layer_count, sizeof *c->holders);
    hold(c, c->current, m->dlogits);
    for (int i = m->layer_count - 1; i >= 0; i--) {
        struct layer *l = &m->layers[i];
        if (!c->values[l->output].needs_gradient)
            continue;
        l->dy = c->values[l->output].gradient;
        if (c->values[l->input].needs_gradient)
            place_input_gradient(c, l);
        if (l->other != NONE && c->values[l->other].needs_gradient)
            hand_down(c, l, l->other, l->dy, &l->sums[1]);
        c->holders[l->dy]--;
        memory_plan_use(&m->plan, l->dy, backward_moment(m, l));
        if (l->dx != NONE)
            memory_plan_use(&m->plan, l->dx, backward_moment(m, l));
    }
}

// batch_norm, residual, relu: backward, what relu lets pass of the sum of its readers' gradients is
// read once more by batch_norm alone. It makes it itself, when it sums it up.
static void join_gradients(struct compiler *c)
{
    struct model *m = c->m;
    for (struct layer *l = m->layers; l + 2 < m->layers + m->layer_count; l++) {
        struct layer *residual = l + 1, *relu = l + 2, *reader = l + 3;
        bool is_read = reader < m->layers + m->layer_count && reader->sums[0].into == relu->dy;
        if (relu->kind != &layer_relu_fused_forward || relu->dy == NONE || l->dy != relu->dx ||
            residual->sums[0].into != NONE || residual->sums[1].into != NONE ||
            relu->sums[0].into != NONE)
            continue;
        struct gradient_sum none = {NONE, NONE, NONE}, *last = is_read ? &reader->sums[0] : &none;
        l->norm.joins_gradients = true;
        l->norm.a = is_read ? last->a : relu->dy;
        l->norm.b = last->b;
        l->norm.y = relu->y;
        *last = none;
        int tensors[] = {l->norm.a, l->norm.b, l->norm.y, l->dy};
        for (int i = 0; i < 4; i++)
            if (tensors[i] != NONE)
                memory_plan_use(&m->plan, tensors[i], backward_moment(m, l));
        replace_kind(relu, &layer_relu_fused);
    }
}

// --- gradients of parameters

static void place_parameter_gradients(struct model *m)
{
    size_t count = (size_t)m->parameter_count;
    bool **last = xcalloc(count + 1, sizeof *last);
    m->gradients = xcalloc(count + 1, sizeof *m->gradients);
    for (int i = m->layer_count - 1; i >= 0; i--)
        for (int slot = 0; slot < PARAMETERS_PER_LAYER; slot++) {
            struct layer *l = &m->layers[i];
            int p = l->parameter[slot], moment = backward_moment(m, l);
            if (p == NONE)
                continue;
            l->add_gradient[slot] = last[p] != NULL;
            if (!last[p])
                m->gradients[p] =
                    memory_plan_add(&m->plan, (int64_t)m->parameters[p].count, moment);
            memory_plan_use(&m->plan, m->gradients[p], moment);
            last[p] = &l->last_gradient[slot];
        }
    for (size_t p = 0; p < count; p++)
        *last[p] = true;
    free(last);
}

// --- the whole

static int allocate(struct model *m, struct error *e)
{
    for (int i = 0; i < m->plan.count; i++) {
        if (m->plan.tensors[i].floats > floats_max)
            return error_set(e, ERR_TOO_LARGE,
                             "a micro-batch of %lld samples needs more than 4 TiB of memory for "
                             "one tensor; choose a smaller micro_batch_size",
                             (long long)m->micro_batch);
    }
    memory_plan_place(&m->plan);
    size_t size = (m->plan.floats + 16) * sizeof *m->arena;
    void *arena = NULL, *reals = NULL;
    int rc = ops_alloc(size, &arena, e);
    if (rc)
        return error_set(e, rc,
                         "no memory for the %.1f GiB of one micro-batch of %lld samples; choose a "
                         "smaller micro_batch_size",
                         (double)size / 0x1p30, (long long)m->micro_batch);
    m->arena = arena;
    int64_t weights = ops_floats_for_reals((int64_t)m->block_size);
    if (weights < (int64_t)m->block_size &&
        (rc = ops_alloc((size_t)weights * sizeof(float), &reals, e)))
        return rc;
    m->room = reals;
    m->padded = batch_new(&m->sample, m->micro_batch);
    return 0;
}

int compiler_place(struct compiler *c, struct error *e)
{
    struct model *m = c->m;
    fuse(c);
    find_last_reads(c);
    place_batch(m);
    place_values(c);
    place_loss(c);
    place_gradients(c);
    join_gradients(c);
    place_parameter_gradients(m);
    int rc = allocate(m, e);
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count && !rc; l++)
        if (l->kind->fill)
            l->kind->fill(l, m->arena + m->plan.tensors[l->table].offset);
    return rc;
}
