// Data sets: the samples of each format, and errors that name the file and offset of a fault. Each
// test works in its working folder.
#include "tests/unit/trainer/data_files.h"

#include <sys/stat.h>
#include <zlib.h>

#include "base/rng.h"

static void write_gzip(const char *name, const void *data, size_t len)
{
    char *path = path_join(folder, name);
    gzFile gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, data, (unsigned)len), (int)len);
    assert_int_equal(gzclose(gz), Z_OK);
    free(path);
}

static void cut_file(const char *name, off_t size)
{
    char *path = path_join(folder, name);
    assert_int_equal(truncate(path, size), 0);
    free(path);
}

static void append_be32(struct buf *b, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                              (uint8_t)v};
    buf_append(b, bytes, 4);
}

// n images of 2x3: pixel p of image i is (10 i + p) mod 256. Labels are i mod 10.
static struct buf images(uint32_t n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    append_be32(&b, 0x803);
    append_be32(&b, n);
    append_be32(&b, 2);
    append_be32(&b, 3);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t p = 0; p < 6; p++)
            buf_append(&b, &(uint8_t){(uint8_t)(10 * i + p)}, 1);
    return b;
}

static struct buf labels(uint32_t n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    append_be32(&b, 0x801);
    append_be32(&b, n);
    for (uint32_t i = 0; i < n; i++)
        buf_append(&b, &(uint8_t){(uint8_t)(i % 10)}, 1);
    return b;
}

// --- idx -----------------------------------------------------------------------------------------

static const char *const idx = "{\"format\": \"idx\", \"images\": \"images\","
                               " \"labels\": \"labels\", \"validation_count\": 4,"
                               " \"mean\": 0.5, \"deviation\": 0.25}";
static const char *const classes = "{\"family\": \"mlp\", \"classes\": 10}";

static void test_images(void **state)
{
    (void)state;
    write_buf("images", images(14));
    write_buf("labels", labels(14));
    open_good(idx, classes);
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->kind, SAMPLE_IMAGE);
    assert_int_equal(s->height, 2);
    assert_int_equal(s->width, 3);
    assert_int_equal(s->channels, 1);
    assert_int_equal(s->classes, 10);
    assert_int_equal(dataset_count(train), 10);
    assert_int_equal(dataset_count(validation), 4);

    struct batch *b = batch_of_floats(s, 3);
    assert_true((uintptr_t)b->images % 64 == 0);
    fetch(train, (const int64_t[]){7, 0}, 2, b);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->samples[0], 7);
    assert_int_equal(b->labels[0], 7);
    assert_int_equal(b->labels[1], 0);
    for (int p = 0; p < 6; p++) {
        assert_float_equal(b->images[p], (((70 + p) / 255.0 - 0.5) / 0.25), 1e-6);
        assert_float_equal(b->images[6 + p], ((p / 255.0 - 0.5) / 0.25), 1e-6);
    }
    dataset_close(train); // the validation part stays open
    fetch(validation, (const int64_t[]){3}, 1, b);
    assert_int_equal(b->labels[0], 13 % 10);
    assert_float_equal(b->images[5], ((135 / 255.0 - 0.5) / 0.25), 1e-6);
    batch_free(b);
    dataset_close(validation);
}

static void test_gzip_and_own_validation(void **state)
{
    (void)state;
    struct buf x = images(20000), y = labels(20000); // more than one chunk of decompression
    write_gzip("i.gz", x.data, x.len);
    write_gzip("odd name", y.data, y.len);
    buf_free(&x);
    buf_free(&y);
    write_buf("vi", images(3));
    write_buf("vl", labels(3));
    open_good("{\"format\": \"idx\", \"images\": \"i.gz\", \"labels\": \"odd name\","
              " \"validation_images\": \"vi\", \"validation_labels\": \"vl\"}",
              classes);
    assert_int_equal(dataset_count(train), 20000);
    assert_int_equal(dataset_count(validation), 3);
    struct batch *b = batch_of_floats(dataset_shape(train), 1);
    fetch(train, (const int64_t[]){19999}, 1, b);
    assert_int_equal(b->labels[0], 9);
    double pixel = (double)(uint8_t)(199990 + 4) / 255.0;
    assert_float_equal(b->images[4], ((pixel - 0.1307) / 0.3081), 1e-6);
    batch_free(b);
    close_both();
}

static void test_absolute_paths(void **state)
{
    (void)state;
    write_buf("images", images(14));
    write_buf("labels", labels(14));
    char *text = xasprintf("{\"format\": \"idx\", \"images\": \"%s/images\", \"labels\":"
                           " \"%s/labels\", \"validation_count\": 1}",
                           folder, folder);
    open_good(text, classes);
    assert_int_equal(dataset_count(train), 13);
    close_both();
    free(text);
}

// Writes both files intact, then damages one.
static void damage_file(const char *name, size_t at, uint8_t value)
{
    struct buf x = images(14), y = labels(14);
    struct buf *b = strcmp(name, "images") == 0 ? &x : &y;
    b->data[at] = (char)value;
    write_buf("images", x);
    write_buf("labels", y);
}

