// Work that is repeated (ops_replay()), by CUDA graphs.
//
// The first time work is done as ever: libraries make their plans, kernels are loaded. The second
// time its ops are captured instead of launched, and the graph of them is launched; from then on
// it alone is. So the kernels' arguments are those of the second time for good, addresses too, and
// what varies (keys of draws, scales, the batch) is read from the device's memory, where uploads
// before the work have put it.
//
// Where the host has something to do in the midst, such as to start a bucket's communication, the
// capture is cut: a recording is a row of parts, a graph and then what the host does. All parts
// are captured before the first is launched, so that work that cannot be captured has not been
// done by half. It is done as ever then, as all work from there on. With CUDA_LAUNCH_BLOCKING=1,
// which is to name the op that fails, nothing is recorded.
//
// Captures are this thread's own affair: the communicator's watcher goes on asking for its events.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

struct part {
    cudaGraphExec_t graph; // NULL: no op
    void (*host)(void *);  // NULL: nothing
    void *ctx;
};

struct ops_recording {
    bool known; // it has been done once
    struct part *parts;
    size_t count; // 0: not recorded
};

static struct ops_recording *capturing; // NULL: nothing is
static char why[CUDA_TROUBLE_MAX];      // the capture failed; empty: it has not
static bool given_up;

static void begin_part(void)
{
    cudaStream_t stream = cuda_stream();
    cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (status == cudaSuccess)
        return;
    cuda_trouble_goes_to(NULL); // the ops would be done, and then again: that is not to be mended
    cuda_check(status, "the beginning of a graph");
    cuda_trouble_goes_to(why);
}

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
    cudaGraphExec_t ready = NULL;
    size_t nodes = 0;
    cuda_check(cudaGraphGetNodes(graph, NULL, &nodes), "the nodes of a graph");
    if (nodes > 0 && !*why)
        cuda_check(cudaGraphInstantiate(&ready, graph, 0), "the making of a graph");
    return ready;
}

static void end_part(void (*host)(void *), void *ctx)
{
    struct ops_recording *r = capturing;
    cudaGraph_t graph = NULL;
    cuda_check(cudaStreamEndCapture(cuda_stream(), &graph), "the end of a graph");
    cudaGraphExec_t ready = graph ? instantiate(graph) : NULL;
    if (graph)
        cudaGraphDestroy(graph);
    r->parts = xrealloc(r->parts, (r->count + 1) * sizeof *r->parts);
    r->parts[r->count++] = (struct part){ready, host, ctx};
}

static void forget_parts(struct ops_recording *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->parts[i].graph)
            cudaGraphExecDestroy(r->parts[i].graph);
    free(r->parts);
    r->parts = NULL;
    r->count = 0;
}

static void record(struct ops_recording *r, void (*work)(void *), void *ctx)
{
    *why = '\0';
    cuda_trouble_goes_to(why);
    capturing = r;
    begin_part();
    work(ctx);
    end_part(NULL, NULL);
    capturing = NULL;
    cuda_trouble_goes_to(NULL);
    if (!*why)
        return;
    cudaGetLastError(); // it is no later call's
    given_up = true;
    log_warn("the GPU is told of each op anew, which takes longer: it could not record them",
             "why=\"%s\"", why);
    forget_parts(r);
}

static void play(const struct ops_recording *r)
{
    for (const struct part *p = r->parts; p < r->parts + r->count; p++) {
        if (p->graph)
            cuda_check(cudaGraphLaunch(p->graph, cuda_stream()), "a graph of ops");
        if (p->host)
            p->host(p->ctx);
    }
}

static bool names_ops(void)
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
    if (r->known && r->count == 0 && !given_up && !names_ops())
        record(r, work, ctx);
    r->known = true;
    if (r->count > 0)
        play(r);
    else
        work(ctx);
}

void ops_call_host(void (*host)(void *), void *ctx)
{
    if (!capturing) {
        host(ctx);
        return;
    }
    end_part(host, ctx);
    begin_part();
}

void ops_recording_free(struct ops_recording *r)
{
    if (!r)
        return;
    if (r->count > 0)
        cudaStreamSynchronize(cuda_stream());
    forget_parts(r);
    free(r);
}
