// Causal attention by cuDNN where it can: bf16, no dropout (cuDNN would draw other random numbers),
// and head widths that its fused kernels support. The kernels of attention.h do the rest. Both save
// the same numbers from forward to backward, so that the two passes may use different ones.
//
// cuDNN recognises attention by the graph of its operations, built as its documentation describes,
// and makes one kernel for the forward pass and a few for the backward pass. Its fastest gradient
// of the queries uses atomic sums and is not deterministic. The deterministic one stores the
// gradient of all scores, two bytes each; if that takes too much memory, our kernels are used,
// which store none.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/ops/cuda/kernels/attention.h"
#include "trainer/ops/cuda/libraries/cudnn_graph.h"

extern "C" {
#include "base/arena.h"
#include "base/log.h"
}

enum { QUERY = 1, KEY, VALUE, Y, STATISTICS, DY, DQUERY, DKEY, DVALUE, DOTS, SCALE, HIDDEN, ONE };

// The limit for the scores of a micro-batch, in bytes.
static const int64_t scores_max = (int64_t)4 << 30;

// Plans are few, one for each attention of the models in this process. They are created at first
// use, because an attention has no object that could own them.
struct attention_plans {
    struct ops_attention shape;
    struct graph_plan forward, backward; // plan NULL: use our kernels
    struct attention_plans *next;
};
static struct attention_plans *made;

// The tensor layouts of one attention.
struct attention_layouts {
    struct graph_layout head, transposed, out, scores, scores_transposed, row;
};

static struct attention_layouts layouts_of(const struct ops_attention *s)
{
    int64_t b = s->samples, h = s->heads, t = s->context, w = s->width, d = w / h;
    return {
        .head = {{b, h, t, d}, {t * 3 * w, d, 3 * w, 1}},
        .transposed = {{b, h, d, t}, {t * 3 * w, d, 1, 3 * w}},
        .out = {{b, h, t, d}, {t * w, d, w, 1}},
        .scores = {{b, h, t, t}, {h * t * t, t * t, t, 1}},
        .scores_transposed = {{b, h, t, t}, {h * t * t, t * t, 1, t}},
        .row = {{b, h, t, 1}, {h * t, t, 1, 1}},
    };
}

// An intermediate tensor: mode(x, b).
static graph_node mapped(struct graph *g, cudnnPointwiseMode_t mode, const struct graph_layout *l,
                         graph_node x, graph_node b)
{
    graph_node y = graph_tensor(g, l, CUDNN_DATA_FLOAT, 0);
    graph_map(g, mode, CUDNN_DATA_FLOAT, x, b, NULL, y);
    return y;
}

static graph_node reduced(struct graph *g, cudnnReduceTensorOp_t op,
                          const struct attention_layouts *l, graph_node x)
{
    graph_node y = graph_tensor(g, &l->row, CUDNN_DATA_FLOAT, 0);
    graph_reduce(g, op, x, y);
    return y;
}

static graph_node product(struct graph *g, const struct graph_layout *l, graph_node a, graph_node b)
{
    graph_node c = graph_tensor(g, l, CUDNN_DATA_FLOAT, 0);
    graph_multiply(g, a, b, c);
    return c;
}

// Masks the scores of keys that come after their query.
static graph_node masked(struct graph *g, const struct attention_layouts *l, graph_node x)
{
    graph_node row = graph_tensor(g, &l->scores, CUDNN_DATA_INT32, 0);
    graph_node column = graph_tensor(g, &l->scores, CUDNN_DATA_INT32, 0);
    graph_node seen = graph_tensor(g, &l->scores, CUDNN_DATA_BOOLEAN, 0);
    graph_node y = graph_tensor(g, &l->scores, CUDNN_DATA_FLOAT, 0);
    graph_index(g, 2, x, row);
    graph_index(g, 3, x, column);
    graph_map(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, NULL, seen);
    graph_map(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x,
              graph_number(g, CUDNN_DATA_FLOAT, HIDDEN), seen, y);
    return y;
}

