// Opening the GPU, its memory, copies on its stream, and its errors.
#include <stdio.h>

#include "trainer/ops/cuda/device/device.h"

struct device device;

enum { CAPABILITY_MIN = 80 }; // the oldest that our kernels are compiled for; it has bf16 and TF32

// The first error since ops_open(), empty: none; and where the next would be written.
static char trouble[CUDA_TROUBLE_MAX], *written = trouble;

void cuda_trouble_goes_to(char *elsewhere)
{
    written = elsewhere ? elsewhere : trouble;
}

static bool is_first_trouble(void)
{
    return written[0] == '\0';
}

void cuda_check(cudaError_t status, const char *op)
{
    if (status != cudaSuccess && is_first_trouble())
        snprintf(written, CUDA_TROUBLE_MAX, "%s: %s (%s)", op, cudaGetErrorString(status),
                 cudaGetErrorName(status));
}

void device_check_blas(cublasStatus_t status, const char *op)
{
    if (status != CUBLAS_STATUS_SUCCESS && is_first_trouble())
        snprintf(written, CUDA_TROUBLE_MAX, "%s: cuBLASLt answered %s", op,
                 cublasLtGetStatusString(status));
}

void device_check_dnn(cudnnStatus_t status, const char *op)
{
    if (status != CUDNN_STATUS_SUCCESS && is_first_trouble())
        snprintf(written, CUDA_TROUBLE_MAX, "%s: cuDNN answered %s", op,
                 cudnnGetErrorString(status));
}

cudaStream_t cuda_stream(void)
{
    return device.stream;
}

bool cuda_reals_are_bf16(void)
{
    return device.precision == OPS_BF16;
}

void *cuda_workspace(void)
{
    return device.workspace;
}

// --- opening

// A driver that is not there looks to the runtime like one that is too old.
static int check_driver(struct error *e)
{
    int driver = 0, runtime = 0, count = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return error_set(e, ERR_NOT_FOUND,
                         "this machine has no NVIDIA driver; install one, or run on CPU slots");
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
        return error_set(e, ERR_INTERNAL, "the CUDA runtime does not tell its version");
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver)
        return error_set(e, ERR_VERSION,
                         "the NVIDIA driver knows CUDA %d.%d, but this build needs %d.%d; update "
                         "the driver, or build with an older toolkit",
                         driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
        return error_set(e, ERR_NOT_FOUND,
                         "the driver finds no GPU; does CUDA_VISIBLE_DEVICES hide it, and does "
                         "nvidia-smi list it?");
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "the NVIDIA driver answers \"%s\"; nvidia-smi may say more",
                         cudaGetErrorString(status));
    return 0;
}

static int check_capability(struct error *e)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, 0);
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "the GPU does not tell what it is: %s",
                         cudaGetErrorString(status));
    device.capability = 10 * properties.major + properties.minor;
    device.processors = properties.multiProcessorCount;
    if (device.capability < CAPABILITY_MIN)
        return error_set(e, ERR_VERSION,
                         "%s has compute capability %d.%d; Muster needs %d.%d (A100) or newer",
                         properties.name, properties.major, properties.minor, CAPABILITY_MIN / 10,
                         CAPABILITY_MIN % 10);
    return 0;
}

static int take_device(struct error *e)
{
    cudaError_t status = cudaInitDevice(0, 0, 0);
    if (status == cudaSuccess)
        status = cudaSetDevice(0);
    if (status == cudaErrorDevicesUnavailable)
        return error_set(e, ERR_BUSY,
                         "the GPU belongs to another process alone; nvidia-smi shows whose it is");
    if (status == cudaSuccess)
        status = cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking);
    if (status == cudaErrorMemoryAllocation)
        return error_set(e, ERR_NO_MEMORY,
                         "the GPU has no memory left to begin with; nvidia-smi shows who has it");
    if (status != cudaSuccess)
        return error_set(e, ERR_IO, "the GPU does not start: %s", cudaGetErrorString(status));
    return 0;
}

