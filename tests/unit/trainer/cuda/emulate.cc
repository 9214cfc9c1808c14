// The device of the emulation: coroutines for the threads of a block, and host memory. A coroutine
// runs one thread after the other until one of them has to wait; then the next coroutine takes
// over, so kernels without barriers need only one.
#undef _FORTIFY_SOURCE // its longjmp() rejects other stacks
#include "tests/unit/trainer/cuda/emulate.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

#include "tests/unit/trainer/cuda/emulated.h"

#include "trainer/ops/cuda/device/device.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/cuda/kernels/attention.h"
#include "trainer/ops/cuda/kernels/bias_gradient.h"

#define _Noreturn __attribute__((noreturn))
extern "C" {
#include "base/log.h"
}

dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { THREADS_MAX = 1024, WARPS_MAX = THREADS_MAX / 32, STACK = 256 << 10, WIDEST = 16 };

struct barrier {
    unsigned arrived, generation;
};

struct warp {
    struct barrier barrier;
    unsigned char given[2][32][WIDEST];
};

struct fiber {
    ucontext_t context; // for the start; later switches use `state`, which needs no system call
    jmp_buf state;
    unsigned char *stack;
    dim3 index; // of its current thread
    bool done;
    const struct barrier *at;
    unsigned generation; // it waits until the barrier's generation differs
};

static struct {
    const char *kernel;
    void (*thread)(void *);
    void *ctx;
    unsigned threads, begun, finished;
    bool backwards; // blocks and threads run in reverse order
    struct barrier barrier;
    struct warp warps[WARPS_MAX];
    struct fiber fibers[THREADS_MAX];
    struct fiber *running;
    jmp_buf scheduler;
    unsigned char *shared;
} e;

struct cuda_device device = {.capability = 90};

// Aborts the program if a kernel breaks a rule.
static void demand(bool condition, const char *what)
{
    if (condition)
        return;
    log_error("a kernel is wrong", "kernel=%s block=%u.%u thread=%u: %s", e.kernel, blockIdx.x,
              blockIdx.y, threadIdx.x, what);
    abort();
}

static void run_threads(void)
{
    while (e.begun < e.threads) {
        unsigned i = e.begun++;
        threadIdx = dim3(e.backwards ? e.threads - 1 - i : i);
        e.running->index = threadIdx;
        e.thread(e.ctx);
        e.finished++;
    }
    e.running->done = true;
    _longjmp(e.scheduler, 1);
}

static void resume(struct fiber *f)
{
    e.running = f;
    threadIdx = f->index;
    if (_setjmp(e.scheduler) == 0) {
        if (f->at)
            _longjmp(f->state, 1);
        setcontext(&f->context);
    }
}

static void begin(struct fiber *f)
{
    if (!f->stack)
        f->stack = (unsigned char *)malloc(STACK);
    must(f->stack && getcontext(&f->context) == 0);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = NULL;
    f->done = false;
    f->at = NULL;
    makecontext(&f->context, run_threads, 0);
    resume(f);
}

static void run_block(void)
{
    unsigned fibers = 0;
    e.begun = e.finished = 0;
    while (e.finished < e.threads) {
        bool moved = e.begun < e.threads;
        if (moved)
            begin(&e.fibers[fibers++]);
        else
            for (unsigned i = 0; i < fibers; i++) {
                struct fiber *f = &e.fibers[i];
                if (f->done || f->at->generation == f->generation)
                    continue;
                resume(f);
                moved = true;
            }
        demand(moved, "threads wait at different barriers, or for one that has returned");
    }
}

static void launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                   void (*thread)(void *), void *ctx)
{
    e.kernel = kernel;
    e.backwards = getenv("EMULATE_BACKWARDS") != NULL;
    demand(block.y * block.z == 1 && block.x <= THREADS_MAX && block.x % 32 == 0, "its block");
    demand(grid.x > 0 && grid.y > 0 && grid.y < 65536 && grid.z > 0 && grid.z < 65536, "its grid");
    demand(shared_bytes <= (160u << 10), "more shared memory than compute capability 8.0 has");
    e.thread = thread;
    e.ctx = ctx;
    e.threads = block.x;
    blockDim = block;
    gridDim = grid;
    e.shared = (unsigned char *)aligned_alloc(64, (shared_bytes + 64) / 64 * 64);
    must(e.shared);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = e.backwards ? dim3(grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z)
                                       : dim3(x, y, z);
                memset(e.shared, 0x7f, shared_bytes); // kernels must not rely on zeros
                run_block();
            }
    free(e.shared);
}

// --- graphs: captured ops are stored and run when the graph is launched --------------------------

struct CUgraph_st {
    std::vector<std::function<void()>> ops;
};

struct CUgraphExec_st {
    std::vector<std::function<void()>> ops;
};

static CUgraph_st *capture;      // NULL: ops run at once
static int left_to_capture = -1; // captures until one fails; -1: no limit
static int graphs_launched;
static char *trouble; // buffer for the first error; NULL: errors abort

void emulate_op(const std::function<void()> &op)
{
    if (!capture)
        op();
    else if (left_to_capture != 0)
        capture->ops.push_back(op);
    if (capture && left_to_capture > 0)
        left_to_capture--;
}

