// .npy files: all files of NumPy with plain numbers are read, and others are refused.
#include "tests/unit/trainer/data_files.h"

#include <math.h>

static const char *const spec_labels = "{\"format\": \"npy\", \"inputs\": \"x\","
                                       " \"labels\": \"y\", \"validation_count\": 1}";
static const char *const spec_values = "{\"format\": \"npy\", \"inputs\": \"x\","
                                       " \"values\": \"y\", \"validation_count\": 1}";
static const char *const any = "{}";

// Like numpy.save(): pads the header with spaces to a multiple of 64.
static struct buf npy_of(int version, const char *dict, const void *data, size_t len)
{
    struct buf b;
    size_t length = version == 1 ? 2 : 4, text = strlen(dict) + 1;
    size_t header = (8 + length + text + 63) / 64 * 64;
    buf_init(&b, 1 << 20);
    buf_append(&b, "\x93NUMPY", 6);
    put_le(&b, (uint64_t)version, 2);
    put_le(&b, header - 8 - length, length);
    buf_printf(&b, "%-*s\n", (int)(header - 9 - length), dict);
    buf_append(&b, data, len);
    return b;
}

static void write_npy(const char *name, const char *dict, const void *data, size_t len)
{
    write_buf(name, npy_of(1, dict, data, len));
}

#define DICT(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

static const uint8_t bytes[12] = {0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6};
static const uint8_t labels[3] = {2, 0, 1};

static void test_bytes_as_images(void **state)
{
    (void)state;
    write_npy("x", DICT("|u1", "(3, 2, 2)"), bytes, 12);
    write_npy("y", DICT("|u1", "(3,)"), labels, 3);
    open_good(spec_labels, any);
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->kind, SAMPLE_IMAGE);
    assert_int_equal(s->height * 100 + s->width * 10 + s->channels, 221);
    assert_int_equal(s->classes, 3); // the model names no classes, so those of the labels count
    assert_int_equal(s->outputs, 0);
    assert_int_equal(dataset_count(train), 2);
    struct batch *b = batch_of_floats(s, 2);
    fetch(train, (const int64_t[]){1, 0}, 2, b);
    assert_float_equal(b->images[0], 0.8, 1e-6);
    assert_float_equal(b->images[4 + 3], 0.6, 1e-6);
    assert_int_equal(b->labels[0], 0);
    assert_int_equal(b->labels[1], 2);
    assert_null(b->values);
    batch_free(b);
    close_both();
}

static void test_channels_are_scaled_each(void **state)
{
    (void)state;
    float x[2 * 1 * 3 * 2];
    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    write_npy("x", DICT("<f4", "(2, 1, 3, 2)"), x, sizeof x);
    write_npy("y", DICT("|u1", "(2,)"), labels, 2);
    open_good("{\"format\": \"npy\", \"inputs\": \"x\", \"labels\": \"y\","
              " \"validation_count\": 1, \"mean\": [1, 3], \"deviation\": [2, 4]}",
              any);
    assert_int_equal(dataset_shape(train)->channels, 2);
    struct batch *b = batch_of_floats(dataset_shape(train), 1);
    fetch(validation, (const int64_t[]){0}, 1, b);
    for (int i = 0; i < 6; i++)
        assert_float_equal(b->images[i], (i % 2 ? (6 + i - 3) / 4.0 : (6 + i - 1) / 2.0), 1e-6);
    batch_free(b);
    close_both();
    expect_refused("{\"format\": \"npy\", \"inputs\": \"x\", \"labels\": \"y\","
                   " \"validation_count\": 1, \"mean\": [1, 3, 4]}",
                   any, ERR_INVALID,
                   "trainer.data.mean: a list of 3 numbers, but there are 2 channels; give one "
                   "number, or one for each channel");
}

