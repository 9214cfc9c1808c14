// The GPU monitor: a thread that waits for the driver's reports of GPU faults and samples the use
// of the GPUs every ten seconds. It sends both to the inbox (INBOX_FAULT, INBOX_USAGE). After the
// start only this thread calls the driver, because a faulty GPU may block a call for long.
#ifndef MUSTER_AGENT_GPU_GPU_MONITOR_H
#define MUSTER_AGENT_GPU_GPU_MONITOR_H

#include "agent/inbox.h"
#include "agent/slots.h"
#include "base/error.h"

struct gpu_monitor; // opaque

// The slots are GPUs and outlive the monitor.
int gpu_monitor_start(const struct slots *slots, struct inbox *inbox, struct gpu_monitor **out,
                      struct error *e);
// Waits up to half a second for the thread to end. NULL is fine.
void gpu_monitor_stop(struct gpu_monitor *m);

#endif
