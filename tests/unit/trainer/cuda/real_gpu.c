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

// Without the driver: what it has opened does not live through a fork.
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

// Which GPU is the rank's has been seen to by the gang.
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
