// oneDNN's gemm with both matrices untransposed reaches the peak of the processor, and so does
// x^T dy. With the second matrix transposed it is 10 % slower from 256 rows on and 40 % slower at
// 32. Its matmul primitive is not, but takes 50 to 100 us to create; ops_linear_compile() does that
// once.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trainer/ops/cpu/fp8_round.h"
#include "trainer/ops/cpu/gemm.h"
#include "trainer/ops/cpu/onednn.h"
#include "trainer/ops/exact.h"
#include "trainer/ops/fp8.h"
#include "trainer/ops/loops.h"

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

// --- FP8, emulated: tensors are rounded to the numbers of the formats and multiplied as floats. So
// a CPU slot computes the same products as a GPU, except for the order of their sums.

// A tensor with its scale: y = x, rounded. Returns the bits of the largest |x|.
LOOPS_INLINE uint32_t quantise_body(bool wide, int64_t n, const float *restrict x,
                                    const float scale[2], float *restrict y)
{
    const float up = scale[0], down = scale[1];
    int32_t amax = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = (int32_t)(loops_bits_of_float(x[i]) & INT32_MAX);
        amax = bits > amax ? bits : amax;
        y[i] = fp8_round(wide, x[i], up) * down;
    }
    return (uint32_t)amax;
}

LOOPS_CLONED static uint32_t quantise_e4m3(int64_t n, const float *restrict x, const float scale[2],
                                           float *restrict y)
{
    return quantise_body(false, n, x, scale, y);
}

LOOPS_CLONED static uint32_t quantise_e5m2(int64_t n, const float *restrict x, const float scale[2],
                                           float *restrict y)
{
    return quantise_body(true, n, x, scale, y);
}

static void measure_first(const struct ops_fp8 *f, enum ops_fp8_tensor t, int64_t n, const float *x)
{
    f->own_amaxes[t] = 0;
    ops_exact_amax((size_t)n, x, &f->own_amaxes[t]);
    const int32_t exponent = f->own_amaxes[t] ? (int32_t)(f->own_amaxes[t] >> 23) - 126
                                              : (int32_t)OPS_FP8_EXPONENT_OF_ZERO;
    f->scales[t][0] = ops_fp8_scale(t, exponent);
    f->scales[t][1] = 1.0f / f->scales[t][0];
}

static void quantise(const struct ops_fp8 *f, enum ops_fp8_tensor t, int64_t n, const float *x,
                     float *y)
{
    if (f->own_amaxes)
        measure_first(f, t, n, x);
    uint32_t amax = t == OPS_FP8_DY ? quantise_e5m2(n, x, f->scales[t], y)
                                    : quantise_e4m3(n, x, f->scales[t], y);
    f->amaxes[t] = amax > f->amaxes[t] ? amax : f->amaxes[t];
}

int64_t ops_fp8_weight_floats(const struct ops_linear *s)
{
    return s->in * s->out;
}

int64_t ops_fp8_saved_floats(const struct ops_linear *s)
{
    return s->rows * s->in;
}

int64_t ops_fp8_scratch_floats(const struct ops_linear *s)
{
    int64_t backward = 2 * s->out; // dy through gelu, and quantised
    return s->rows * (s->in > backward ? s->in : backward);
}

int ops_fp8_compile(const struct ops_linear *s, struct ops_fp8_plan **out, struct error *e)
{
    (void)s, (void)e;
    *out = NULL;
    return 0;
}

void ops_fp8_free(struct ops_fp8_plan *plan)
{
    (void)plan;
}

void ops_fp8_quantise_weights(const struct ops_fp8 *f, const float *w)
{
    quantise(f, OPS_FP8_W, f->linear->in * f->linear->out, w, f->weights);
}

void ops_fp8_forward(const struct ops_fp8 *f, const float *x, bool gelu, const float *bias,
                     float *y)
{
    const int64_t inputs = f->linear->rows * f->linear->in;
    if (gelu)
        ops_gelu_forward(inputs, x, f->scratch);
    quantise(f, OPS_FP8_X, inputs, gelu ? f->scratch : x, f->saved);
    if (y)
        ops_linear_forward(f->linear, f->saved, f->weights, bias, y);
}

void ops_fp8_backward(const struct ops_fp8 *f, const float *dy, const float *before, float *dx,
                      bool add_dx, float *dw, bool add_dw, float *db)
{
    const struct ops_linear *s = f->linear;
    const int64_t outputs = s->rows * s->out;
    float *rounded = f->scratch, *through = f->scratch + outputs;
    if (before)
        ops_gelu_backward(outputs, before, dy, through);
    const float *gradient = before ? through : dy;
    quantise(f, OPS_FP8_DY, outputs, gradient, rounded);
    if (dx)
        ops_linear_backward_data(s, f->weights, rounded, dx, add_dx);
    ops_linear_backward_weights(s, f->saved, rounded, dw, add_dw, NULL);
    if (db)
        sum_rows(s->rows, s->out, gradient, db);
}
