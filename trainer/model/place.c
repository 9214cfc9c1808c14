// Assigns memory to the values of a graph, their gradients and everything else.
//
// With L layers, layer i runs forward at moment i, the loss at moment L, and the layers backward
// from L + 1; the layers of a block that is recomputed (recompute.c) run forward again before that.
// First each value learns the last moment at which it is read. Then values get tensors, or
// overwrite the input of their layer if nobody reads that any more. Then gradients get tensors,
// from the last layer to the first. The memory plan shares memory according to these moments.
//
// The gradient of a value is the sum of the contributions of its readers. The first contribution
// (of the last layer) gets a tensor, and each further one is added to it. A tensor may hold the
// gradients of several values at once: the gradient of a residual block's output is that of both
// summands. So a residual block costs no copy. `holders` counts the values whose gradient in a
// tensor is still to be read; a tensor is overwritten only when no other value needs it.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

static const int64_t floats_max = INT64_C(1) << 40;

static int backward_moment(const struct compiler *c, const struct layer *l)
{
    return c->backward_at[l->position];
}

// --- values --------------------------------------------------------------------------------------

static void note_read(struct compiler *c, int value, int moment)
{
    if (value != NONE && moment > c->values[value].last)
        c->values[value].last = moment;
}

static void find_last_reads(struct compiler *c)
{
    const struct compiled_model *m = c->m;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        note_read(c, l->input, l->position);
        note_read(c, l->other, l->position);
        note_read(c, l->output, l->position);
        if (l->flags & LAYER_QUANTISES && l->flags & LAYER_FUSED_GELU_BEFORE)
            note_read(c, l[-1].input, l->position); // it applies gelu itself
        if (l->flags & LAYER_NEEDS_X)
            compiler_note_backward_read(c, l, l->input);
        if (l->flags & LAYER_NEEDS_Y)
            compiler_note_backward_read(c, l, l->output);
    }
    compiler_note_again_reads(c);
    note_read(c, c->current, m->layer_count);
}

static bool can_overwrite_input(const struct compiler *c, const struct layer *l)
{
    return c->m->plan.tensors[c->values[l->input].tensor].last <= l->position;
}

int64_t compiler_float_count(const struct compiler *c, int64_t size)
{
    return ops_floats_for_reals(c->m->micro_batch * size);
}

static void place_values(struct compiler *c)
{
    struct compiled_model *m = c->m;
    c->values[INPUT].tensor = INPUT;
    memory_plan_use(&m->plan, INPUT, c->values[INPUT].last);
    for (struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        struct graph_value *y = &c->values[l->output];
        int made = l->flags & LAYER_FUSED_INTO_PREVIOUS ? l->position - 1 : l->position;
        l->x = c->values[l->input].tensor;
        if (l->flags & LAYER_IDENTITY || (l->flags & LAYER_IN_PLACE && can_overwrite_input(c, l)))
            l->y = l->x;
        else
            l->y = memory_plan_add(&m->plan, compiler_float_count(c, tensor_shape_size(&l->out)),
                                   made);
        y->tensor = l->y;
        memory_plan_use(&m->plan, l->y, y->last);
        if (l->other != NONE) // fused: the layer before adds it
            l[l->kind == &layer_residual_fused ? -1 : 0].added = c->values[l->other].tensor;
        if (l->saved != NONE) {
            memory_plan_use(&m->plan, l->saved, made);
            if (compiler_keeps_saved(c, l))
                memory_plan_use(&m->plan, l->saved, backward_moment(c, l));
        }
        if (l->table != NONE) { // from before the first pass to after the last
            memory_plan_use(&m->plan, l->table, 0);
            memory_plan_use(&m->plan, l->table, c->end);
        }
    }
}

// Adds a tensor that lives throughout all passes; NONE if it is empty.
static int place_throughout(struct compiler *c, int64_t floats)
{
    struct compiled_model *m = c->m;
    if (floats == 0)
        return NONE;
    int tensor = memory_plan_add(&m->plan, floats, 0);
    memory_plan_use(&m->plan, tensor, c->end);
    return tensor;
}

static void place_batch(struct compiler *c)
{
    struct compiled_model *m = c->m;
    const struct sample_shape *s = &m->sample;
    int64_t n = m->micro_batch, context = s->kind == SAMPLE_TOKENS ? n * m->positions : 0;
    m->staged.labels = place_throughout(c, s->classes > 0 ? n : 0);
    m->staged.values = place_throughout(c, n * s->outputs);
    m->staged.tokens = place_throughout(c, context);
    m->staged.targets = place_throughout(c, context);
    m->staged.samples = place_throughout(c, n * (int64_t)(sizeof(int64_t) / sizeof(float)));
    m->keys = xcalloc((size_t)m->layer_count, sizeof *m->keys);
    m->staged.keys =
        place_throughout(c, m->layer_count * (int64_t)(sizeof *m->keys / sizeof(float)));
}

static void place_loss(struct compiler *c)
{
    struct compiled_model *m = c->m;
    int64_t rows = m->micro_batch * m->positions;
    int now = m->layer_count;
    m->logits = c->values[c->current].tensor;
    bool kept = m->plan.tensors[m->logits].last > now;
    int64_t size = compiler_float_count(c, m->positions * m->outputs);
    m->dlogits = kept ? memory_plan_add(&m->plan, size, now) : m->logits;
    m->row_losses = memory_plan_add(&m->plan, rows, now);
    m->hits = memory_plan_add(&m->plan, rows, now);
    m->losses = place_throughout(c, m->micro_batch);
    m->correct = memory_plan_add(&m->plan, m->micro_batch, now);
    m->scratch = place_throughout(c, c->scratch);
}

