// Linear layers by cuBLASLt (product.h). ops_linear_compile() chooses the kernels of a shape once.
//
// gelu after a product, and its derivative in the backward pass, are applied to the sums before
// they are rounded and written, if cuBLASLt does it in a single kernel: in bf16 from Hopper on. On
// older GPUs and in float it would run a second kernel, which is slower than ours.
#include <stdlib.h>

#include "trainer/ops/cuda/device/device.h"
#include "trainer/ops/cuda/kernels/bias_gradient.h"
#include "trainer/ops/cuda/libraries/product.h"

extern "C" {
#include "base/arena.h"
}

enum product {
    FORWARD,
    FORWARD_BIAS,
    DATA,
    WEIGHTS,
    FORWARD_GELU, // these kernels may not exist
    FORWARD_GELU_BIAS,
    DATA_GELU,
    PRODUCTS
};

struct ops_product {
    struct multiplier of[PRODUCTS];
};

static struct product_shape shape_of(const struct ops_linear *s, enum product which)
{
    switch (which) {
    case DATA:
    case DATA_GELU:
        return {.transpose_a = !s->transposed,
                .m = s->in,
                .n = s->rows,
                .k = s->out,
                .slope = which == DATA_GELU};
    case WEIGHTS:
        return {.transpose_b = true,
                .m = s->transposed ? s->in : s->out,
                .n = s->transposed ? s->out : s->in,
                .k = s->rows,
                .float_sum = true};
    default:
        return {.transpose_a = s->transposed,
                .m = s->out,
                .n = s->rows,
                .k = s->in,
                .bias = which == FORWARD_BIAS || which == FORWARD_GELU_BIAS,
                .gelu = which == FORWARD_GELU || which == FORWARD_GELU_BIAS};
    }
}

static bool may_fuse(const struct product_shape *s)
{
    int generation = device.capability / 10; // 12 is GeForce, where the fused kernel is slower
    return cuda_reals_are_bf16() && (generation == 9 || generation == 10) && s->m % 8 == 0;
}

int ops_linear_compile(struct ops_linear *s, struct error *e)
{
    s->product = (struct ops_product *)xcalloc(1, sizeof *s->product);
    for (int i = 0; i < PRODUCTS; i++) {
        struct product_shape shape = shape_of(s, (enum product)i);
        if (i >= FORWARD_GELU && !may_fuse(&shape))
            continue;
        cublasStatus_t status = multiplier_make(&shape, &s->product->of[i]);
        if (status && i >= FORWARD_GELU) {
            multiplier_free(&s->product->of[i]);
        } else if (status) {
            ops_linear_free(s);
            return error_set(e, ERR_INTERNAL,
                             "cuBLASLt has no kernel for a product of %lld x %lld x %lld (%s)",
                             (long long)shape.m, (long long)shape.k, (long long)shape.n,
                             cublasLtGetStatusString(status));
        }
    }
    return 0;
}

void ops_linear_free(struct ops_linear *s)
{
    if (!s->product)
        return;
    for (int i = 0; i < PRODUCTS; i++)
        multiplier_free(&s->product->of[i]);
    free(s->product);
    s->product = NULL;
}

// Compiles a layer that has no plan for a single call: the same kernels and bits, but slow.
static void multiply(const struct ops_linear *s, enum product which,
                     const struct product_operands *f, const char *op)
{
    struct multiplier once = {};
    struct multiplier *p = s->product ? &s->product->of[which] : &once;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!s->product) {
        struct product_shape shape = shape_of(s, which);
        status = multiplier_make(&shape, p);
    }
    device_check_blas(status ? status : multiplier_run(p, f), op);
    multiplier_free(&once);
}

static bool has_kernel(const struct ops_linear *s, enum product which)
{
    return s->product && s->product->of[which].op;
}

void ops_linear_forward(const struct ops_linear *s, const real *x, const real *w, const real *bias,
                        real *y)
{
    const struct product_operands f = {.a = w, .b = x, .bias = bias, .c = y};
    multiply(s, bias ? FORWARD_BIAS : FORWARD, &f, "ops_linear_forward");
}

void ops_linear_gelu_forward(const struct ops_linear *s, const real *x, const real *w,
                             const real *bias, real *before, real *y)
{
    const struct product_operands f = {.a = w, .b = x, .bias = bias, .before = before, .c = y};
    enum product which = bias ? FORWARD_GELU_BIAS : FORWARD_GELU;
    if (has_kernel(s, which)) {
        multiply(s, which, &f, "ops_linear_gelu_forward");
        return;
    }
    ops_linear_forward(s, x, w, bias, before);
    ops_gelu_forward(s->rows * s->out, before, y);
}

void ops_linear_backward_data(const struct ops_linear *s, const real *w, const real *dy, real *dx,
                              bool add)
{
    const struct product_operands f = {.a = w, .b = dy, .add = add, .c = dx};
    multiply(s, DATA, &f, "ops_linear_backward_data");
}

void ops_linear_gelu_backward_data(const struct ops_linear *s, const real *w, const real *dy,
                                   const real *before, real *dx)
{
    const struct product_operands f = {.a = w, .b = dy, .before = before, .c = dx};
    if (has_kernel(s, DATA_GELU)) {
        multiply(s, DATA_GELU, &f, "ops_linear_gelu_backward_data");
        return;
    }
    ops_linear_backward_data(s, w, dy, dx, false);
    ops_gelu_backward(s->rows * s->in, before, dx, dx);
}

void ops_linear_backward_weights(const struct ops_linear *s, const real *x, const real *dy,
                                 float *dw, bool add, float *db)
{
    const struct product_operands f = {
        .a = s->transposed ? x : dy, .b = s->transposed ? dy : x, .add = add, .c = dw};
    multiply(s, WEIGHTS, &f, "ops_linear_backward_weights");
    if (db)
        bias_gradient_sum(s->rows, s->out, dy, db);
}
