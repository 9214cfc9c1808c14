// Pictures and packed images: decoding, resizing, the files of `pack`, and the refusal of damaged
// files.
#include "tests/unit/trainer/data_files.h"
#include "tests/unit/trainer/data_pictures.h"

#include <sys/stat.h>

#include "base/hash.h"
#include "trainer/commands/commands.h"
#include "trainer/data/packed.h"
#include "trainer/data/picture.h"

// --- making pictures -----------------------------------------------------------------------------

static void make_pgm(const char *name, int width, int height, uint8_t value)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_printf(&b, "P5\n# made up\n%d %d\n255\n", width, height);
    for (int i = 0; i < width * height; i++)
        buf_append(&b, &value, 1);
    write_buf(name, b);
}

static struct picture read_good(const char *name)
{
    struct picture p;
    struct error e;
    if (picture_read(name, &p, &e))
        fail_msg("%s", e.text);
    return p;
}

static void expect_no_picture(const char *name, const char *expected)
{
    struct picture p;
    struct error e = {0};
    assert_int_equal(picture_read(name, &p, &e), ERR_CORRUPT);
    if (!strstr(e.text, expected))
        fail_msg("expected %s, found %s", expected, e.text);
    assert_null(p.pixels);
}

// --- decoding ------------------------------------------------------------------------------------

static const uint8_t colours[2 * 3 * 3] = {255, 0,   0,  0,  255, 0,  0, 0, 255,
                                           10,  200, 30, 40, 50,  60, 7, 8, 9};

static void test_png(void **state)
{
    (void)state;
    make_png("a.png", 3, 2, PNG_FORMAT_RGB, colours);
    struct picture p = read_good("a.png");
    assert_int_equal(p.width * 100 + p.height * 10 + p.channels, 323);
    assert_memory_equal(p.pixels, colours, sizeof colours);
    picture_free(&p);

    const uint8_t grey[4] = {0, 100, 200, 255};
    make_png("g.png", 2, 2, PNG_FORMAT_GRAY, grey);
    p = read_good("g.png");
    assert_int_equal(p.channels, 1);
    assert_memory_equal(p.pixels, grey, sizeof grey);
    picture_free(&p);

    // the second pixel is transparent
    const uint8_t clear[8] = {200, 100, 50, 255, 200, 100, 50, 0};
    make_png("t.png", 2, 1, PNG_FORMAT_RGBA, clear);
    p = read_good("t.png");
    assert_memory_equal(p.pixels, ((const uint8_t[]){200, 100, 50, 0, 0, 0}), 6);
    picture_free(&p);
}

static void test_jpeg(void **state)
{
    uint8_t flat[64 * 4];
    (void)state;
    for (int i = 0; i < 64; i++) {
        flat[3 * i] = 200;
        flat[3 * i + 1] = 100;
        flat[3 * i + 2] = 50;
    }
    make_jpeg("a.jpg", 8, 8, 3, JCS_RGB, flat);
    struct picture p = read_good("a.jpg");
    assert_int_equal(p.width * 100 + p.height * 10 + p.channels, 883);
    for (int i = 0; i < 3 * 64; i++)
        assert_in_range(p.pixels[i], flat[i % 3] - 3, flat[i % 3] + 3);
    picture_free(&p);
    make_jpeg("g.jpg", 8, 8, 1, JCS_GRAYSCALE, flat);
    p = read_good("g.jpg");
    assert_int_equal(p.channels, 1);
    picture_free(&p);

    for (int i = 0; i < 64; i++) { // Adobe stores 255 for no ink
        const uint8_t cmyk[4] = {255, 128, 0, 255};
        memcpy(flat + 4 * i, cmyk, 4);
    }
    make_jpeg("c.jpg", 8, 8, 4, JCS_YCCK, flat);
    p = read_good("c.jpg");
    assert_int_equal(p.channels, 3);
    picture_free(&p);
    make_jpeg("c.jpg", 8, 8, 4, JCS_CMYK, flat);
    p = read_good("c.jpg");
    assert_in_range(p.pixels[0], 250, 255);
    assert_in_range(p.pixels[1], 124, 132);
    assert_in_range(p.pixels[2], 0, 5);
    picture_free(&p);
}

static void cut_in_half(const char *name)
{
    struct stat st;
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(truncate(name, st.st_size / 2), 0);
}

