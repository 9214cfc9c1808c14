// Records work and replays it as CUDA graphs (ops_replay()).
//
// The first call runs the work normally: libraries create their plans, kernels are loaded. The
// second call captures the ops instead of launching them and launches the resulting graph. Later
// calls launch only the graph. So the kernels keep the arguments of the second call, addresses
// included. Variable values (random keys, scales, the batch) are read from device memory, where
// uploads before the work have put them.
//
// Where the host must act in the middle of the work, for instance to start a bucket, the capture is
// split: a recording is a sequence of parts, each a graph followed by a host call. All parts are
// captured before the first is launched, so work that cannot be captured is not half done; it and
// all later work then run normally. With CUDA_LAUNCH_BLOCKING=1, which names the op that fails,
// nothing is recorded.
//
// Captures are thread-local, so the communicator's watcher may query its events meanwhile.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

struct recording_part {
    cudaGraphExec_t graph; // NULL: no ops
    void (*host)(void *);  // NULL: no host call
    void *ctx;
};

struct ops_recording {
    bool has_run; // the work has run once
    struct recording_part *parts;
    size_t count; // 0: not recorded
};

static struct ops_recording *capturing; // NULL: no capture in progress
static char why[CUDA_ERROR_MAX];        // why the capture failed; empty: it has not
static bool disabled;

static void part_begin(void)
{
    cudaStream_t stream = cuda_stream();
    cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (status == cudaSuccess)
        return;
    cuda_redirect_errors(NULL); // fatal: without a capture the ops would run twice
    cuda_check(status, "the start of a graph");
    cuda_redirect_errors(why);
}

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
    cudaGraphExec_t ready = NULL;
    size_t nodes = 0;
    cuda_check(cudaGraphGetNodes(graph, NULL, &nodes), "the nodes of a graph");
    if (nodes > 0 && !*why)
        cuda_check(cudaGraphInstantiate(&ready, graph, 0), "the instantiation of a graph");
    return ready;
}

static void part_end(void (*host)(void *), void *ctx)
{
    struct ops_recording *r = capturing;
    cudaGraph_t graph = NULL;
    cuda_check(cudaStreamEndCapture(cuda_stream(), &graph), "the end of a graph");
    cudaGraphExec_t ready = graph ? instantiate(graph) : NULL;
    if (graph)
        cudaGraphDestroy(graph);
    r->parts = xrealloc(r->parts, (r->count + 1) * sizeof *r->parts);
    r->parts[r->count++] = (struct recording_part){ready, host, ctx};
}

static void recording_clear(struct ops_recording *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->parts[i].graph)
            cudaGraphExecDestroy(r->parts[i].graph);
    free(r->parts);
    r->parts = NULL;
    r->count = 0;
}

static void recording_capture(struct ops_recording *r, void (*work)(void *), void *ctx)
{
    *why = '\0';
    cuda_redirect_errors(why);
    capturing = r;
    part_begin();
    work(ctx);
    part_end(NULL, NULL);
    capturing = NULL;
    cuda_redirect_errors(NULL);
    if (!*why)
        return;
    cudaGetLastError(); // clears the status, which a later call would return
    disabled = true;
    log_warn("CUDA graphs are off: the work could not be captured, so every op is launched "
             "separately, which is slower",
             "why=\"%s\"", why);
    recording_clear(r);
}

static void recording_launch(const struct ops_recording *r)
{
    for (const struct recording_part *p = r->parts; p < r->parts + r->count; p++) {
        if (p->graph)
            cuda_check(cudaGraphLaunch(p->graph, cuda_stream()), "a graph of ops");
        if (p->host)
            p->host(p->ctx);
    }
}

static bool is_launch_blocking(void)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    return blocking && strcmp(blocking, "1") == 0;
}

void ops_replay(struct ops_recording **at, void (*work)(void *), void *ctx)
{
    must(!capturing);
    if (!*at)
        *at = xcalloc(1, sizeof **at);
    struct ops_recording *r = *at;
    if (r->has_run && r->count == 0 && !disabled && !is_launch_blocking())
        recording_capture(r, work, ctx);
    r->has_run = true;
    if (r->count > 0)
        recording_launch(r);
    else
        work(ctx);
}

void ops_call_host(void (*host)(void *), void *ctx)
{
    if (!capturing) {
        host(ctx);
        return;
    }
    part_end(host, ctx);
    part_begin();
}

void ops_recording_free(struct ops_recording *r)
{
    if (!r)
        return;
    if (r->count > 0)
        cudaStreamSynchronize(cuda_stream());
    recording_clear(r);
    free(r);
}