static int compile_forward(const struct ops_attention *s, struct graph_plan *out, struct error *e)
{
    struct attention_layouts l = layouts_of(s);
    struct graph g = {};
    if (s->context == 1) // cuDNN would accept it and compute wrong results
        return error_set(e, ERR_INVALID, "cuDNN does not support a context of 1");
    graph_node query = graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, QUERY);
    graph_node key = graph_tensor(&g, &l.transposed, CUDNN_DATA_BFLOAT16, KEY);
    graph_node value = graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, VALUE);
    graph_node scale = graph_number(&g, CUDNN_DATA_FLOAT, SCALE);
    graph_node x = product(&g, &l.scores, query, key);
    x = masked(&g, &l, mapped(&g, CUDNN_POINTWISE_MUL, &l.scores, x, scale));
    graph_node largest = reduced(&g, CUDNN_REDUCE_TENSOR_MAX, &l, x);
    x = mapped(&g, CUDNN_POINTWISE_SUB, &l.scores, x, largest);
    x = mapped(&g, CUDNN_POINTWISE_EXP, &l.scores, x, NULL);
    graph_node sum = reduced(&g, CUDNN_REDUCE_TENSOR_ADD, &l, x);
    graph_map(&g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, largest,
              mapped(&g, CUDNN_POINTWISE_LOG, &l.row, sum, NULL), NULL,
              graph_tensor(&g, &l.row, CUDNN_DATA_FLOAT, STATISTICS));
    graph_node weights = graph_tensor(&g, &l.scores, CUDNN_DATA_BFLOAT16, 0);
    graph_map(&g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, x, sum, NULL, weights);
    graph_multiply(&g, weights, value, graph_tensor(&g, &l.out, CUDNN_DATA_BFLOAT16, Y));
    int rc = graph_compile(&g, "attention", out, e);
    graph_free(&g);
    return rc;
}

static graph_node transposed(struct graph *g, const struct attention_layouts *l, graph_node x)
{
    graph_node y = graph_tensor(g, &l->scores_transposed, CUDNN_DATA_BFLOAT16, 0);
    graph_reshape(g, x, y);
    return y;
}

static int compile_backward(const struct ops_attention *s, struct graph_plan *out, struct error *e)
{
    struct attention_layouts l = layouts_of(s);
    struct graph g = {};
    graph_node query = graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, QUERY);
    graph_node key = graph_tensor(&g, &l.transposed, CUDNN_DATA_BFLOAT16, KEY);
    graph_node value = graph_tensor(&g, &l.transposed, CUDNN_DATA_BFLOAT16, VALUE);
    graph_node y = graph_tensor(&g, &l.out, CUDNN_DATA_BFLOAT16, Y);
    graph_node dy = graph_tensor(&g, &l.out, CUDNN_DATA_BFLOAT16, DY);
    graph_node scale = graph_number(&g, CUDNN_DATA_FLOAT, SCALE);
    // dots[query] = sum of y dy
    graph_node dots = graph_tensor(&g, &l.row, CUDNN_DATA_FLOAT, DOTS);
    graph_node both = mapped(&g, CUDNN_POINTWISE_MUL, &l.out, dy, y);
    graph_map(&g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT,
              reduced(&g, CUDNN_REDUCE_TENSOR_ADD, &l, both),
              graph_number(&g, CUDNN_DATA_FLOAT, ONE), NULL, dots);
    // the weights again, and dvalue = weights' dy
    graph_node x =
        mapped(&g, CUDNN_POINTWISE_MUL, &l.scores, product(&g, &l.scores, query, key), scale);
    x = mapped(&g, CUDNN_POINTWISE_SUB, &l.scores, x,
               graph_tensor(&g, &l.row, CUDNN_DATA_FLOAT, STATISTICS));
    graph_node weights = mapped(&g, CUDNN_POINTWISE_EXP, &l.scores, masked(&g, &l, x), NULL);
    graph_multiply(&g, transposed(&g, &l, weights), dy,
                   graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, DVALUE));
    // dscores = weights (dy value' - dots)
    x = mapped(&g, CUDNN_POINTWISE_SUB, &l.scores, product(&g, &l.scores, dy, value), dots);
    x = mapped(&g, CUDNN_POINTWISE_MUL, &l.scores, x, weights);
    x = mapped(&g, CUDNN_POINTWISE_MUL, &l.scores, x, scale);
    graph_multiply(&g, transposed(&g, &l, x), query,
                   graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, DKEY));
    graph_node keys = graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, 0);
    graph_reshape(&g, key, keys);
    graph_multiply(&g, x, keys, graph_tensor(&g, &l.head, CUDNN_DATA_BFLOAT16, DQUERY));
    int rc = graph_compile(&g, "the gradient of attention", out, e);
    graph_free(&g);
    return rc;
}

