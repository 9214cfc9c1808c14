// Layer norm and RMS norm (the same about zero instead of the mean: `centred` is false). The sums
// of a backward pass use the workspace.
//
// Forward, a row belongs to a warp, whose lanes read it in packs; repeated reads come from the
// cache. Backward, a row that fits into the registers of a warp belongs to a warp; a wider one to
// several warps of a block. They walk down a strip of rows and keep the sums of their columns (the
// gradients of gain and bias) in shared memory or in registers, so x and dy are read from memory
// once. A row too wide for a block is cut into segments of columns; each segment reads the whole
// row for its means. All of this follows from the shape alone.
#include "trainer/ops/cuda/kernels/column_sums.h"

extern "C" {
#include "trainer/ops/norm.h"
}

enum {
    ROW_THREADS = 256,
    ROW_WARPS = ROW_THREADS / WARP,
    ROW_LANE = 16,                                // columns whose sums a thread keeps
    ROW_STRIPS = 264,                             // maximum: two on each of 132 multiprocessors
    ROW_HELD = 4,                                 // packs of a row that a lane can hold
    ROW_PARTIAL = CUDA_WORKSPACE_BYTES / (2 * 8), // sums of one kind, over all strips
};

#define ROW_EPSILON 1e-5f

// --- forward: of x, or with `add` of x + add, which is written to `sum` (may be x or add)

template <typename T> struct row_forward {
    int64_t rows, width;
    const T *x, *add;
    T *sum;
    const T *gain, *bias;
    T *y;
    float *statistics;
};

// The sum rounded, as later readers see it.
template <typename T, int N> static __device__ void load_sum(const T *x, const T *add, float *v)
{
    load<N>(x, v);
    if (!add)
        return;
    float more[N];
    load<N>(add, more);
    for (int k = 0; k < N; k++) {
        T sum;
        store_rounded(&sum, v[k] + more[k]);
        v[k] = as_float(sum);
    }
}

template <typename T, int N, bool centred>
static __global__ void row_forward_kernel(struct row_forward<T> f)
{
    int64_t row = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    int64_t first = threadIdx.x % WARP * N, width = f.width;
    if (row >= f.rows)
        return;
    const T *x = f.x + row * width, *add = f.add ? f.add + row * width : NULL;
    float v[N], g[N], b[N] = {}, mean = 0, squares = 0;
    for (int64_t i = first; centred && i < width; i += WARP * N) {
        load_sum<T, N>(x + i, add ? add + i : NULL, v);
        for (int k = 0; k < N; k++)
            mean += v[k];
    }
    if (centred)
        mean = warp_sum(mean) / (float)width;
    for (int64_t i = first; i < width; i += WARP * N) {
        load_sum<T, N>(x + i, add ? add + i : NULL, v);
        for (int k = 0; k < N; k++)
            squares += (v[k] - mean) * (v[k] - mean);
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)width + ROW_EPSILON);
    for (int64_t i = first; i < width; i += WARP * N) {
        load_sum<T, N>(x + i, add ? add + i : NULL, v);
        if (add)
            store<N>(v, f.sum + row * width + i);
        load<N>(f.gain + i, g);
        if (f.bias)
            load<N>(f.bias + i, b);
        for (int k = 0; k < N; k++)
            v[k] = (v[k] - mean) * scale * g[k] + b[k];
        store<N>(v, f.y + row * width + i);
    }
    if (first == 0 && centred)
        f.statistics[2 * row] = mean;
    if (first == 0)
        f.statistics[centred ? 2 * row + 1 : row] = scale;
}

template <typename T, bool centred> static void row_norm_forward(const struct row_forward<T> &f)
{
    bool in_packs = f.width % PACK<T> == 0 && is_aligned(f.x) && is_aligned(f.add) &&
                    is_aligned(f.sum) && is_aligned(f.gain) && is_aligned(f.bias) &&
                    is_aligned(f.y);
    if (f.rows > 0)
        PACKED(T, N, in_packs,
               LAUNCH((row_forward_kernel<T, N, centred>), blocks_for(f.rows, ROW_WARPS),
                      ROW_THREADS, 0, f));
}

