// A block owns a tile of TILE queries (or keys) of one head and iterates over the tiles of keys
// (queries) that interact with it. Each warp owns ROWS rows of its tile and each lane one row of
// the other tile; the lane holds ROWS products of that row. For sums over the other tile's rows the
// lanes divide the columns. Both tiles are floats in shared memory; the row stride is an odd number
// of float4, which avoids bank conflicts. A gradient is summed by one block only, so queries and
// keys have passes of their own.
#include "trainer/ops/cuda/kernels/attention.h"
#include "trainer/ops/cuda/kernels/philox.h"
#include "trainer/ops/cuda/kernels/vectors.h"

#include <float.h>

enum { TILE = 32, ROWS = 4, WARPS = TILE / ROWS, THREADS = WARPS * WARP };

// One head of one sample: blockIdx.x numbers the heads of all samples, blockIdx.y the tiles.
struct cuda_attention_head {
    int64_t context, width, heads; // width of this head
    int64_t ld, ld_out;            // leading dimensions of qkv and y
    int apart;                     // floats from one row of a tile to the next
    float scale;
};

static struct cuda_attention_head head_of(const struct ops_attention *s)
{
    int64_t width = s->width / s->heads, packs = ceil_div(width, 4);
    return {s->context,
            width,
            s->heads,
            3 * s->width,
            s->width,
            (int)(packs % 2 ? packs : packs + 1) * 4,
            1.0f / sqrtf((float)width)};
}

// The offsets of this block's head in qkv, in y, and in arrays with one number for each query.
struct attention_offsets {
    int64_t qkv, y, query, sample, index;
};

static __device__ struct attention_offsets block_offsets(const struct cuda_attention_head &h)
{
    int64_t sample = blockIdx.x / h.heads, index = blockIdx.x % h.heads;
    return {sample * h.context * h.ld + index * h.width,
            sample * h.context * h.ld_out + index * h.width, blockIdx.x * h.context, sample, index};
}

// The first row of this block's tile. Tiles with the most work come first: blocks start in order,
// and a long block that starts last would delay the end.
static __device__ int64_t my_queries(void)
{
    return (int64_t)(gridDim.y - 1 - blockIdx.y) * TILE;
}

static __device__ int64_t my_keys(void)
{
    return (int64_t)blockIdx.y * TILE;
}

// Loads a tile of rows from `first` on into shared memory as floats; missing rows become zero. A
// warp loads whole rows, which avoids divisions.
template <typename T>
static __device__ void load_tile(const struct cuda_attention_head &h, const T *from, int64_t ld,
                                 int64_t first, float *tile)
{
    int width = (int)h.width, lane = (int)threadIdx.x % WARP;
#pragma unroll 1
    for (int r = 0; r < ROWS; r++) {
        int row = (int)threadIdx.x / WARP + r * WARPS;
        const T *x = from + (first + row) * ld;
        int there = first + row < h.context ? width : 0;
        for (int column = lane; column < h.apart; column += WARP)
            tile[row * h.apart + column] = column < there ? as_float(x[column]) : 0.0f;
    }
}

// Multiplies the warp's rows of one tile by the lane's row of the other.
static __device__ void multiply_rows(int apart, const float *rows, const float *row, float *product)
{
    float4 sum[ROWS] = {};
    for (int i = 0; i < apart; i += 4) {
        float4 b = *(const float4 *)(row + i);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float4 a = *(const float4 *)(rows + r * apart + i);
            sum[r].x += a.x * b.x;
            sum[r].y += a.y * b.y;
            sum[r].z += a.z * b.z;
            sum[r].w += a.w * b.w;
        }
    }
    for (int r = 0; r < ROWS; r++)
        product[r] = (sum[r].x + sum[r].y) + (sum[r].z + sum[r].w);
}

// all[r] += the sum over the rows of `tile`, weighted for r by the lane with the row's number. A
// lane owns the columns lane, lane + WARP, .. of COLUMNS. `warp_memory` is the warp's memory for
// the weights.
template <int COLUMNS>
static __device__ void accumulate_rows(const struct cuda_attention_head &h, const float *weights,
                                       float *warp_memory, const float *tile,
                                       float all[ROWS][COLUMNS])
{
    int lane = threadIdx.x % WARP;
    __syncwarp();
    *(float4 *)(warp_memory + lane * ROWS) = {weights[0], weights[1], weights[2], weights[3]};
    __syncwarp();
    for (int i = 0; i < TILE; i++) {
        float4 w = *(const float4 *)(warp_memory + i * ROWS);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int column = lane + c * WARP;
            float v = column < h.apart ? tile[i * h.apart + column] : 0.0f;
            all[0][c] += w.x * v;
            all[1][c] += w.y * v;
            all[2][c] += w.z * v;
            all[3][c] += w.w * v;
        }
    }
}