static void test_pictures_that_are_none(void **state)
{
    uint8_t noise[48 * 48 * 3];
    (void)state;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 2654435761u >> 11);
    make_png("a.png", 48, 48, PNG_FORMAT_RGB, noise);
    cut_in_half("a.png");
    expect_no_picture("a.png", "a.png: damaged PNG: ");
    make_jpeg("a.jpg", 48, 48, 3, JCS_RGB, noise);
    cut_in_half("a.jpg");
    expect_no_picture("a.jpg", "a.jpg: damaged JPEG: Premature end of JPEG file");
    make_pgm("a.pgm", 5, 5, 9);
    cut_in_half("a.pgm");
    expect_no_picture("a.pgm", "a.pgm: ends at offset 23, but its header promises 46 bytes");
    write_file("x.png", "GIF89a", 6);
    expect_no_picture("x.png", "x.png: not a PNG, JPEG or PNM (P5, P6) picture");
    write_file("x.png", "", 0);
    expect_no_picture("x.png", "x.png: not a PNG, JPEG or PNM (P5, P6) picture");
    write_file("x.pgm", "P5 2 2 65535 aabbccdd", 21);
    expect_no_picture("x.pgm", "x.pgm: offset 12: damaged PNM, or one of 16 bits");
    write_file("x.pgm", "P5 0 2 255 ", 11);
    expect_no_picture("x.pgm", "x.pgm: a picture of 2x0 pixels");
    struct error e;
    struct picture p;
    write_file("x.pgm", "P5 99999 99999 255 ", 19);
    assert_int_equal(picture_read("x.pgm", &p, &e), ERR_TOO_LARGE);
}

// --- resizing ------------------------------------------------------------------------------------

static void test_fitting(void **state)
{
    uint8_t wide[4 * 8], out[64 * 3];
    (void)state;
    // Twice the size: 2x2 means of the middle 4x4, with small weights of the surroundings.
    for (int i = 0; i < 32; i++)
        wide[i] = (uint8_t)(i % 8 < 4 ? 40 : 80);
    struct picture p = {4, 8, 1, wide};
    picture_fit(&p, 4, 4, 1, out); // the same scale: only cropped
    for (int i = 0; i < 16; i++)
        assert_int_equal(out[i], i % 4 < 2 ? 40 : 80);
    picture_fit(&p, 2, 2, 1, out);
    assert_int_equal(out[0], out[2]);
    assert_int_equal(out[1], out[3]);
    assert_int_equal(out[0] + out[1], 120);
    assert_in_range(out[0], 41, 46);
    picture_fit(&p, 8, 8, 3, out); // enlarged, and grey becomes colour
    for (int i = 0; i < 64; i++) {
        static const int row[] = {40, 40, 40, 50, 70, 80, 80, 80}; // bilinear
        for (int c = 0; c < 3; c++)
            assert_int_equal(out[3 * i + c], row[i % 8]);
    }
    struct picture q = {1, 2, 3, (uint8_t[]){255, 0, 0, 0, 255, 0}};
    picture_fit(&q, 1, 2, 1, out);
    assert_int_equal(out[0], 76);
    assert_int_equal(out[1], 150);
}

static void test_flat_stays_flat(void **state)
{
    static uint8_t flat[37 * 23], out[50 * 50];
    (void)state;
    memset(flat, 201, sizeof flat);
    struct picture p = {37, 23, 1, flat};
    for (int64_t height = 1; height <= 50; height += 7)
        for (int64_t width = 1; width <= 50; width++) {
            picture_fit(&p, height, width, 1, out);
            for (int64_t i = 0; i < height * width; i++)
                assert_int_equal(out[i], 201);
        }
}

// --- packing -------------------------------------------------------------------------------------

static int pack(const char *flag, const char *value)
{
    char *words[] = {(char *)"pack", (char *)"pictures", (char *)"out", (char *)flag,
                     (char *)value};
    fflush(stdout);
    return command_pack(flag ? value ? 5 : 4 : 3, words);
}

static void make_folder(void)
{
    struct error e;
    assert_int_equal(dir_remove_tree("pictures", &e), 0);
    for (int c = 0; c < 3; c++) {
        char name[60];
        snprintf(name, sizeof name, "pictures/%c", 'c' - c);
        assert_int_equal(dir_make(name, 0755, &e), 0);
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "pictures/%c/%d.pgm", 'c' - c, i);
            make_pgm(name, 4, 4, (uint8_t)(80 * (2 - c) + i)); // a: 0.., b: 80.., c: 160..
        }
    }
    write_file("pictures/README", "hello", 5);
}

static const char *const spec = "{\"format\": \"images\", \"path\": \"out\","
                                " \"validation_count\": 9, \"mean\": 0, \"deviation\": 1}";

