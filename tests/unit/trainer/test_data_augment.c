// Augmentation: the place of each pixel, and draws that are functions of (seed, step, sample).
#include "tests/unit/trainer/data_files.h"

#include "trainer/data/augment.h"

enum { HEIGHT = 3, WIDTH = 4, CHANNELS = 2, SIZE = HEIGHT * WIDTH * CHANNELS };

static const struct sample_shape shape = {
    .kind = SAMPLE_IMAGE, .height = HEIGHT, .width = WIDTH, .channels = CHANNELS, .classes = 2};

static float pixel(int64_t y, int64_t x, int64_t c)
{
    bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
    return inside ? (float)(100 * y + 10 * x + c + 1) : 0;
}

static void expect_applied(const struct augment *a, const struct augment_draw *d)
{
    float image[SIZE];
    for (int i = 0; i < SIZE; i++)
        image[i] = pixel(i / (WIDTH * CHANNELS), i / CHANNELS % WIDTH, i % CHANNELS);
    augment_apply(a, &shape, d, image);
    for (int64_t y = 0; y < HEIGHT; y++)
        for (int64_t x = 0; x < WIDTH; x++)
            for (int64_t c = 0; c < CHANNELS; c++) {
                int64_t from = d->flip ? WIDTH - 1 - x : x;
                int64_t top = d->row - a->cutout / 2, left = d->column - a->cutout / 2;
                bool cut = y >= top && y < top + a->cutout && x >= left && x < left + a->cutout;
                float expected = cut ? 0 : pixel(y - d->down, from - d->right, c);
                assert_true(image[(y * WIDTH + x) * CHANNELS + c] == expected);
            }
}

static void test_where_pixels_go(void **state)
{
    (void)state;
    for (int flip = 0; flip < 2; flip++)
        for (int64_t down = -HEIGHT; down <= HEIGHT; down++)
            for (int64_t right = -WIDTH - 1; right <= WIDTH + 1; right++) {
                const struct augment_draw d = {.flip = flip, .down = down, .right = right};
                expect_applied(&(struct augment){.flip = true, .crop = 5}, &d);
            }
    for (int64_t side = 1; side < 9; side++)
        for (int64_t row = 0; row < HEIGHT; row++)
            for (int64_t column = 0; column < WIDTH; column++) {
                const struct augment_draw d = {.flip = true, .row = row, .column = column};
                expect_applied(&(struct augment){.cutout = side}, &d);
            }
}

static bool is_same_draw(const struct augment_draw *a, const struct augment_draw *b)
{
    return a->flip == b->flip && a->down == b->down && a->right == b->right && a->row == b->row &&
           a->column == b->column;
}

static void test_draws_are_keyed(void **state)
{
    enum { SAMPLES = 20000 };
    const struct augment a = {.flip = true, .crop = 2, .cutout = 1};
    const struct draw_key key = {.seed = 7, .step = 3}, other_seed = {8, 3}, other_step = {7, 4};
    int flips = 0, down[5] = {0}, right[5] = {0}, place[HEIGHT * WIDTH] = {0};
    int as_seed = 0, as_step = 0, as_next = 0;
    (void)state;
    for (int64_t i = SAMPLES - 1; i >= 0; i--) {
        struct augment_draw d = augment_draw(&a, &shape, &key, i);
        struct augment_draw again = augment_draw(&a, &shape, &key, i);
        struct augment_draw seed = augment_draw(&a, &shape, &other_seed, i);
        struct augment_draw step = augment_draw(&a, &shape, &other_step, i);
        struct augment_draw next = augment_draw(&a, &shape, &key, i + 1);
        assert_true(is_same_draw(&d, &again));
        as_seed += is_same_draw(&d, &seed);
        as_step += is_same_draw(&d, &step);
        as_next += is_same_draw(&d, &next);
        flips += d.flip;
        down[d.down + 2]++;
        right[d.right + 2]++;
        place[d.row * WIDTH + d.column]++;
    }
    // One in 2 * 5 * 5 * 12 = 600 is equal by chance; the limits are five standard deviations.
    assert_in_range(as_seed, 5, 62);
    assert_in_range(as_step, 5, 62);
    assert_in_range(as_next, 5, 62);
    assert_in_range(flips, 9646, 10354);
    for (int i = 0; i < 5; i++) {
        assert_in_range(down[i], 3717, 4283);
        assert_in_range(right[i], 3717, 4283);
    }
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        assert_in_range(place[i], 1471, 1863);
}

