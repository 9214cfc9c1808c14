// Checks that cuDNN has deterministic kernels for many convolutions and for attention, on devices
// that are not present but described to it. A stand-in for the driver (driver.c) accepts kernels
// without running them, so kernels that cuDNN compiles itself are covered too.
#include "trainer/ops/cuda/libraries/cudnn_graph.h"

extern "C" {
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"
#include "trainer/ops/sequence.h"
}

struct gpu_kind {
    const char *name;
    int capability, processors, shared;
};

static void describe(const struct gpu_kind *k)
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

static void forget(void)
{
    attention_free_plans();
    cudnnBackendDestroyDescriptor(device.properties);
    device.properties = NULL;
}

static const struct gpu_kind kinds[] = {
    {"A100", 80, 108, 166912}, {"H100", 90, 132, 232448}, {"B200", 100, 148, 232448}};

// Checks all three passes, with a limit for the workspace.
static void check_convolution(const struct gpu_kind *k, const struct ops_conv_shape *s,
                              int64_t most)
{
    struct ops_conv *c;
    struct error e;
    if (ops_conv_new(s, true, &c, &e))
        fail_msg("%s, precision %d: %s", k->name, device.precision, e.text);
    int64_t bytes = ops_conv_scratch_floats(c) * (int64_t)sizeof(float);
    assert_true(bytes > 0);
    if (bytes > most)
        fail_msg("%s, precision %d: %lldx%lldx%lld to %lld wants %lld MiB", k->name,
                 device.precision, (long long)s->height, (long long)s->width, (long long)s->in,
                 (long long)s->out, (long long)(bytes >> 20));
    ops_conv_free(c);
}

static void check_convolutions(const struct ops_conv_shape *shapes, size_t count, int64_t most)
{
    for (const struct gpu_kind &k : kinds) {
        describe(&k);
        for (int precision = OPS_FLOAT; precision <= OPS_BF16; precision++)
            for (size_t i = 0; i < count; i++) {
                device.precision = (enum ops_precision)precision;
                check_convolution(&k, &shapes[i], most);
            }
        forget();
    }
}

static void test_convolutions(void **state)
{
    (void)state;
    static const struct ops_conv_shape shapes[] = {
        {64, 224, 224, 3, 64, 7, 2, 3, 1, false},   {64, 56, 56, 64, 64, 3, 1, 1, 1, false},
        {64, 56, 56, 64, 128, 1, 2, 0, 1, false},   {256, 28, 28, 1, 6, 5, 1, 2, 1, true},
        {64, 14, 14, 256, 256, 3, 1, 1, 256, true}, {64, 14, 14, 256, 256, 3, 2, 1, 32, false},
        {2, 5, 5, 2, 66, 3, 1, 1, 2, false},        {1, 1, 1, 1, 1, 1, 1, 0, 1, true},
    };
    check_convolutions(shapes, sizeof shapes / sizeof shapes[0], INT64_MAX);
}

// The convolutions of ResNet-50 for images of 224 by 224. Their workspace is small compared with
// the activations, which take several gigabytes.
static void test_resnet50(void **state)
{
    (void)state;
    enum { N = 64, ROOM = 512 << 20 };
    static const struct ops_conv_shape shapes[] = {
        {N, 224, 224, 3, 64, 7, 2, 3, 1, false},    {N, 56, 56, 64, 64, 1, 1, 0, 1, false},
        {N, 56, 56, 64, 64, 3, 1, 1, 1, false},     {N, 56, 56, 64, 256, 1, 1, 0, 1, false},
        {N, 56, 56, 256, 64, 1, 1, 0, 1, false},    {N, 56, 56, 256, 128, 1, 1, 0, 1, false},
        {N, 56, 56, 128, 128, 3, 2, 1, 1, false},   {N, 28, 28, 128, 512, 1, 1, 0, 1, false},
        {N, 56, 56, 256, 512, 1, 2, 0, 1, false},   {N, 28, 28, 512, 128, 1, 1, 0, 1, false},
        {N, 28, 28, 128, 128, 3, 1, 1, 1, false},   {N, 28, 28, 512, 256, 1, 1, 0, 1, false},
        {N, 28, 28, 256, 256, 3, 2, 1, 1, false},   {N, 14, 14, 256, 1024, 1, 1, 0, 1, false},
        {N, 28, 28, 512, 1024, 1, 2, 0, 1, false},  {N, 14, 14, 1024, 256, 1, 1, 0, 1, false},
        {N, 14, 14, 256, 256, 3, 1, 1, 1, false},   {N, 14, 14, 1024, 512, 1, 1, 0, 1, false},
        {N, 14, 14, 512, 512, 3, 2, 1, 1, false},   {N, 7, 7, 512, 2048, 1, 1, 0, 1, false},
        {N, 14, 14, 1024, 2048, 1, 2, 0, 1, false}, {N, 7, 7, 2048, 512, 1, 1, 0, 1, false},
        {N, 7, 7, 512, 512, 3, 1, 1, 1, false},
    };
    check_convolutions(shapes, sizeof shapes / sizeof shapes[0], ROOM);
}

// Both passes by cuDNN: the deterministic gradient is the one that stores all scores' gradients.
static void check_attention(const struct gpu_kind *k, const struct ops_attention *s)
{
    int64_t scores = s->samples * s->heads * s->context * s->context;
    int64_t bytes = ops_attention_scratch_floats(s) * (int64_t)sizeof(float);
    if (bytes < scores * (int64_t)sizeof(__nv_bfloat16))
        fail_msg("%s: attention of %lld x %lld with heads of %lld is not cuDNN's", k->name,
                 (long long)s->samples, (long long)s->context, (long long)(s->width / s->heads));
}

static void test_attention(void **state)
{
    (void)state;
    static const struct ops_attention gpt2 = {16, 1024, 12, 768};
    device.precision = OPS_BF16;
    for (const struct gpu_kind &k : kinds) {
        describe(&k);
        check_attention(&k, &gpt2);
        forget();
    }
}

// As many samples as ops_attention_samples() allows: GPT-2, 350M, 1.3B, and a context of 4,096.
static void test_attention_of_many_samples(void **state)
{
    (void)state;
    struct ops_attention shapes[] = {
        {0, 1024, 12, 768}, {0, 1024, 16, 1024}, {0, 1024, 16, 2048}, {0, 4096, 16, 1024}};
    const int64_t least[] = {128, 64, 64, 4};
    device.precision = OPS_BF16;
    describe(&kinds[1]);
    for (int i = 0; i < 4; i++) {
        shapes[i].samples = ops_attention_samples(&shapes[i]);
        assert_true(shapes[i].samples >= least[i]);
        check_attention(&kinds[1], &shapes[i]);
    }
    forget();
}

// Shapes without cuDNN kernels use our own, which need one number per query.
static void test_attention_of_ours(void **state)
{
    (void)state;
    static const struct ops_attention shapes[] = {{2, 64, 2, 20}, {2, 1, 2, 128}};
    describe(&kinds[1]);
    for (int precision = OPS_FLOAT; precision <= OPS_BF16; precision++)
        for (const struct ops_attention &s : shapes) {
            device.precision = (enum ops_precision)precision;
            assert_int_equal(ops_attention_scratch_floats(&s), s.samples * s.heads * s.context);
        }
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),      cmocka_unit_test(test_resnet50),
        cmocka_unit_test(test_attention),         cmocka_unit_test(test_attention_of_many_samples),
        cmocka_unit_test(test_attention_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