static void test_features_and_values(void **state)
{
    (void)state;
    const double x[6] = {1, 2, 3, 4, 5, 6};
    const float y[6] = {0.5f, -1, 2, 3, 4, 5};
    write_npy("x", DICT("<f8", "(3, 2)"), x, sizeof x);
    write_npy("y", DICT("<f4", "(3, 2)"), y, sizeof y);
    open_good(spec_values, any);
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->kind, SAMPLE_FEATURES);
    assert_int_equal(s->height * 100 + s->width * 10 + s->channels, 112);
    assert_int_equal(s->classes, 0);
    assert_int_equal(s->outputs, 2);
    struct batch *b = batch_of_floats(s, 1);
    fetch(train, (const int64_t[]){1}, 1, b);
    assert_true(b->images[0] == 3 && b->images[1] == 4);
    assert_true(b->values[0] == 2 && b->values[1] == 3);
    assert_null(b->labels);
    batch_free(b);
    close_both();

    const int16_t one[3] = {-7, 300, 5}; // values may be integers, and [N] equals [N, 1]
    write_npy("y", DICT("<i2", "(3,)"), one, sizeof one);
    open_good(spec_values, "{\"classes\": 10}");
    assert_int_equal(dataset_shape(train)->classes, 0);
    b = batch_of_floats(dataset_shape(train), 2);
    fetch(train, (const int64_t[]){0, 1}, 2, b);
    assert_true(b->values[0] == -7 && b->values[1] == 300);
    batch_free(b);
    close_both();
}

static void test_labels_of_any_width(void **state)
{
    static const struct {
        const char *dict;
        size_t width;
    } types[] = {
        {DICT("|i1", "(3,)"), 1}, {DICT("<u2", "(3,)"), 2}, {DICT("<i2", "(3,)"), 2},
        {DICT("<u4", "(3,)"), 4}, {DICT("<i4", "(3,)"), 4}, {DICT("<u8", "(3,)"), 8},
        {DICT("<i8", "(3,)"), 8}, {DICT("|b1", "(3,)"), 1},
    };
    (void)state;
    write_npy("x", DICT("|u1", "(3, 4)"), bytes, 12);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct buf y;
        buf_init(&y, 100);
        for (int k = 0; k < 3; k++)
            put_le(&y, (uint64_t)(k == 1), types[i].width);
        write_npy("y", types[i].dict, y.data, y.len);
        buf_free(&y);
        open_good(spec_labels, any);
        struct batch *b = batch_of_floats(dataset_shape(train), 2);
        fetch(train, (const int64_t[]){0, 1}, 2, b);
        assert_int_equal(b->labels[0], 0);
        assert_int_equal(b->labels[1], 1);
        batch_free(b);
        close_both();
    }
    const int32_t below[3] = {0, -1, 0};
    write_npy("y", DICT("<i4", "(3,)"), below, sizeof below);
    expect_refused(spec_labels, "{\"classes\": 10}", ERR_CORRUPT,
                   "%/y: offset 132: label -1 of sample 1 is outside 0..9 "
                   "(trainer.model.classes)");
    const uint64_t huge[3] = {0, 0, UINT64_MAX};
    write_npy("y", DICT("<u8", "(3,)"), huge, sizeof huge);
    expect_refused(spec_labels, "{\"classes\": 10}", ERR_CORRUPT,
                   "%/y: offset 144: label 9223372036854775807 of sample 2 is outside 0..9 "
                   "(trainer.model.classes)");
}

static void test_other_headers_of_numpy(void **state)
{
    (void)state;
    write_npy("y", DICT("|u1", "(3,)"), labels, 3);
    for (int version = 1; version <= 3; version++) {
        write_buf("x", npy_of(version, "{\"shape\": (3, 4),'fortran_order':False , 'descr': '|u1'}",
                              bytes, 12));
        open_good(spec_labels, any);
        assert_int_equal(dataset_shape(train)->channels, 4);
        close_both();
    }
}

