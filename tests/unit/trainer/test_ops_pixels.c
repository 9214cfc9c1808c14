// Pixels that become reals on the device, compared bit by bit with the sentence of image.h.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"

static float expected_at(const struct ops_pixels *p, int64_t sample, int64_t row, int64_t column,
                         int64_t channel)
{
    const struct ops_pixel_change *c = &p->changes[sample];
    if (row >= c->top && row < c->bottom && column >= c->left && column < c->right_end)
        return 0;
    int64_t x = (c->flip ? p->width - 1 - column : column) - c->right, y = row - c->down;
    if (x < 0 || x >= p->width || y < 0 || y >= p->height)
        return 0;
    uint8_t byte = p->bytes[((sample * p->height + y) * p->width + x) * p->channels + channel];
    volatile float difference = (float)byte - p->mean[channel]; // is a float, not wider
    return difference * p->factor[channel];
}

static void check_pixels(struct arithmetic *a, int64_t samples, const struct ops_pixels *p)
{
    int64_t row = p->width * p->channels, n = samples * p->height * row;
    float *y = floats_tight(n), *expected = floats_new(a, n);
    for (int64_t i = 0; i < n; i++)
        expected[i] = expected_at(p, i / row / p->height, i / row % p->height,
                                  i % row / p->channels, i % p->channels);
    ops_upload_pixels(samples, p, (real *)y);
    assert_int_equal(ops_synchronize(NULL), 0);
    expect_same_bits(y, expected, n, "reals of pixels");
    floats_tight_free(y);
}

static struct ops_pixels pixels_random(struct arithmetic *a, int64_t samples, int64_t height,
                                       int64_t width, int64_t channels)
{
    int64_t n = samples * height * width * channels;
    uint8_t *bytes = aligned_block(a, (size_t)n);
    float *scaling = floats_random(a, 2 * channels, 1);
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)between(a, 0, 255);
    for (int64_t c = 0; c < channels; c++) {
        scaling[c] = 127 + 60 * scaling[c];
        scaling[channels + c] = 0.01f + 0.005f * scaling[channels + c];
    }
    struct ops_pixel_change *changes = aligned_block(a, (size_t)samples * sizeof *changes);
    for (int64_t i = 0; i < samples; i++)
        changes[i] = (struct ops_pixel_change){0};
    return (struct ops_pixels){height,  width,   channels,          bytes,
                               changes, scaling, scaling + channels};
}

static void change_randomly(struct arithmetic *a, const struct ops_pixels *p,
                            struct ops_pixel_change *c)
{
    *c = (struct ops_pixel_change){
        .down = (int32_t)between(a, -p->height - 1, p->height + 1),
        .right = (int32_t)between(a, -p->width - 1, p->width + 1),
        .flip = (int32_t)between(a, 0, 1),
        .top = (int32_t)between(a, 0, p->height),
        .left = (int32_t)between(a, 0, p->width),
    };
    c->bottom = (int32_t)between(a, c->top, p->height);
    c->right_end = (int32_t)between(a, c->left, p->width);
}

static void test_unchanged_pixels(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{1, 1, 1, 1},   {3, 1, 7, 1},  {2, 5, 1, 3}, {1, 28, 28, 1},
                                 {4, 32, 32, 3}, {2, 3, 17, 5}, {9, 1, 1, 33}};
    struct arithmetic a = arithmetic_begin(1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        struct ops_pixels p = pixels_random(&a, s[0], s[1], s[2], s[3]);
        check_pixels(&a, s[0], &p);
    }
    arithmetic_end(&a);
}

static void test_every_byte(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(2);
    struct ops_pixels p = pixels_random(&a, 1, 16, 16, 1);
    for (int i = 0; i < 256; i++)
        p.bytes[i] = (uint8_t)i;
    check_pixels(&a, 1, &p);
    arithmetic_end(&a);
}

static void test_changed_pixels(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        int64_t samples = between(&a, 1, 6);
        struct ops_pixels p =
            pixels_random(&a, samples, between(&a, 1, 12), between(&a, 1, 40), between(&a, 1, 4));
        for (int64_t i = 0; i < samples; i++)
            change_randomly(&a, &p, &p.changes[i]);
        check_pixels(&a, samples, &p);
        arithmetic_end(&a);
    }
}

// More than a GPU's workspace of 32 MiB takes at once, in parts that do not divide the samples.
static void test_more_than_one_part(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(3);
    struct ops_pixels p = pixels_random(&a, 7, 2048, 1024, 3);
    for (int64_t i = 0; i < 7; i++)
        change_randomly(&a, &p, &p.changes[i]);
    check_pixels(&a, 7, &p);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged_pixels),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_changed_pixels),
        cmocka_unit_test(test_more_than_one_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
