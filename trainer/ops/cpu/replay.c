// The CPU backend calls the work each time.
#include "trainer/ops/device.h"

void ops_replay(struct ops_recording **r, void (*work)(void *), void *ctx)
{
    (void)r;
    work(ctx);
}

void ops_recording_free(struct ops_recording *r)
{
    (void)r;
}

void ops_call_host(void (*host)(void *), void *ctx)
{
    host(ctx);
}
