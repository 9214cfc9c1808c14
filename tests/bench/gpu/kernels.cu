// Measures all kernels that cuBLASLt and cuDNN offer for GPT-2's products and ResNet-50's
// convolutions, not only the first one. Prints a line for each product or convolution.
//
//   bench_gpu_kernels products|convolutions [SECONDS]
//
// `first` is the kernel that the trainer uses; `best` the fastest deterministic one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/ops/cuda/kernels/vectors.h"
#include "trainer/ops/cuda/libraries/cudnn_graph.h"

extern "C" {
#include "base/clock.h"
}

enum { CHOICES = 24, RUNS = 6, THREADS = 256, ROWS = 64 * 1024 };

struct kernel_timing {
    double ms; // time of the fastest run; 0: it failed
    bool same; // two runs gave the same bits
};

static cudaEvent_t events[2];

template <typename F> static double time_of(F run)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        float ms = 0;
        cudaEventRecord(events[0], device.stream);
        if (!run())
            return 0;
        cudaEventRecord(events[1], device.stream);
        if (cudaEventSynchronize(events[1]) || cudaEventElapsedTime(&ms, events[0], events[1]))
            return 0;
        if (i > 0 && (best == 0 || ms < best)) // the first run is a warm-up
            best = ms;
    }
    return best;
}

static __global__ void fill_kernel(size_t n, __nv_bfloat16 *x)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t bits = (uint32_t)i * 0x9E3779B9u;
    bits = (bits ^ bits >> 16) * 0x85EBCA6Bu;
    bits = (bits ^ bits >> 13) * 0xC2B2AE35u;
    if (i < n)
        store_rounded(x + i, (float)(int32_t)(bits ^ bits >> 16) * 0x1p-31f);
}

// Allocates and fills n numbers of two bytes.
static void *numbers(size_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, n * 2 + 256)) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    LAUNCH(fill_kernel, blocks_for((int64_t)n, THREADS), THREADS, 0, n, (__nv_bfloat16 *)p);
    return p;
}

static __global__ void digest_kernel(size_t words, const uint32_t *x, unsigned long long *sum)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < words)
        atomicAdd(sum, (unsigned long long)x[i] * (2 * i + 1));
}

static unsigned long long digest(const void *x, size_t bytes)
{
    static unsigned long long *sum;
    unsigned long long out = 0;
    if (!sum)
        cudaMalloc((void **)&sum, sizeof *sum);
    cudaMemsetAsync(sum, 0, sizeof *sum, device.stream);
    LAUNCH(digest_kernel, blocks_for((int64_t)bytes / 4, THREADS), THREADS, 0, bytes / 4,
           (const uint32_t *)x, sum);
    cudaMemcpyAsync(&out, sum, sizeof out, cudaMemcpyDeviceToHost, device.stream);
    cudaStreamSynchronize(device.stream);
    return out;
}

// --- products ------------------------------------------------------------------------------------

struct bench_product {
    const char *name;
    bool turn_a, turn_b;
    int64_t m, n, k;
    cublasLtEpilogue_t epilogue;
    bool float_sum;
};

static const struct bench_product products[] = {
    {"up and gelu, forward", false, false, 3072, ROWS, 768, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, false},
    {"up, forward", false, false, 3072, ROWS, 768, CUBLASLT_EPILOGUE_BIAS, false},
    {"down and gelu, of x", true, false, 3072, ROWS, 768, CUBLASLT_EPILOGUE_DGELU, false},
    {"the same and bias", true, false, 3072, ROWS, 768, CUBLASLT_EPILOGUE_DGELU_BGRAD, false},
    {"down, of x", true, false, 3072, ROWS, 768, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"up, of weights", false, true, 3072, 768, ROWS, CUBLASLT_EPILOGUE_DEFAULT, true},
    {"the same and bias", false, true, 3072, 768, ROWS, CUBLASLT_EPILOGUE_BGRADA, true},
    {"qkv, forward", false, false, 2304, ROWS, 768, CUBLASLT_EPILOGUE_BIAS, false},
    {"qkv, of x", true, false, 768, ROWS, 2304, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"qkv, of weights", false, true, 2304, 768, ROWS, CUBLASLT_EPILOGUE_DEFAULT, true},
    {"the same and bias", false, true, 2304, 768, ROWS, CUBLASLT_EPILOGUE_BGRADA, true},
    {"projection, forward", false, false, 768, ROWS, 768, CUBLASLT_EPILOGUE_BIAS, false},
    {"projection, of x", true, false, 768, ROWS, 768, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"projection, of weights", false, true, 768, 768, ROWS, CUBLASLT_EPILOGUE_DEFAULT, true},
    {"down, forward", false, false, 768, ROWS, 3072, CUBLASLT_EPILOGUE_BIAS, false},
    {"down, of weights", false, true, 768, 3072, ROWS, CUBLASLT_EPILOGUE_DEFAULT, true},
    {"up, of x", true, false, 768, ROWS, 3072, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"head, forward", true, false, 50304, ROWS, 768, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"head, of x", false, false, 768, ROWS, 50304, CUBLASLT_EPILOGUE_DEFAULT, false},
    {"head, of weights", false, true, 768, 50304, ROWS, CUBLASLT_EPILOGUE_DEFAULT, true},
};

