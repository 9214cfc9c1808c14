// The checks of arithmetic, whose tensors the GPU can read.
#include "tests/unit/trainer/gpu/host_memory.h"

#include "tests/unit/trainer/arithmetic.c"
