#include <string.h>

#include "base/clock.h"
#include "trainer/ops/trace.h"

static _Thread_local struct {
    enum ops_phase now;
    int64_t since, us[OPS_PHASES];
} spent; // `since` is 0 before the first phase

static _Thread_local struct {
    ops_trace_fn *listener; // NULL: no trace
    void *ctx;
    int64_t since, layer_since;
    const char *layer;
} trace;

static void report_phase(struct ops_trace_event event, int64_t begin, int64_t end)
{
    event.begin_us = (double)begin;
    event.took_us = (double)(end - begin);
    if (trace.listener && end > begin)
        trace.listener(trace.ctx, &event);
}

static void count_current(void)
{
    int64_t now = clock_mono_us(), begin = spent.since;
    if (begin) {
        spent.us[spent.now] += now - begin;
        report_phase((struct ops_trace_event){.row = OPS_TRACE_PHASE, .phase = spent.now},
                     begin > trace.since ? begin : trace.since, now);
    }
    spent.since = now;
}

enum ops_phase ops_phase(enum ops_phase phase)
{
    enum ops_phase before = spent.now;
    if (phase != before)
        count_current();
    spent.now = phase;
    return before;
}

void ops_phases(int64_t us[OPS_PHASES])
{
    count_current();
    memcpy(us, spent.us, sizeof spent.us);
    memset(spent.us, 0, sizeof spent.us);
}

int ops_trace_begin(ops_trace_fn *listener, void *ctx, struct error *e)
{
    (void)e;
    trace.listener = listener;
    trace.ctx = ctx;
    trace.since = clock_mono_us();
    trace.layer = NULL;
    return 0;
}

int ops_trace_end(struct error *e)
{
    (void)e;
    ops_trace_layer(NULL);
    count_current();
    trace.listener = NULL;
    return 0;
}

void ops_trace_layer(const char *name)
{
    if (!trace.listener)
        return;
    int64_t now = clock_mono_us();
    if (trace.layer)
        report_phase((struct ops_trace_event){.row = OPS_TRACE_LAYER, .name = trace.layer},
                     trace.layer_since, now);
    trace.layer = name;
    trace.layer_since = now;
}
