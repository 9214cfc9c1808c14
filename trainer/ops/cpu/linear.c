// oneDNN's gemm with both matrices untransposed reaches the peak of the processor, and so does
// x^T dy. With the second matrix transposed it is 10 % slower from 256 rows on and 40 % slower at
// 32. Its matmul primitive is not, but takes 50 to 100 us to create; ops_linear_compile() does that
// once.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trainer/ops/cpu/gemm.h"
#include "trainer/ops/cpu/onednn.h"
#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

// c[rows, n] = a[rows, k] W^T with W [n, k].
struct ops_product {
    struct onednn_device device;
    struct onednn_call call;
};

static int compile_product(struct ops_product *p, int64_t rows, int64_t n, int64_t k,
                           struct error *e)
{
    dnnl_memory_desc_t a = onednn_layout(2, (dnnl_dims_t){rows, k}, dnnl_ab);
    dnnl_memory_desc_t w = onednn_layout(2, (dnnl_dims_t){k, n}, dnnl_ba);
    dnnl_memory_desc_t c = onednn_layout(2, (dnnl_dims_t){rows, n}, dnnl_ab);
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t described = NULL;
    must(dnnl_matmul_desc_init(&op, &a, &w, NULL, &c) == dnnl_success);
    int rc = onednn_open(&p->device, e);
    if (!rc)
        rc = onednn_describe(&p->device, &op, NULL, NULL, "a product", &described, e);
    if (rc)
        return rc;
    if (!(rc = onednn_compile(&p->call, described, e)) &&
        !(rc = onednn_add_tensor(&p->device, &p->call, DNNL_ARG_SRC, &a, e)) &&
        !(rc = onednn_add_tensor(&p->device, &p->call, DNNL_ARG_WEIGHTS, &w, e)))
        rc = onednn_add_tensor(&p->device, &p->call, DNNL_ARG_DST, &c, e);
    dnnl_primitive_desc_destroy(described);
    return rc;
}

int ops_linear_compile(struct ops_linear *s, struct error *e)
{
    s->product = xcalloc(1, sizeof *s->product);
    int rc = s->transposed ? compile_product(s->product, s->rows, s->out, s->in, e)
                           : compile_product(s->product, s->rows, s->in, s->out, e);
    if (rc)
        ops_linear_free(s);
    return rc;
}

void ops_linear_free(struct ops_linear *s)
{
    if (!s->product)
        return;
    onednn_destroy(&s->product->call);
    onednn_close(&s->product->device);
    free(s->product);
    s->product = NULL;
}

static void multiply(struct ops_product *p, const float *a, const float *w, float *c)
{
    onednn_bind(&p->call, DNNL_ARG_SRC, a);
    onednn_bind(&p->call, DNNL_ARG_WEIGHTS, w);
    onednn_bind(&p->call, DNNL_ARG_DST, c);
    onednn_run(&p->device, &p->call);
}

void ops_linear_forward(const struct ops_linear *s, const float *x, const float *w,
                        const float *bias, float *y)
{
    if (s->transposed && s->product && !bias) {
        multiply(s->product, x, w, y);
        return;
    }
    if (bias)
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(y + r * s->out, bias, (size_t)s->out * sizeof *y);
    gemm('N', s->transposed ? 'T' : 'N', s->rows, s->out, s->in, 1.0f, x, s->in, w,
         s->transposed ? s->in : s->out, bias ? 1.0f : 0.0f, y, s->out);
}

void ops_linear_backward_data(const struct ops_linear *s, const float *w, const float *dy,
                              float *dx, bool add)
{
    if (!s->transposed && s->product && !add)
        multiply(s->product, dy, w, dx);
    else
        gemm('N', s->transposed ? 'N' : 'T', s->rows, s->in, s->out, 1.0f, dy, s->out, w,
             s->transposed ? s->in : s->out, add ? 1.0f : 0.0f, dx, s->in);
}

LOOPS_CLONED static void sum_rows(int64_t rows, int64_t width, const float *dy, float *sum)
{
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            sum[i] += dy[r * width + i];
}

void ops_linear_backward_weights(const struct ops_linear *s, const float *x, const float *dy,
                                 float *dw, bool add, float *db)
{
    float beta = add ? 1.0f : 0.0f;
    if (db)
        sum_rows(s->rows, s->out, dy, db);
    if (s->transposed)
        gemm('T', 'N', s->out, s->in, s->rows, 1.0f, dy, s->out, x, s->in, beta, dw, s->in);
    else
        gemm('T', 'N', s->in, s->out, s->rows, 1.0f, x, s->in, dy, s->out, beta, dw, s->out);
}

void ops_linear_gelu_forward(const struct ops_linear *s, const float *x, const float *w,
                             const float *bias, float *before, float *y)
{
    ops_linear_forward(s, x, w, bias, before);
    ops_gelu_forward(s->rows * s->out, before, y);
}

void ops_linear_gelu_backward_data(const struct ops_linear *s, const float *w, const float *dy,
                                   const float *before, float *dx)
{
    ops_linear_backward_data(s, w, dy, dx, false);
    ops_gelu_backward(s->rows * s->in, before, dx, dx);
}
