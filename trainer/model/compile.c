// Compiles a list of layers to a graph: each layer infers its shape, adds its parameters and makes
// a value that others read. For a residual block, the layers of the shortcut are compiled first,
// then the inner layers, then a layer that adds both results. place.c assigns the memory
// afterwards.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/model/compiler.h"

static const size_t block_max = (size_t)1 << 40;

// --- parameters ----------------------------------------------------------------------------------

static struct parameter *find_parameter(struct compiled_model *m, const char *name)
{
    for (int i = 0; i < m->parameter_count; i++)
        if (strcmp(m->parameters[i].name, name) == 0)
            return &m->parameters[i];
    return NULL;
}

int compiler_add_parameter(struct compiler *c, struct layer *l, int slot, int rank,
                           const int64_t *shape, struct initializer initial, struct error *e)
{
    static const char *const slots[] = {"weight", "bias", "running_mean", "running_var"};
    struct compiled_model *m = c->m;
    struct parameter p = {.rank = rank, .offset = m->block_size, .count = 1, .decay = rank > 1};
    snprintf(p.name, sizeof p.name, "%.*s.%s", LIMIT_LAYER_NAME, l->name, slots[slot]);
    if (find_parameter(m, p.name))
        return error_set(e, ERR_INVALID,
                         "another layer has the same name; give each layer a name of its own");
    for (int i = 0; i < rank; i++) {
        p.shape[i] = shape[i];
        p.count *= (size_t)shape[i];
    }
    int index = m->parameter_count++;
    m->parameters = xrealloc(m->parameters, (size_t)(index + 1) * sizeof *m->parameters);
    m->initializers = xrealloc(m->initializers, (size_t)(index + 1) * sizeof *m->initializers);
    m->parameters[index] = p;
    m->initializers[index] = initial;
    m->block_size += (p.count + 15) / 16 * 16;
    l->parameter[slot] = index;
    if (m->block_size > block_max)
        return error_set(e, ERR_TOO_LARGE, "the model has more than 2^40 parameters");
    return 0;
}

int compiler_tie_weight(struct compiler *c, struct layer *l, const char *name, struct error *e)
{
    for (int i = 0; i < l->position; i++) {
        const struct layer *source = &c->m->layers[i];
        if (strcmp(source->name, name) == 0 && (source->flags & LAYER_TIES_WEIGHT)) {
            l->parameter[WEIGHT] = source->parameter[WEIGHT];
            return 0;
        }
    }
    return error_set(e, ERR_INVALID,
                     "is tied to \"%s\", but no embedding or linear layer before it has that name",
                     name);
}

// --- layers and values ---------------------------------------------------------------------------

bool compiler_needs_gradient(const struct compiler *c, const struct layer *l)
{
    return c->values[l->input].needs_gradient;
}

void compiler_save(struct compiler *c, struct layer *l, int64_t floats)
{
    l->saved = memory_plan_add(&c->m->plan, floats, l->position);
}

void compiler_need_scratch(struct compiler *c, int64_t floats)
{
    if (floats > c->scratch)
        c->scratch = floats;
}

static int new_value(struct compiler *c, const struct tensor_shape *shape, bool wanted)
{
    if (c->value_count == c->value_capacity) {
        c->value_capacity = c->value_capacity ? 2 * c->value_capacity : 64;
        c->values = xrealloc(c->values, (size_t)c->value_capacity * sizeof *c->values);
    }
    c->values[c->value_count] = (struct graph_value){.shape = *shape,
                                                     .needs_gradient = wanted,
                                                     .tensor = NONE,
                                                     .gradient = NONE,
                                                     .block = NONE,
                                                     .again = NONE};
    return c->value_count++;
}

