#include <stdint.h>

#include "base/clock.h"
#include "trainer/ops/device.h"
#include "trainer/ops/loops.h"

// Enough independent chains to hide the latency of multiply-adds on two units.
enum { LANES = 16, CHAINS = 12, TURNS = 20000, RUNS_MIN = 3, RUNS_MAX = 100, ENOUGH_US = 3000 };

// The vector width is explicit, because the compiler would otherwise halve the widest vectors.
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

LOOPS_CLONED static void multiply_and_add(lanes *restrict chains)
{
    lanes x[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        x[i] = chains[i];
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12 // into registers
        for (int i = 0; i < CHAINS; i++)
            x[i] = x[i] * 0.999f + 0.001f;
    for (int i = 0; i < CHAINS; i++)
        chains[i] = x[i];
}

double ops_peak_flops(void)
{
    lanes chains[CHAINS] = {0};
    int64_t begin = clock_mono_us(), now = begin, best = INT64_MAX;
    for (int i = 0; i < RUNS_MAX && (i < RUNS_MIN || now - begin < ENOUGH_US); i++) {
        int64_t since = now;
        multiply_and_add(chains);
        __asm__ volatile("" : : "g"(chains) : "memory"); // keeps the sums from being optimised away
        now = clock_mono_us();
        best = now - since < best ? now - since : best;
    }
    return 2.0 * LANES * CHAINS * TURNS * 1e6 / (double)(best > 0 ? best : 1);
}
