// A trace in the format that chrome://tracing and ui.perfetto.dev open: what the device did between
// two steps, written to a file. One thread, the one that drives the device.
#ifndef MUSTER_TRAINER_TRACE_H
#define MUSTER_TRAINER_TRACE_H

#include "base/error.h"

struct trace; // opaque

// Begins at once. ERR_IO: the file cannot be written; ERR_NOT_FOUND: kernels are told by a library
// that is missing (ops/trace.h). *out is NULL then.
int trace_begin(const char *path, struct trace **out, struct error *e);
// Waits for the device and completes the file. NULL is fine. Frees it in any case.
int trace_end(struct trace *t, struct error *e);

#endif