template <typename T, int COLUMNS>
static __device__ void store_rows(const struct cuda_attention_head &h, float all[ROWS][COLUMNS],
                                  const float *factors, int64_t first, int64_t ld, T *to)
{
    for (int r = 0; r < ROWS && first + r < h.context; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int64_t column = threadIdx.x % WARP + c * WARP;
            if (column < h.width)
                store_rounded(to + (first + r) * ld + column, all[r][c] * factors[r]);
        }
}

// The dropout factor of a probability: 0 or 1 / (1 - rate).
static __device__ float dropout_factor(const struct cuda_attention_head &h,
                                       const struct attention_offsets &p,
                                       const struct dropout_draw &d, int64_t query, int64_t key)
{
    uint64_t element = (uint64_t)((p.index * h.context + query) * h.context + key);
    bool keep[4];
    if (d.threshold == 0)
        return 1.0f;
    draw_four(&d, d.samples[p.sample], element / 4 * 4, keep);
    return keep[element % 4] ? d.scale : 0.0f;
}

// Shared memory: the tiles, then the memory of each warp.
static size_t shared_bytes(const struct cuda_attention_head &h, int tiles)
{
    return (size_t)(tiles * TILE * h.apart + WARPS * WARP * ROWS) * sizeof(float);
}

struct tiles {
    float *first, *second, *third, *fourth, *warp_memory;
};

static __device__ struct tiles tiles_at(const struct cuda_attention_head &h, unsigned char *memory,
                                        int count)
{
    float *at = (float *)memory;
    int one = TILE * h.apart, warp = (int)threadIdx.x / WARP;
    return {at, at + one, at + 2 * one, at + 3 * one, at + count * one + warp * WARP * ROWS};
}

// --- forward: for each query the largest score so far and the sum of exponentials relative to it

template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(THREADS, 2)
    forward_kernel(struct cuda_attention_head h, struct dropout_draw d, const T *qkv, float *saved,
                   T *y)
{
    SHARED_BYTES(memory);
    struct tiles t = tiles_at(h, memory, 3);
    struct attention_offsets p = block_offsets(h);
    int lane = threadIdx.x % WARP, mine = (int)threadIdx.x / WARP * ROWS;
    int64_t first = my_queries(), query = first + mine;
    const T *queries = qkv + p.qkv, *keys = queries + h.ld_out, *values = keys + h.ld_out;
    float y_sum[ROWS][COLUMNS] = {}, sum[ROWS] = {}, largest[ROWS], weights[ROWS];
    for (int r = 0; r < ROWS; r++)
        largest[r] = -FLT_MAX;
    load_tile(h, queries, h.ld, first, t.first);
    for (int64_t from = 0; from <= first; from += TILE) {
        load_tile(h, keys, h.ld, from, t.second);
        load_tile(h, values, h.ld, from, t.third);
        __syncthreads();
        multiply_rows(h.apart, t.first + mine * h.apart, t.second + lane * h.apart, weights);
        for (int r = 0; r < ROWS; r++) {
            bool is_seen = from + lane <= query + r;
            float score = weights[r] * h.scale;
            float top = warp_maximum(is_seen ? score : -FLT_MAX);
            top = top > largest[r] ? top : largest[r];
            float before = expf(largest[r] - top), e = is_seen ? expf(score - top) : 0.0f;
            largest[r] = top;
            sum[r] = sum[r] * before + warp_sum(e);
            weights[r] = e != 0.0f ? e * dropout_factor(h, p, d, query + r, from + lane) : 0.0f;
            for (int c = 0; c < COLUMNS; c++)
                y_sum[r][c] *= before;
        }
        accumulate_rows<COLUMNS>(h, weights, t.warp_memory, t.third, y_sum);
        __syncthreads();
    }
    for (int r = 0; r < ROWS; r++) {
        if (lane == 0 && query + r < h.context)
            saved[p.query + query + r] = largest[r] + logf(sum[r]);
        sum[r] = 1.0f / sum[r];
    }
    store_rows<T, COLUMNS>(h, y_sum, sum, query, h.ld_out, y + p.y);
}

