// A block converts a tile. Each thread loads ROWS x COLUMNS numbers, writes the codes of each row,
// and packs the codes of each column into a word of shared memory. Then each warp writes whole
// columns of the tile, 128 bytes at a time. So the matrix is read once for both orders, for its
// largest magnitude, and for the gradient of a bias.
#include "trainer/ops/cuda/kernels/quantise.h"

#include <cuda_fp8.h>

#include "trainer/ops/cuda/kernels/gelu.h"
#include "trainer/ops/cuda/kernels/vectors.h"

enum {
    THREADS = 256,
    WARPS = THREADS / WARP,
    ROWS = 4,    // of a thread: the bytes of a word
    COLUMNS = 8, // of a thread
    TILE_ROWS = ROWS * WARP,
    TILE_COLUMNS = THREADS * ROWS * COLUMNS / TILE_ROWS,
    ACROSS = TILE_COLUMNS / COLUMNS, // threads beside each other
    INFINITE = 0x7f800000,           // bits of infinity; NaN has more
    EXPONENT_SHIFT = 23,
    EXPONENT_BIAS = 126, // of e, where 2^(e-1) <= |x| < 2^e
};

enum input { PLAIN, GELU, GELU_SLOPE }; // x, gelu(x), x times the derivative of gelu at `before`

struct target {
    const float *scale;
    uint32_t *amax;
    unsigned char *codes, *turned;
    float *sums;
};

static __device__ inline uint32_t magnitude_of(float x)
{
    return (uint32_t)__float_as_int(x) & INT32_MAX;
}

static __device__ inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// Combines the maxima of a block's threads into *amax.
static __device__ inline void note_largest(uint32_t largest, uint32_t *amax)
{
    __shared__ uint32_t of_warp[WARPS];
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        largest = larger(largest, __shfl_xor_sync(whole_warp, largest, lane));
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = largest;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < WARPS; i++)
        largest = larger(largest, of_warp[i]);
    if (largest > 0)
        atomicMax(amax, largest);
}

// The conversion saturates, so infinity has to become NaN before it.
static __device__ inline float scaled(float x, float scale)
{
    return magnitude_of(x) < INFINITE ? x * scale : NAN;
}

// Codes of COLUMNS numbers, the first in the lowest byte of codes[0].
template <bool WIDE>
static __device__ inline void encode(const float *v, float scale, uint32_t codes[COLUMNS / 4])
{
    const __nv_fp8_interpretation_t format = WIDE ? __NV_E5M2 : __NV_E4M3;
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; i++) {
        uint32_t low = __nv_cvt_float2_to_fp8x2(
            make_float2(scaled(v[4 * i], scale), scaled(v[4 * i + 1], scale)), __NV_SATFINITE,
            format);
        uint32_t high = __nv_cvt_float2_to_fp8x2(
            make_float2(scaled(v[4 * i + 2], scale), scaled(v[4 * i + 3], scale)), __NV_SATFINITE,
            format);
        codes[i] = low | high << 16;
    }
}

// The codes of column `column` of a thread's rows, the first row in the lowest byte.
static __device__ inline uint32_t column_of(const uint32_t codes[ROWS][COLUMNS / 4], int column)
{
    uint32_t word = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        word |= (codes[r][column / 4] >> 8 * (column % 4) & 0xff) << 8 * r;
    return word;
}

template <typename T>
static __device__ inline void load_inputs(enum input input, const T *x, const T *before, int64_t at,
                                          float v[COLUMNS])
{
    load<COLUMNS>(x + at, v);
    if (input == GELU)
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            v[i] *= gelu_gate(v[i]);
    if (input == GELU_SLOPE) {
        float u[COLUMNS];
        load<COLUMNS>(before + at, u);
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            v[i] = gelu_slope(u[i], v[i]);
    }
}

// Adds a thread's sums of its rows to those of the threads below it in the same warp.
static __device__ inline void note_sums(float sum[COLUMNS], float of_warp[WARPS][TILE_COLUMNS])
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
#pragma unroll
        for (int other = ACROSS; other < WARP; other *= 2)
            sum[i] += __shfl_xor_sync(whole_warp, sum[i], other);
        if (lane < ACROSS)
            of_warp[warp][lane * COLUMNS + i] = sum[i];
    }
}

static __device__ inline void write_sums(const float of_warp[WARPS][TILE_COLUMNS], int64_t columns,
                                         float *sums)
{
    const int64_t column = (int64_t)blockIdx.y * TILE_COLUMNS + threadIdx.x;
    if (threadIdx.x >= TILE_COLUMNS || column >= columns)
        return;
    float all = of_warp[0][threadIdx.x];
    for (int i = 1; i < WARPS; i++)
        all += of_warp[i][threadIdx.x];
    sums[(int64_t)blockIdx.x * columns + column] = all;
}

// Writes the columns of the tile, each by a warp.
static __device__ inline void write_turned(const uint32_t tile[TILE_COLUMNS][WARP + 1],
                                           int64_t rows, int64_t columns, unsigned char *turned)
{
    const int lane = (int)threadIdx.x % WARP;
    const int64_t row = (int64_t)blockIdx.x * TILE_ROWS + lane * ROWS;
    for (int i = (int)threadIdx.x / WARP; i < TILE_COLUMNS; i += WARPS) {
        const int64_t column = (int64_t)blockIdx.y * TILE_COLUMNS + i;
        if (column < columns && row < rows)
            *(uint32_t *)(turned + column * rows + row) = tile[i][lane];
    }
}

