// Opening and closing the GPU, its memory and its errors.
#include <stdio.h>

#include "trainer/ops/cuda/device/device.h"

struct cuda_device device;

enum {
    CAPABILITY_MIN = 80,     // the kernels need bf16 and TF32; cmake/Cuda.cmake compiles from here
    CAPABILITY_MIN_FP8 = 89, // of cuBLASLt
};

// The first error since ops_open() (empty: none), and the buffer for the next error.
static char first_error[CUDA_ERROR_MAX], *error_buffer = first_error;

void cuda_redirect_errors(char *elsewhere)
{
    error_buffer = elsewhere ? elsewhere : first_error;
}

static bool is_first_error(void)
{
    return error_buffer[0] == '\0';
}

void cuda_check(cudaError_t status, const char *op)
{
    if (status != cudaSuccess && is_first_error())
        snprintf(error_buffer, CUDA_ERROR_MAX, "%s: %s (%s)", op, cudaGetErrorString(status),
                 cudaGetErrorName(status));
}

void device_check_blas(cublasStatus_t status, const char *op)
{
    if (status != CUBLAS_STATUS_SUCCESS && is_first_error())
        snprintf(error_buffer, CUDA_ERROR_MAX, "%s: cuBLASLt answered %s", op,
                 cublasLtGetStatusString(status));
}

void device_check_dnn(cudnnStatus_t status, const char *op)
{
    if (status != CUDNN_STATUS_SUCCESS && is_first_error())
        snprintf(error_buffer, CUDA_ERROR_MAX, "%s: cuDNN answered %s", op,
                 cudnnGetErrorString(status));
}

cudaStream_t cuda_stream(void)
{
    return device.stream;
}

bool cuda_reals_are_bf16(void)
{
    return device.precision == OPS_BF16 || device.precision == OPS_FP8;
}

bool ops_quantises(void)
{
    return device.precision == OPS_FP8;
}

void *cuda_workspace(void)
{
    return device.workspace;
}

// --- opening -------------------------------------------------------------------------------------

// The runtime reports a missing driver as one that is too old.
static int check_driver(struct error *e)
{
    int driver = 0, runtime = 0, count = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return error_set(e, ERR_NOT_FOUND,
                         "this machine has no NVIDIA driver; install one, or run on CPU slots");
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
        return error_set(e, ERR_INTERNAL, "the CUDA runtime does not return its version");
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver)
        return error_set(
            e, ERR_VERSION,
            "the NVIDIA driver supports CUDA %d.%d, but this build needs %d.%d; update "
            "the driver, or build with an older toolkit",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
        return error_set(e, ERR_NOT_FOUND,
                         "the driver finds no GPU; check CUDA_VISIBLE_DEVICES and the output of "
                         "nvidia-smi");
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "the NVIDIA driver returns \"%s\"; nvidia-smi may show more",
                         cudaGetErrorString(status));
    return 0;
}

static int check_capability(struct error *e)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, 0);
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "cannot read the properties of the GPU: %s",
                         cudaGetErrorString(status));
    device.capability = 10 * properties.major + properties.minor;
    device.processors = properties.multiProcessorCount;
    if (device.capability < CAPABILITY_MIN)
        return error_set(e, ERR_VERSION,
                         "%s has compute capability %d.%d; Muster needs %d.%d (A100) or newer",
                         properties.name, properties.major, properties.minor, CAPABILITY_MIN / 10,
                         CAPABILITY_MIN % 10);
    if (device.precision == OPS_FP8 && device.capability < CAPABILITY_MIN_FP8)
        return error_set(e, ERR_VERSION,
                         "trainer.precision: fp8 needs a GPU of compute capability %d.%d or newer "
                         "(Ada, Hopper, Blackwell), but %s has %d.%d; use \"bf16\"",
                         CAPABILITY_MIN_FP8 / 10, CAPABILITY_MIN_FP8 % 10, properties.name,
                         properties.major, properties.minor);
    return 0;
}

static int start_device(struct error *e)
{
    cudaError_t status = cudaInitDevice(0, 0, 0);
    if (status == cudaSuccess)
        status = cudaSetDevice(0);
    if (status == cudaErrorDevicesUnavailable)
        return error_set(e, ERR_BUSY,
                         "another process uses the GPU exclusively; nvidia-smi shows which one");
    if (status == cudaSuccess)
        status = cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking);
    if (status == cudaErrorMemoryAllocation)
        return error_set(e, ERR_NO_MEMORY,
                         "the GPU has no free memory; nvidia-smi shows the processes that use it");
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "cannot start the GPU: %s", cudaGetErrorString(status));
    return 0;
}

