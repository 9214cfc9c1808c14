// CUDA on the host, as far as the kernels of ops/cuda use it; comes before the first line of each
// .cu file, which is compiled as C++. Blocks run one after the other, a block's threads as
// coroutines that change at barriers and shuffles. One thread of the program at a time.
//
// It is stricter than a GPU: a barrier that a thread left out, or a shuffle without its whole warp,
// ends the program. Of races between threads it sees those where one counts on another having gone
// first: with EMULATE_BACKWARDS in the environment blocks and threads begin with the last.
#ifndef MUSTER_TESTS_TRAINER_CUDA_EMULATE_H
#define MUSTER_TESTS_TRAINER_CUDA_EMULATE_H

#include <cuda_bf16.h>
#include <functional>
#include <math.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <vector_types.h>

#undef __shared__
#define __shared__         static // one block at a time
#define SHARED_BYTES(name) unsigned char *name = emulate_shared()
#undef __launch_bounds__
#define __launch_bounds__(...)

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

// `ctx`, of so many bytes, is copied where the launch is captured.
void emulate_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    void (*thread)(void *), void *ctx, size_t bytes);
void emulate_op(const std::function<void()> &op); // of a library: done at once, or captured
unsigned char *emulate_shared(void);
void emulate_block_barrier(void);
void emulate_warp_barrier(unsigned mask);
// Gives `mine` to the warp and takes what the lane `from` gave.
void emulate_exchange(unsigned mask, const void *mine, size_t size, unsigned from, void *theirs);

// A kernel with its arguments, as they are when it is launched.
template <typename... P> struct emulate_call {
    void (*kernel)(P...);
    std::tuple<P...> given;
};

template <typename... P> static void emulate_thread(void *ctx)
{
    struct emulate_call<P...> *c = static_cast<emulate_call<P...> *>(ctx);
    std::apply(c->kernel, c->given);
}

template <typename... P, typename... A>
static void emulate_kernel(const char *name, dim3 grid, dim3 block, size_t shared_bytes,
                           void (*kernel)(P...), A... given)
{
    static_assert((std::is_trivially_copyable_v<P> && ...));
    struct emulate_call<P...> c = {
        kernel, std::tuple<P...>(given...)
    };
    emulate_launch(name, grid, block, shared_bytes, emulate_thread<P...>, &c, sizeof c);
}

#define LAUNCH(kernel, grid, block, shared_bytes, ...)                                             \
    emulate_kernel(#kernel, dim3(grid), dim3(block), (size_t)(shared_bytes), kernel, __VA_ARGS__)

static inline void __syncthreads(void)
{
    emulate_block_barrier();
}

static inline void __syncwarp(void)
{
    emulate_warp_barrier(0xffffffffu);
}

template <typename V> static inline V __shfl_xor_sync(unsigned mask, V v, int lane)
{
    V other;
    emulate_exchange(mask, &v, sizeof v, (threadIdx.x % 32) ^ (unsigned)lane, &other);
    return other;
}

template <typename V> static inline V atomicMax(V *at, V v)
{
    V before = *at;
    *at = v > before ? v : before;
    return before;
}

// Fast forms of functions, which are less exact on a GPU.
#define __expf(x)        expf(x)
#define __fdividef(x, y) ((x) / (y))

static inline int __float_as_int(float x)
{
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
