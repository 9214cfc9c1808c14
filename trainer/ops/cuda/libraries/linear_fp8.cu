// Linear layers in FP8 by cuBLASLt (product.h), whose products of codes sum along rows of both
// operands as they are in memory. Hence the copies: y needs x and the turned weights, dx needs dy
// and the weights, dW needs both dy and x turned.
//
// x turned is kept for the backward pass, and takes half of the memory that x does. The products
// add in float with all bits that the tensor cores offer (no "fast accumulation").
#include <stdlib.h>

#include "trainer/ops/cuda/kernels/bias_gradient.h"
#include "trainer/ops/cuda/kernels/quantise.h"
#include "trainer/ops/cuda/libraries/product.h"

extern "C" {
#include "base/arena.h"
}

enum product { FORWARD, FORWARD_BIAS, DATA, WEIGHTS, PRODUCTS };

struct ops_fp8_plan {
    struct multiplier of[PRODUCTS];
};

static struct product_shape shape_of(const struct ops_linear *s, enum product which)
{
    struct product_shape shape = {.transpose_a = true, .a = OPERAND_E4M3, .b = OPERAND_E4M3};
    shape.m = which == DATA ? s->in : s->out;
    shape.n = which == WEIGHTS ? s->in : s->rows;
    shape.k = which == DATA ? s->out : which == WEIGHTS ? s->rows : s->in;
    shape.bias = which == FORWARD_BIAS;
    shape.float_sum = which == WEIGHTS;
    if (which == DATA)
        shape.b = OPERAND_E5M2;
    if (which == WEIGHTS)
        shape.a = OPERAND_E5M2;
    return shape;
}

int ops_fp8_compile(const struct ops_linear *s, struct ops_fp8_plan **out, struct error *e)
{
    struct ops_fp8_plan *plan = (struct ops_fp8_plan *)xcalloc(1, sizeof *plan);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    *out = plan;
    for (int i = 0; i < PRODUCTS && !status; i++) {
        const struct product_shape shape = shape_of(s, (enum product)i);
        status = multiplier_make(&shape, &plan->of[i]);
        if (status)
            error_set(e, ERR_INTERNAL,
                      "cuBLASLt has no kernel for a product of %lld x %lld x %lld in fp8 (%s); use "
                      "trainer.precision: bf16",
                      (long long)shape.m, (long long)shape.k, (long long)shape.n,
                      cublasLtGetStatusString(status));
    }
    if (!status)
        return 0;
    ops_fp8_free(plan);
    *out = NULL;
    return ERR_INTERNAL;
}

void ops_fp8_free(struct ops_fp8_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < PRODUCTS; i++)
        multiplier_free(&plan->of[i]);
    free(plan);
}

// --- memory: a code is a byte --------------------------------------------------------------------

static int64_t sums_offset(const struct ops_linear *s)
{
    return 2 * s->rows * s->out;
}

int64_t ops_fp8_weight_floats(const struct ops_linear *s)
{
    return 2 * s->in * s->out / (int64_t)sizeof(float);
}

int64_t ops_fp8_saved_floats(const struct ops_linear *s)
{
    return s->rows * s->in / (int64_t)sizeof(float);
}

// x; or dy, dy turned, and the parts of the bias's gradient.
int64_t ops_fp8_scratch_floats(const struct ops_linear *s)
{
    int64_t forward = s->rows * s->in / (int64_t)sizeof(float);
    int64_t backward = sums_offset(s) / (int64_t)sizeof(float) + quantise_parts(s->rows) * s->out;
    return forward > backward ? forward : backward;
}

static unsigned char *codes_at(float *block, int64_t first)
{
    return (unsigned char *)block + first;
}

// --- the ops -------------------------------------------------------------------------------------

static struct quantise_job job_of(const struct ops_fp8 *f, enum ops_fp8_tensor t, int64_t rows,
                                  int64_t columns)
{
    return {.tensor = t,
            .rows = rows,
            .columns = columns,
            .scale = f->scales[t],
            .amax = f->amaxes + t,
            .own_amax = f->own_amaxes ? f->own_amaxes + t : NULL};
}

static void multiply(const struct ops_fp8 *f, enum product which,
                     const struct product_operands *operands, const char *op)
{
    device_check_blas(multiplier_run(&f->plan->of[which], operands), op);
}

void ops_fp8_quantise_weights(const struct ops_fp8 *f, const float *w)
{
    const struct ops_linear *s = f->linear;
    struct quantise_job job = job_of(f, OPS_FP8_W, s->in, s->out);
    job.codes = codes_at(f->weights, 0);
    job.turned = codes_at(f->weights, s->in * s->out);
    quantise_floats(&job, w);
}

void ops_fp8_forward(const struct ops_fp8 *f, const real *x, bool gelu, const real *bias, real *y)
{
    const struct ops_linear *s = f->linear;
    struct quantise_job job = job_of(f, OPS_FP8_X, s->rows, s->in);
    job.gelu = gelu;
    job.codes = y ? codes_at(f->scratch, 0) : NULL;
    job.turned = codes_at(f->saved, 0);
    quantise_reals(&job, x);
    const struct product_operands operands = {.a = codes_at(f->weights, s->in * s->out),
                                              .b = job.codes,
                                              .bias = bias,
                                              .c = y,
                                              .scale_a = &f->scales[OPS_FP8_W][1],
                                              .scale_b = &f->scales[OPS_FP8_X][1]};
    if (y)
        multiply(f, bias ? FORWARD_BIAS : FORWARD, &operands, "ops_fp8_forward");
}

void ops_fp8_backward(const struct ops_fp8 *f, const real *dy, const real *before, real *dx,
                      bool add_dx, float *dw, bool add_dw, float *db)
{
    const struct ops_linear *s = f->linear;
    struct quantise_job job = job_of(f, OPS_FP8_DY, s->rows, s->out);
    job.before = before;
    job.codes = dx ? codes_at(f->scratch, 0) : NULL;
    job.turned = codes_at(f->scratch, s->rows * s->out);
    job.sums = db ? (float *)codes_at(f->scratch, sums_offset(s)) : NULL;
    quantise_reals(&job, dy);
    const struct product_operands data = {.a = codes_at(f->weights, 0),
                                          .b = job.codes,
                                          .add = add_dx,
                                          .c = dx,
                                          .scale_a = &f->scales[OPS_FP8_W][1],
                                          .scale_b = &f->scales[OPS_FP8_DY][1]};
    const struct product_operands weights = {.a = job.turned,
                                             .b = codes_at(f->saved, 0),
                                             .add = add_dw,
                                             .c = dw,
                                             .scale_a = &f->scales[OPS_FP8_DY][1],
                                             .scale_b = &f->scales[OPS_FP8_X][1]};
    if (dx)
        multiply(f, DATA, &data, "ops_fp8_backward, of x");
    multiply(f, WEIGHTS, &weights, "ops_fp8_backward, of weights");
    if (db)
        bias_gradient_sum_floats(quantise_parts(s->rows), s->out, job.sums, db);
}