// --- backward: with h the normalised x and g = dy * gain,
// dx = (g - mean(g) - h mean(g h)) / deviation; for RMS norm without mean(g).

template <typename T> struct row_backward {
    int64_t rows, width;
    const T *x, *gain;
    const float *statistics;
    const T *dy;
    T *dx; // may be NULL
    bool add;
    float *dgain, *dbias; // dbias may be NULL
};

struct row_strips {
    int lanes, groups; // threads per row, in whole warps; rows that a block handles together
    int64_t strip;     // rows per block
    unsigned segments, count;
};

// Chooses at least so many rows per block, as far as its threads suffice.
static inline struct row_strips row_strips_of(int64_t rows, int64_t width, int groups)
{
    struct row_strips s = {WARP, ROW_WARPS, 0, 1, 1};
    int64_t max_strips = ROW_PARTIAL / width; // at least 32
    for (; s.groups > groups && s.lanes * ROW_LANE < width; s.groups /= 2)
        s.lanes *= 2;
    if (max_strips > ROW_STRIPS)
        max_strips = ROW_STRIPS;
    s.segments = (unsigned)ceil_div(width, s.lanes * ROW_LANE);
    s.strip = ceil_div(ceil_div(rows, max_strips), s.groups) * s.groups;
    s.count = (unsigned)ceil_div(rows, s.strip);
    return s;
}

// Two sums over the threads of a row; all threads of the block must call it.
static __device__ inline void row_sum(int lanes, float *a, float *b)
{
    __shared__ float part[2][ROW_WARPS];
    int warp = (int)threadIdx.x / WARP, first = (int)threadIdx.x / lanes * (lanes / WARP);
    *a = warp_sum(*a);
    *b = warp_sum(*b);
    if (lanes == WARP)
        return;
    if (threadIdx.x % WARP == 0) {
        part[0][warp] = *a;
        part[1][warp] = *b;
    }
    __syncthreads();
    *a = part[0][first];
    *b = part[1][first];
    for (int i = first + 1; i < first + lanes / WARP; i++) {
        *a += part[0][i];
        *b += part[1][i];
    }
    __syncthreads();
}

// The position of a thread: its row, if there is one, and the row's statistics.
struct row_place {
    bool there;
    int64_t row;
    float mean, scale;
    float g, gh; // means of g and g h over the row
};

template <typename T, int N, bool centred>
static __device__ void row_means(const struct row_backward<T> &b, int lanes, struct row_place *at)
{
    float sum = 0, product = 0;
    int64_t end = at->there ? b.width : 0;
    for (int64_t i = (int)threadIdx.x % lanes * N; i < end; i += lanes * N) {
        float v[N], d[N], g[N];
        load<N>(b.x + at->row * b.width + i, v);
        load<N>(b.dy + at->row * b.width + i, d);
        load<N>(b.gain + i, g);
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum += d[k] * g[k];
            product += d[k] * g[k] * ((v[k] - at->mean) * at->scale);
        }
    }
    row_sum(lanes, &sum, &product);
    at->g = centred ? sum / (float)b.width : 0.0f;
    at->gh = product / (float)b.width;
}

// The sums of a thread's columns, N per pack.
template <int N> struct row_sums {
    float gain[ROW_LANE / N][N], bias[ROW_LANE / N][N];
};

// Handles a thread's columns in one row: their gradients, and their terms of the sums.
template <typename T, int N, bool centred>
static __device__ void row_columns(const struct row_backward<T> &b, const struct row_place &at,
                                   int64_t first, int64_t step, struct row_sums<N> *sums)
{
#pragma unroll
    for (int c = 0; c < ROW_LANE / N; c++) {
        int64_t column = first + c * step, here = at.row * b.width + column;
        if (!at.there || column >= b.width)
            continue;
        float v[N], d[N], g[N] = {}, old[N] = {};
        load<N>(b.x + here, v);
        load<N>(b.dy + here, d);
        if (b.dx)
            load<N>(b.gain + column, g);
        if (b.dx && b.add)
            load<N>(b.dx + here, old);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float h = (v[k] - at.mean) * at.scale;
            sums->gain[c][k] += d[k] * h;
            if (centred)
                sums->bias[c][k] += d[k];
            v[k] = old[k] + at.scale * (d[k] * g[k] - at.g - h * at.gh);
        }
        if (b.dx)
            store<N>(v, b.dx + here);
    }
}

