// The real GPUs of this machine, for the tests of the communicator. Where ranks are more than GPUs
// they share them: NCCL lets those that seem to be on several machines, and connects them by TCP.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "trainer/ops/cuda/stream.h"
#include "trainer/ops/device.h"

struct fake_faults fake_faults;

// Without the driver: what it has opened does not live through a fork.
static int count_gpus(void)
{
    glob_t found;
    int count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    globfree(&found);
    return count;
}

bool gpu_is_there(void)
{
    return count_gpus() > 0;
}

bool gpu_is_real(void)
{
    return true;
}

void gpu_begin(int rank)
{
    struct error e = {0};
    char text[32];
    int count = count_gpus();
    snprintf(text, sizeof text, "%d", rank % count);
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    snprintf(text, sizeof text, "rank-%d", rank / count);
    setenv("NCCL_HOSTID", text, 1);
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
