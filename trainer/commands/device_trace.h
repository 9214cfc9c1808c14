// A trace in the format that chrome://tracing and ui.perfetto.dev open: what the device did between
// two steps, written to a file. One thread, the one that drives the device.
#ifndef MUSTER_TRAINER_COMMANDS_DEVICE_TRACE_H
#define MUSTER_TRAINER_COMMANDS_DEVICE_TRACE_H

#include "base/error.h"

struct device_trace; // opaque

// Begins at once. ERR_IO: the file cannot be written; ERR_NOT_FOUND: kernels are told by a library
// that is missing (ops/trace.h). *out is NULL then.
int device_trace_begin(const char *path, struct device_trace **out, struct error *e);
// Waits for the device and completes the file. NULL is fine. Frees it in any case.
int device_trace_end(struct device_trace *t, struct error *e);

#endif