static void test_harmed_idx(void **state)
{
    (void)state;
    damage_file("images", 3, 1);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images: offset 0: expected 0x00000803 (IDX, unsigned bytes, 3 dimensions), "
                   "found 0x00000801");
    damage_file("labels", 2, 13);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/labels: offset 0: expected 0x00000801 (IDX, unsigned bytes, 1 dimensions), "
                   "found 0x00000d01");
    damage_file("images", 15, 0);
    expect_refused(idx, classes, ERR_CORRUPT, "%/images: offset 12: dimension 2 is 0");
    damage_file("images", 8, 1);
    expect_refused(idx, classes, ERR_CORRUPT, "%/images: offset 8: dimension 1 is 16777218");
    damage_file("images", 7, 15);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images: ends at offset 100, but its header promises 106 bytes");
    damage_file("images", 7, 13);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images: offset 94: 6 bytes more than its header promises");
    damage_file("labels", 8 + 11, 10);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/labels: offset 19: label 10 of sample 11 is outside 0..9 "
                   "(trainer.model.classes)");
    damage_file("labels", 8, 0);
    cut_file("images", 9);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images: ends at offset 9, within its header of 16 bytes");
    cut_file("images", 0);
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images: ends at offset 0, within its header of 16 bytes");
    write_buf("images", images(13));
    expect_refused(idx, classes, ERR_CORRUPT,
                   "%/images holds 13 samples, but %/labels holds 14 labels");
}

static void test_harmed_gzip(void **state)
{
    (void)state;
    struct buf x = images(5000);
    struct rng r;
    rng_seed(&r, 1, 1);
    for (size_t i = 16; i < x.len; i++)
        x.data[i] = (char)rng_u32(&r); // random bytes do not compress
    write_gzip("images", x.data, x.len);
    write_buf("labels", labels(5000));
    open_good(idx, classes);
    close_both();
    struct error e;
    struct stat st;
    char *path = path_join(folder, "images");
    assert_int_equal(stat(path, &st), 0);
    const off_t lengths[] = {st.st_size - 1, st.st_size - 9, 10000, 11, 2};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        cut_file("images", lengths[i]);
        assert_int_equal(open_text(idx, classes, &e), ERR_CORRUPT);
        assert_non_null(strstr(e.text, "/images: damaged gzip data after "));
        assert_non_null(strstr(e.text, "the file ends in the middle"));
    }

    write_gzip("images", x.data, x.len);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 9000, SEEK_SET), 0);
    assert_int_equal(fwrite("harmharmharm", 1, 12, f), 12);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(open_text(idx, classes, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "/images: damaged gzip data after "));
    free(path);
    buf_free(&x);
}

static void test_idx_specifications(void **state)
{
    (void)state;
    write_buf("images", images(14));
    write_buf("labels", labels(14));
    expect_refused("{\"format\": \"idx\", \"labels\": \"labels\"}", classes, ERR_INVALID,
                   "trainer.data.images: missing");
    expect_refused("{\"format\": \"idx\", \"images\": \"images\", \"labels\": \"none\"}", classes,
                   ERR_NOT_FOUND,
                   "trainer.data.labels: cannot open \"%/none\": No such file or directory");
    expect_refused("{\"format\": \"idx\", \"images\": \".\", \"labels\": \"labels\"}", classes,
                   ERR_INVALID, "trainer.data.images: \"%/.\" is not a file");
    const int counts[] = {0, 14};
    for (int i = 0; i < 2; i++) {
        char spec[160], expected[300];
        snprintf(spec, sizeof spec,
                 "{\"format\": \"idx\", \"images\": \"images\", \"labels\": \"labels\","
                 " \"validation_count\": %d}",
                 counts[i]);
        snprintf(expected, sizeof expected,
                 "trainer.data.validation_count: %d of the 14 samples of %%/images; choose 1 to "
                 "13, or give files for validation",
                 counts[i]);
        expect_refused(spec, classes, ERR_INVALID, expected);
    }
    expect_refused("{\"format\": \"idx\", \"images\": \"images\", \"labels\": \"labels\","
                   " \"validation_images\": \"images\"}",
                   classes, ERR_INVALID, "trainer.data.validation_labels: missing");
    expect_refused("{\"format\": \"idx\", \"images\": \"images\", \"labels\": \"labels\","
                   " \"validation_count\": 1, \"deviation\": 0}",
                   classes, ERR_INVALID, "trainer.data.deviation: must be above 0");
    struct error e;
    assert_int_equal(open_text("{\"format\": \"cvs\"}", classes, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "trainer.data.format: expected one of bytes, "));
    assert_non_null(strstr(e.text, "; found \"cvs\""));
    struct buf wide = images(3);
    wide.data[11] = 3;
    wide.data[15] = 2;
    write_buf("wide", wide);
    write_buf("few", labels(3));
    expect_refused("{\"format\": \"idx\", \"images\": \"images\", \"labels\": \"labels\","
                   " \"validation_images\": \"wide\", \"validation_labels\": \"few\"}",
                   classes, ERR_CORRUPT, "%/images holds samples of 2x3, but %/wide of 3x2");
}

