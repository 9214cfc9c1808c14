// cuDNN's graphs of the emulation: a graph is one pass of a convolution, in plain loops over any
// layout.
#include "tests/unit/trainer/cuda/emulate.h"

#include <stdlib.h>

#include "trainer/ops/cuda/libraries/cudnn_graph.h"

#define _Noreturn __attribute__((noreturn))
extern "C" {
#include "base/arena.h"
#include "base/log.h"
}

struct emulated_tensor {
    struct graph_layout layout;
    cudnnDataType_t type;
    int64_t id;
};

struct emulated_convolution {
    cudnnBackendDescriptorType_t pass;
    struct graph_convolution how;
    struct emulated_tensor x, w, y;
};

static void *node(struct graph *g, const void *content, size_t size)
{
    must(g->node_count < GRAPH_NODES_MAX);
    g->nodes[g->node_count] = xcalloc(1, size);
    memcpy(g->nodes[g->node_count], content, size);
    return g->nodes[g->node_count++];
}

graph_node graph_tensor(struct graph *g, const struct graph_layout *l, cudnnDataType_t type,
                        int64_t id)
{
    const struct emulated_tensor t = {*l, type, id};
    return node(g, &t, sizeof t);
}

void graph_convolve(struct graph *g, cudnnBackendDescriptorType_t pass,
                    const struct graph_convolution *c, graph_node x, graph_node w, graph_node y)
{
    const struct emulated_convolution all = {pass, *c, *(struct emulated_tensor *)x,
                                             *(struct emulated_tensor *)w,
                                             *(struct emulated_tensor *)y};
    g->operations[g->operation_count++] = node(g, &all, sizeof all);
}

int graph_compile(struct graph *g, const char *, struct graph_plan *out, struct error *)
{
    must(g->operation_count == 1);
    *out = {xcalloc(1, sizeof(struct emulated_convolution)), NULL, 0};
    memcpy(out->plan, g->operations[0], sizeof(struct emulated_convolution));
    return 0;
}

void graph_free(struct graph *g)
{
    while (g->node_count > 0)
        free(g->nodes[--g->node_count]);
}

void graph_plan_free(struct graph_plan *p)
{
    free(p->plan);
}

int64_t graph_workspace_floats(const struct graph_plan *)
{
    return 0;
}

// --- running -------------------------------------------------------------------------------------

// Reads and writes the numbers of a tensor as double.
struct tensor_numbers {
    const struct emulated_tensor *tensor;
    void *at;
    int64_t count;
    double *values;
};

static struct tensor_numbers numbers_of(const struct emulated_tensor *t,
                                        const struct graph_argument *arguments, int count)
{
    const int64_t *size = t->layout.size;
    struct tensor_numbers n = {t, NULL, size[0] * size[1] * size[2] * size[3], NULL};
    for (int i = 0; i < count; i++)
        if (arguments[i].id == t->id)
            n.at = const_cast<void *>(arguments[i].at);
    must(n.at);
    n.values = (double *)xcalloc((size_t)n.count + 1, sizeof *n.values);
    return n;
}

static void read(const struct tensor_numbers *n)
{
    for (int64_t i = 0; i < n->count; i++)
        n->values[i] = n->tensor->type == CUDNN_DATA_FLOAT
                           ? (double)((const float *)n->at)[i]
                           : (double)__bfloat162float(((const __nv_bfloat16 *)n->at)[i]);
}

static void write(const struct tensor_numbers *n)
{
    for (int64_t i = 0; i < n->count; i++)
        if (n->tensor->type == CUDNN_DATA_FLOAT)
            ((float *)n->at)[i] = (float)n->values[i];
        else
            ((__nv_bfloat16 *)n->at)[i] = __float2bfloat16_rn((float)n->values[i]);
}

static double *element(const struct tensor_numbers *n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *stride = n->tensor->layout.stride;
    int64_t at = a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
    must(at >= 0 && at < n->count);
    return &n->values[at];
}

// Visits the inputs of one output at one place.
static void visit(const struct emulated_convolution *c, const struct tensor_numbers *x,
                  const struct tensor_numbers *w, double *y, int64_t sample, int64_t out,
                  int64_t row, int64_t column)
{
    const int64_t *window = c->w.layout.size, *image = c->x.layout.size;
    int64_t in = window[1], outs = window[0] / (image[1] / in), first = out / outs * in;
    for (int64_t i = 0; i < in; i++)
        for (int64_t k = 0; k < window[2] * window[3]; k++) {
            int64_t dy = k / window[3], dx = k % window[3];
            int64_t iy = row * c->how.stride + dy - c->how.padding;
            int64_t ix = column * c->how.stride + dx - c->how.padding;
            if (iy < 0 || iy >= image[2] || ix < 0 || ix >= image[3])
                continue;
            double *pixel = element(x, sample, first + i, iy, ix);
            double *weight = element(w, out, i, dy, dx);
            if (c->pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                *y += *pixel * *weight;
            else if (c->pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                *pixel += *y * *weight;
            else
                *weight += *y * *pixel;
        }
}

void graph_run(const struct graph_plan *p, const struct graph_argument *arguments, int count,
               float *, const char *)
{
    const struct emulated_convolution *c = (const struct emulated_convolution *)p->plan;
    const int64_t *size = c->y.layout.size;
    struct tensor_numbers x = numbers_of(&c->x, arguments, count);
    struct tensor_numbers w = numbers_of(&c->w, arguments, count);
    struct tensor_numbers y = numbers_of(&c->y, arguments, count), *all[] = {&x, &w, &y};
    int made = c->pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 2
               : c->pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 0
                                                                                         : 1;
    for (int i = 0; i < 3; i++)
        if (i != made)
            read(all[i]);
    for (int64_t sample = 0; sample < size[0]; sample++)
        for (int64_t out = 0; out < size[1]; out++)
            for (int64_t at = 0; at < size[2] * size[3]; at++)
                visit(c, &x, &w, element(&y, sample, out, at / size[3], at % size[3]), sample, out,
                      at / size[3], at % size[3]);
    write(all[made]);
    for (int i = 0; i < 3; i++)
        free(all[i]->values);
}
