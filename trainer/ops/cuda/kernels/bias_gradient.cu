// The rows are divided into parts, each with a sum of its own, and the parts' sums are added in the
// same way. So no float sum has more than a few thousand terms.
#include "trainer/ops/cuda/kernels/bias_gradient.h"
#include "trainer/ops/cuda/kernels/vectors.h"

enum {
    THREADS = 256,
    LANES = THREADS / WARP, // rows that a block reads together
    AHEAD = 4,              // rows that a lane loads ahead
    PART_ROWS = 128,        // minimum rows of a part
    BLOCKS = 1024,          // approximate number of blocks, if there are enough rows
};

// A block sums one part of the rows, for as many columns as a warp has packs.
template <typename T>
static __global__ void columns_kernel(int64_t rows, int64_t width, int64_t part, bool aligned,
                                      const T *x, float *sums)
{
    __shared__ float lanes[LANES][WARP * PACK<T>];
    int lane = (int)threadIdx.x / WARP, place = (int)threadIdx.x % WARP * PACK<T>;
    int64_t column = (int64_t)blockIdx.x * WARP * PACK<T> + place;
    int64_t first = (int64_t)blockIdx.y * part, end = first + part < rows ? first + part : rows;
    float sum[PACK<T>] = {};
    for (int64_t row = first + lane; row < end && column < width; row += LANES * AHEAD) {
        float v[AHEAD][PACK<T>] = {};
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (row + i * LANES < end)
                load_some<PACK<T>>(x + (row + i * LANES) * width + column, width - column, aligned,
                                   v[i]);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int k = 0; k < PACK<T>; k++)
                sum[k] += v[i][k];
    }
#pragma unroll
    for (int k = 0; k < PACK<T>; k++)
        lanes[lane][place + k] = sum[k];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < WARP * PACK<T>; i += THREADS) {
        int64_t at = (int64_t)blockIdx.x * WARP * PACK<T> + i;
        float all = lanes[0][i];
        for (int k = 1; k < LANES; k++)
            all += lanes[k][i];
        if (at < width)
            sums[(int64_t)blockIdx.y * width + at] = all;
    }
}

template <typename T>
static void sum_parts(int64_t rows, int64_t width, int64_t parts, const T *x, float *sums)
{
    bool aligned = is_aligned(x) && width % PACK<T> == 0;
    dim3 grid((unsigned)ceil_div(width, WARP * PACK<T>), (unsigned)parts);
    LAUNCH((columns_kernel<T>), grid, THREADS, 0, rows, width, ceil_div(rows, parts), aligned, x,
           sums);
}

template <typename T> static void sum(int64_t rows, int64_t width, const T *x, float *sums)
{
    int64_t parts = ceil_div(rows, PART_ROWS), across = ceil_div(width, WARP * PACK<T>);
    float *partial = (float *)cuda_workspace(); // BLOCKS * WARP * PACK floats; unused with one part
    parts = parts * across < BLOCKS ? parts : BLOCKS / across;
    if (parts <= 1) {
        sum_parts(rows, width, 1, x, sums);
        return;
    }
    sum_parts(rows, width, parts, x, partial);
    sum_parts(parts, width, 1, (const float *)partial, sums);
}

void bias_gradient_sum(int64_t rows, int64_t width, const real *x, float *sums)
{
    DISPATCH(T, sum(rows, width, reals<T>(x), sums));
}

void bias_gradient_sum_floats(int64_t rows, int64_t width, const float *x, float *sums)
{
    sum(rows, width, x, sums);
}
