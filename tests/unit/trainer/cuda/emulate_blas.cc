// cuBLASLt of the emulation: products in plain loops, for column-major matrices. It checks the
// requirements of cuBLASLt's documentation.
#include "tests/unit/trainer/cuda/emulate.h"

#include <stdlib.h>

#include "trainer/ops/cuda/device/device.h"

#define _Noreturn __attribute__((noreturn))
extern "C" {
#include "base/arena.h"
#include "base/log.h"
}

struct emulated_matmul {
    cublasOperation_t turn_a, turn_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
    const float *scale_a, *scale_b;
};

struct emulated_matrix_layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
};

static int64_t fused; // number of products with gelu

extern "C" int64_t cuda_products_with_gelu(void)
{
    return fused;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t,
                                        cudaDataType_t scale)
{
    must(scale == CUDA_R_32F);
    struct emulated_matmul *op = (struct emulated_matmul *)xcalloc(1, sizeof *op);
    op->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *out = (cublasLtMatmulDesc_t)op;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t op)
{
    free(op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    struct emulated_matmul *op = (struct emulated_matmul *)desc;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        void *at;
        size_t size;
    } known[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &op->turn_a, 4},
        {CUBLASLT_MATMUL_DESC_TRANSB, &op->turn_b, 4},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &op->epilogue, 4},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &op->bias, 8},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &op->aux, 8},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &op->aux_ld, 8},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &op->scale_a, 8},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &op->scale_b, 8},
    };
    for (auto &k : known)
        if (k.attribute == attribute) {
            must(size == k.size);
            memcpy(k.at, value, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    struct emulated_matrix_layout *l = (struct emulated_matrix_layout *)xcalloc(1, sizeof *l);
    must(ld >= (int64_t)rows);
    *l = {type, rows, columns, ld};
    *out = (cublasLtMatrixLayout_t)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = (cublasLtMatmulPreference_t)xcalloc(1, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static bool has_bias(const struct emulated_matmul *op)
{
    return op->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static bool has_aux(const struct emulated_matmul *op)
{
    return op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
           op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           op->epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static bool is_aligned(const void *p)
{
    return p && (uintptr_t)p % 16 == 0;
}

static bool is_of_codes(const struct emulated_matrix_layout *l)
{
    return l->type == CUDA_R_8F_E4M3 || l->type == CUDA_R_8F_E5M2;
}

// The rules for products of FP8 codes; others have operands of one type.
static void check_types(const struct emulated_matmul *op, const struct emulated_matrix_layout *a,
                        const struct emulated_matrix_layout *b,
                        const struct emulated_matrix_layout *d)
{
    must(is_of_codes(a) == is_of_codes(b) && !is_of_codes(d));
    if (!is_of_codes(a)) {
        must(a->type == b->type);
        return;
    }
    must(device.capability >= 89 && op->turn_a == CUBLAS_OP_T && op->turn_b == CUBLAS_OP_N);
    must(a->type == CUDA_R_8F_E4M3 || b->type == CUDA_R_8F_E4M3);
    must(op->scale_a && op->scale_b && !has_aux(op));
    must(!has_bias(op) || d->type == CUDA_R_16BF);
    must(a->rows % 16 == 0 && a->columns % 16 == 0 && b->columns % 16 == 0);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t *best, int *found)
{
    const struct emulated_matmul *op = (const struct emulated_matmul *)desc;
    check_types(op, (const struct emulated_matrix_layout *)a,
                (const struct emulated_matrix_layout *)b, (const struct emulated_matrix_layout *)d);
    must(!has_bias(op) || is_aligned(op->bias));
    must(!has_aux(op) || (is_aligned(op->aux) && op->aux_ld % 8 == 0 &&
                          op->aux_ld >= (int64_t)((const struct emulated_matrix_layout *)d)->rows));
    *best = {};
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t)
{
    return "an error of the emulation";
}

void device_check_blas(cublasStatus_t status, const char *)
{
    must(status == CUBLAS_STATUS_SUCCESS);
}

// --- numbers -------------------------------------------------------------------------------------

// The number of an FP8 code.
static double number_of(cudaDataType type, unsigned char code)
{
    const int bits = type == CUDA_R_8F_E4M3 ? 3 : 2, bias = type == CUDA_R_8F_E4M3 ? 7 : 15;
    const int mantissa = code & ((1 << bits) - 1), exponent = (code & 0x7f) >> bits;
    double number = exponent ? ldexp(1 + ldexp(mantissa, -bits), exponent - bias)
                             : ldexp(mantissa, 1 - bias - bits);
    if (type == CUDA_R_8F_E4M3 ? (code & 0x7f) == 0x7f : exponent == 0x1f)
        number = bits == 2 && mantissa == 0 ? INFINITY : NAN;
    return code & 0x80 ? -number : number;
}

static double get(const struct emulated_matrix_layout *l, const void *matrix, uint64_t row,
                  uint64_t column)
{
    must(row < l->rows && column < l->columns);
    int64_t at = (int64_t)row + (int64_t)column * l->ld;
    if (is_of_codes(l))
        return number_of(l->type, ((const unsigned char *)matrix)[at]);
    return l->type == CUDA_R_32F ? (double)((const float *)matrix)[at]
                                 : (double)__bfloat162float(((const __nv_bfloat16 *)matrix)[at]);
}

static void set(const struct emulated_matrix_layout *l, void *matrix, uint64_t row, uint64_t column,
                double x)
{
    int64_t at = (int64_t)row + (int64_t)column * l->ld;
    if (l->type == CUDA_R_32F)
        ((float *)matrix)[at] = (float)x;
    else
        ((__nv_bfloat16 *)matrix)[at] = __float2bfloat16_rn((float)x);
}

static double gelu_inner(double x)
{
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu_slope(double x)
{
    double t = gelu_inner(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static double finish(const struct emulated_matmul *op, const struct emulated_matrix_layout *d,
                     uint64_t row, uint64_t column, double x)
{
    struct emulated_matrix_layout aux = *d;
    aux.ld = op->aux_ld;
    if (has_bias(op))
        x += get(d, op->bias, row, 0);
    if (op->epilogue == CUBLASLT_EPILOGUE_DGELU)
        return x * gelu_slope(get(&aux, op->aux, row, column));
    if (!has_aux(op))
        return x;
    set(&aux, op->aux, row, column, x);
    return 0.5 * x * (1 + gelu_inner(x));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *,
                              const void *a, cublasLtMatrixLayout_t a_desc, const void *b,
                              cublasLtMatrixLayout_t b_desc, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_desc, void *d, cublasLtMatrixLayout_t d_desc,
                              const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t)
{
    const struct emulated_matmul *op = (const struct emulated_matmul *)desc;
    const struct emulated_matrix_layout *la = (const struct emulated_matrix_layout *)a_desc,
                                        *lb = (const struct emulated_matrix_layout *)b_desc;
    const struct emulated_matrix_layout *ld = (const struct emulated_matrix_layout *)d_desc;
    bool turn_a = op->turn_a == CUBLAS_OP_T, turn_b = op->turn_b == CUBLAS_OP_T;
    bool add = *(const float *)beta != 0;
    must(c == d && c_desc == d_desc && !(add && has_aux(op)));
    check_types(op, la, lb, ld);
    must((turn_a ? la->columns : la->rows) == ld->rows &&
         (turn_b ? lb->rows : lb->columns) == ld->columns);
    must(!has_bias(op) || is_aligned(op->bias));
    must(!has_aux(op) || (is_aligned(op->aux) && op->aux != d));
    fused += has_aux(op);
    emulate_op([=, op = *op, la = *la, lb = *lb, ld = *ld] {
        const bool codes = is_of_codes(&la);
        const double scale = codes ? (double)*op.scale_a * (double)*op.scale_b : 1;
        for (uint64_t column = 0; column < ld.columns; column++)
            for (uint64_t row = 0; row < ld.rows; row++) {
                double sum = 0;
                for (uint64_t k = 0; k < (turn_a ? la.rows : la.columns); k++)
                    sum += get(&la, a, turn_a ? k : row, turn_a ? row : k) *
                           get(&lb, b, turn_b ? column : k, turn_b ? k : column);
                sum = sum * scale + (add ? get(&ld, d, row, column) : 0);
                set(&ld, d, row, column, finish(&op, &ld, row, column, sum));
            }
    });
    return CUBLAS_STATUS_SUCCESS;
}
