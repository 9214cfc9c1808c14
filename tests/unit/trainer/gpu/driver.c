// A stand-in for NVIDIA's driver that accepts the kernels which cuDNN compiles for GPUs that are
// only described to it. All other calls report that there is no driver.
enum { SUCCESS = 0, STUB_LIBRARY = 34, VERSION = 13000 };

#define ANSWER(answer, name)                                                                       \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return answer;                                                                             \
    }

static int kernel; // any, of any library

int cuLibraryLoadData(void **library);
int cuLibraryGetKernel(void **out);
int cuDriverGetVersion(int *out);
int cuGetErrorString(int error, const char **out);
int cuGetErrorName(int error, const char **out);

int cuLibraryLoadData(void **library)
{
    *library = &kernel;
    return SUCCESS;
}

int cuLibraryGetKernel(void **out)
{
    *out = &kernel;
    return SUCCESS;
}

int cuDriverGetVersion(int *out)
{
    *out = VERSION;
    return SUCCESS;
}

int cuGetErrorString(int error, const char **out)
{
    (void)error;
    *out = "this is no driver";
    return SUCCESS;
}

int cuGetErrorName(int error, const char **out)
{
    return cuGetErrorString(error, out);
}

ANSWER(SUCCESS, cuInit)
ANSWER(SUCCESS, cuKernelSetAttribute)
ANSWER(SUCCESS, cuLibraryUnload)
// Functions that cuDNN looks up but does not use here.
ANSWER(STUB_LIBRARY, cuCtxGetCurrent)
ANSWER(STUB_LIBRARY, cuCtxGetDevice)
ANSWER(STUB_LIBRARY, cuCtxGetLimit)
ANSWER(STUB_LIBRARY, cuCtxPopCurrent)
ANSWER(STUB_LIBRARY, cuCtxPushCurrent)
ANSWER(STUB_LIBRARY, cuDeviceGet)
ANSWER(STUB_LIBRARY, cuDeviceGetAttribute)
ANSWER(STUB_LIBRARY, cuDeviceGetCount)
ANSWER(STUB_LIBRARY, cuDevicePrimaryCtxRelease)
ANSWER(STUB_LIBRARY, cuDevicePrimaryCtxReset)
ANSWER(STUB_LIBRARY, cuDevicePrimaryCtxRetain)
ANSWER(STUB_LIBRARY, cuFuncGetAttribute)
ANSWER(STUB_LIBRARY, cuFuncSetAttribute)
ANSWER(STUB_LIBRARY, cuGetExportTable)
ANSWER(STUB_LIBRARY, cuKernelGetAttribute)
ANSWER(STUB_LIBRARY, cuLaunchCooperativeKernel)
ANSWER(STUB_LIBRARY, cuLaunchKernel)
ANSWER(STUB_LIBRARY, cuLaunchKernelEx)
ANSWER(STUB_LIBRARY, cuLibraryLoadFromFile)
ANSWER(STUB_LIBRARY, cuLinkAddData)
ANSWER(STUB_LIBRARY, cuLinkAddData_v2)
ANSWER(STUB_LIBRARY, cuLinkAddFile_v2)
ANSWER(STUB_LIBRARY, cuLinkComplete)
ANSWER(STUB_LIBRARY, cuLinkCreate)
ANSWER(STUB_LIBRARY, cuLinkCreate_v2)
ANSWER(STUB_LIBRARY, cuLinkDestroy)
ANSWER(STUB_LIBRARY, cuMemcpyDtoH_v2)
ANSWER(STUB_LIBRARY, cuModuleGetFunction)
ANSWER(STUB_LIBRARY, cuModuleGetGlobal_v2)
ANSWER(STUB_LIBRARY, cuModuleLoadData)
ANSWER(STUB_LIBRARY, cuModuleLoadDataEx)
ANSWER(STUB_LIBRARY, cuModuleLoadFatBinary)
ANSWER(STUB_LIBRARY, cuModuleUnload)
ANSWER(STUB_LIBRARY, cuOccupancyMaxActiveBlocksPerMultiprocessor)
ANSWER(STUB_LIBRARY, cuOccupancyMaxPotentialClusterSize)
ANSWER(STUB_LIBRARY, cuStreamGetCtx)
ANSWER(STUB_LIBRARY, cuStreamSynchronize)
ANSWER(STUB_LIBRARY, cuTensorMapEncodeTiled)