// Adds the sums of a block's groups in order and writes partial[strips, 2, width].
template <int N>
static __device__ void row_add_groups(const struct row_strips &s, int64_t width, int64_t first,
                                      int64_t step, const struct row_sums<N> &sums, double *partial)
{
    __shared__ float so_far[2 * ROW_LANE][ROW_THREADS / 2]; // for at least two groups
    int lane = (int)threadIdx.x % s.lanes, group = (int)threadIdx.x / s.lanes;
    partial += (int64_t)blockIdx.y * 2 * width;
    for (int at = 0; at < s.groups; at++) {
#pragma unroll
        for (int i = 0; i < 2 * ROW_LANE; i++) {
            int c = i % ROW_LANE / N, k = i % N, which = i / ROW_LANE;
            int64_t column = first + c * step + k;
            float sum = which ? sums.bias[c][k] : sums.gain[c][k];
            if (group != at || column >= width)
                continue;
            if (at > 0)
                sum += so_far[i][lane];
            if (at + 1 < s.groups)
                so_far[i][lane] = sum;
            else
                partial[which * width + column] = (double)sum;
        }
        __syncthreads();
    }
}

template <typename T, int N, bool centred>
static __global__ void __launch_bounds__(ROW_THREADS, 2)
    row_backward_kernel(struct row_strips s, struct row_backward<T> b, double *partial)
{
    int group = (int)threadIdx.x / s.lanes, lane = (int)threadIdx.x % s.lanes;
    int64_t step = s.lanes * N, first = (int64_t)blockIdx.x * s.lanes * ROW_LANE + lane * N;
    struct row_sums<N> sums = {
        0
    };
    for (int64_t i = 0; i < s.strip; i += s.groups) {
        struct row_place at = {false, blockIdx.y * s.strip + i + group, 0, 0, 0, 0};
        at.there = at.row < b.rows;
        if (at.there) {
            at.mean = centred ? b.statistics[2 * at.row] : 0.0f;
            at.scale = b.statistics[centred ? 2 * at.row + 1 : at.row];
        }
        if (b.dx)
            row_means<T, N, centred>(b, s.lanes, &at);
        row_columns<T, N, centred>(b, at, first, step, &sums);
    }
    row_add_groups<N>(s, b.width, first, step, sums, partial);
}

// A row in the registers of a warp: HELD packs per lane, WARP packs apart; missing packs are zero.
template <typename T, int HELD> struct held_row {
    pack<T, PACK<T>> x[HELD], dy[HELD], old[HELD];
};

template <typename T, int HELD>
static __device__ void hold_row(const struct row_backward<T> &b, int64_t row, int64_t end,
                                struct held_row<T, HELD> *r)
{
    const bool adds = b.dx && b.add;
    if (row >= end)
        return;
#pragma unroll
    for (int c = 0; c < HELD; c++) {
        int64_t column = (c * WARP + threadIdx.x % WARP) * PACK<T>;
        r->x[c] = r->dy[c] = r->old[c] = {};
        if (column >= b.width)
            continue;
        r->x[c] = *reinterpret_cast<const pack<T, PACK<T>> *>(b.x + row * b.width + column);
        r->dy[c] = *reinterpret_cast<const pack<T, PACK<T>> *>(b.dy + row * b.width + column);
        if (adds)
            r->old[c] = *reinterpret_cast<const pack<T, PACK<T>> *>(b.dx + row * b.width + column);
    }
}

template <typename T, int HELD, bool centred>
static __device__ void held_means(const struct row_backward<T> &b,
                                  const struct held_row<T, HELD> &r, struct row_place *at)
{
    constexpr int N = PACK<T>;
    float sum = 0, product = 0;
#pragma unroll
    for (int c = 0; c < HELD; c++) {
        int64_t column = (c * WARP + threadIdx.x % WARP) * N;
        float v[N], d[N], g[N];
        if (column >= b.width)
            continue;
        load<N>(r.x[c].at, v);
        load<N>(r.dy[c].at, d);
        load<N>(b.gain + column, g);
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum += d[k] * g[k];
            product += d[k] * g[k] * ((v[k] - at->mean) * at->scale);
        }
    }
    at->g = centred ? warp_sum(sum) / (float)b.width : 0.0f;
    at->gh = warp_sum(product) / (float)b.width;
}

