// The GPU watch: a thread that waits for what the driver says has gone wrong with a GPU, and looks
// every ten seconds at how much the GPUs are used. It tells both by notes (NOTE_FAULT, NOTE_USE),
// and alone calls the driver after the start: a GPU in trouble may keep a call for long.
#ifndef MUSTER_AGENT_GPU_GPU_MONITOR_H
#define MUSTER_AGENT_GPU_GPU_MONITOR_H

#include "agent/inbox.h"
#include "agent/slots.h"
#include "base/error.h"

struct watch; // opaque

// The slots are GPUs and outlive it.
int watch_start(const struct slots *slots, struct notes *notes, struct watch **out,
                struct error *e);
void watch_stop(struct watch *w); // within half a second, joins; NULL is fine

#endif
