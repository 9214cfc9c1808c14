// Stands in for libnvidia-ml.so.1: as many GPUs as FAKE_GPUS says, or the failure FAKE_NVML_ERROR.
#include <stdio.h>
#include <stdlib.h>

struct memory {
    unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
const char *nvmlErrorString(int code);

static int number(const char *name)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static char gpus[8];

static int index_of(const void *device)
{
    return (int)((const char *)device - gpus);
}

int nvmlInit_v2(void)
{
    return number("FAKE_NVML_ERROR");
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)number("FAKE_GPUS");
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &gpus[index];
    return (int)index == number("FAKE_BROKEN_GPU") && index > 0 ? 15 : 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    snprintf(name, length, "Fake GPU %d", index_of(device));
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
    snprintf(uuid, length, "GPU-0000-%d", index_of(device));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    (void)device;
    *memory = (struct memory){.total = 80ULL << 30};
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 15 ? "GPU is lost" : "Unknown Error";
}
