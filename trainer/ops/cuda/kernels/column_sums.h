// Tensors as columns of rows: threads that keep to their columns while they go down the rows, and
// sums over rows of two things at a time. Included by .cu files only; sums use the workspace.
//
// A block is STRIPS_THREADS wide: `across` threads side by side, N columns each, and the others
// below them. A grid is blocks side by side over the columns and strips of rows below each other.
// All of that follows from the shape alone, so sums have one order: a thread's in float for a
// while, then in double, in shared memory; those of a block from top to bottom; those of all strips
// by strips_finish().
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_COLUMN_SUMS_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_COLUMN_SUMS_H

#include "trainer/ops/cuda/kernels/vectors.h"

enum {
    STRIPS_THREADS = 256,
    STRIPS_FOLD = 64, // numbers that are summed in float
};

struct strips {
    int64_t rows, width;
    int64_t strip; // rows of a block
    int across, down;
    unsigned blocks, count; // the grid
};

// In about so many blocks, if there are rows for so many: best a multiple of the blocks that the
// multiprocessors of a large GPU (132 of an H100) run at a time.
static inline struct strips strips_of(int64_t rows, int64_t width, int lanes, unsigned most)
{
    struct strips c = {rows, width, 0, 1, 0, 0, 0};
    while (c.across < WARP && c.across * lanes < width)
        c.across *= 2;
    c.down = STRIPS_THREADS / c.across;
    c.blocks = (unsigned)ceil_div(width, c.across * lanes);
    int64_t strips = c.blocks < most ? most / c.blocks : 1;
    c.strip = ceil_div(ceil_div(rows, strips), c.down) * c.down;
    c.count = (unsigned)ceil_div(rows, c.strip);
    return c;
}

// A thread's first column, and its rows: first, first + down, .. below `end`.
struct walk {
    int64_t column, row, end;
};

template <int N> __device__ inline struct walk strips_walk(const struct strips &c)
{
    int64_t first = blockIdx.y * c.strip, end = first + c.strip;
    return {(blockIdx.x * (int64_t)c.across + threadIdx.x % c.across) * N,
            first + threadIdx.x / c.across, end < c.rows ? end : c.rows};
}

// Its next rows, as far as there are: several on their way at a time, as one alone takes as long.
template <int N, int AHEAD, typename T>
__device__ inline void strips_load(const struct strips &c, const struct walk &at, const T *x,
                                   pack<T, N> (&rows)[AHEAD])
{
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        int64_t row = at.row + (int64_t)i * c.down;
        if (row < at.end)
            rows[i] = *reinterpret_cast<const pack<T, N> *>(x + row * c.width + at.column);
    }
}

// Two sums of each of a thread's N columns, the first ones before the second ones; shared.
template <int N> struct column_sums {
    double of[2 * N][STRIPS_THREADS];
};

template <int N> __device__ inline void strips_begin(struct column_sums<N> *sums)
{
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        sums->of[i][threadIdx.x] = 0;
}

// The sums of each column over the block, from top to bottom, to partial[strips, 2, width] in the
// workspace.
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

// --- sums of the strips: a block for WARP columns, each of which FINISHERS threads share

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

// Of partial[strips, 2, width] in the workspace. first and second: [width]; second may be NULL.
template <typename V> static void strips_finish(int64_t strips, int64_t width, V *first, V *second)
{
    LAUNCH(finish_kernel<V>, blocks_for(second ? 2 * width : width, WARP), WARP * FINISHERS, 0,
           strips, width, (const double *)cuda_workspace(), first, second);
}

#endif