static void write_images(void)
{
    struct buf x, y;
    buf_init(&x, 4096);
    buf_init(&y, 4096);
    buf_append(&x, "\0\0\x08\x03\0\0\0\x05\0\0\0\x04\0\0\0\x04", 16);
    buf_append(&y, "\0\0\x08\x01\0\0\0\x05\0\0\0\0\0", 13);
    for (int i = 0; i < 5 * 16; i++)
        buf_append(&x, &(uint8_t){(uint8_t)(i + 100)}, 1);
    write_buf("x", x);
    write_buf("y", y);
}

#define SPEC(augment)                                                                              \
    "{\"format\": \"idx\", \"images\": \"x\", \"labels\": \"y\", \"validation_count\": 1"          \
    ", \"augment\": " augment "}"

static void test_training_parts_with_a_key_only(void **state)
{
    struct error e;
    const int64_t indices[] = {3, 1, 3}, last = 0;
    const struct draw_key key = {.seed = 1, .step = 5};
    (void)state;
    write_images();
    open_good(SPEC("{\"flip\": true, \"crop\": 3, \"cutout\": 2}"), "{}");
    struct batch *plain = batch_of_floats(dataset_shape(train), 3);
    struct batch *changed = batch_of_floats(dataset_shape(train), 3);
    fetch(train, indices, 3, plain);
    assert_int_equal(dataset_fetch(train, indices, 3, &key, changed, &e), 0);
    for (int i = 0; i < 3; i++) { // as augment_apply() does for the number of the sample
        const struct augment a = {.flip = true, .crop = 3, .cutout = 2};
        struct augment_draw d = augment_draw(&a, dataset_shape(train), &key, indices[i]);
        augment_apply(&a, dataset_shape(train), &d, plain->images + 16 * i);
    }
    assert_memory_equal(plain->images, changed->images, 3 * 16 * sizeof(float));
    fetch(validation, &last, 1, plain);
    assert_int_equal(dataset_fetch(validation, &last, 1, &key, changed, &e), 0);
    assert_memory_equal(plain->images, changed->images, 16 * sizeof(float));
    batch_free(plain);
    batch_free(changed);
    close_both();
    expect_refused(SPEC("{\"crop\": 4}"), "{}", ERR_INVALID,
                   "trainer.data.augment.crop: 4 pixels move images of 4x4 out of view");
}

static void test_bytes_become_the_same_numbers(void **state)
{
    static const char *const augmentations[] = {"{}", "{\"flip\": true}", "{\"crop\": 3}",
                                                "{\"cutout\": 3}",
                                                "{\"flip\": true, \"crop\": 2, \"cutout\": 2}"};
    char spec[512];
    (void)state;
    write_images();
    for (size_t i = 0; i < sizeof augmentations / sizeof *augmentations; i++) {
        snprintf(spec, sizeof spec, SPEC("%s"), augmentations[i]);
        open_good(spec, "{}");
        expect_same_numbers(train, NULL);
        expect_same_numbers(validation, NULL);
        for (int64_t step = 0; step < 50; step++)
            expect_same_numbers(train, &(struct draw_key){.seed = 4, .step = step});
        close_both();
    }
}

static void test_numbers_that_must_be_floats(void **state)
{
    (void)state;
    write_images();
    open_good(
        "{\"format\": \"idx\", \"images\": \"x\", \"labels\": \"y\", \"validation_count\": 1, "
        "\"deviation\": 1e-60}",
        "{}"); // a fetch names the number that becomes infinite
    assert_false(dataset_shape(train)->pixels);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_pixels_go),
        cmocka_unit_test(test_draws_are_keyed),
        cmocka_unit_test(test_training_parts_with_a_key_only),
        cmocka_unit_test(test_bytes_become_the_same_numbers),
        cmocka_unit_test(test_numbers_that_must_be_floats),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