static bool is_same(const struct ops_attention *a, const struct ops_attention *b)
{
    return a->samples == b->samples && a->context == b->context && a->heads == b->heads &&
           a->width == b->width;
}

// Gradients that versions of cuDNN accept and compute wrongly, according to its release notes: all
// in both releases of 9.10, and up to 9.15 those of sequences that are not a multiple of a tile.
static bool is_sound_backward(const struct ops_attention *s)
{
    enum { TILE = 128 };
    size_t version = cudnnGetVersion();
    return version != 91000 && version != 91001 && (version > 91500 || s->context % TILE == 0);
}

// Head widths for which cuDNN is known to have kernels. If it finds none for them, the log contains
// a warning, because the model trains several times more slowly than possible.
static void log_own_kernels(const struct ops_attention *s, const char *what, const struct error *e)
{
    enum { UNIT = 8, WIDEST = 128 };
    int64_t width = s->width / s->heads;
    if (s->context > 1 && width % UNIT == 0 && width <= WIDEST)
        log_warn("attention uses our own kernels, which are slow",
                 "pass=%s heads=%lld width=%lld "
                 "why=\"%s\"",
                 what, (long long)s->heads, (long long)s->width, e->text);
    else
        log_info("attention uses our own kernels", "pass=%s heads=%lld width=%lld why=\"%s\"", what,
                 (long long)s->heads, (long long)s->width, e->text);
}

static int create_backward(const struct ops_attention *s, struct graph_plan *out, struct error *e)
{
    if (!is_sound_backward(s))
        return error_set(e, ERR_VERSION,
                         "cuDNN %zu computes a context of %lld wrongly; update cuDNN",
                         cudnnGetVersion(), (long long)s->context);
    int rc = compile_backward(s, out, e);
    if (!rc && out->workspace > scores_max) {
        rc = error_set(e, ERR_NO_MEMORY, "it would need %lld MiB for the gradient of the scores",
                       (long long)(out->workspace >> 20));
        graph_plan_free(out);
    }
    return rc;
}

static struct attention_plans *create_plans(const struct ops_attention *s)
{
    struct attention_plans *p = (struct attention_plans *)xcalloc(1, sizeof *p);
    struct error e;
    p->shape = *s;
    if (compile_forward(s, &p->forward, &e))
        log_own_kernels(s, "both", &e);
    else if (create_backward(s, &p->backward, &e))
        log_own_kernels(s, "backward", &e);
    p->next = made;
    return made = p;
}

// cuDNN's plans for this shape; NULL: none.
static const struct attention_plans *plans_of(const struct ops_attention *s)
{
    struct attention_plans *p = made;
    if (!cuda_reals_are_bf16() || (!device.dnn && !device.properties))
        return NULL;
    while (p && !is_same(&p->shape, s))
        p = p->next;
    return p ? p : create_plans(s);
}

