// The backward pass sorts the rows by their tokens with a stable sort and adds each token's rows:
// first within chunks of CHUNK rows, then over the chunks that share a token. So the order of the
// sums is fixed, and a frequent token does not delay the others for long.
#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "trainer/ops/sequence.h"
}

enum {
    THREADS = 128, // of kernels over columns
    DIGITS = 256,  // of a pass of the sort; one thread each
    TILE = 1024,   // rows that a block sorts
    CHUNK = 64,    // sorted rows that a thread sums
    AHEAD = 4,     // rows that it loads ahead
    SLAB = 1 << 20 // maximum number of rows that are sorted together
};

// The content of the workspace in the backward pass.
struct embedding_workspace {
    int32_t *order, *other; // [SLAB] rows: sorted, and in the order before the last pass
    int32_t *offsets;       // [tiles, DIGITS]
    int32_t *heads;         // [chunks] the token that the chunk's last row continues with, or -1
    float *partial;         // [chunks, 2, width] sum of that token; sum of the unfinished token
    int64_t chunks;         // capacity
};

static struct embedding_workspace workspace_of(int64_t width)
{
    int32_t *at = (int32_t *)cuda_workspace();
    struct embedding_workspace w = {at, at + SLAB, at + 2 * SLAB, NULL, NULL, 0};
    w.heads = w.offsets + SLAB / TILE * DIGITS;
    w.partial = (float *)(w.heads + SLAB / CHUNK);
    int64_t left = CUDA_WORKSPACE_BYTES / (int64_t)sizeof(float) - (w.partial - (float *)at);
    w.chunks = left / (2 * width) < SLAB / CHUNK ? left / (2 * width) : SLAB / CHUNK;
    return w;
}

// --- sort: one stable pass for each eight bits of the tokens, lowest bits first

struct digit {
    const int32_t *tokens;
    const int32_t *order; // the rows after the previous pass; NULL: the identity
    int64_t rows;
    int shift;
};

// Loads the rows of a tile and their digits into shared memory; returns their number.
static __device__ int load_tile(const struct digit &d, int32_t *rows, uint8_t *digits)
{
    int64_t first = blockIdx.x * (int64_t)TILE, left = d.rows - first;
    int count = left < (int64_t)TILE ? (int)left : (int)TILE;
    for (int i = (int)threadIdx.x; i < count; i += DIGITS) {
        rows[i] = d.order ? d.order[first + i] : (int32_t)(first + i);
        digits[i] = (uint8_t)(d.tokens[rows[i]] >> d.shift);
    }
    __syncthreads();
    return count;
}

static __global__ void count_kernel(struct digit d, int32_t *counts)
{
    __shared__ int32_t rows[TILE];
    __shared__ uint8_t digits[TILE];
    int count = load_tile(d, rows, digits), mine = 0;
    for (int i = 0; i < count; i++)
        mine += digits[i] == threadIdx.x;
    counts[blockIdx.x * DIGITS + threadIdx.x] = mine;
}

// Turns counts into the first positions of each tile and digit: ordered by digit, then by tile.
static __global__ void offsets_kernel(int tiles, int32_t *counts)
{
    __shared__ int32_t totals[DIGITS];
    int32_t total = 0;
    for (int i = 0; i < tiles; i++)
        total += counts[i * DIGITS + threadIdx.x];
    totals[threadIdx.x] = total;
    __syncthreads();
    int32_t at = 0;
    for (unsigned i = 0; i < threadIdx.x; i++)
        at += totals[i];
    for (int i = 0; i < tiles; i++) {
        int32_t count = counts[i * DIGITS + threadIdx.x];
        counts[i * DIGITS + threadIdx.x] = at;
        at += count;
    }
}

static __global__ void move_kernel(struct digit d, const int32_t *offsets, int32_t *sorted)
{
    __shared__ int32_t rows[TILE];
    __shared__ uint8_t digits[TILE];
    int count = load_tile(d, rows, digits);
    int32_t at = offsets[blockIdx.x * DIGITS + threadIdx.x];
    for (int i = 0; i < count; i++)
        if (digits[i] == threadIdx.x)
            sorted[at++] = rows[i];
}