// The sums of a lane's columns, of gain and of bias, four at a time; in shared memory, per warp.
template <int N, int HELD> struct held_sums {
    pack<float, 4> of[2][HELD][N / 4][WARP];
};

template <typename T, int HELD, bool centred>
static __device__ void held_columns(const struct row_backward<T> &b,
                                    const struct held_row<T, HELD> &r, const struct row_place &at,
                                    struct held_sums<PACK<T>, HELD> *sums)
{
    constexpr int N = PACK<T>;
    int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int c = 0; c < HELD; c++) {
        int64_t column = (c * WARP + lane) * N;
        float v[N], d[N], g[N] = {}, old[N];
        if (column >= b.width)
            continue;
        load<N>(r.x[c].at, v);
        load<N>(r.dy[c].at, d);
        load<N>(r.old[c].at, old);
        if (b.dx)
            load<N>(b.gain + column, g);
#pragma unroll
        for (int q = 0; q < N / 4; q++) {
            pack<float, 4> gain = sums->of[0][c][q][lane], bias = sums->of[1][c][q][lane];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int k = 4 * q + i;
                float h = (v[k] - at.mean) * at.scale;
                gain.at[i] += d[k] * h;
                bias.at[i] += d[k];
                v[k] = old[k] + at.scale * (d[k] * g[k] - at.g - h * at.gh);
            }
            sums->of[0][c][q][lane] = gain;
            if (centred)
                sums->of[1][c][q][lane] = bias;
        }
        if (b.dx)
            store<N>(v, b.dx + at.row * b.width + column);
    }
}

// Adds the sums of a block's warps in order and writes partial[strips, 2, width].
template <int N, int HELD>
static __device__ void held_add_warps(int64_t width, const struct held_sums<N, HELD> *sums,
                                      double *partial)
{
    partial += (int64_t)blockIdx.x * 2 * width;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 2 * (int)width; i += ROW_THREADS) {
        int which = i / (int)width, column = i % (int)width, k = column % N;
        int c = column / (WARP * N), lane = column / N % WARP;
        float sum = sums[0].of[which][c][k / 4][lane].at[k % 4];
        for (int warp = 1; warp < ROW_WARPS; warp++)
            sum += sums[warp].of[which][c][k / 4][lane].at[k % 4];
        partial[i] = (double)sum;
    }
}

template <typename T, int HELD, bool centred>
static __global__ void __launch_bounds__(ROW_THREADS, 2)
    row_held_kernel(int64_t strip, struct row_backward<T> b, double *partial)
{
    constexpr int N = PACK<T>;
    SHARED_BYTES(shared);
    struct held_sums<N, HELD> *sums = (struct held_sums<N, HELD> *)shared;
    struct held_sums<N, HELD> *mine = sums + threadIdx.x / WARP;
    int64_t first = blockIdx.x * strip, end = first + strip < b.rows ? first + strip : b.rows;
    for (int i = 0; i < 2 * HELD * N / 4; i++)
        (&mine->of[0][0][0][0])[i * WARP + threadIdx.x % WARP] = {};
    struct held_row<T, HELD> next;
    hold_row<T, HELD>(b, first + threadIdx.x / WARP, end, &next);
    for (int64_t row = first + threadIdx.x / WARP; row < end; row += ROW_WARPS) {
        struct held_row<T, HELD> r = next;
        struct row_place at = {true, row, 0, 0, 0, 0};
        hold_row<T, HELD>(b, row + ROW_WARPS, end, &next); // loads while this row is processed
        at.mean = centred ? b.statistics[2 * row] : 0.0f;
        at.scale = b.statistics[centred ? 2 * row + 1 : row];
        if (b.dx)
            held_means<T, HELD, centred>(b, r, &at);
        held_columns<T, HELD, centred>(b, r, at, mine);
    }
    held_add_warps<N, HELD>(b.width, sums, partial);
}

