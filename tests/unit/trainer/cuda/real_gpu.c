// The real GPUs of this machine, for the tests of the communicator.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

struct fake_faults fake_faults;

// Does not use the driver, whose state does not survive a fork.
bool gpu_is_there(void)
{
    glob_t found;
    bool there = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0;
    globfree(&found);
    return there;
}

bool gpu_is_real(void)
{
    return true;
}

// The gang has already chosen the rank's GPU.
void gpu_begin(int rank)
{
    struct error e = {0};
    (void)rank;
    if (ops_open(OPS_FLOAT, &e))
        fprintf(stderr, "%s\n", e.text);
    must(!e.code);
}

static void be_busy(void *arg)
{
    int64_t *us = arg;
    clock_sleep_us(*us);
    free(us);
}

void gpu_compute_us(int64_t us)
{
    int64_t *time = malloc(sizeof *time);
    must(time);
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
    struct gpu_wait *w = malloc(sizeof *w);
    must(w);
    *w = (struct gpu_wait){counter, value};
    must(cudaLaunchHostFunc(cuda_stream(), wait_for_count, w) == cudaSuccess);
}
