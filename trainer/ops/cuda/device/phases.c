// Phases by the GPU's clock. Each phase begins with an event on the stream and lasts until the next
// event. The events are read later, when the GPU has reached them.
#include <string.h>

#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/trace.h"

enum { MARKS = 1024 };

static struct {
    cudaEvent_t events[MARKS]; // mark n uses event n % MARKS; created at first use
    enum ops_phase phases[MARKS];
    unsigned first, next; // the marks whose time is not counted yet
    enum ops_phase now;
    double us[OPS_PHASES];
} spent;

// The listener. Its times are relative to the event `begin`, which the GPU reached at begin_us.
static struct {
    ops_trace_fn *listener; // NULL: no trace
    void *ctx;
    cudaEvent_t begin;
    double begin_us;
} trace;

static cudaEvent_t event_of(unsigned mark)
{
    return spent.events[mark % MARKS];
}

// Reports a phase, unless it began before the trace.
static void report_phase(unsigned mark, float took_ms)
{
    float since_ms = -1;
    if (!trace.listener ||
        cudaEventElapsedTime(&since_ms, trace.begin, event_of(mark)) != cudaSuccess || since_ms < 0)
        return;
    const struct ops_trace_event event = {
        .row = OPS_TRACE_PHASE,
        .phase = spent.phases[mark % MARKS],
        .begin_us = trace.begin_us + 1000.0 * (double)since_ms,
        .took_us = 1000.0 * (double)took_ms,
    };
    trace.listener(trace.ctx, &event);
}

// Counts the phases that the GPU has finished.
static void count_finished(void)
{
    while (spent.next - spent.first > 1) {
        float ms = 0;
        cudaError_t status = cudaEventQuery(event_of(spent.first + 1));
        if (status == cudaErrorNotReady)
            cudaGetLastError(); // clears the status, which a later call would return
        if (status != cudaSuccess)
            return;
        cudaEventElapsedTime(&ms, event_of(spent.first), event_of(spent.first + 1));
        spent.us[spent.phases[spent.first % MARKS]] += 1000.0 * (double)ms;
        report_phase(spent.first, ms);
        spent.first++;
    }
}

static void record_mark(enum ops_phase phase)
{
    cudaEvent_t *event = &spent.events[spent.next % MARKS];
    if (!*event)
        cuda_check(cudaEventCreateWithFlags(event, cudaEventDefault), "ops_phase");
    cuda_check(cudaEventRecord(*event, cuda_stream()), "ops_phase");
    spent.phases[spent.next++ % MARKS] = phase;
}

enum ops_phase ops_phase(enum ops_phase phase)
{
    enum ops_phase before = spent.now;
    if (phase == before || !cuda_stream())
        return before;
    if (spent.next - spent.first == MARKS) {
        cudaEventSynchronize(event_of(spent.first + MARKS / 2));
        count_finished();
    }
    spent.now = phase;
    record_mark(phase);
    return before;
}

void ops_phases(int64_t us[OPS_PHASES])
{
    count_finished();
    for (int i = 0; i < OPS_PHASES; i++) {
        us[i] = (int64_t)spent.us[i];
        spent.us[i] -= (double)us[i]; // keeps the fraction of a microsecond
    }
}

void cuda_trace_phases(ops_trace_fn *listener, void *ctx, double begin_us)
{
    count_finished();
    trace.listener = listener;
    trace.ctx = ctx;
    trace.begin_us = begin_us;
    if (!trace.begin)
        cuda_check(cudaEventCreateWithFlags(&trace.begin, cudaEventDefault), "ops_trace_begin");
    if (listener)
        cuda_check(cudaEventRecord(trace.begin, cuda_stream()), "ops_trace_begin");
}

void cuda_free_phases(void)
{
    if (trace.begin)
        cudaEventDestroy(trace.begin);
    memset(&trace, 0, sizeof trace);
    for (int i = 0; i < MARKS; i++)
        if (spent.events[i])
            cudaEventDestroy(spent.events[i]);
    memset(&spent, 0, sizeof spent);
}