// --- gradients of values -------------------------------------------------------------------------

static void assign_gradient(struct compiler *c, int value, int tensor)
{
    c->values[value].gradient = tensor;
    c->holders[tensor]++;
}

static int new_gradient(struct compiler *c, const struct layer *l, int64_t size)
{
    return memory_plan_add(&c->m->plan, compiler_float_count(c, size), backward_moment(c, l));
}

// Adds `part`, the contribution of l, to the gradient of `value`. The sum overwrites one of the two
// if nobody else needs it.
static void add_to_gradient(struct compiler *c, struct layer *l, int value, int part,
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
        memory_plan_use(&c->m->plan, so_far, backward_moment(c, l));
        part = sum->into;
    }
    assign_gradient(c, value, part);
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
    add_to_gradient(c, l, l->input, l->dx, &l->sums[0]);
}

static void place_gradients(struct compiler *c)
{
    struct compiled_model *m = c->m;
    // A layer adds at most three tensors: dx and two sums.
    c->holders = xcalloc((size_t)m->plan.count + 3 * (size_t)m->layer_count, sizeof *c->holders);
    assign_gradient(c, c->current, m->dlogits);
    for (int i = m->layer_count - 1; i >= 0; i--) {
        struct layer *l = &m->layers[i];
        if (!c->values[l->output].needs_gradient)
            continue;
        l->dy = c->values[l->output].gradient;
        if (c->values[l->input].needs_gradient)
            place_input_gradient(c, l);
        if (l->other != NONE && c->values[l->other].needs_gradient)
            add_to_gradient(c, l, l->other, l->dy, &l->sums[1]);
        c->holders[l->dy]--;
        memory_plan_use(&m->plan, l->dy, backward_moment(c, l));
        if (l->dx != NONE)
            memory_plan_use(&m->plan, l->dx, backward_moment(c, l));
    }
}

// batch_norm, residual, relu: in the backward pass, only batch_norm reads the gradient that relu
// lets through. So batch_norm computes it itself while it sums it.
static void fuse_residual_gradients(struct compiler *c)
{
    struct compiled_model *m = c->m;
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
                memory_plan_use(&m->plan, tensors[i], backward_moment(c, l));
        layer_replace_kind(relu, &layer_relu_fused);
    }
}

// --- gradients of parameters ---------------------------------------------------------------------

static void place_parameter_gradients(struct compiler *c)
{
    struct compiled_model *m = c->m;
    size_t count = (size_t)m->parameter_count;
    bool **last = xcalloc(count + 1, sizeof *last);
    m->gradients = xcalloc(count + 1, sizeof *m->gradients);
    for (int i = m->layer_count - 1; i >= 0; i--)
        for (int slot = 0; slot < PARAMETERS_PER_LAYER; slot++) {
            struct layer *l = &m->layers[i];
            int p = l->parameter[slot], moment = backward_moment(c, l);
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

// --- allocation ----------------------------------------------------------------------------------

static int check_sizes(const struct compiled_model *m, struct error *e)
{
    for (int i = 0; i < m->plan.count; i++)
        if (m->plan.tensors[i].floats > floats_max)
            return error_set(e, ERR_TOO_LARGE,
                             "a micro-batch of %lld samples needs more than 4 TiB of memory for "
                             "one tensor; choose a smaller micro_batch_size",
                             (long long)m->micro_batch);
    return 0;
}

int compiler_place(struct compiler *c, struct error *e)
{
    struct compiled_model *m = c->m;
    compiler_fuse(c);
    compiler_choose_recomputed(c);
    find_last_reads(c);
    place_batch(c);
    place_values(c);
    place_loss(c);
    place_gradients(c);
    fuse_residual_gradients(c);
    place_parameter_gradients(c);
    compiler_place_recomputed(c);
    int rc = check_sizes(m, e);
    if (!rc)
        memory_plan_place(&m->plan);
    return rc;
}

// Bytes of the arena, and of the copy of the parameters where ops read another type than float.
static size_t arena_bytes(const struct compiled_model *m)
{
    return (m->plan.floats + 16) * sizeof *m->arena;
}

static size_t reals_bytes(const struct compiled_model *m)
{
    int64_t weights = ops_floats_for_reals((int64_t)m->block_size);
    return weights < (int64_t)m->block_size ? (size_t)weights * sizeof(float) : 0;
}

size_t model_memory(const struct compiled_model *m)
{
    return arena_bytes(m) + reals_bytes(m) + model_fp8_bytes(&m->fp8);
}

int model_allocate(struct compiled_model *m, struct error *e)
{
    void *arena = NULL, *reals = NULL;
    size_t size = arena_bytes(m);
    int rc = ops_alloc(size, &arena, e);
    if (rc)
        return error_set(e, rc,
                         "no memory for the %.1f GiB of one micro-batch of %lld samples; choose a "
                         "smaller micro_batch_size%s",
                         (double)size / 0x1p30, (long long)m->micro_batch,
                         m->recompute ? "" : ", or recompute: blocks");
    m->arena = arena;
    if (reals_bytes(m) > 0 && (rc = ops_alloc(reals_bytes(m), &reals, e)))
        return rc;
    m->real_block = reals;
    if ((rc = model_fp8_allocate(&m->fp8, e)))
        return rc;
    m->padded = batch_new(&m->sample, m->micro_batch);
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->kind->fill)
            l->kind->fill(l, m->arena + m->plan.tensors[l->table].offset);
    return 0;
}
