#include <string.h>

#include "base/clock.h"
#include "trainer/ops/device.h"

static _Thread_local struct {
    enum ops_phase now;
    int64_t since, us[OPS_PHASES];
} spent; // `since` is 0 before the first phase

static void count(void)
{
    int64_t now = clock_mono_us();
    if (spent.since)
        spent.us[spent.now] += now - spent.since;
    spent.since = now;
}

enum ops_phase ops_phase(enum ops_phase phase)
{
    enum ops_phase before = spent.now;
    if (phase != before)
        count();
    spent.now = phase;
    return before;
}

void ops_phases(int64_t us[OPS_PHASES])
{
    count();
    memcpy(us, spent.us, sizeof spent.us);
    memset(spent.us, 0, sizeof spent.us);
}