void attention_free_plans(void)
{
    while (made) {
        struct attention_plans *p = made;
        made = p->next;
        graph_plan_free(&p->forward);
        graph_plan_free(&p->backward);
        free(p);
    }
}

// The number of queries: the size of `saved`, and of the dots in `scratch` before cuDNN's
// workspace.
static int64_t queries(const struct ops_attention *s)
{
    return s->samples * s->heads * s->context;
}

static int64_t dots_floats(const struct ops_attention *s)
{
    return ceil_div(queries(s), 64) * 64;
}

int64_t ops_attention_saved_floats(const struct ops_attention *s, double rate)
{
    (void)rate; // the backward pass computes the dropout mask again
    must(attention_kernel_fits(s));
    must(attention_kernel_saved_floats(s) == queries(s));
    return queries(s);
}

int64_t ops_attention_scratch_floats(const struct ops_attention *s)
{
    const struct attention_plans *p = plans_of(s);
    int64_t ours = attention_kernel_scratch_floats(s), theirs = 0;
    if (p && p->forward.plan) {
        int64_t forward = graph_workspace_floats(&p->forward),
                backward = graph_workspace_floats(&p->backward);
        theirs = dots_floats(s) + (forward > backward ? forward : backward);
    }
    return theirs > ours ? theirs : ours;
}

// The workspace of the backward pass holds the gradient of all scores, and a little more.
int64_t ops_attention_samples(const struct ops_attention *s)
{
    int64_t scores = s->heads * s->context * s->context * (int64_t)sizeof(__nv_bfloat16);
    int64_t samples = (scores_max - scores_max / 8) / scores;
    return samples < 1 ? 1 : samples;
}

static const void *part_of(const struct ops_attention *s, const real *qkv, int part)
{
    return (const __nv_bfloat16 *)qkv + part * s->width;
}

static const float hidden = -FLT_MAX, one = 1;

void ops_attention_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                           const real *qkv, float *saved, float *scratch, real *y)
{
    const struct attention_plans *p = draw->rate > 0 ? NULL : plans_of(s);
    if (!p || !p->forward.plan) {
        attention_kernel_forward(s, draw, qkv, saved, y);
        return;
    }
    const float scale = 1.0f / sqrtf((float)(s->width / s->heads));
    const struct graph_argument arguments[] = {
        {QUERY, part_of(s, qkv, 0)},
        {KEY, part_of(s, qkv, 1)},
        {VALUE, part_of(s, qkv, 2)},
        {STATISTICS, saved},
        {Y, y},
        {SCALE, &scale},
        {HIDDEN, &hidden},
    };
    graph_run(&p->forward, arguments, 7, scratch, "ops_attention_forward");
}

void ops_attention_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                            const real *qkv, const real *y, const float *saved, float *scratch,
                            const real *dy, real *dqkv)
{
    const struct attention_plans *p = draw->rate > 0 ? NULL : plans_of(s);
    if (!p || !p->backward.plan) {
        attention_kernel_backward(s, draw, qkv, y, saved, scratch, dy, dqkv);
        return;
    }
    const float scale = 1.0f / sqrtf((float)(s->width / s->heads));
    const struct graph_argument arguments[] = {
        {QUERY, part_of(s, qkv, 0)},
        {KEY, part_of(s, qkv, 1)},
        {VALUE, part_of(s, qkv, 2)},
        {Y, y},
        {STATISTICS, saved},
        {DY, dy},
        {DQUERY, part_of(s, dqkv, 0)},
        {DKEY, part_of(s, dqkv, 1)},
        {DVALUE, part_of(s, dqkv, 2)},
        {DOTS, scratch},
        {SCALE, &scale},
        {HIDDEN, &hidden},
        {ONE, &one},
    };
    graph_run(&p->backward, arguments, 13, scratch + dots_floats(s), "ops_attention_backward");
}