struct bench_buffers {
    void *a, *b, *c, *beside, *bias;
};

static void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t name, const void *value,
                size_t size)
{
    if (cublasLtMatmulDescSetAttribute(op, name, value, size))
        fprintf(stderr, "attribute %d is refused\n", (int)name);
}

static void measure_product(const struct bench_product *p, const struct bench_buffers *r)
{
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[CHOICES];
    const cublasOperation_t turn = CUBLAS_OP_T;
    const float one = 1, zero = 0;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t workspace = CUDA_WORKSPACE_BYTES;
    int count = 0, best = -1;
    size_t bytes = (size_t)(p->m * p->n) * (p->float_sum ? 4 : 2);
    struct kernel_timing times[CHOICES] = {};
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (p->turn_a)
        set(op, CUBLASLT_MATMUL_DESC_TRANSA, &turn, sizeof turn);
    if (p->turn_b)
        set(op, CUBLASLT_MATMUL_DESC_TRANSB, &turn, sizeof turn);
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
    if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &r->bias, sizeof r->bias);
    if (p->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || p->epilogue == CUBLASLT_EPILOGUE_DGELU ||
        p->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
        set(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &r->beside, sizeof r->beside);
        set(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->m, sizeof p->m);
    }
    cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, p->turn_a ? p->k : p->m, p->turn_a ? p->m : p->k,
                               p->turn_a ? p->k : p->m);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, p->turn_b ? p->n : p->k, p->turn_b ? p->k : p->n,
                               p->turn_b ? p->n : p->k);
    cublasLtMatrixLayoutCreate(&c, p->float_sum ? CUDA_R_32F : CUDA_R_16BF, p->m, p->n, p->m);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &reductions, sizeof reductions);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace, sizeof workspace);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(device.blas, op, a, b, c, c, preference,
                                                           CHOICES, found, &count);
    for (int i = 0; i < count; i++) {
        auto run = [&] {
            return cublasLtMatmul(device.blas, op, &one, r->a, a, r->b, b, &zero, r->c, c, r->c, c,
                                  &found[i].algo, device.workspace, CUDA_WORKSPACE_BYTES,
                                  device.stream) == CUBLAS_STATUS_SUCCESS;
        };
        times[i].ms = time_of(run);
        unsigned long long before = digest(r->c, bytes) + digest(r->bias, 4 * 1024);
        times[i].same = run() && digest(r->c, bytes) + digest(r->bias, 4 * 1024) == before;
        if (times[i].ms > 0 && times[i].same && (best < 0 || times[i].ms < times[best].ms))
            best = i;
    }
    double flop = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    printf("%-24s %6lld %6lld %6lld", p->name, (long long)p->m, (long long)p->n, (long long)p->k);
    if (count == 0)
        printf("  none (%s)\n", cublasLtGetStatusString(status));
    else if (best < 0)
        printf("  %d offered, none ran\n", count);
    else
        printf("  first %.4f ms %4.0f TFLOP/s%s  best no. %d of %d %.4f ms %4.0f TFLOP/s\n",
               times[0].ms, flop / times[0].ms / 1e9, times[0].same ? "" : " VARIES", best, count,
               times[best].ms, flop / times[best].ms / 1e9);
    fflush(stdout);
}

static void measure_products(void)
{
    const size_t largest = (size_t)ROWS * 50304;
    struct bench_buffers r = {numbers(largest), numbers(largest), numbers(largest),
                              numbers((size_t)ROWS * 3072), numbers(1 << 20)};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        measure_product(&products[i], &r);
}

// --- convolutions of ResNet-50 -------------------------------------------------------------------

struct bench_convolution {
    int64_t side, in, out, kernel, stride;
};

