// A trace of the device between two steps, written to a file that chrome://tracing and
// ui.perfetto.dev open. For the thread that drives the device.
#ifndef MUSTER_TRAINER_COMMANDS_DEVICE_TRACE_H
#define MUSTER_TRAINER_COMMANDS_DEVICE_TRACE_H

#include "base/error.h"

struct device_trace; // opaque

// Starts at once. ERR_IO: the file cannot be written. ERR_NOT_FOUND: the library that reports
// kernels is missing (ops/trace.h). *out is NULL after an error.
int device_trace_begin(const char *path, struct device_trace **out, struct error *e);
// Waits for the device, completes the file and frees the trace, also after an error. NULL is fine.
int device_trace_end(struct device_trace *t, struct error *e);

#endif