static void test_packed(void **state)
{
    int seen[256] = {0}, shuffled = 0;
    (void)state;
    make_folder();
    assert_int_equal(pack("--channels", "1"), 0);
    open_good(spec, "{}");
    assert_int_equal(dataset_count(train), 21);
    assert_int_equal(dataset_count(validation), 9);
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->height * 100 + s->width * 10 + s->channels, 441);
    assert_int_equal(s->classes, 3);
    struct batch *b = batch_of_floats(s, 1);
    for (int64_t i = 0; i < 30; i++) {
        const struct dataset *d = i < 21 ? train : validation;
        fetch(d, (const int64_t[]){i < 21 ? i : i - 21}, 1, b);
        int value = (int)(b->images[0] * 255 + 0.5f);
        assert_int_equal(b->labels[0], value / 80); // classes are sorted by name, not by creation
        seen[value]++;
        shuffled += b->labels[0] != i / 10;
    }
    for (int v = 0; v < 256; v++)
        assert_int_equal(seen[v], v % 80 < 10 && v < 240);
    assert_true(shuffled > 10);
    batch_free(b);
    close_both();
}

// The default scaling gives all pixels of a channel mean 0 and deviation 1.
static void test_scaled_by_what_was_packed(void **state)
{
    double sum[3] = {0}, squares[3] = {0};
    (void)state;
    make_folder();
    assert_int_equal(pack("--size", "3x5"), 0);
    open_good("{\"format\": \"images\", \"path\": \"out\", \"validation_path\": \"out\"}", "{}");
    struct batch *b = batch_of_floats(dataset_shape(train), 30);
    int64_t all[30];
    for (int64_t i = 0; i < 30; i++)
        all[i] = i;
    fetch(train, all, 30, b);
    for (int64_t i = 0; i < 30 * 3 * 5 * 3; i++) {
        sum[i % 3] += (double)b->images[i] / 450;
        squares[i % 3] += (double)b->images[i] * (double)b->images[i] / 450;
    }
    for (int c = 0; c < 3; c++) {
        assert_float_equal(sum[c], 0, 1e-5);
        assert_float_equal(squares[c], 1, 1e-5);
    }
    batch_free(b);
    expect_same_numbers(train, NULL);
    close_both();
}

static void test_broken_pictures(void **state)
{
    struct stat before, after;
    (void)state;
    make_folder();
    assert_int_equal(pack(NULL, NULL), 0);
    assert_int_equal(stat("out", &before), 0);
    write_file("pictures/b/7.pgm", "P5 4 4 255 short", 16);
    write_file("pictures/a/0.pgm", "no picture", 10);
    assert_int_equal(pack(NULL, NULL), err_exit_code(ERR_CORRUPT));
    assert_int_equal(stat("out", &after), 0); // the old file still exists
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(pack("--skip-broken", NULL), 0);
    open_good(spec, "{}");
    assert_int_equal(dataset_count(train) + dataset_count(validation), 28);
    close_both();
    const char *const words[][2] = {{"--size", "3"},     {"--size", "0x3"}, {"--size", "3x5000"},
                                    {"--channels", "2"}, {"--size", "x"},   {"--side", "3"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(pack(words[i][0], words[i][1]), err_exit_code(ERR_INVALID));
    struct error e;
    assert_int_equal(dir_make("pictures/empty", 0755, &e), 0);
    assert_int_equal(pack(NULL, NULL), err_exit_code(ERR_INVALID));
    assert_int_equal(dir_remove_tree("pictures", &e), 0);
    assert_int_equal(pack(NULL, NULL), err_exit_code(ERR_NOT_FOUND));
}

// --- damaged files -------------------------------------------------------------------------------

static char *packed_file;
static size_t packed_len;

static void pack_for_harm(void)
{
    struct error e;
    make_folder();
    assert_int_equal(pack("--channels", "1"), 0);
    assert_int_equal(file_read("out", 1 << 20, &packed_file, &packed_len, &e), 0);
    assert_int_equal(packed_len, 128 + 30 * (16 + 8));
}

// A header with other content and a valid checksum.
static void header_forge(size_t at, uint32_t value)
{
    uint8_t *h = (uint8_t *)xcalloc(packed_len, 1);
    memcpy(h, packed_file, packed_len);
    memcpy(h + at, &value, 4);
    uint32_t crc = crc32c(crc32c(0, h, PACKED_CRC_AT), h + PACKED_CRC_AT + 4, 128 - 20);
    memcpy(h + PACKED_CRC_AT, &crc, 4);
    write_file("out", h, packed_len);
    free(h);
}

static void test_harmed_headers(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        const char *expected;
    } forgeries[] = {
        {24, 0, "%/out: offset 24: the shape of the images is impossible; pack the folder again"},
        {28, 5000,
         "%/out: offset 24: the shape of the images is impossible; pack the folder again"},
        {32, 2, "%/out: offset 24: the shape of the images is impossible; pack the folder again"},
        {36, 0, "%/out: offset 36: the number of classes is impossible; pack the folder again"},
        {44, 0x7fffffff,
         "%/out: offset 40: the number of images is impossible; pack the folder again"},
        {40, 31, "%/out: ends at offset 848, but its header promises 872 bytes"},
        {40, 29, "%/out: offset 824: 24 bytes more than its header promises"},
        {20, 7, "%/out: offset 608: the checksum of the labels is wrong; pack the folder again"},
    };
    (void)state;
    pack_for_harm();
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        header_forge(forgeries[i].at, forgeries[i].value);
        expect_refused(spec, "{}", ERR_CORRUPT, forgeries[i].expected);
    }
    packed_file[0] = 'm';
    write_file("out", packed_file, packed_len);
    expect_refused(
        spec, "{}", ERR_CORRUPT,
        "%/out: offset 0: not a file of packed images (\"MUSTERIM\" is missing); `muster-trainer "
        "pack` makes such files");
    packed_file[0] = 'M';
    packed_file[8] = 2;
    write_file("out", packed_file, packed_len);
    expect_refused(spec, "{}", ERR_VERSION,
                   "%/out: offset 8: version 2 of packed images; this program reads 1");
    packed_file[8] = 1;
    write_file("out", packed_file, 90);
    expect_refused(spec, "{}", ERR_CORRUPT, "%/out: ends at offset 90, within its header");
    write_file("out", packed_file, 100);
    expect_refused(spec, "{}", ERR_CORRUPT,
                   "%/out: offset 12: the length of the header is wrong; pack the folder again");
    free(packed_file);
}

