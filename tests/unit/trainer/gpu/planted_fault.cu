// A child process whose kernel writes beyond its memory. tests/bench/gpu/check uses it to verify
// that compute-sanitizer also checks the children of a program.
#include <cuda_runtime.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64, FLOATS = 32 };

static __global__ void planted_kernel(float *x)
{
    x[threadIdx.x + 1024 * 1024] = 1;
}

static int write_behind(void)
{
    float *x = NULL;
    if (cudaMalloc((void **)&x, FLOATS * sizeof *x))
        return 1;
    planted_kernel<<<1, THREADS>>>(x);
    cudaDeviceSynchronize();
    return 0;
}

int main(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(write_behind());
    return child < 0 || waitpid(child, &status, 0) < 0;
}