// --- backward: the scores' gradient is ds = p (dp - sum of p dp); that sum equals the sum of dy y

template <typename T>
static __global__ void products_kernel(struct cuda_attention_head h, int64_t queries, const T *y,
                                       const T *dy, float *products)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (i >= queries)
        return;
    int64_t head = i / h.context, at = head / h.heads * h.context + i % h.context;
    int64_t first = at * h.ld_out + head % h.heads * h.width;
    float sum = 0;
    for (int64_t k = first + threadIdx.x % WARP; k < first + h.width; k += WARP)
        sum += as_float(y[k]) * as_float(dy[k]);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        products[i] = sum;
}

// The saved values of a query.
struct attention_saved {
    float logarithm, product;
};

static __device__ struct attention_saved known_of(const struct cuda_attention_head &h,
                                                  const struct attention_offsets &p,
                                                  const float *saved, const float *products,
                                                  int64_t query)
{
    if (query >= h.context)
        return {0.0f, 0.0f};
    return {saved[p.query + query], products[p.query + query]};
}

// One probability after dropout, and the gradient of its score; `dp` is dy value.
struct pair {
    float weight, gradient;
};

static __device__ struct pair pair_of(const struct cuda_attention_head &h,
                                      const struct attention_offsets &p,
                                      const struct dropout_draw &d, const struct attention_saved &k,
                                      int64_t query, int64_t key, float product, float dp)
{
    if (key > query || query >= h.context)
        return {0.0f, 0.0f};
    float weight = expf(product * h.scale - k.logarithm),
          factor = dropout_factor(h, p, d, query, key);
    return {weight * factor, weight * (dp * factor - k.product)};
}

template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(THREADS, 2)
    queries_kernel(struct cuda_attention_head h, struct dropout_draw d, const T *qkv,
                   const float *saved, const float *products, const T *dy, T *dqkv)
{
    SHARED_BYTES(memory);
    struct tiles t = tiles_at(h, memory, 4);
    struct attention_offsets p = block_offsets(h);
    int lane = threadIdx.x % WARP, mine = (int)threadIdx.x / WARP * ROWS;
    int64_t first = my_queries(), query = first + mine;
    const T *queries = qkv + p.qkv, *keys = queries + h.ld_out, *values = keys + h.ld_out;
    float sum[ROWS][COLUMNS] = {}, product[ROWS], dp[ROWS], factors[ROWS];
    struct attention_saved known[ROWS];
    load_tile(h, queries, h.ld, first, t.first);
    load_tile(h, dy + p.y, h.ld_out, first, t.fourth);
    for (int r = 0; r < ROWS; r++)
        known[r] = known_of(h, p, saved, products, query + r);
    for (int64_t from = 0; from <= first; from += TILE) {
        load_tile(h, keys, h.ld, from, t.second);
        load_tile(h, values, h.ld, from, t.third);
        __syncthreads();
        multiply_rows(h.apart, t.first + mine * h.apart, t.second + lane * h.apart, product);
        multiply_rows(h.apart, t.fourth + mine * h.apart, t.third + lane * h.apart, dp);
        for (int r = 0; r < ROWS; r++)
            dp[r] = pair_of(h, p, d, known[r], query + r, from + lane, product[r], dp[r]).gradient;
        accumulate_rows<COLUMNS>(h, dp, t.warp_memory, t.second, sum);
        __syncthreads();
    }
    for (int r = 0; r < ROWS; r++)
        factors[r] = h.scale;
    store_rows<T, COLUMNS>(h, sum, factors, query, h.ld, dqkv + p.qkv);
}