static struct layer *new_layer(struct compiler *c, const struct layer_kind *kind, const char *name)
{
    struct compiled_model *m = c->m;
    if (m->layer_count == c->layer_capacity) {
        c->layer_capacity = c->layer_capacity ? 2 * c->layer_capacity : 64;
        m->layers = xrealloc(m->layers, (size_t)c->layer_capacity * sizeof *m->layers);
    }
    const struct gradient_sum none = {NONE, NONE, NONE};
    struct layer *l = &m->layers[m->layer_count];
    *l = (struct layer){.kind = kind,
                        .flags = kind->flags,
                        .position = m->layer_count++,
                        .in = c->values[c->current].shape,
                        .out = c->values[c->current].shape,
                        .input = c->current,
                        .other = NONE,
                        .dy = NONE,
                        .dx = NONE,
                        .sums = {none, none},
                        .saved = NONE,
                        .table = NONE,
                        .added = NONE,
                        .block = c->block,
                        .again_from = NONE};
    for (int slot = 0; slot < PARAMETERS_PER_LAYER; slot++)
        l->parameter[slot] = NONE;
    snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

static void finish_layer(struct compiler *c, struct layer *l)
{
    bool wanted = c->values[l->input].needs_gradient;
    c->values[l->input].readers++;
    if (l->other != NONE) {
        wanted = wanted || c->values[l->other].needs_gradient;
        c->values[l->other].readers++;
    }
    for (int slot = 0; slot < PARAMETERS_PER_LAYER; slot++)
        wanted = wanted || l->parameter[slot] != NONE;
    c->current = l->output = new_value(c, &l->out, wanted);
}

// --- the list of layers --------------------------------------------------------------------------

static int prefix_layer(const struct layer *l, struct error *e)
{
    return error_prefix(e, "layer \"%s\" (%s)", l->name, l->kind->name);
}

static int add_layer(struct compiler *c, const struct layer_kind *kind, const json_t *spec,
                     const char *name, struct error *e)
{
    if (c->m->layer_count == LIMIT_LAYERS)
        return error_set(e, ERR_TOO_LARGE, "the model has more than %d layers", LIMIT_LAYERS);
    if (strlen(name) > LIMIT_LAYER_NAME)
        return error_set(e, ERR_INVALID, "the layer's name \"%.80s..\" is longer than %d bytes",
                         name, LIMIT_LAYER_NAME);
    struct layer *l = new_layer(c, kind, name);
    if (kind->build(c, l, spec, e))
        return prefix_layer(l, e);
    finish_layer(c, l);
    return 0;
}

static int compile_list(struct compiler *c, const json_t *list, const char *prefix,
                        struct error *e);

static int compile_inner(struct compiler *c, const json_t *spec, const char *key, const char *name,
                         const char *suffix, struct error *e)
{
    char *prefix = xasprintf("%s%s", name, suffix);
    int rc = compile_list(c, jget(spec, key), prefix, e);
    free(prefix);
    return rc;
}

// y = f(x) + g(x), where g is the shortcut or the identity.
static int compile_sum(struct compiler *c, const json_t *spec, const char *name, struct error *e)
{
    int before = c->current, shortcut = before, rc;
    if (json_array_size(jget(spec, "shortcut")) > 0) {
        if ((rc = compile_inner(c, spec, "shortcut", name, ".shortcut", e)))
            return rc;
        shortcut = c->current;
        c->current = before;
    }
    if ((rc = compile_inner(c, spec, "layers", name, "", e)))
        return rc;
    c->shortcut = shortcut;
    return add_layer(c, &layer_residual, spec, name, e);
}

// A residual block in another one belongs to the outer one.
static int compile_residual(struct compiler *c, const json_t *spec, const char *name,
                            struct error *e)
{
    bool outermost = c->block == NONE;
    if (outermost)
        c->block = c->block_count++;
    int rc = compile_sum(c, spec, name, e);
    if (outermost)
        c->block = NONE;
    return rc;
}

static int fail_unknown_layer(const char *name, const char *word, struct error *e)
{
    const char *words[64] = {"residual"};
    for (int i = 0; layer_kinds[i]; i++) {
        must(i < 62);
        words[i + 1] = layer_kinds[i]->name;
    }
    const char *near = nearest_word(word, words);
    return error_set(e, ERR_INVALID, "layer \"%.80s\": unknown layer \"%.80s\"%s%s%s", name, word,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static int compile_spec(struct compiler *c, const json_t *spec, const char *name, struct error *e)
{
    const char *word = jget_string(spec, "layer", "");
    if (strcmp(word, "residual") == 0)
        return compile_residual(c, spec, name, e);
    const struct layer_kind *const *kind = layer_kinds;
    while (*kind && strcmp((*kind)->name, word) != 0)
        kind++;
    if (!*kind)
        return fail_unknown_layer(name, word, e);
    if (*kind == &layer_attention && spec_rotary(spec) > 0) {
        char *turn = xasprintf("%s.rotary", name);
        int rc = add_layer(c, &layer_rotary, spec, turn, e);
        free(turn);
        if (rc)
            return rc;
    }
    return add_layer(c, *kind, spec, name, e);
}

static int compile_list(struct compiler *c, const json_t *list, const char *prefix, struct error *e)
{
    size_t i;
    json_t *spec;
    if (json_array_size(list) == 0)
        return error_set(e, ERR_INVALID, "%s: a model needs a list of layers",
                         *prefix ? prefix : "trainer.model.layers");
    json_array_foreach((json_t *)list, i, spec)
    {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        char *name =
            xasprintf("%s%s%s", prefix, *prefix ? "." : "", jget_string(spec, "name", number));
        int rc = compile_spec(c, spec, name, e);
        free(name);
        if (rc)
            return rc;
    }
    return 0;
}

// --- compiling -----------------------------------------------------------------------------------

static void start_compile(struct compiler *c)
{
    struct compiled_model *m = c->m;
    const int64_t micro_batch = m->micro_batch;
    const struct sample_shape *s = &m->sample;
    struct tensor_shape shape = {.rank = 1, .dim = {s->channels}};
    m->positions = 1;
    m->outputs = m->loss.mse ? s->outputs : s->classes;
    if (s->kind == SAMPLE_IMAGE) {
        shape = (struct tensor_shape){.rank = 3, .dim = {s->height, s->width, s->channels}};
    } else if (s->kind == SAMPLE_TOKENS) {
        shape = (struct tensor_shape){.tokens = true, .rank = 1, .dim = {s->context}};
        m->positions = s->context;
        m->outputs = s->vocabulary;
    }
    c->current = new_value(c, &shape, false);
    m->input_size = shape.tokens ? 0 : tensor_shape_size(&shape);
    must(c->current == INPUT &&
         memory_plan_add(&m->plan, ops_floats_for_reals(micro_batch * m->input_size), 0) == INPUT);
}

static int check_output(const struct compiler *c, struct error *e)
{
    const struct compiled_model *m = c->m;
    bool sequence = m->sample.kind == SAMPLE_TOKENS;
    const char *each = sequence      ? "position and byte value"
                       : m->loss.mse ? "value to predict"
                                     : "class";
    const struct tensor_shape *found = &c->values[c->current].shape;
    struct tensor_shape wanted = {.rank = 1, .dim = {m->outputs}};
    if (sequence)
        wanted = (struct tensor_shape){.rank = 2, .dim = {m->positions, m->outputs}};
    if (!tensor_shape_equal(&wanted, found)) {
        char text[TENSOR_SHAPE_TEXT_MAX], other[TENSOR_SHAPE_TEXT_MAX];
        error_set(e, ERR_INVALID,
                  "the last layer: expected %s (one value per %s of the data), "
                  "found %s",
                  tensor_shape_text(&wanted, text), each, tensor_shape_text(found, other));
        return prefix_layer(&m->layers[m->layer_count - 1], e);
    }
    if (m->parameter_count == 0)
        return error_set(e, ERR_INVALID,
                         "the model has no parameters to train; add a layer with weights");
    return 0;
}

int model_compile_layers(json_t *list, const struct loss_config *loss,
                         const struct model_config *config, struct compiled_model **out,
                         struct error *e)
{
    must(config->micro_batch > 0);
    ops_init_thread();
    struct compiled_model *m = xcalloc(1, sizeof *m);
    struct compiler c = {.m = m, .block = NONE};
    m->sample = *config->shape;
    m->loss = *loss;
    m->micro_batch = config->micro_batch;
    m->recompute = config->recompute;
    m->list = json_incref(list);
    start_compile(&c);
    int rc = compile_list(&c, list, "", e);
    if (!rc)
        rc = check_output(&c, e);
    if (!rc)
        rc = compiler_quantise(&c, e);
    if (!rc)
        rc = compiler_place(&c, e);
    free(c.values);
    free(c.holders);
    free(c.again_at);
    free(c.backward_at);
    if (rc) {
        model_free(m);
        m = NULL;
    }
    *out = m;
    return rc;
}
