// The real GPUs of this machine, for the tests of the communicator.
#include <glob.h>
#include <stdio.h>

#include "base/log.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
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