template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(THREADS, 2)
    keys_kernel(struct cuda_attention_head h, struct dropout_draw d, const T *qkv,
                const float *saved, const float *products, const T *dy, T *dqkv)
{
    SHARED_BYTES(memory);
    struct tiles t = tiles_at(h, memory, 4);
    struct attention_offsets p = block_offsets(h);
    int lane = threadIdx.x % WARP, mine = (int)threadIdx.x / WARP * ROWS;
    int64_t first = my_keys(), key = first + mine;
    const T *queries = qkv + p.qkv, *keys = queries + h.ld_out, *values = keys + h.ld_out;
    float dkey[ROWS][COLUMNS] = {}, dvalue[ROWS][COLUMNS] = {};
    float product[ROWS], dp[ROWS], ones[ROWS], scales[ROWS];
    load_tile(h, keys, h.ld, first, t.first);
    load_tile(h, values, h.ld, first, t.second);
    for (int64_t from = first; from < h.context; from += TILE) {
        load_tile(h, queries, h.ld, from, t.third);
        load_tile(h, dy + p.y, h.ld_out, from, t.fourth);
        __syncthreads();
        multiply_rows(h.apart, t.first + mine * h.apart, t.third + lane * h.apart, product);
        multiply_rows(h.apart, t.second + mine * h.apart, t.fourth + lane * h.apart, dp);
        struct attention_saved known = known_of(h, p, saved, products, from + lane);
        for (int r = 0; r < ROWS; r++) {
            struct pair pair = pair_of(h, p, d, known, from + lane, key + r, product[r], dp[r]);
            product[r] = pair.weight;
            dp[r] = pair.gradient;
        }
        accumulate_rows<COLUMNS>(h, product, t.warp_memory, t.fourth, dvalue);
        accumulate_rows<COLUMNS>(h, dp, t.warp_memory, t.third, dkey);
        __syncthreads();
    }
    for (int r = 0; r < ROWS; r++) {
        ones[r] = 1.0f;
        scales[r] = h.scale;
    }
    store_rows<T, COLUMNS>(h, dkey, scales, key, h.ld, dqkv + p.qkv + h.ld_out);
    store_rows<T, COLUMNS>(h, dvalue, ones, key, h.ld, dqkv + p.qkv + 2 * h.ld_out);
}

// --- the functions that the public ops call ------------------------------------------------------

bool attention_kernel_fits(const struct ops_attention *s)
{
    return s->width / s->heads <= ATTENTION_KERNEL_WIDTH;
}

int64_t attention_kernel_saved_floats(const struct ops_attention *s)
{
    return s->samples * s->heads * s->context;
}

int64_t attention_kernel_scratch_floats(const struct ops_attention *s)
{
    return attention_kernel_saved_floats(s);
}

static dim3 grid_of(const struct ops_attention *s)
{
    return dim3((unsigned)(s->samples * s->heads), blocks_for(s->context, TILE));
}

// BY_WIDTH(COLUMNS, head, f<T, COLUMNS>(...)) chooses the number of columns that a lane needs.
#define BY_WIDTH(COLUMNS, head, ...)                                                               \
    do {                                                                                           \
        if ((head).width <= 2 * WARP) {                                                            \
            constexpr int COLUMNS = 2;                                                             \
            __VA_ARGS__;                                                                           \
        } else if ((head).width <= 4 * WARP) {                                                     \
            constexpr int COLUMNS = 4;                                                             \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            constexpr int COLUMNS = 8;                                                             \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

template <typename T>
static void forward(const struct ops_attention *s, struct dropout_draw d, const T *qkv,
                    float *saved, T *y)
{
    struct cuda_attention_head h = head_of(s);
    BY_WIDTH(COLUMNS, h,
             LAUNCH((forward_kernel<T, COLUMNS>), grid_of(s), THREADS, shared_bytes(h, 3), h, d,
                    qkv, saved, y));
}

void attention_kernel_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                              const real *qkv, float *saved, real *y)
{
    DISPATCH(T, forward<T>(s, draw_of(draw), reals<T>(qkv), saved, reals<T>(y)));
}

template <typename T>
static void backward(const struct ops_attention *s, struct dropout_draw d, const T *qkv, const T *y,
                     const float *saved, float *products, const T *dy, T *dqkv)
{
    struct cuda_attention_head h = head_of(s);
    int64_t queries = attention_kernel_saved_floats(s);
    LAUNCH(products_kernel<T>, blocks_for(queries, WARPS), THREADS, 0, h, queries, y, dy, products);
    BY_WIDTH(COLUMNS, h, {
        LAUNCH((queries_kernel<T, COLUMNS>), grid_of(s), THREADS, shared_bytes(h, 4), h, d, qkv,
               saved, products, dy, dqkv);
        LAUNCH((keys_kernel<T, COLUMNS>), grid_of(s), THREADS, shared_bytes(h, 4), h, d, qkv, saved,
               products, dy, dqkv);
    });
}

void attention_kernel_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                               const real *qkv, const real *y, const float *saved, float *scratch,
                               const real *dy, real *dqkv)
{
    DISPATCH(T, backward<T>(s, draw_of(draw), reals<T>(qkv), reals<T>(y), saved, scratch,
                            reals<T>(dy), reals<T>(dqkv)));
}