template <typename T, bool centred>
static void held_backward(const struct row_backward<T> &b, int64_t held)
{
    struct row_strips s = row_strips_of(b.rows, b.width, ROW_WARPS);
    double *partial = (double *)cuda_workspace();
    size_t bytes = ROW_WARPS * 2 * (size_t)held * PACK<T> * WARP * sizeof(float);
    if (held == 1)
        LAUNCH((row_held_kernel<T, 1, centred>), s.count, ROW_THREADS, bytes, s.strip, b, partial);
    else if (held == 2)
        LAUNCH((row_held_kernel<T, 2, centred>), s.count, ROW_THREADS, bytes, s.strip, b, partial);
    else if (held == 3)
        LAUNCH((row_held_kernel<T, 3, centred>), s.count, ROW_THREADS, bytes, s.strip, b, partial);
    else
        LAUNCH((row_held_kernel<T, 4, centred>), s.count, ROW_THREADS, bytes, s.strip, b, partial);
    strips_finish(s.count, b.width, b.dgain, b.dbias);
}

template <typename T, bool centred> static void row_norm_backward(const struct row_backward<T> &b)
{
    bool in_packs = b.width % PACK<T> == 0 && is_aligned(b.x) && is_aligned(b.gain) &&
                    is_aligned(b.dy) && is_aligned(b.dx);
    int64_t held = ceil_div(b.width, PACK<T> * WARP);
    if (b.rows <= 0)
        return;
    if (in_packs && held <= ROW_HELD) {
        held_backward<T, centred>(b, held);
        return;
    }
    struct row_strips s = row_strips_of(b.rows, b.width, 1);
    PACKED(T, N, in_packs,
           LAUNCH((row_backward_kernel<T, N, centred>), dim3(s.segments, s.count), ROW_THREADS, 0,
                  s, b, (double *)cuda_workspace()));
    strips_finish(s.count, b.width, b.dgain, b.dbias);
}

// --- layer_norm ----------------------------------------------------------------------------------

extern "C" void ops_layer_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                                       const real *bias, real *y, float *statistics)
{
    ops_add_layer_norm_forward(rows, width, x, NULL, NULL, gain, bias, y, statistics);
}

extern "C" void ops_add_layer_norm_forward(int64_t rows, int64_t width, const real *a,
                                           const real *b, real *sum, const real *gain,
                                           const real *bias, real *y, float *statistics)
{
    DISPATCH(T,
             row_norm_forward<T, true>({rows, width, reals<T>(a), reals<T>(b), reals<T>(sum),
                                        reals<T>(gain), reals<T>(bias), reals<T>(y), statistics}));
}

extern "C" void ops_layer_norm_backward(int64_t rows, int64_t width, const real *x,
                                        const real *gain, const float *statistics, const real *dy,
                                        real *dx, bool add, float *dgain, float *dbias)
{
    DISPATCH(T, row_norm_backward<T, true>({rows, width, reals<T>(x), reals<T>(gain), statistics,
                                            reals<T>(dy), reals<T>(dx), add, dgain, dbias}));
}

// --- rms_norm ------------------------------------------------------------------------------------

extern "C" void ops_rms_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                                     real *y, float *statistics)
{
    ops_add_rms_norm_forward(rows, width, x, NULL, NULL, gain, y, statistics);
}

extern "C" void ops_add_rms_norm_forward(int64_t rows, int64_t width, const real *a, const real *b,
                                         real *sum, const real *gain, real *y, float *statistics)
{
    DISPATCH(T, row_norm_forward<T, false>({rows, width, reals<T>(a), reals<T>(b), reals<T>(sum),
                                            reals<T>(gain), NULL, reals<T>(y), statistics}));
}

extern "C" void ops_rms_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                                      const float *statistics, const real *dy, real *dx, bool add,
                                      float *dgain)
{
    DISPATCH(T, row_norm_backward<T, false>({rows, width, reals<T>(x), reals<T>(gain), statistics,
                                             reals<T>(dy), reals<T>(dx), add, dgain, NULL}));
}
