// Recomputation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). A training
// pass keeps only the values between blocks. Before a block runs backward, the layers of it whose
// results the backward pass reads run forward once more, from the same inputs and with the same
// dropout keys, so the bits are the same.
//
// A block is a residual block of the list of layers. A residual block with attention and the one
// directly after it without are one block: a block of a transformer. Blocks with a batch_norm that
// synchronises are not recomputed, because their second run would need all ranks.
//
// A value is inner if only layers of its block make and read it. Inner values get a second tensor
// for the time from the second run to their last use; the first tensor is free after the forward
// pass of the block. m->backward is a copy of the layers with the second tensors.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

// --- blocks --------------------------------------------------------------------------------------

struct block_range {
    int first, end; // layers
    bool attention, sync;
};

static struct block_range find_block(const struct compiled_model *m, int first)
{
    struct block_range b = {first, first, false, false};
    for (; b.end < m->layer_count && m->layers[b.end].block == m->layers[first].block; b.end++) {
        b.attention = b.attention || m->layers[b.end].kind == &layer_attention;
        b.sync = b.sync || m->layers[b.end].norm.sync;
    }
    return b;
}

static void number_layers(struct compiled_model *m, const struct block_range *b, int block)
{
    for (int i = b->first; i < b->end; i++)
        m->layers[i].block = block;
}

// Joins the two halves of a transformer's block, and numbers the blocks that are recomputed.
static int choose_blocks(struct compiled_model *m)
{
    int count = 0;
    for (int i = 0; i < m->layer_count;) {
        struct block_range b = find_block(m, i);
        i = b.end;
        if (m->layers[b.first].block == NONE)
            continue;
        if (b.attention && b.end < m->layer_count && m->layers[b.end].block != NONE) {
            struct block_range after = find_block(m, b.end);
            if (!after.attention) {
                b.end = i = after.end;
                b.sync = b.sync || after.sync;
            }
        }
        number_layers(m, &b, m->recompute && !b.sync ? count : NONE);
        count += m->recompute && !b.sync;
    }
    return count;
}

static bool is_last_of_block(const struct compiled_model *m, int i)
{
    const struct layer *l = &m->layers[i];
    return l->block != NONE && (i + 1 == m->layer_count || l[1].block != l->block);
}

static bool is_first_of_block(const struct layer *l)
{
    return l->block != NONE && (l->position == 0 || l[-1].block != l->block);
}

static int first_of_block(const struct layer *l)
{
    while (!is_first_of_block(l))
        l--;
    return l->position;
}

// Forward, layer i runs at moment i and the loss at layer_count.
static void set_moments(struct compiler *c)
{
    const struct compiled_model *m = c->m;
    int now = m->layer_count + 1;
    c->again_at = xcalloc((size_t)m->layer_count, sizeof *c->again_at);
    c->backward_at = xcalloc((size_t)m->layer_count, sizeof *c->backward_at);
    for (int i = m->layer_count - 1; i >= 0; i--) {
        if (is_last_of_block(m, i))
            for (int again = first_of_block(&m->layers[i]); again <= i; again++)
                c->again_at[again] = now++;
        c->backward_at[i] = now++;
    }
    c->end = now - 1;
}

// --- what is computed again ----------------------------------------------------------------------

static void find_inner_values(struct compiler *c)
{
    const struct compiled_model *m = c->m;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        c->values[l->output].block = l->block;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        for (int i = 0; i < 2; i++) {
            int value = i == 0 ? l->input : l->other;
            if (value != NONE && c->values[value].block != l->block)
                c->values[value].block = NONE;
        }
    c->values[c->current].block = NONE;
}

// The value that the layer adds in its pass.
static int summand(const struct compiled_model *m, const struct layer *l)
{
    bool adds_for_next = l->position + 1 < m->layer_count && l[1].kind == &layer_residual_fused;
    return l->kind == &layer_residual_fused ? NONE : adds_for_next ? l[1].other : l->other;
}

// The next layer, if this one computes its output, in the same block.
static struct layer *fused_next(const struct compiled_model *m, struct layer *l)
{
    bool is_fused = l->position + 1 < m->layer_count && l[1].block == l->block &&
                    l[1].flags & LAYER_FUSED_INTO_PREVIOUS;
    return is_fused ? l + 1 : NULL;
}

bool compiler_keeps_saved(const struct compiler *c, const struct layer *l)
{
    return l->saved == NONE || l->block == NONE ||
           8 * c->m->plan.tensors[l->saved].floats <=
               compiler_float_count(c, tensor_shape_size(&l->out));
}

static void want(struct compiler *c, int value)
{
    if (value != NONE && c->values[value].block != NONE)
        c->values[value].wanted = true;
}

static bool writes_only_saved(const struct compiler *c, const struct layer *l)
{
    return l->flags & (LAYER_SAVED_WITHOUT_X | LAYER_QUANTISES) && !c->values[l->output].wanted;
}

// The value that such a layer reads for `saved`. One that quantises applies gelu to it.
static int read_for_saved(const struct layer *l)
{
    if (l->flags & LAYER_SAVED_WITHOUT_X)
        return NONE;
    return l->flags & LAYER_FUSED_GELU_BEFORE ? l[-1].input : l->input;
}