void emulate_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    void (*thread)(void *), void *ctx, size_t bytes)
{
    std::vector<max_align_t> copy(bytes / sizeof(max_align_t) + 1);
    memcpy(copy.data(), ctx, bytes);
    emulate_op([=]() mutable { launch(kernel, grid, block, shared_bytes, thread, copy.data()); });
}

extern "C" {
void emulated_captures(int ops)
{
    left_to_capture = ops;
}

int emulated_graphs(void)
{
    return graphs_launched;
}

cudaStream_t cuda_stream(void)
{
    return NULL;
}

void cuda_redirect_errors(char *elsewhere)
{
    trouble = elsewhere;
}

void cuda_check(cudaError_t status, const char *op)
{
    must(status == cudaSuccess || trouble);
    if (status != cudaSuccess && trouble[0] == '\0')
        snprintf(trouble, CUDA_ERROR_MAX, "%s: error %d", op, (int)status);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode mode)
{
    must(!capture && mode == cudaStreamCaptureModeThreadLocal);
    capture = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph)
{
    must(capture);
    *graph = capture;
    capture = NULL;
    if (left_to_capture != 0)
        return cudaSuccess;
    delete *graph;
    *graph = NULL;
    return cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    must(!nodes);
    *count = graph->ops.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long)
{
    *ready = new CUgraphExec_st{graph->ops};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
    must(!capture);
    graphs_launched++;
    for (const std::function<void()> &op : graph->ops)
        op();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return cudaSuccess;
}
}

unsigned char *emulate_shared(void)
{
    return e.shared;
}

static void wait_at(struct barrier *b, unsigned threads)
{
    struct fiber *me = e.running;
    me->at = b;
    me->generation = b->generation;
    if (++b->arrived == threads) {
        b->arrived = 0;
        b->generation++;
        return;
    }
    if (_setjmp(me->state) == 0)
        _longjmp(e.scheduler, 1);
}

void emulate_block_barrier(void)
{
    demand(e.finished == 0, "a thread returned before a barrier");
    wait_at(&e.barrier, e.threads);
}

void emulate_warp_barrier(unsigned mask)
{
    demand(mask == 0xffffffffu, "a shuffle without its whole warp");
    wait_at(&e.warps[threadIdx.x / 32].barrier, 32);
}

void emulate_exchange(unsigned mask, const void *mine, size_t size, unsigned from, void *theirs)
{
    demand(size <= WIDEST, "too wide a shuffle");
    struct warp *w = &e.warps[threadIdx.x / 32];
    unsigned turn =
        w->barrier.generation % 2; // alternates, so the next exchange does not interfere
    memcpy(w->given[turn][threadIdx.x % 32], mine, size);
    emulate_warp_barrier(mask);
    memcpy(theirs, w->given[turn][from], size);
}

// --- the device ----------------------------------------------------------------------------------

bool cuda_reals_are_bf16(void)
{
    return device.precision == OPS_BF16 || device.precision == OPS_FP8;
}

void *cuda_workspace(void)
{
    static unsigned char workspace[CUDA_WORKSPACE_BYTES] __attribute__((aligned(256)));
    return workspace;
}

extern "C" {
int ops_open(enum ops_precision precision, struct error *)
{
    device.precision = precision == OPS_AUTO ? OPS_BF16 : precision;
    return 0;
}

void ops_close(void)
{
    device.precision = OPS_FLOAT;
}

bool ops_quantises(void)
{
    return device.precision == OPS_FP8;
}

void ops_init_thread(void)
{
}

int ops_alloc(size_t bytes, void **out, struct error *err)
{
    bytes = (bytes + 256) / 256 * 256;
    *out = aligned_alloc(256, bytes);
    if (!*out)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    memset(*out, 0, bytes);
    return 0;
}

void ops_free(void *memory)
{
    free(memory);
}

const char *ops_fingerprint(char *out, size_t cap)
{
    snprintf(out, cap, "emulation");
    return out;
}

void ops_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        emulate_op([=] { memcpy(to, from, bytes); });
}

void ops_upload(void *device, const void *host, size_t bytes)
{
    must(!capture);
    ops_copy(device, host, bytes);
}

void ops_download(void *host, const void *device, size_t bytes)
{
    must(!capture);
    ops_copy(host, device, bytes);
}

void ops_zero(void *to, size_t bytes)
{
    if (bytes > 0)
        emulate_op([=] { memset(to, 0, bytes); });
}

int ops_synchronize(struct error *)
{
    must(!capture);
    return 0;
}

// For tests, which are in C.
void cuda_columns_sum(int64_t rows, int64_t width, const real *x, float *sums)
{
    bias_gradient_sum(rows, width, x, sums);
}

// --- ops that use libraries on a GPU -------------------------------------------------------------

int64_t ops_attention_saved_floats(const struct ops_attention *s, double)
{
    must(attention_kernel_fits(s));
    return attention_kernel_saved_floats(s);
}

int64_t ops_attention_scratch_floats(const struct ops_attention *s)
{
    return attention_kernel_scratch_floats(s);
}

void ops_attention_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                           const real *qkv, float *saved, float *, real *y)
{
    attention_kernel_forward(s, draw, qkv, saved, y);
}

void ops_attention_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                            const real *qkv, const real *y, const float *saved, float *scratch,
                            const real *dy, real *dqkv)
{
    attention_kernel_backward(s, draw, qkv, y, saved, scratch, dy, dqkv);
}
}
