// Work on the compute stream that tests give to a GPU, a fake or a real one.
#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/cuda/device/stream.h"

struct gpu_wait {
    const atomic_int *counter;
    int value;
};

static void be_busy(void *arg)
{
    int64_t *us = arg;
    clock_sleep_us(*us);
    free(us);
}

void gpu_compute_us(int64_t us)
{
    int64_t *time = xcalloc(1, sizeof *time);
    *time = us;
    must(cudaLaunchHostFunc(cuda_stream(), be_busy, time) == cudaSuccess);
}

static void wait_for_count(void *arg)
{
    struct gpu_wait *w = arg;
    while (atomic_load(w->counter) < w->value)
        clock_sleep_us(1000);
    free(w);
}

void gpu_wait_for(const atomic_int *counter, int value)
{
    struct gpu_wait *w = xcalloc(1, sizeof *w);
    *w = (struct gpu_wait){counter, value};
    must(cudaLaunchHostFunc(cuda_stream(), wait_for_count, w) == cudaSuccess);
}
