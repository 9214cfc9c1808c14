// The part of CUDA that the kernels of ops/cuda use, emulated on the host. It is included before
// the first line of each .cu file, which is compiled as C++. Blocks run one after the other; the
// threads of a block are coroutines that switch at barriers and shuffles. One thread of the program
// at a time may use it.
//
// The emulation is stricter than a GPU: a barrier that a thread misses, or a shuffle without its
// whole warp, aborts the program. It detects a data race in which one thread relies on another
// having run first: with EMULATE_BACKWARDS in the environment, blocks and threads run in reverse
// order.
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

// `ctx` has so many bytes and is copied when the launch is captured.
void emulate_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    void (*thread)(void *), void *ctx, size_t bytes);
void emulate_op(const std::function<void()> &op); // an op of a library: runs at once or is captured
unsigned char *emulate_shared(void);
void emulate_block_barrier(void);
void emulate_warp_barrier(unsigned mask);
// Exchanges values within a warp: publishes `mine` and returns the value of the lane `from`.
void emulate_exchange(unsigned mask, const void *mine, size_t size, unsigned from, void *theirs);

// A kernel with its arguments at the time of the launch.
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

// Fast versions of functions, which are less accurate on a GPU.
#define __expf(x)        expf(x)
#define __fdividef(x, y) ((x) / (y))

static inline int __float_as_int(float x)
{
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