static int open_libraries(struct error *e)
{
    cublasStatus_t blas = cublasLtCreate(&device.blas);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return error_set(e, ERR_IO, "cuBLASLt does not start: %s", cublasLtGetStatusString(blas));
    cudnnStatus_t dnn = cudnnCreate(&device.dnn);
    if (dnn == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH)
        return error_set(e, ERR_VERSION,
                         "the parts of cuDNN that were found are of several versions; put the "
                         "folder of one version first into LD_LIBRARY_PATH");
    if (dnn == CUDNN_STATUS_SUCCESS)
        dnn = cudnnSetStream(device.dnn, device.stream);
    if (dnn != CUDNN_STATUS_SUCCESS)
        return error_set(e, ERR_IO, "cuDNN does not start: %s", cudnnGetErrorString(dnn));
    return ops_alloc(CUDA_WORKSPACE_BYTES, &device.workspace, e);
}

int ops_open(enum ops_precision precision, struct error *e)
{
    device = (struct device){.precision = precision == OPS_AUTO ? OPS_BF16 : precision};
    trouble[0] = '\0';
    int rc = check_driver(e);
    if (!rc)
        rc = check_capability(e);
    if (!rc)
        rc = take_device(e);
    if (!rc)
        rc = open_libraries(e);
    if (rc)
        ops_close();
    return rc;
}

// What the driver says here nobody could act on.
void ops_close(void)
{
    if (device.stream)
        cudaStreamSynchronize(device.stream);
    attention_forget_plans();
    cuda_forget_phases();
    cuda_forget_copies();
    if (device.workspace)
        cudaFree(device.workspace);
    if (device.dnn)
        cudnnDestroy(device.dnn);
    if (device.blas)
        cublasLtDestroy(device.blas);
    if (device.stream)
        cudaStreamDestroy(device.stream);
    device = (struct device){};
}

void ops_init_thread(void)
{
}

// The libraries choose kernels by the number of multiprocessors, too: it is part of the device's
// kind.
const char *ops_fingerprint(char *out, size_t cap)
{
    static const char *const precisions[] = {"auto", "float32", "tf32", "bf16"};
    size_t blas = cublasLtGetVersion(), dnn = cudnnGetVersion();
    snprintf(out, cap, "cuBLASLt %zu.%zu.%zu, cuDNN %zu.%zu.%zu, sm_%d x %d, %s", blas / 10000,
             blas / 100 % 100, blas % 100, dnn / 10000, dnn / 100 % 100, dnn % 100,
             device.capability, device.processors, precisions[device.precision]);
    return out;
}

// --- memory

int ops_alloc(size_t bytes, void **out, struct error *e)
{
    *out = NULL;
    cudaError_t status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaSuccess) {
        ops_zero(*out, bytes);
        return 0;
    }
    size_t unused = 0, total = 0;
    cudaGetLastError(); // that this failed is told here, and by no later call
    if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&unused, &total) != cudaSuccess)
        return error_set(e, ERR_IO, "the GPU gave no memory: %s", cudaGetErrorString(status));
    return error_set(e, ERR_NO_MEMORY,
                     "no room for %zu MiB on the GPU: %zu of its %zu MiB are free; take a smaller "
                     "micro_batch_size, or see with nvidia-smi who else uses it",
                     bytes >> 20, unused >> 20, total >> 20);
}

// Waits, as cudaFree() does, until nothing uses the memory.
void ops_free(void *memory)
{
    if (memory)
        cuda_check(cudaFree(memory), "ops_free");
}

// A kernel that fails does so after its launch, so the op that is named noticed it, and one before
// may have done it.
int ops_synchronize(struct error *e)
{
    cuda_check(cudaStreamSynchronize(device.stream), "ops_synchronize");
    cuda_end_copies();
    if (trouble[0] == '\0')
        return 0;
    return error_set(e, ERR_IO,
                     "the GPU failed, noticed at %s; with CUDA_LAUNCH_BLOCKING=1 the op that did "
                     "it is named, and dmesg tells of faults of the hardware (Xid)",
                     trouble);
}
