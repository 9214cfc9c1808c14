// Events of the device with their times: phases (ops_phase()), layers on a CPU, kernels on a GPU.
// Only the thread that drives the device calls this; nothing is kept while there is no listener.
#ifndef MUSTER_TRAINER_OPS_TRACE_H
#define MUSTER_TRAINER_OPS_TRACE_H

#include "trainer/ops/device.h"

enum ops_trace_row { OPS_TRACE_PHASE, OPS_TRACE_LAYER, OPS_TRACE_KERNEL, OPS_TRACE_ROWS };

struct ops_trace_event {
    enum ops_trace_row row;
    enum ops_phase phase;     // of the row of phases
    const char *name;         // of the others, until the listener returns
    double begin_us, took_us; // by the device's clock, from some moment on
    int grid[3], block[3];    // of a kernel, else zero
    int registers, shared;    // of its thread, bytes of its block
};

typedef void ops_trace_fn(void *ctx, const struct ops_trace_event *event);

// Tells every event from now on to `told`, some of them at the end alone. ERR_NOT_FOUND: a GPU's
// kernels are told by CUPTI, which is not installed; phases are told all the same.
int ops_trace_begin(ops_trace_fn *told, void *ctx, struct error *e);
// Waits until the device has done all its work, and tells the rest. ERR_IO: CUPTI failed.
int ops_trace_end(struct error *e);

// From now on the work is this layer's, until the next call; NULL: no layer's. The name is kept.
void ops_trace_layer(const char *name);

#endif