// Every changed byte is noticed, at the latest when its image is fetched.
static void test_every_flipped_bit_shows(void **state)
{
    struct error e;
    (void)state;
    pack_for_harm();
    for (size_t at = 0; at < packed_len; at++) {
        packed_file[at] ^= (char)(1 << at % 8);
        write_file("out", packed_file, packed_len);
        packed_file[at] ^= (char)(1 << at % 8);
        int rc = open_text(spec, "{}", &e);
        if (rc)
            continue;
        assert_in_range(at, 128, 128 + 30 * 16 - 1);
        struct batch *b = batch_of_floats(dataset_shape(train), 1);
        for (int64_t i = 0; i < 30 && !rc; i++)
            rc = i < 21 ? dataset_fetch(train, &i, 1, NULL, b, &e)
                        : dataset_fetch(validation, (const int64_t[]){i - 21}, 1, NULL, b, &e);
        assert_int_equal(rc, ERR_CORRUPT);
        char *text = xasprintf("%s/out: offset %zu: sample %zu is damaged (its checksum is wrong); "
                               "pack the folder again",
                               folder, at / 16 * 16, (at - 128) / 16);
        assert_string_equal(e.text, text);
        free(text);
        batch_free(b);
        close_both();
    }
    free(packed_file);
}

static void test_classes_must_be_the_same(void **state)
{
    (void)state;
    make_folder();
    assert_int_equal(pack(NULL, NULL), 0);
    assert_int_equal(rename("out", "first"), 0);
    assert_int_equal(rename("pictures/b", "pictures/bb"), 0);
    assert_int_equal(pack(NULL, NULL), 0);
    expect_refused("{\"format\": \"images\", \"path\": \"first\", \"validation_path\": \"out\"}",
                   "{}", ERR_CORRUPT, "%/first and %/out contain different classes (folder names)");
    expect_refused(
        "{\"format\": \"images\", \"path\": \"first\", \"validation_path\": \"first\"}",
        "{\"classes\": 1}", ERR_CORRUPT,
        "%/first: offset 1572: label 2 of sample 1 is outside 0..0 (trainer.model.classes)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_pictures_that_are_none),
        cmocka_unit_test(test_fitting),
        cmocka_unit_test(test_flat_stays_flat),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_scaled_by_what_was_packed),
        cmocka_unit_test(test_broken_pictures),
        cmocka_unit_test(test_harmed_headers),
        cmocka_unit_test(test_every_flipped_bit_shows),
        cmocka_unit_test(test_classes_must_be_the_same),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