static void test_other_files(void **state)
{
    static const struct {
        const char *dict, *expected;
    } files[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 1), }",
         "%/x: holds its numbers in Fortran order; save it with numpy.ascontiguousarray()"},
        {DICT(">f4", "(3, 1)"), "%/x: holds numbers of type >f4 (big-endian); little-endian "
                                "integers, float32 and float64 are read: save it with .astype()"},
        {DICT("|O", "(3, 1)"), "%/x: holds numbers of type |O; little-endian integers, float32 "
                               "and float64 are read: save it with .astype()"},
        {DICT("<i4", "(3, 1)"), "%/x: inputs are of type <i4; uint8, float32 and float64 are read"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
         "%/x: holds records of several fields; expected plain numbers"},
        {DICT("|u1", "(12,)"), "%/x has 1 dimensions; expected [samples, features], [samples, "
                               "height, width] or [samples, height, width, channels]"},
        {DICT("|u1", "()"), "%/x: offset 129: 11 bytes more than its header promises"},
        {DICT("|u1", "(3, 1, 1, 2, 2)"), "%/x: more than 4 dimensions"},
        {DICT("|u1", "(3, 5)"), "%/x: ends at offset 140, but its header promises 143 bytes"},
        {DICT("|u1", "(3, 3)"), "%/x: offset 137: 3 bytes more than its header promises"},
        {DICT("|u1", "(2, 6)"), "%/x holds 2 samples, but %/y holds 3 labels"},
        {DICT("|u1", "(0, 6)"), "%/x: offset 128: 12 bytes more than its header promises"},
        {DICT("<f8", "(4294967296, 4294967296)"), "%/x: its header promises more than 2^63 bytes"},
        {DICT("|u1", "(99999999999999999999, 1)"),
         "%/x: offset 79: the header of a .npy file should have a number below 2^63 here"},
        {DICT("|u1", "(-3, 4)"),
         "%/x: offset 61: the header of a .npy file should have a number here"},
        {"{'descr': '|u1', 'shape': (3, 4), }",
         "%/x: its header lacks descr, fortran_order or shape"},
        {"{'descr': '|u1', 'shape': (3, 4), 'shape': (3, 4), }",
         "%/x: offset 52: the header of a .npy file should have one shape only here"},
        {"{'descr': '|u1', 'order': 'C'}", "%/x: offset 35: the header of a .npy file should "
                                           "have none but the keys descr, fortran_order and "
                                           "shape here"},
        {"[1, 2]", "%/x: offset 10: the header of a .npy file should have a brace here"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4",
         "%/x: offset 128: the header of a .npy file should have a comma here"},
        {"{'descr': '|u1", "%/x: offset 64: the header of a .npy file should have the end of a "
                           "short text here"},
    };
    (void)state;
    write_npy("y", DICT("|u1", "(3,)"), labels, 3);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_npy("x", files[i].dict, bytes, 12);
        expect_refused(spec_labels, any, ERR_CORRUPT, files[i].expected);
    }
    write_npy("x", DICT("|u1", "(3, 4)"), bytes, 12);
    write_npy("y", DICT("<f4", "(3,)"), bytes, 12);
    expect_refused(
        spec_labels, any, ERR_CORRUPT,
        "%/y holds real numbers, but labels are whole; give values to predict as `values`");
    write_npy("y", DICT("|u1", "(3, 1)"), bytes, 3);
    expect_refused(spec_labels, any, ERR_CORRUPT, "%/y has 2 dimensions; labels are [samples]");
    write_npy("y", DICT("|u1", "(1, 3, 1)"), bytes, 3);
    expect_refused(spec_values, any, ERR_CORRUPT,
                   "%/y has 3 dimensions; values are [samples] or [samples, outputs]");
}

