// Whether cuDNN has kernels that do not vary for all sorts of convolutions, on devices that are not
// here but described to it. Those that it would compile for itself need a driver: without one they
// are not counted.
#include "trainer/ops/cuda/graph.h"

extern "C" {
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"
}

struct kind {
    const char *name;
    int capability, processors, shared;
};

static void describe(const struct kind *k)
{
    char text[1024];
    int n = snprintf(
        text, sizeof text,
        "{\"version\":1,\"cudaDeviceId\":0,\"deviceName\":\"%s\",\"deviceVer\":%d,"
        "\"driverVer\":13000,\"totalGlobalMem\":42949672960,"
        "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
        "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
        "\"supportCoopLaunch\":1,\"smClockRateKHz\":1400000,\"memClockRateKHz\":1500000,"
        "\"l2CacheSize\":41943040}",
        k->name, 10 * k->capability, k->processors, k->shared);
    cudnnBackendDescriptor_t d = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d), 0);
    assert_int_equal(cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, n, text),
                     0);
    assert_int_equal(cudnnBackendFinalize(d), 0);
    device.capability = k->capability;
    device.properties = d;
}

static void check_kind(const struct kind *k)
{
    static const struct ops_conv_shape shapes[] = {
        {64, 224, 224, 3, 64, 7, 2, 3, 1, false},   {64, 56, 56, 64, 64, 3, 1, 1, 1, false},
        {64, 56, 56, 64, 128, 1, 2, 0, 1, false},   {256, 28, 28, 1, 6, 5, 1, 2, 1, true},
        {64, 14, 14, 256, 256, 3, 1, 1, 256, true}, {64, 14, 14, 256, 256, 3, 2, 1, 32, false},
        {2, 5, 5, 2, 66, 3, 1, 1, 2, false},        {1, 1, 1, 1, 1, 1, 1, 0, 1, true},
    };
    describe(k);
    for (int precision = OPS_FLOAT; precision <= OPS_BF16; precision++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct ops_conv *c;
            struct error e;
            device.precision = (enum ops_precision)precision;
            if (ops_conv_new(&shapes[i], true, &c, &e))
                fail_msg("%s, precision %d: %s", k->name, precision, e.text);
            assert_true(ops_conv_scratch(c) > 0);
            ops_conv_free(c);
        }
    cudnnBackendDestroyDescriptor(device.properties);
    device.properties = NULL;
}

static void test_convolutions(void **state)
{
    (void)state;
    static const struct kind kinds[] = {
        {"A100", 80, 108, 166912}, {"H100", 90, 132, 232448}, {"B200", 100, 148, 232448}};
    for (const struct kind &k : kinds)
        check_kind(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