template <bool WIDE, enum input INPUT, typename T>
static __global__ void quantise_kernel(int64_t rows, int64_t columns, const T *x, const T *before,
                                       struct target to)
{
    __shared__ uint32_t tile[TILE_COLUMNS][WARP + 1]; // the padding avoids bank conflicts
    __shared__ float sums[WARPS][TILE_COLUMNS];
    const int across = (int)threadIdx.x % ACROSS, down = (int)threadIdx.x / ACROSS;
    const int64_t row = (int64_t)blockIdx.x * TILE_ROWS + down * ROWS;
    const int64_t column = (int64_t)blockIdx.y * TILE_COLUMNS + across * COLUMNS;
    const float scale = *to.scale;
    uint32_t codes[ROWS][COLUMNS / 4] = {}, largest = 0;
    float sum[COLUMNS] = {};
    if (row < rows && column < columns) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = (row + r) * columns + column;
            float v[COLUMNS];
            load_inputs(INPUT, x, before, at, v);
            encode<WIDE>(v, scale, codes[r]);
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                largest = larger(largest, magnitude_of(v[i]));
                if (WIDE) // only gradients have sums
                    sum[i] += v[i];
            }
            if (to.codes)
                *(pack<uint32_t, COLUMNS / 4> *)(to.codes + at) = {codes[r][0], codes[r][1]};
        }
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        tile[across * COLUMNS + i][down] = column_of(codes, i);
    if (WIDE && to.sums)
        note_sums(sum, sums);
    note_largest(largest, to.amax); // and waits until the tile and the sums are complete
    write_turned(tile, rows, columns, to.turned);
    if (WIDE && to.sums)
        write_sums(sums, columns, to.sums);
}

// --- measuring first -----------------------------------------------------------------------------

template <typename T>
static __global__ void measure_kernel(int64_t n, enum input input, const T *x, const T *before,
                                      uint32_t *amax)
{
    const int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * COLUMNS;
    uint32_t largest = 0;
    if (at < n) {
        float v[COLUMNS];
        load_inputs(input, x, before, at, v);
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            largest = larger(largest, magnitude_of(v[i]));
    }
    note_largest(largest, amax);
}

// The scale that ops_fp8_scale() gives for the amax's exponent.
static __global__ void scale_kernel(int top, const uint32_t *amax, float *scale)
{
    const int least = OPS_FP8_EXPONENT_MIN;
    const int exponent =
        *amax ? (int)(*amax >> EXPONENT_SHIFT) - EXPONENT_BIAS : (int)OPS_FP8_EXPONENT_OF_ZERO;
    if (threadIdx.x > 0)
        return;
    scale[0] = ldexpf(1.0f, top - (exponent > least ? exponent : least));
    scale[1] = 1.0f / scale[0];
}

template <typename T>
static void measure_first(const struct quantise_job *j, enum input input, const T *x,
                          const T *before)
{
    const int64_t n = j->rows * j->columns;
    const int top = j->tensor == OPS_FP8_DY ? OPS_FP8_TOP_E5M2 : OPS_FP8_TOP_E4M3;
    ops_zero(j->own_amax, sizeof *j->own_amax);
    LAUNCH((measure_kernel<T>), blocks_for(n, THREADS * COLUMNS), THREADS, 0, n, input, x, before,
           j->own_amax);
    LAUNCH(scale_kernel, 1, WARP, 0, top, j->own_amax, j->scale);
}

// --- the ops -------------------------------------------------------------------------------------

template <bool WIDE, enum input INPUT, typename T>
static void convert(const struct quantise_job *j, const T *x, const T *before)
{
    const struct target to = {j->scale, j->amax, j->codes, j->turned, j->sums};
    dim3 grid((unsigned)quantise_parts(j->rows), (unsigned)ceil_div(j->columns, TILE_COLUMNS));
    if (j->own_amax)
        measure_first(j, INPUT, x, before);
    LAUNCH((quantise_kernel<WIDE, INPUT, T>), grid, THREADS, 0, j->rows, j->columns, x, before, to);
}

template <typename T>
static void quantise(const struct quantise_job *j, const T *x, const T *before)
{
    if (j->tensor != OPS_FP8_DY && j->gelu)
        convert<false, GELU>(j, x, before);
    else if (j->tensor != OPS_FP8_DY)
        convert<false, PLAIN>(j, x, before);
    else if (before)
        convert<true, GELU_SLOPE>(j, x, before);
    else
        convert<true, PLAIN>(j, x, before);
}

int64_t quantise_parts(int64_t rows)
{
    return ceil_div(rows, TILE_ROWS);
}

void quantise_reals(const struct quantise_job *job, const real *x)
{
    DISPATCH(T, quantise(job, reals<T>(x), reals<T>(job->before)));
}

void quantise_floats(const struct quantise_job *job, const float *x)
{
    convert<false, PLAIN>(job, x, (const float *)NULL);
}
