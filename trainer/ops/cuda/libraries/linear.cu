// Matrix products by cuBLASLt, which uses column-major matrices. Read by rows, its product
// C = op(A) op(B) is C' = op(B)' op(A)', so the weights come first.
//
// ops_linear_compile() chooses the kernel of a shape once, and only among deterministic ones: split
// products keep their partial sums separately, in float, and a kernel adds them in order.
//
// gelu after a product, and its derivative in the backward pass, are applied to the sums before
// they are rounded and written, if cuBLASLt does it in a single kernel: in bf16 from Hopper on. On
// older GPUs and in float it would run a second kernel, which is slower than ours.
#include <stdlib.h>

#include "trainer/ops/cuda/device/device.h"
#include "trainer/ops/cuda/kernels/bias_gradient.h"

extern "C" {
#include "base/arena.h"
}

enum { ALIGNMENT = 16 }; // bytes

// C[m, n] = op(A) op(B) in column-major order; k is the summed dimension. Matrices have no padding.
struct product_shape {
    bool transpose_a, transpose_b; // op transposes
    int64_t m, n, k;
    bool bias;      // [m], added to each column
    bool gelu;      // also writes C before gelu
    bool slope;     // multiplies C by the derivative of gelu
    bool float_sum; // C contains floats, otherwise reals
};

// The operands of a product.
struct product_operands {
    const void *a, *b, *bias;
    const void *before; // values before gelu: written with `gelu`, read with `slope`
    bool add;           // C += ..
    void *c;
};

struct multiplier {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

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

static cublasLtEpilogue_t epilogue_of(const struct product_shape *s)
{
    if (s->slope)
        return CUBLASLT_EPILOGUE_DGELU;
    if (s->gelu)
        return s->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename V>
static cublasStatus_t set_attribute(struct multiplier *p, cublasLtMatmulDescAttributes_t attribute,
                                    V value)
{
    return cublasLtMatmulDescSetAttribute(p->op, attribute, &value, sizeof value);
}

// Sets the addresses of the bias and of the values before gelu; NULL: not used by the product.
static cublasStatus_t set_epilogue_addresses(struct multiplier *p, const void *bias,
                                             const void *before)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (bias)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (before && !status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before);
    return status;
}

static cublasStatus_t describe_operation(const struct product_shape *s, struct multiplier *p)
{
    // The heuristics assume the alignment of these addresses.
    const unsigned char *somewhere = (const unsigned char *)cuda_workspace() + ALIGNMENT;
    bool beside = s->gelu || s->slope;
    cublasComputeType_t compute =
        device.precision == OPS_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t status = cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F);
    if (!status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_TRANSA,
                               s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_TRANSB,
                               s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
    if (!status && beside)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s->m);
    if (!status)
        status = set_epilogue_addresses(p, s->bias ? somewhere : NULL, beside ? somewhere : NULL);
    return status;
}

static cublasStatus_t describe(const struct product_shape *s, struct multiplier *p)
{
    cudaDataType reals = cuda_reals_are_bf16() ? CUDA_R_16BF : CUDA_R_32F;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    cublasStatus_t status = describe_operation(s, p);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->a, reals, s->transpose_a ? k : m,
                                            s->transpose_a ? m : k, s->transpose_a ? s->k : s->m);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->b, reals, s->transpose_b ? n : k,
                                            s->transpose_b ? k : n, s->transpose_b ? s->n : s->k);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->c, s->float_sum ? CUDA_R_32F : reals, m, n, s->m);
    return status;
}

// Weights may start anywhere in the parameter block, so only the alignment of a load is assumed.
static cublasStatus_t create_preference(cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t alignment = ALIGNMENT;
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

static cublasStatus_t choose_kernel(struct multiplier *p)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (!status)
        status = create_preference(preference);
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

static cublasStatus_t multiplier_make(const struct product_shape *s, struct multiplier *p)
{
    cublasStatus_t status = describe(s, p);
    return status ? status : choose_kernel(p);
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
    *p = {};
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

static cublasStatus_t run_product(struct multiplier *p, const struct product_operands *f)
{
    const float one = 1, beta = f->add ? 1 : 0;
    cublasStatus_t status = set_epilogue_addresses(p, f->bias, f->before);
    if (status)
        return status;
    return cublasLtMatmul(device.blas, p->op, &one, f->a, p->a, f->b, p->b, &beta, f->c, p->c, f->c,
                          p->c, &p->algorithm, device.workspace, CUDA_WORKSPACE_BYTES,
                          device.stream);
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
    device_check_blas(status ? status : run_product(p, f), op);
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