static const struct bench_convolution convolutions[] = {
    {224, 3, 64, 7, 2},    {224, 4, 64, 7, 2},    {224, 8, 64, 7, 2},     {56, 64, 64, 1, 1},
    {56, 64, 64, 3, 1},    {56, 64, 256, 1, 1},   {56, 256, 64, 1, 1},    {56, 256, 128, 1, 1},
    {56, 128, 128, 3, 2},  {28, 128, 512, 1, 1},  {56, 256, 512, 1, 2},   {28, 512, 128, 1, 1},
    {28, 128, 128, 3, 1},  {28, 512, 256, 1, 1},  {28, 256, 256, 3, 2},   {14, 256, 1024, 1, 1},
    {28, 512, 1024, 1, 2}, {14, 1024, 256, 1, 1}, {14, 256, 256, 3, 1},   {14, 1024, 512, 1, 1},
    {14, 512, 512, 3, 2},  {7, 512, 2048, 1, 1},  {14, 1024, 2048, 1, 2}, {7, 2048, 512, 1, 1},
    {7, 512, 512, 3, 1},
};

static struct graph_layout layout(int64_t n, int64_t side, int64_t channels)
{
    return {{n, channels, side, side}, {side * side * channels, 1, side * channels, channels}};
}

static const char *const pass_names[] = {"forward", "of x", "of weights"};
static const cudnnBackendDescriptorType_t passes[] = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
};

// Measures the number-th acceptable kernel; false: there are fewer.
static bool time_convolution(const struct bench_convolution *s, int64_t images, int pass,
                             int number, const struct bench_buffers *r, struct kernel_timing *out)
{
    enum { X = 1, W, Y };
    int64_t padding = s->kernel / 2, side = (s->side + 2 * padding - s->kernel) / s->stride + 1;
    const struct graph_convolution how = {s->stride, padding};
    const struct graph_layout x = layout(images, s->side, s->in), y = layout(images, side, s->out);
    const struct graph_layout w = layout(s->out, s->kernel, s->in);
    struct graph g = {};
    struct graph_plan plan;
    struct error e;
    g.number = number;
    graph_convolve(&g, passes[pass], &how, graph_tensor(&g, &x, CUDNN_DATA_BFLOAT16, X),
                   graph_tensor(&g, &w, CUDNN_DATA_BFLOAT16, W),
                   graph_tensor(&g, &y, CUDNN_DATA_BFLOAT16, Y));
    int rc = graph_compile(&g, "a convolution", &plan, &e);
    graph_free(&g);
    if (rc)
        return false;
    *out = {};
    if (graph_workspace_floats(&plan) * 4 < (int64_t)2 << 30) {
        const struct graph_argument arguments[] = {{X, r->a}, {W, r->bias}, {Y, r->b}};
        out->ms = time_of([&] {
            graph_run(&plan, arguments, 3, (float *)r->c, "a convolution");
            return true;
        });
    }
    if (ops_synchronize(&e))
        out->ms = 0;
    graph_plan_free(&plan);
    return true;
}

static void measure_convolutions(int64_t images, double seconds)
{
    const size_t largest = (size_t)images * 112 * 112 * 64 * 2;
    struct bench_buffers r = {numbers(largest), numbers(largest), numbers((size_t)1 << 30), NULL,
                              numbers((size_t)4 << 20)};
    int64_t end = clock_mono_us() + (int64_t)(seconds * 1e6);
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
        for (int pass = 0; pass < 3; pass++) {
            const struct bench_convolution *s = &convolutions[i];
            struct kernel_timing times[CHOICES] = {};
            int count = 0, best = 0;
            while (count < CHOICES && clock_mono_us() < end &&
                   time_convolution(s, images, pass, count, &r, &times[count]))
                count++;
            for (int k = 1; k < count; k++)
                if (times[k].ms > 0 && times[k].ms < times[best].ms)
                    best = k;
            printf(
                "%3lld %4lld %4lld %lldx%lld/%lld %-10s first %.4f ms  best no. %d of %d %.4f ms:",
                (long long)s->side, (long long)s->in, (long long)s->out, (long long)s->kernel,
                (long long)s->kernel, (long long)s->stride, pass_names[pass], times[0].ms, best,
                count, times[best].ms);
            for (int k = 0; k < count; k++)
                printf(" %.3f", times[k].ms);
            printf("\n");
            fflush(stdout);
        }
}

int main(int argc, char **argv)
{
    struct error e;
    if (argc < 2 || (strcmp(argv[1], "products") != 0 && strcmp(argv[1], "convolutions") != 0)) {
        fprintf(stderr, "usage: bench_gpu_kernels products|convolutions [SECONDS]\n");
        return 2;
    }
    if (ops_open(OPS_BF16, &e)) {
        printf("skipped: %s\n", e.text);
        return 77;
    }
    cudaEventCreate(&events[0]);
    cudaEventCreate(&events[1]);
    if (strcmp(argv[1], "products") == 0)
        measure_products();
    else
        measure_convolutions(128, argc > 2 ? atof(argv[2]) : 120);
    int failed = ops_synchronize(&e);
    if (failed)
        printf("%s\n", e.text);
    ops_close();
    return failed ? 1 : 0;
}
