// Column-wise processing of [rows, width] tensors: threads stay on their columns and walk down the
// rows; two quantities can be summed over the rows. Included by .cu files only; sums use the
// workspace.
//
// A block has STRIPS_THREADS threads: `across` threads side by side, N columns each, and the others
// below them. The grid has blocks side by side over the columns, and one row of blocks for each
// strip of rows. All of this follows from the shape, so sums have a fixed order: a thread sums in
// float for a while and then in double, in shared memory; a block's sums are added from top to
// bottom; strips_finish() adds the sums of all strips.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_COLUMN_SUMS_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_COLUMN_SUMS_H

#include "trainer/ops/cuda/kernels/vectors.h"

enum {
    STRIPS_THREADS = 256,
    STRIPS_FOLD = 64, // numbers that are summed in float before the double sum
};

struct strips {
    int64_t rows, width;
    int64_t strip; // rows per block
    int across, down;
    unsigned blocks, count; // the grid
};

// Divides the rows among about `max_blocks` blocks. The best value is a multiple of the blocks that
// run at a time on a large GPU (132 multiprocessors of an H100).
static inline struct strips strips_of(int64_t rows, int64_t width, int lanes, unsigned max_blocks)
{
    struct strips c = {rows, width, 0, 1, 0, 0, 0};
    while (c.across < WARP && c.across * lanes < width)
        c.across *= 2;
    c.down = STRIPS_THREADS / c.across;
    c.blocks = (unsigned)ceil_div(width, c.across * lanes);
    int64_t strips = c.blocks < max_blocks ? max_blocks / c.blocks : 1;
    c.strip = ceil_div(ceil_div(rows, strips), c.down) * c.down;
    c.count = (unsigned)ceil_div(rows, c.strip);
    return c;
}

// A thread's first column, and its rows: row, row + down, .. below `end`.
struct strip_cursor {
    int64_t column, row, end;
};

template <int N> __device__ inline struct strip_cursor strips_walk(const struct strips &c)
{
    int64_t first = blockIdx.y * c.strip, end = first + c.strip;
    return {(blockIdx.x * (int64_t)c.across + threadIdx.x % c.across) * N,
            first + threadIdx.x / c.across, end < c.rows ? end : c.rows};
}

// Loads the thread's next rows; several loads in flight take no longer than one.
template <int N, int AHEAD, typename T>
__device__ inline void strips_load(const struct strips &c, const struct strip_cursor &at,
                                   const T *x, pack<T, N> (&rows)[AHEAD])
{
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        int64_t row = at.row + (int64_t)i * c.down;
        if (row < at.end)
            rows[i] = *reinterpret_cast<const pack<T, N> *>(x + row * c.width + at.column);
    }
}

// Two sums for each of a thread's N columns, the first sums before the second ones; shared memory.
template <int N> struct column_sums {
    double of[2 * N][STRIPS_THREADS];
};

template <int N> __device__ inline void strips_begin(struct column_sums<N> *sums)
{
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        sums->of[i][threadIdx.x] = 0;
}

// Adds each column's sums over the block, from top to bottom, and writes partial[strips, 2, width]
// in the workspace.
template <int N>
__device__ inline void strips_end(const struct strips &c, const struct column_sums<N> *sums,
                                  double *partial)
{
    __syncthreads();
    int64_t first = (int64_t)blockIdx.x * c.across * N;
    for (int i = (int)threadIdx.x; i < 2 * c.across * N; i += STRIPS_THREADS) {
        int which = i / (c.across * N), place = i % (c.across * N);
        const double *of = sums->of[which * N + place % N] + place / N;
        double sum = 0;
        for (int row = 0; row < c.down; row++)
            sum += of[row * c.across];
        if (first + place < c.width)
            partial[((int64_t)blockIdx.y * 2 + which) * c.width + first + place] = sum;
    }
}

// --- sums over the strips: a block handles WARP columns with FINISHERS threads for each column

enum { FINISHERS = 32 };

template <typename V>
static __global__ void finish_kernel(int64_t strips, int64_t width, const double *partial, V *first,
                                     V *second)
{
    __shared__ double part[FINISHERS][WARP];
    int64_t column = blockIdx.x * (int64_t)WARP + threadIdx.x % WARP;
    int mine = (int)threadIdx.x / WARP;
    double sum = 0;
    int64_t columns = second ? 2 * width : width;
    if (column < columns)
#pragma unroll 4
        for (int64_t i = mine; i < strips; i += FINISHERS)
            sum += partial[i * 2 * width + column];
    part[mine][threadIdx.x % WARP] = sum;
    __syncthreads();
    if (mine > 0 || column >= columns)
        return;
    for (int i = 1; i < FINISHERS; i++)
        sum += part[i][threadIdx.x];
    V *out = column < width ? first : second;
    out[column % width] = (V)sum;
}

// Adds partial[strips, 2, width] in the workspace. first and second: [width]; second may be NULL.
template <typename V> static void strips_finish(int64_t strips, int64_t width, V *first, V *second)
{
    LAUNCH(finish_kernel<V>, blocks_for(second ? 2 * width : width, WARP), WARP * FINISHERS, 0,
           strips, width, (const double *)cuda_workspace(), first, second);
}

#endif
