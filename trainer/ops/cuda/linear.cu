// Products by cuBLASLt. What is a row here is a column there: its product C = op(A) op(B) of
// column-major matrices is, read by rows, C' = op(B)' op(A)', so the weights come first.
//
// Which kernel takes a shape is asked once, in ops_linear_compile(). Only such may be chosen whose
// result does not vary: partial sums of a split product stay in float, apart, and are added up by a
// kernel of their own, in order.
#include <stdlib.h>

#include "trainer/ops/cuda/columns.h"
#include "trainer/ops/cuda/device.h"

extern "C" {
#include "base/arena.h"
}

// C[m, n] = op(A) op(B), by columns; k is what is summed over. Matrices have no gaps.
struct shape {
    bool turn_a, turn_b; // op is the transposition
    int64_t m, n, k;
    bool bias;      // [m], to each column
    bool float_sum; // C is of floats, else of reals
};

struct multiplier {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

enum product { FORWARD, FORWARD_BIAS, DATA, WEIGHTS, PRODUCTS };

struct ops_product {
    struct multiplier of[PRODUCTS];
};

static struct shape shape_of(const struct ops_linear *s, enum product which)
{
    switch (which) {
    case DATA:
        return {.turn_a = !s->transposed, .m = s->in, .n = s->rows, .k = s->out};
    case WEIGHTS:
        return {.turn_b = true,
                .m = s->transposed ? s->in : s->out,
                .n = s->transposed ? s->out : s->in,
                .k = s->rows,
                .float_sum = true};
    default:
        return {.turn_a = s->transposed,
                .m = s->out,
                .n = s->rows,
                .k = s->in,
                .bias = which == FORWARD_BIAS};
    }
}

static cublasStatus_t describe(const struct shape *s, struct multiplier *p)
{
    cublasComputeType_t compute =
        device.precision == OPS_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType reals = cuda_reals_are_bf16() ? CUDA_R_16BF : CUDA_R_32F;
    cublasOperation_t a = s->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = s->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    cublasStatus_t status;
    if (!(status = cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F)) &&
        !(status =
              cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a)) &&
        !(status =
              cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b)) &&
        !(status = cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                  sizeof epilogue)) &&
        !(status = cublasLtMatrixLayoutCreate(&p->a, reals, s->turn_a ? k : m, s->turn_a ? m : k,
                                              s->turn_a ? s->k : s->m)) &&
        !(status = cublasLtMatrixLayoutCreate(&p->b, reals, s->turn_b ? n : k, s->turn_b ? k : n,
                                              s->turn_b ? s->n : s->k)))
        status = cublasLtMatrixLayoutCreate(&p->c, s->float_sum ? CUDA_R_32F : reals, m, n, s->m);
    return status;
}

static cublasStatus_t set_bias(struct multiplier *p, const void *bias)
{
    return cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                          sizeof bias);
}

// Weights lie anywhere among all parameters: nothing is taken to be aligned to more than a load.
static cublasStatus_t prefer(cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t alignment = 16;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t workspace = CUDA_WORKSPACE_BYTES;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 4 && !status; i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment,
                                                      sizeof alignment);
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    return status;
}

static cublasStatus_t choose(struct multiplier *p)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (!status)
        status = prefer(preference);
    if (!status)
        status = cublasLtMatmulAlgoGetHeuristic(device.blas, p->op, p->a, p->b, p->c, p->c,
                                                preference, 1, &best, &found);
    if (!status && found < 1)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!status)
        status = best.state;
    if (!status)
        p->algorithm = best.algo;
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static cublasStatus_t multiplier_make(const struct shape *s, struct multiplier *p)
{
    cublasStatus_t status = describe(s, p);
    if (!status && s->bias)
        status = set_bias(p, cuda_workspace()); // for its alignment
    return status ? status : choose(p);
}

static void multiplier_free(struct multiplier *p)
{
    if (p->c)
        cublasLtMatrixLayoutDestroy(p->c);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->op)
        cublasLtMatmulDescDestroy(p->op);
}

int ops_linear_compile(struct ops_linear *s, struct error *e)
{
    s->product = (struct ops_product *)xcalloc(1, sizeof *s->product);
    for (int i = 0; i < PRODUCTS; i++) {
        struct shape shape = shape_of(s, (enum product)i);
        cublasStatus_t status = multiplier_make(&shape, &s->product->of[i]);
        if (status) {
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

// C = op(A) op(B), or with `add` C += that.
static cublasStatus_t run(struct multiplier *p, const void *a, const void *b, const void *bias,
                          bool add, void *c)
{
    const float one = 1, beta = add ? 1 : 0;
    cublasStatus_t status = bias ? set_bias(p, bias) : CUBLAS_STATUS_SUCCESS;
    if (status)
        return status;
    return cublasLtMatmul(device.blas, p->op, &one, a, p->a, b, p->b, &beta, c, p->c, c, p->c,
                          &p->algorithm, device.workspace, CUDA_WORKSPACE_BYTES, device.stream);
}

// A layer that was not compiled is, for this once: with the same kernels and bits, but slowly.
static void multiply(const struct ops_linear *s, enum product which, const void *a, const void *b,
                     const void *bias, bool add, void *c)
{
    static const char *const names[] = {"ops_linear_forward", "ops_linear_forward",
                                        "ops_linear_backward_data", "ops_linear_backward_weights"};
    struct multiplier once = {};
    struct multiplier *p = s->product ? &s->product->of[which] : &once;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!s->product) {
        struct shape shape = shape_of(s, which);
        status = multiplier_make(&shape, p);
    }
    device_check_blas(status ? status : run(p, a, b, bias, add, c), names[which]);
    multiplier_free(&once);
}

void ops_linear_forward(const struct ops_linear *s, const real *x, const real *w, const real *bias,
                        real *y)
{
    multiply(s, bias ? FORWARD_BIAS : FORWARD, w, x, bias, false, y);
}

void ops_linear_backward_data(const struct ops_linear *s, const real *w, const real *dy, real *dx,
                              bool add)
{
    multiply(s, DATA, w, dy, NULL, add, dx);
}

void ops_linear_backward_weights(const struct ops_linear *s, const real *x, const real *dy,
                                 float *dw, bool add, float *db)
{
    multiply(s, WEIGHTS, s->transposed ? x : dy, s->transposed ? dy : x, NULL, add, dw);
    if (db)
        columns_sum(s->rows, s->out, dy, db);
}