// All later layers have chosen.
static void choose_layer(struct compiler *c, struct layer *l)
{
    struct layer *next = fused_next(c->m, l);
    if (l->flags & LAYER_NEEDS_X)
        want(c, l->input);
    if (l->flags & LAYER_NEEDS_Y)
        want(c, l->output);
    l->again = l->again || c->values[l->output].wanted || !compiler_keeps_saved(c, l) ||
               (next && next->again);
    if (!l->again)
        return;
    if (writes_only_saved(c, l)) {
        want(c, read_for_saved(l));
        return;
    }
    want(c, l->output);
    want(c, l->input);
    want(c, summand(c->m, l));
    if (next) {
        next->again = true;
        want(c, next->output);
    }
}

void compiler_choose_recomputed(struct compiler *c)
{
    struct compiled_model *m = c->m;
    m->recomputed_blocks = choose_blocks(m);
    set_moments(c);
    find_inner_values(c);
    for (int i = m->layer_count - 1; i >= 0; i--)
        if (m->layers[i].block != NONE)
            choose_layer(c, &m->layers[i]);
}

// --- moments of use ------------------------------------------------------------------------------

static void note_use(struct compiler *c, int value, int moment)
{
    if (value == NONE)
        return;
    struct graph_value *v = &c->values[value];
    int *last = v->wanted ? &v->again_last : &v->last;
    if (moment > *last)
        *last = moment;
}

void compiler_note_backward_read(struct compiler *c, const struct layer *l, int value)
{
    note_use(c, value, c->backward_at[l->position]);
}

void compiler_note_again_reads(struct compiler *c)
{
    const struct compiled_model *m = c->m;
    for (int i = m->layer_count - 1; i >= 0; i--) {
        const struct layer *l = &m->layers[i];
        int now = c->again_at[i];
        if (!l->again)
            continue;
        if (writes_only_saved(c, l)) {
            note_use(c, read_for_saved(l), now);
            continue;
        }
        note_use(c, l->output, now);
        note_use(c, l->input, now);
        note_use(c, summand(m, l), now);
        if (l->flags & LAYER_IDENTITY) // the value shares the tensor of its layer's input
            note_use(c, l->input, c->values[l->output].again_last);
    }
}

// --- tensors -------------------------------------------------------------------------------------

static void place_output(struct compiler *c, struct layer *l, int made)
{
    struct memory_plan *plan = &c->m->plan;
    struct graph_value *y = &c->values[l->output];
    bool in_place = l->flags & LAYER_IN_PLACE && l->x != NONE &&
                    plan->tensors[l->x].last <= c->again_at[l->position];
    if (l->flags & LAYER_IDENTITY || in_place)
        y->again = l->x;
    else
        y->again = memory_plan_add(plan, compiler_float_count(c, tensor_shape_size(&l->out)), made);
    memory_plan_use(plan, y->again, y->again_last);
}

static int again_tensor(const struct compiler *c, int value)
{
    const struct graph_value *v = &c->values[value];
    return v->wanted ? v->again : v->tensor;
}

// Gives the layer of m->backward the tensors of its second forward run.
static void place_again(struct compiler *c, struct layer *l)
{
    struct memory_plan *plan = &c->m->plan;
    bool with_previous = l->flags & LAYER_FUSED_INTO_PREVIOUS && !is_first_of_block(l);
    int made = c->again_at[l->position - with_previous], added = summand(c->m, l);
    if (l->flags & LAYER_FUSED_INTO_PREVIOUS && !with_previous) {
        must(l->kind->alone);
        layer_replace_kind(l, l->kind->alone);
    }
    if (c->values[l->output].wanted)
        place_output(c, l, made);
    if (!compiler_keeps_saved(c, l)) {
        l->saved = memory_plan_add(plan, plan->tensors[l->saved].floats, made);
        memory_plan_use(plan, l->saved, c->backward_at[l->position]);
    }
    if (added != NONE && l->added != NONE)
        l->added = again_tensor(c, added);
}

void compiler_place_recomputed(struct compiler *c)
{
    struct compiled_model *m = c->m;
    m->backward = xcalloc((size_t)m->layer_count, sizeof *m->backward);
    memcpy(m->backward, m->layers, (size_t)m->layer_count * sizeof *m->backward);
    for (struct layer *l = m->backward; l < m->backward + m->layer_count; l++) {
        if (l->block == NONE)
            continue;
        bool only_saved = l->again && writes_only_saved(c, l);
        l->x = again_tensor(c, l->input);
        if (l->again)
            place_again(c, l);
        l->y = only_saved ? NONE : again_tensor(c, l->output);
        if (is_last_of_block(m, l->position))
            l->again_from = first_of_block(l);
    }
    for (struct layer *l = m->backward; l < m->backward + m->layer_count; l++)
        if (l->norm.joins_gradients && l->norm.y != NONE) { // of the relu two layers later
            l->norm.y = l[2].y;
            memory_plan_use(&m->plan, l->norm.y, c->backward_at[l->position]);
        }
}