static void sort_rows(int64_t rows, int64_t vocabulary, const int32_t *tokens,
                      struct embedding_workspace *w)
{
    unsigned tiles = blocks_for(rows, TILE);
    struct digit d = {tokens, NULL, rows, 0};
    do {
        LAUNCH(count_kernel, tiles, DIGITS, 0, d, w->offsets);
        LAUNCH(offsets_kernel, 1, DIGITS, 0, (int)tiles, w->offsets);
        LAUNCH(move_kernel, tiles, DIGITS, 0, d, w->offsets, w->order);
        int32_t *sorted = w->order;
        w->order = w->other;
        w->other = sorted;
        d.order = sorted;
        d.shift += 8;
    } while ((vocabulary - 1) >> d.shift > 0);
    w->order = w->other;
}

// --- sums of the sorted rows ---------------------------------------------------------------------

struct sorted_rows {
    int64_t rows, width;
    const int32_t *tokens, *order;
    int32_t *heads;
    float *partial;
};

static __device__ int32_t token_at(const struct sorted_rows &r, int64_t i)
{
    return i >= 0 && i < r.rows ? r.tokens[r.order[i]] : -1;
}

// Loads the tokens of a chunk, with their neighbours before and after it, and its rows; returns the
// number of rows.
static __device__ int load_chunk(const struct sorted_rows &r, int32_t *tokens, int32_t *rows)
{
    int64_t first = blockIdx.y * (int64_t)CHUNK, left = r.rows - first;
    for (int i = (int)threadIdx.x; i < CHUNK + 2; i += THREADS)
        tokens[i] = token_at(r, first + i - 1);
    for (int i = (int)threadIdx.x; i < CHUNK && i < left; i += THREADS)
        rows[i] = r.order[first + i];
    __syncthreads();
    return left < (int64_t)CHUNK ? (int)left : (int)CHUNK;
}

template <int N> static __device__ void add_to(float *at, const float *sum)
{
    float v[N];
    load<N>(at, v);
    for (int k = 0; k < N; k++)
        v[k] += sum[k];
    store<N>(v, at);
}

// Ends a run of one token: writes its sum to the table if the whole run is in this chunk.
template <int N>
static __device__ void end_run(const struct sorted_rows &r, int32_t token, bool began_before,
                               bool goes_on, int64_t column, const float *sum, float *dtable)
{
    int64_t slot = blockIdx.y * (int64_t)2 + (began_before ? 0 : 1);
    if (began_before || goes_on)
        store<N>(sum, r.partial + slot * r.width + column);
    else
        add_to<N>(dtable + token * r.width + column, sum);
}

template <typename T, int N>
static __global__ void chunks_kernel(struct sorted_rows r, const T *dy, float *dtable)
{
    __shared__ int32_t tokens[CHUNK + 2], rows[CHUNK];
    int64_t column = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    int count = load_chunk(r, tokens, rows);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        r.heads[blockIdx.y] = tokens[0] == tokens[1] ? tokens[1] : -1;
    if (column >= r.width)
        return;
    float sum[N] = {}, v[AHEAD][N];
    bool began_before = tokens[0] == tokens[1];
    for (int first = 0; first < count; first += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i < count)
                load<N>(dy + rows[first + i] * r.width + column, v[i]);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = first + i;
            if (at >= count)
                break;
            for (int k = 0; k < N; k++)
                sum[k] += v[i][k];
            bool goes_on = tokens[at + 1] == tokens[at + 2];
            if (goes_on && at + 1 < count)
                continue;
            end_run<N>(r, tokens[at + 1], began_before, goes_on, column, sum, dtable);
            began_before = false;
            for (int k = 0; k < N; k++)
                sum[k] = 0;
        }
    }
}

// Adds up a run that begins in one chunk and continues in the next ones.
template <int N>
static __global__ void join_kernel(struct sorted_rows r, int64_t chunks, float *dtable)
{
    int64_t column = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N, chunk = blockIdx.y;
    if (column >= r.width || chunk + 1 == chunks)
        return;
    int32_t token = r.heads[chunk + 1];
    if (token < 0 || r.heads[chunk] == token)
        return;
    float sum[N], v[N];
    load<N>(r.partial + (chunk * 2 + 1) * r.width + column, sum);
    for (int64_t next = chunk + 1; next < chunks && r.heads[next] == token; next++) {
        load<N>(r.partial + next * 2 * r.width + column, v);
        for (int k = 0; k < N; k++)
            sum[k] += v[k];
    }
    add_to<N>(dtable + token * r.width + column, sum);
}