static void test_what_is_no_npy(void **state)
{
    (void)state;
    struct buf b = npy_of(1, DICT("|u1", "(3, 4)"), bytes, 12);
    write_npy("y", DICT("|u1", "(3,)"), labels, 3);
    write_file("x", b.data, 5);
    expect_refused(spec_labels, any, ERR_CORRUPT, "%/x: ends at offset 5, within its header");
    write_file("x", b.data, 127);
    expect_refused(spec_labels, any, ERR_CORRUPT,
                   "%/x: ends at offset 127, within its header of 128 bytes");
    b.data[6] = 4;
    write_file("x", b.data, b.len);
    expect_refused(spec_labels, any, ERR_CORRUPT,
                   "%/x: offset 6: version 4 of .npy; this program reads 1 to 3");
    b.data[6] = 2;
    write_file("x", b.data, b.len); // the first letters are read as a length
    expect_refused(spec_labels, any, ERR_CORRUPT,
                   "%/x: offset 8: a header of 662372470 bytes; at most 65536 are read");
    b.data[0] = 'N';
    write_file("x", b.data, b.len);
    expect_refused(spec_labels, any, ERR_CORRUPT,
                   "%/x: offset 0: not a .npy file (\"\\x93NUMPY\" is missing)");
    buf_free(&b);
}

static void expect_bad_fetch(int64_t index, const char *expected)
{
    struct error e = {0};
    struct batch *b = batch_of_floats(dataset_shape(train), 1);
    assert_int_equal(dataset_fetch(train, &index, 1, NULL, b, &e), ERR_CORRUPT);
    char *text = xasprintf("%s/%s", folder, expected);
    assert_string_equal(e.text, text);
    free(text);
    batch_free(b);
}

static void test_what_is_no_number(void **state)
{
    (void)state;
    const float x[6] = {1, 2, 3, NAN, 5, 6}, y[3] = {1, INFINITY, 3};
    const double large[6] = {1, 2, 3, 4, 5, 1e300};
    write_npy("x", DICT("<f4", "(3, 2)"), x, sizeof x);
    write_npy("y", DICT("<f4", "(3,)"), y, sizeof y);
    open_good(spec_values, any);
    expect_bad_fetch(1, "x: offset 140: number 1 of sample 1 is nan; training needs finite "
                        "numbers");
    close_both();
    write_npy("x", DICT("<f8", "(3, 2)"), large, sizeof large);
    open_good("{\"format\": \"npy\", \"inputs\": \"x\", \"values\": \"y\","
              " \"validation_inputs\": \"x\", \"validation_values\": \"y\"}",
              any);
    assert_int_equal(dataset_count(train), 3);
    assert_int_equal(dataset_count(validation), 3);
    expect_bad_fetch(1, "y: offset 132: value 0 of sample 1 is inf; training needs finite numbers");
    expect_bad_fetch(2, "x: offset 168: number 1 of sample 2 is 1e+300; training needs finite "
                        "numbers");
    close_both();
}

static void test_parts_of_different_shape(void **state)
{
    (void)state;
    write_npy("x", DICT("|u1", "(3, 4)"), bytes, 12);
    write_npy("y", DICT("|u1", "(3,)"), labels, 3);
    write_npy("vx", DICT("|u1", "(3, 2, 2)"), bytes, 12);
    write_npy("vy", DICT("|u1", "(3, 1)"), labels, 3);
    expect_refused("{\"format\": \"npy\", \"inputs\": \"x\", \"labels\": \"y\","
                   " \"validation_inputs\": \"vx\", \"validation_labels\": \"y\"}",
                   any, ERR_CORRUPT, "%/x holds samples of 4, but %/vx of 2x2");
    expect_refused("{\"format\": \"npy\", \"inputs\": \"x\", \"values\": \"y\","
                   " \"validation_inputs\": \"x\", \"validation_values\": \"vx\"}",
                   any, ERR_CORRUPT,
                   "%/vx has 3 dimensions; values are [samples] or [samples, outputs]");
    open_good("{\"format\": \"npy\", \"inputs\": \"x\", \"values\": \"y\","
              " \"validation_inputs\": \"x\", \"validation_values\": \"vy\"}",
              any); // [N] and [N, 1] are the same
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_as_images),
        cmocka_unit_test(test_channels_are_scaled_each),
        cmocka_unit_test(test_features_and_values),
        cmocka_unit_test(test_labels_of_any_width),
        cmocka_unit_test(test_other_headers_of_numpy),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_what_is_no_npy),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_parts_of_different_shape),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