static int open_libraries(struct error *e)
{
    cublasStatus_t blas = cublasLtCreate(&device.blas);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return error_set(e, ERR_IO, "cannot start cuBLASLt: %s", cublasLtGetStatusString(blas));
    cudnnStatus_t dnn = cudnnCreate(&device.dnn);
    if (dnn == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH)
        return error_set(e, ERR_VERSION,
                         "the libraries of cuDNN that were found have different versions; put the "
                         "folder of one version first into LD_LIBRARY_PATH");
    if (dnn == CUDNN_STATUS_SUCCESS)
        dnn = cudnnSetStream(device.dnn, device.stream);
    if (dnn != CUDNN_STATUS_SUCCESS)
        return error_set(e, ERR_IO, "cannot start cuDNN: %s", cudnnGetErrorString(dnn));
    return ops_alloc(CUDA_WORKSPACE_BYTES, &device.workspace, e);
}

int ops_open(enum ops_precision precision, struct error *e)
{
    device = (struct cuda_device){.precision = precision == OPS_AUTO ? OPS_BF16 : precision};
    first_error[0] = '\0';
    int rc = check_driver(e);
    if (!rc)
        rc = check_capability(e);
    if (!rc)
        rc = start_device(e);
    if (!rc)
        rc = open_libraries(e);
    if (rc)
        ops_close();
    return rc;
}

// Errors of the driver are ignored here, because nobody could act on them.
void ops_close(void)
{
    if (device.stream)
        cudaStreamSynchronize(device.stream);
    attention_free_plans();
    cuda_free_phases();
    cuda_free_copies();
    if (device.workspace)
        cudaFree(device.workspace);
    if (device.dnn)
        cudnnDestroy(device.dnn);
    if (device.blas)
        cublasLtDestroy(device.blas);
    if (device.stream)
        cudaStreamDestroy(device.stream);
    device = (struct cuda_device){};
}

void ops_init_thread(void)
{
}

// The libraries also choose kernels by the number of multiprocessors, so it is part of the
// fingerprint.
const char *ops_fingerprint(char *out, size_t cap)
{
    static const char *const precisions[] = {"auto", "float32", "tf32", "bf16", "fp8"};
    size_t blas = cublasLtGetVersion(), dnn = cudnnGetVersion();
    snprintf(out, cap, "cuBLASLt %zu.%zu.%zu, cuDNN %zu.%zu.%zu, sm_%d x %d, %s", blas / 10000,
             blas / 100 % 100, blas % 100, dnn / 10000, dnn / 100 % 100, dnn % 100,
             device.capability, device.processors, precisions[device.precision]);
    return out;
}

// --- memory --------------------------------------------------------------------------------------

int ops_alloc(size_t bytes, void **out, struct error *e)
{
    *out = NULL;
    cudaError_t status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaSuccess) {
        ops_zero(*out, bytes);
        return 0;
    }
    size_t unused = 0, total = 0;
    cudaGetLastError(); // the error is reported here, not by a later call
    if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&unused, &total) != cudaSuccess)
        return error_set(e, ERR_IO, "cannot allocate memory of the GPU: %s",
                         cudaGetErrorString(status));
    return error_set(e, ERR_NO_MEMORY,
                     "no memory for %zu MiB on the GPU: %zu of its %zu MiB are free; use a smaller "
                     "micro_batch_size, or find the other users with nvidia-smi",
                     bytes >> 20, unused >> 20, total >> 20);
}

size_t ops_memory(void)
{
    size_t unused = 0, total = 0;
    cuda_check(cudaMemGetInfo(&unused, &total), "ops_memory");
    return unused;
}

// cudaFree() waits until nothing uses the memory.
void ops_free(void *memory)
{
    if (memory)
        cuda_check(cudaFree(memory), "ops_free");
}

// A kernel fails after its launch. So the named op noticed the failure, and an earlier op may have
// caused it.
int ops_synchronize(struct error *e)
{
    cuda_check(cudaStreamSynchronize(device.stream), "ops_synchronize");
    cuda_finish_copies();
    if (first_error[0] == '\0')
        return 0;
    return error_set(e, ERR_IO,
                     "the GPU failed, noticed at %s; CUDA_LAUNCH_BLOCKING=1 names the op that "
                     "caused it, and dmesg shows hardware faults (Xid)",
                     first_error);
}