template <typename T>
static void backward_slab(int64_t rows, int64_t width, int64_t vocabulary, const int32_t *tokens,
                          const T *dy, float *dtable, struct embedding_workspace w)
{
    sort_rows(rows, vocabulary, tokens, &w);
    struct sorted_rows r = {rows, width, tokens, w.order, w.heads, w.partial};
    int64_t chunks = ceil_div(rows, CHUNK);
    // Packs of four floats require alignment, also of the table.
    if (width % 4 == 0 && is_aligned(dy) && is_aligned(dtable)) {
        dim3 grid(blocks_for(width, THREADS * 4), (unsigned)chunks);
        LAUNCH((chunks_kernel<T, 4>), grid, THREADS, 0, r, dy, dtable);
        LAUNCH((join_kernel<4>), grid, THREADS, 0, r, chunks, dtable);
    } else {
        dim3 grid(blocks_for(width, THREADS), (unsigned)chunks);
        LAUNCH((chunks_kernel<T, 1>), grid, THREADS, 0, r, dy, dtable);
        LAUNCH((join_kernel<1>), grid, THREADS, 0, r, chunks, dtable);
    }
}

template <typename T>
static void backward(int64_t rows, int64_t width, int64_t vocabulary, const int32_t *tokens,
                     const T *dy, float *dtable)
{
    struct embedding_workspace w = workspace_of(width);
    int64_t slab = w.chunks * CHUNK;
    for (int64_t first = 0; first < rows; first += slab) {
        int64_t left = rows - first;
        backward_slab<T>(left < slab ? left : slab, width, vocabulary, tokens + first,
                         dy + first * width, dtable, w);
    }
}

extern "C" void ops_embedding_backward(int64_t rows, int64_t width, int64_t vocabulary,
                                       const int32_t *tokens, const real *dy, float *dtable,
                                       bool add)
{
    if (!add)
        ops_zero(dtable, (size_t)(vocabulary * width) * sizeof *dtable);
    DISPATCH(T, backward<T>(rows, width, vocabulary, tokens, reals<T>(dy), dtable));
}

// --- forward pass, and positions: a thread handles a pack of the tensor --------------------------

template <typename T, int N>
static __global__ void lookup_kernel(int64_t rows, int64_t width, const int32_t *tokens,
                                     const T *table, T *y)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= rows * width)
        return;
    struct quotient at = divide(i, width);
    float v[N];
    load<N>(table + tokens[at.quotient] * width + at.rest, v);
    store<N>(v, y + i);
}

template <typename T>
static void lookup(int64_t rows, int64_t width, const int32_t *tokens, const T *table, T *y)
{
    PACKED(T, N, width % PACK<T> == 0 && is_aligned(table) && is_aligned(y),
           LAUNCH((lookup_kernel<T, N>), blocks_for(rows * width, THREADS * N), THREADS, 0, rows,
                  width, tokens, table, y));
}

extern "C" void ops_embedding_forward(int64_t rows, int64_t width, const int32_t *tokens,
                                      const real *table, real *y)
{
    DISPATCH(T, lookup<T>(rows, width, tokens, reals<T>(table), reals<T>(y)));
}

template <typename T, int N>
static __global__ void position_kernel(int64_t n, int64_t places, const T *x, const T *table, T *y)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= n)
        return;
    float v[N], p[N];
    load<N>(x + i, v);
    load<N>(table + divide(i, places).rest, p);
    for (int k = 0; k < N; k++)
        v[k] += p[k];
    store<N>(v, y + i);
}

template <typename T>
static void position(int64_t n, int64_t places, const T *x, const T *table, T *y)
{
    PACKED(T, N, places % PACK<T> == 0 && is_aligned(x) && is_aligned(table) && is_aligned(y),
           LAUNCH((position_kernel<T, N>), blocks_for(n, THREADS * N), THREADS, 0, n, places, x,
                  table, y));
}

extern "C" void ops_position_forward(int64_t samples, int64_t context, int64_t width, const real *x,
                                     const real *table, real *y)
{
    int64_t places = context * width;
    DISPATCH(T, position<T>(samples * places, places, reals<T>(x), reals<T>(table), reals<T>(y)));
}

template <typename T>
static __global__ void position_sums_kernel(int64_t samples, int64_t places, const T *dy,
                                            float *dtable)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= places)
        return;
    float sum = 0;
    for (int64_t s = 0; s < samples; s++)
        sum += as_float(dy[s * places + i]);
    dtable[i] = sum;
}

extern "C" void ops_position_backward(int64_t samples, int64_t context, int64_t width,
                                      const real *dy, float *dtable)
{
    int64_t places = context * width;
    DISPATCH(T, LAUNCH(position_sums_kernel<T>, blocks_for(places, THREADS), THREADS, 0, samples,
                       places, reals<T>(dy), dtable));
}
