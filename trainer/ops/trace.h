// Events of the device with their times: phases (ops_phase()), layers on a CPU, kernels on a GPU.
// Only the thread that drives the device calls these functions. Without a listener nothing is
// recorded.
#ifndef MUSTER_TRAINER_OPS_TRACE_H
#define MUSTER_TRAINER_OPS_TRACE_H

#include "trainer/ops/device.h"

enum ops_trace_row { OPS_TRACE_PHASE, OPS_TRACE_LAYER, OPS_TRACE_KERNEL, OPS_TRACE_ROWS };

struct ops_trace_event {
    enum ops_trace_row row;
    enum ops_phase phase;     // for OPS_TRACE_PHASE
    const char *name;         // for the other rows; valid until the listener returns
    double begin_us, took_us; // on the device's clock, with an arbitrary origin
    int grid[3], block[3];    // of a kernel, otherwise zero
    int registers, shared;    // of a kernel: per thread; bytes per block
};

typedef void ops_trace_fn(void *ctx, const struct ops_trace_event *event);

// Reports every event from now on to `listener`; some arrive only at the end. ERR_NOT_FOUND: CUPTI,
// which reports a GPU's kernels, is not installed; phases are reported nevertheless.
int ops_trace_begin(ops_trace_fn *listener, void *ctx, struct error *e);
// Waits until the device has done all its work and reports the remaining events. ERR_IO: CUPTI
// failed.
int ops_trace_end(struct error *e);

// The following work belongs to this layer until the next call (NULL: to no layer). Keeps the name.
void ops_trace_layer(const char *name);

#endif