// --- bytes ---------------------------------------------------------------------------------------

static const char *const gpt = "{\"family\": \"gpt\", \"context\": 4, \"vocabulary\": 128}";

static void write_alphabet(const char *name, size_t n)
{
    char *text = xcalloc(n, 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i % 100);
    write_file(name, text, n);
    free(text);
}

static void expect_window(const struct dataset *d, int64_t index, int32_t first)
{
    struct batch *b = batch_of_floats(dataset_shape(d), 1);
    fetch(d, &index, 1, b);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b->tokens[i], first + i);
        assert_int_equal(b->targets[i], first + i + 1);
    }
    assert_int_equal(b->samples[0], index);
    batch_free(b);
}

static void test_bytes(void **state)
{
    (void)state;
    write_alphabet("text", 100);
    open_good("{\"format\": \"bytes\", \"path\": \"text\", \"validation_fraction\": 0.25}", gpt);
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->kind, SAMPLE_TOKENS);
    assert_int_equal(s->context, 4);
    assert_int_equal(s->vocabulary, 128);
    assert_int_equal(dataset_count(train), 71); // of 75 bytes: every offset that leaves 5
    expect_window(train, 0, 0);
    expect_window(train, 70, 70);
    assert_int_equal(dataset_count(validation), 6); // of 25 bytes: each predicted at most once
    expect_window(validation, 0, 75);
    expect_window(validation, 5, 95);
    close_both();

    write_alphabet("other", 14);
    open_good("{\"format\": \"bytes\", \"path\": \"text\", \"validation_path\": \"other\"}", gpt);
    assert_int_equal(dataset_count(train), 96);
    assert_int_equal(dataset_count(validation), 3);
    expect_window(validation, 2, 8);
    close_both();
}

static void test_bytes_of_exactly_one_sample(void **state)
{
    (void)state;
    const char *spec = "{\"format\": \"bytes\", \"path\": \"text\", \"validation_fraction\": 0.5}";
    write_alphabet("text", 10);
    open_good(spec, gpt);
    assert_int_equal(dataset_count(train), 1);
    assert_int_equal(dataset_count(validation), 1);
    close_both();
    write_alphabet("text", 9);
    expect_refused(
        spec, gpt, ERR_CORRUPT,
        "%/text: the longest run for training is 4 tokens, but one sample is context + 1 = 5; "
        "give more text or a smaller trainer.model.context");
    write_alphabet("other", 4);
    expect_refused(
        "{\"format\": \"bytes\", \"path\": \"text\", \"validation_path\": \"other\"}", gpt,
        ERR_CORRUPT,
        "%/other: the longest run for validation is 4 tokens, but one sample is context + 1 = 5; "
        "give more text or a smaller trainer.model.context");
    write_alphabet("text", 0);
    expect_refused(
        spec, gpt, ERR_CORRUPT,
        "%/text: the longest run for training is 0 tokens, but one sample is context + 1 = 5; "
        "give more text or a smaller trainer.model.context");
}

static void test_bytes_specifications(void **state)
{
    (void)state;
    char text[100];
    memset(text, 'a', sizeof text);
    text[61] = (char)0x80;
    write_file("text", text, sizeof text);
    const char *spec = "{\"format\": \"bytes\", \"path\": \"text\"}";
    expect_refused(spec, gpt, ERR_CORRUPT,
                   "%/text: offset 61: byte 128 is outside the model's vocabulary of 128 "
                   "(trainer.model.vocabulary)");
    open_good(spec, "{\"family\": \"gpt\", \"context\": 4}"); // the default vocabulary is 256
    close_both();
    expect_refused(spec, classes, ERR_INVALID,
                   "trainer.data.format bytes needs a model with a context of 1 to 65536 tokens "
                   "(family gpt); trainer.model has 0");
    expect_refused("{\"format\": \"bytes\"}", gpt, ERR_INVALID, "trainer.data.path: missing");
    expect_refused("{\"format\": \"bytes\", \"path\": \"none\"}", gpt, ERR_NOT_FOUND,
                   "trainer.data.path: cannot open \"%/none\": No such file or directory");
    expect_refused("{\"format\": \"bytes\", \"path\": \"text\", \"validation_fraction\": 1}", gpt,
                   ERR_INVALID, "trainer.data.validation_fraction: must lie between 0 and 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_gzip_and_own_validation),
        cmocka_unit_test(test_absolute_paths),
        cmocka_unit_test(test_harmed_idx),
        cmocka_unit_test(test_harmed_gzip),
        cmocka_unit_test(test_idx_specifications),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_of_exactly_one_sample),
        cmocka_unit_test(test_bytes_specifications),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
