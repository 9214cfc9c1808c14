// The checks of arithmetic, with tensors in memory that the GPU can read.
#include "tests/unit/trainer/gpu/host_memory.h"

#include "tests/unit/trainer/arithmetic.c"
