#include "trainer/ops/cuda/libraries/product.h"

enum { ALIGNMENT = 16 }; // bytes

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

// Sets the addresses that are part of the description; NULL: not used by the product.
static cublasStatus_t set_addresses(struct multiplier *p, const struct product_operands *f)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (f->bias)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, f->bias);
    if (f->before && !status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, f->before);
    if (f->scale_a && !status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, (const void *)f->scale_a);
    if (f->scale_b && !status)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, (const void *)f->scale_b);
    return status;
}

static bool is_of_codes(const struct product_shape *s)
{
    return s->a != OPERAND_REALS;
}

static cublasStatus_t describe_operation(const struct product_shape *s, struct multiplier *p)
{
    // The heuristics assume the alignment of these addresses.
    const unsigned char *somewhere = (const unsigned char *)cuda_workspace() + ALIGNMENT;
    bool beside = s->gelu || s->slope;
    const float *scale = is_of_codes(s) ? (const float *)somewhere : NULL;
    const struct product_operands addresses = {.bias = s->bias ? somewhere : NULL,
                                               .before = beside ? somewhere : NULL,
                                               .scale_a = scale,
                                               .scale_b = scale};
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
        status = set_addresses(p, &addresses);
    return status;
}

static cudaDataType type_of(enum operand_type t)
{
    if (t == OPERAND_REALS)
        return cuda_reals_are_bf16() ? CUDA_R_16BF : CUDA_R_32F;
    return t == OPERAND_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

static cublasStatus_t describe(const struct product_shape *s, struct multiplier *p)
{
    cudaDataType c = s->float_sum ? CUDA_R_32F : type_of(OPERAND_REALS);
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    cublasStatus_t status = describe_operation(s, p);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->a, type_of(s->a), s->transpose_a ? k : m,
                                            s->transpose_a ? m : k, s->transpose_a ? s->k : s->m);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->b, type_of(s->b), s->transpose_b ? n : k,
                                            s->transpose_b ? k : n, s->transpose_b ? s->n : s->k);
    if (!status)
        status = cublasLtMatrixLayoutCreate(&p->c, c, m, n, s->m);
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

cublasStatus_t multiplier_make(const struct product_shape *s, struct multiplier *p)
{
    cublasStatus_t status = describe(s, p);
    return status ? status : choose_kernel(p);
}

void multiplier_free(struct multiplier *p)
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

cublasStatus_t multiplier_run(struct multiplier *p, const struct product_operands *f)
{
    const float one = 1, beta = f->add ? 1 : 0;
    cublasStatus_t status = set_addresses(p, f);
    if (status)
        return status;
    return cublasLtMatmul(device.blas, p->op, &one, f->a, p->a, f->b, p->b, &beta, f->c, p->c, f->c,
                          p->c, &p->algorithm, device.workspace, CUDA_WORKSPACE_BYTES,
                          device.stream);
}
